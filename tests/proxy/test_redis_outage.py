"""Redis paused and killed while a gateway serves: calls go on within a second or two, nothing learnt is lost."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.conf import settings

from config import private_upstreams
from tenants.services import touch_config
from tests import services
from tests.factories import serving
from tests.fake_upstream import Gate, Tokens, answer, status
from tests.gateway import RequestRecord, Spawned, outcomes, request_id_of, spawned, wait_until, wipe
from tests.proxy.pool import asking

pytestmark = pytest.mark.skipif(not settings.REDIS_URL, reason="needs PostgreSQL and Redis: ./bin/test")

WARM = answer("Hello.", tokens=Tokens(2000, 5, cached_read=1500))


@dataclass
class Outage:
    door: Spawned
    redis: services.Service

    def signal(self, number: int) -> None:
        assert self.redis.process is not None
        self.redis.process.send_signal(number)

    def is_ready(self) -> bool:
        return self.door.get(None, "/readyz").text == "ok\n"

    def wait_until_down(self) -> None:
        wait_until(lambda: not self.is_ready(), 3, "readiness names Redis")


@pytest.fixture(scope="module")
def outage(committed_database, django_db_blocker, tmp_path_factory) -> Iterator[Outage]:
    """A gateway process with a Redis of its own."""
    allowed = private_upstreams.parse("127.0.0.1")
    with django_db_blocker.unblock(), ExitStack() as stack:
        settings.POINTSMAN_ALLOW_PRIVATE_UPSTREAMS, before = allowed, settings.POINTSMAN_ALLOW_PRIVATE_UPSTREAMS
        stack.callback(setattr, settings, "POINTSMAN_ALLOW_PRIVATE_UPSTREAMS", before)
        stack.callback(wipe)
        redis = stack.enter_context(services.redis(folder_of(tmp_path_factory, "redis")))
        door = stack.enter_context(spawned(folder_of(tmp_path_factory, "data"), REDIS_URL=redis.url))
        yield Outage(door, redis)


def folder_of(tmp_path_factory, name: str) -> Path:
    return tmp_path_factory.mktemp(name)


@pytest.fixture
def world(outage, up):
    made = serving(up.base_url, "k-1", "k-2", "k-3")
    wait_until(lambda: outage.door.get(made, "/v1/models").status_code == 200, 3)
    up.script("k-1", status(401))
    assert outage.door.post(made, asking("first")).status_code == 200
    return made


def served(outage, world, text, **options):
    """(what the chain was, seconds that it took)."""
    began = time.monotonic()
    got = outage.door.post(world, asking(text), **options)
    assert got.status_code == 200
    return outcomes(RequestRecord.objects.get(request_id=request_id_of(got))), time.monotonic() - began


KNOWN = [("k1", "skipped: dead"), ("k2", "served")]


def test_paused(outage, up, world):
    """reports.md 64: an answer within a second or two, degraded mode visible, recovery unaided."""
    outage.signal(signal.SIGSTOP)
    try:
        took = []
        for number in range(4):
            chain, seconds = served(outage, world, f"paused {number}")
            assert chain == KNOWN
            took.append(seconds)
        assert max(took) < 2.5
        assert took[-1] < 0.7  # after the first ones nobody waits for Redis
        outage.wait_until_down()
        # What is learnt meanwhile is known here at once.
        up.script("k-2", status(429, retry_after=60))
        served(outage, world, "learn")
        assert served(outage, world, "known")[0][1:] == [("k2", "skipped: cooling"), ("k3", "served")]
    finally:
        outage.signal(signal.SIGCONT)
    wait_until(outage.is_ready, 5, "Redis is back")
    chain, _ = served(outage, world, "after")
    assert chain == [("k1", "skipped: dead"), ("k2", "skipped: cooling"), ("k3", "served")]


def test_killed_under_a_stream_and_back_empty(outage, up, world):
    gate = Gate()
    up.script("k-2", answer("one two three", holds=((3, gate),)))
    with outage.door.streaming(world) as got:
        parts = got.iter_raw()
        first = next(parts)
        outage.redis.kill()
        outage.wait_until_down()
        assert served(outage, world, "while it is gone")[0] == KNOWN
        gate.open()
        assert (first + b"".join(parts)).endswith(b"data: [DONE]\n\n")
    outage.redis.start()
    wait_until(outage.is_ready, 5, "Redis is back")
    assert served(outage, world, "with an empty one")[0] == KNOWN


def test_slots_are_counted_without_it(outage, up, world):
    row = world.keys[1]
    row.concurrency = 1
    row.save()
    touch_config()
    outage.redis.kill()
    outage.wait_until_down()
    try:
        gate = Gate()
        wait_until(lambda: outage.door.get(world, "/v1/models").status_code == 200)
        time.sleep(0.7)  # the configuration's next look
        up.script("k-2", answer("Hello.", holds=((-1, gate),)))
        thread = threading.Thread(target=lambda: outage.door.post(world, asking("holder")))
        thread.start()
        up.wait_for_requests(3)
        assert served(outage, world, "other")[0] == [("k1", "skipped: dead"), ("k2", "skipped: busy"), ("k3", "served")]
        gate.open()
        thread.join()
    finally:
        outage.redis.start()
    wait_until(outage.is_ready, 5)


def test_a_conversation_stays_through_an_outage(outage, up, world):
    """Pins that this process wrote are known to it without Redis."""
    up.default(WARM)
    headers = {"x-session-id": "s"}
    served(outage, world, "hello", headers=headers)
    outage.signal(signal.SIGSTOP)
    try:
        outage.wait_until_down()
        got = outage.door.post(world, asking("hello"), headers=headers)
        assert got.headers["x-pointsman-session"] == "cache"
    finally:
        outage.signal(signal.SIGCONT)
    wait_until(outage.is_ready, 5)
