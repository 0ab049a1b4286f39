"""Keyed calls and gateway processes of their own: several on one Redis, killed ones, one without its Redis."""

import signal
import threading
import time

import httpx
import pytest
import redis as redis_client
from django.conf import settings

from billing.models import Price
from config import private_upstreams
from tests import services
from tests.factories import PriceFactory, serving
from tests.fake_upstream import Gate, answer, status, stream
from tests.gateway import HELLO, chat, encoded, spawned, wait_until
from tests.proxy.keyed import KEY, STREAMED, charged, code_of, in_threads, records, replayed
from tests.proxy.test_many_processes import doors, known, made

__all__ = ["doors"]

needs_redis = pytest.mark.skipif(not settings.REDIS_URL, reason="needs PostgreSQL and Redis: ./bin/test")


@pytest.fixture
def loopback(clean_database):
    before, settings.POINTSMAN_ALLOW_PRIVATE_UPSTREAMS = (
        settings.POINTSMAN_ALLOW_PRIVATE_UPSTREAMS, private_upstreams.parse("127.0.0.1"),
    )  # fmt: skip
    yield
    settings.POINTSMAN_ALLOW_PRIVATE_UPSTREAMS = before


def killed_in_the_middle(door, up, body):
    """Send a call whose upstream does not answer, and kill its process."""

    def call():
        with pytest.raises(httpx.TransportError), door.client(timeout=20) as client:
            client.post("/v1/chat/completions", content=body, headers=KEY | door.credentials)

    thread = threading.Thread(target=call)
    thread.start()
    up.wait_for_requests(1)
    door.process.send_signal(signal.SIGKILL)
    thread.join()


def lapse(seconds):
    """Let all claims in Redis end so soon, as if the rest of the lease had passed."""
    with redis_client.Redis.from_url(settings.REDIS_URL, decode_responses=True) as shared:
        held = shared.keys("{pm}:claim:*")
        for key in held:
            assert 0 < shared.pttl(key) <= 30_000
            shared.pexpire(key, int(seconds * 1000))
    return len(held)


@needs_redis
class TestTwoProcesses:
    @pytest.mark.parametrize("streamed", [False, True])
    def test_ten_at_each_are_one_call_and_one_charge(self, doors, up, streamed):
        gate, body = Gate(), STREAMED if streamed else encoded(chat())
        up.script("k-1", answer().but(holds=((2 if streamed else -1, gate),)))
        if not Price.objects.filter(tenant=None).exists():
            PriceFactory()
        world = made(doors, up, "k-1")
        join = in_threads([lambda n=n: doors[n % 2].post(world, body, headers=KEY) for n in range(20)])
        up.wait_for_requests(1)
        time.sleep(0.5)
        gate.open()
        got = join()
        assert {one.status_code for one in got} == {200}
        assert len({one.content for one in got}) == 1
        assert HELLO.split()[0].encode() in got[0].content
        assert sorted(str(replayed(one)) for one in got) == ["None"] + ["true"] * 19
        (original,) = [row for row in records(world) if not row.replay_of]
        assert {row.replay_of for row in records(world)} == {"", original.request_id}
        assert (len(up.requests), len(records(world)), len(charged(world))) == (1, 20, 1)
        for door in doors:
            assert replayed(door.post(world, body, headers=KEY)) == "true"

    def test_a_failure_at_one_reaches_the_other(self, doors, up):
        one, two = doors
        gate = Gate()
        up.script("k-1", status(500, holds=((-1, gate),)))
        world = made(doors, up, "k-1")
        first = in_threads([lambda: one.post(world, headers=KEY)])
        up.wait_for_requests(1)
        second = in_threads([lambda: two.post(world, headers=KEY)])
        time.sleep(0.5)
        gate.open()
        for (got,) in (first(), second()):
            assert (got.status_code, code_of(got)) == (502, "upstream_failed")
        assert len(up.requests) == 1
        assert two.post(world, headers=KEY).status_code == 200
        assert len(up.requests) == 2

    def test_another_body_is_refused_at_the_other(self, doors, up):
        gate = Gate()
        up.script("k-1", answer().but(holds=((-1, gate),)))
        world = made(doors, up, "k-1")
        join = in_threads([lambda: doors[0].post(world, headers=KEY)])
        up.wait_for_requests(1)
        assert code_of(doors[1].post(world, chat(temperature=1), headers=KEY)) == "idempotency_mismatch"
        gate.open()
        assert join()[0].status_code == 200

    def test_an_owner_that_is_killed_lets_go_of_the_key(self, doors, up, tmp_path):
        world = made(doors, up, "k-1")
        gate = Gate()
        up.script("k-1", answer("never", holds=((-1, gate),)))
        with spawned(tmp_path) as doomed:
            known([doomed], world)
            doomed.credentials = world.headers
            killed_in_the_middle(doomed, up, encoded(chat()))
        join = in_threads([lambda: doors[0].post(world, headers=KEY)])
        time.sleep(0.5)
        assert len(up.requests) == 1  # the lease still stands
        assert lapse(0.3) == 1
        (got,) = join()
        assert (got.status_code, replayed(got), len(up.requests)) == (200, None, 2)
        assert [(row.status, row.replay_of) for row in records(world)] == [("finished", "")]
        gate.open()

    def test_a_claim_that_redis_lost_is_put_back(self, doors, up):
        gate = Gate()
        up.script("k-1", answer().but(holds=((-1, gate),)))
        world = made(doors, up, "k-1")
        join = in_threads([lambda: doors[0].post(world, headers=KEY)])
        up.wait_for_requests(1)
        with redis_client.Redis.from_url(settings.REDIS_URL) as shared:
            for key in shared.keys("{pm}:claim:*"):
                shared.delete(key)
            wait_until(lambda: shared.keys("{pm}:claim:*"), 8)
        later = in_threads([lambda: doors[1].post(world, headers=KEY)])
        gate.open()
        assert (replayed(join()[0]), replayed(later()[0]), len(up.requests)) == (None, "true", 1)


@needs_redis
def test_redis_is_down(loopback, up, tmp_path):
    """Keyed calls are refused, the others go on; back, all is well again."""
    world = serving(up.base_url, "k-1")
    for name in ("redis", "data"):
        (tmp_path / name).mkdir()
    with services.redis(tmp_path / "redis") as redis, spawned(tmp_path / "data", REDIS_URL=redis.url) as door:
        known([door], world)
        assert door.post(world, headers=KEY).status_code == 200
        redis.kill()
        for _ in range(2):
            got = door.post(world, headers=KEY)
            assert (got.status_code, code_of(got), got.headers["retry-after"]) == (503, "idempotency_unavailable", "5")
        assert "Try again shortly" in got.json()["error"]["message"]
        assert door.post(world).status_code == 200
        redis.start()
        wait_until(lambda: door.get(None, "/readyz").text == "ok\n", 5)
        assert replayed(door.post(world, headers=KEY)) == "true"
    assert len(up.requests) == 2


class TestOneProcess:
    def test_killed_in_the_middle_it_runs_anew(self, loopback, up, tmp_path):
        world = serving(up.base_url, "k-1")
        up.script("k-1", answer("never", holds=((-1, gate := Gate()),)))
        with spawned(tmp_path, REDIS_URL="") as doomed:
            known([doomed], world)
            doomed.credentials = world.headers
            killed_in_the_middle(doomed, up, encoded(chat()))
        gate.open()
        with spawned(tmp_path, REDIS_URL="") as door:
            got = door.post(world, headers=KEY)
            assert (got.status_code, replayed(got), len(up.requests)) == (200, None, 2)
        assert len(records(world)) == 1

    def test_killed_after_the_answer_it_is_given_again(self, loopback, up, tmp_path):
        """At the moment of the answer: what a client got whole is never run again."""
        world = serving(up.base_url, "k-1")
        up.default(stream(["a ", "b ", "c"]), key="k-1")
        for number in range(3):
            headers = {"idempotency-key": f"key-{number}"}
            with spawned(tmp_path, REDIS_URL="") as doomed:
                known([doomed], world)
                first = doomed.post(world, STREAMED, headers=headers)
                doomed.process.send_signal(signal.SIGKILL)
            with spawned(tmp_path, REDIS_URL="") as door:
                again = door.post(world, STREAMED, headers=headers)
            assert first.content.endswith(b"data: [DONE]\n\n")
            assert (again.content, replayed(again), len(up.requests)) == (first.content, "true", number + 1)
