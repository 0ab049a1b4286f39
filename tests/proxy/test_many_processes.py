"""Two gateway processes on one PostgreSQL and one Redis: they act as one."""

import signal
import threading
import time
from collections import Counter
from contextlib import ExitStack

import httpx
import pytest
import redis as redis_client
from django.conf import settings

from config import private_upstreams
from keys import services
from keys.models import UpstreamKey
from tenants.services import touch_config
from tests.factories import serving
from tests.fake_upstream import Gate, Tokens, answer, status
from tests.gateway import RequestRecord, chat, outcomes, request_id_of, spawned, wait_until, wipe
from tests.proxy.pool import asking

pytestmark = pytest.mark.skipif(not settings.REDIS_URL, reason="needs PostgreSQL and Redis: ./bin/test")

WARM = answer("Hello.", tokens=Tokens(2000, 5, cached_read=1500))


@pytest.fixture(scope="module")
def doors(committed_database, django_db_blocker, tmp_path_factory):
    """Two processes."""
    allowed = private_upstreams.parse("127.0.0.1")
    with django_db_blocker.unblock(), ExitStack() as stack:
        settings.POINTSMAN_ALLOW_PRIVATE_UPSTREAMS, before = allowed, settings.POINTSMAN_ALLOW_PRIVATE_UPSTREAMS
        stack.callback(setattr, settings, "POINTSMAN_ALLOW_PRIVATE_UPSTREAMS", before)
        stack.callback(wipe)
        yield [stack.enter_context(spawned(tmp_path_factory.mktemp(name))) for name in ("one", "two")]


def made(doors, up, *secrets, key=None, **options):
    """A world that both processes know."""
    world = serving(up.base_url, *secrets, **options)
    for row in world.keys:
        for name, value in (key or {}).items():
            setattr(row, name, value)
        row.save()
    touch_config()
    known(doors, world)
    return world


def known(doors, world):
    """Wait until every process has the present configuration; DESIGN 11 says within 2 s."""

    def is_known(door):
        return door.get(world, "/v1/models").status_code == 200

    for door in doors:
        wait_until(lambda door=door: is_known(door), 2.0, "the configuration is seen")


def record_of(got):
    return RequestRecord.objects.get(request_id=request_id_of(got))


def told():
    """News travel in milliseconds; a busy machine gets a little more."""
    time.sleep(0.15)


def at_once(calls):
    """Run these at the same time; their answers."""
    answers = []
    threads = [threading.Thread(target=lambda call=call: answers.append(call())) for call in calls]
    for thread in threads:
        thread.start()
    return threads, answers


def test_what_one_learns_the_other_knows(doors, up):
    one, two = doors
    world = made(doors, up, "k-1", "k-2", "k-3")
    up.script("k-1", status(429, retry_after=60))
    assert one.post(world).status_code == 200
    told()
    up.script("k-2", status(401))
    assert outcomes(record_of(two.post(world))) == [
        ("k1", "skipped: cooling"), ("k2", "auth_invalid"), ("k3", "served"),
    ]  # fmt: skip
    told()
    assert outcomes(record_of(one.post(world))) == [
        ("k1", "skipped: cooling"), ("k2", "skipped: dead"), ("k3", "served"),
    ]  # fmt: skip
    services.revive(key=UpstreamKey.objects.get(pk=world.keys[1].pk))
    for door in doors:
        wait_until(lambda door=door: outcomes(record_of(door.post(world)))[1] == ("k2", "served"), 2.5, "revived")


def test_strikes_in_both_add_up(doors, up):
    one, two = doors
    up.default(status(500), key="k-1")
    world = made(doors, up, "k-1", "k-2")
    for door in (one, two, one):
        assert door.post(world, asking(str(time.monotonic()))).status_code == 200
        told()
    for door in doors:
        assert outcomes(record_of(door.post(world))) == [("k1", "skipped: cooling"), ("k2", "served")]
    assert len(up.requests_of("k-1")) == 3


def test_one_request_of_all_goes_first_when_a_cooling_ends(doors, up):
    one, two = doors
    world = made(doors, up, "k-1", "k-2")
    up.script("k-1", status(429, retry_after=1))
    one.post(world)
    time.sleep(1.1)
    gate = Gate()
    up.script("k-1", answer("back", holds=((-1, gate),)))
    calls = [lambda n=n: (one, two)[n % 2].post(world, asking(f"{n}")) for n in range(12)]
    threads, answers = at_once(calls)
    wait_until(lambda: len(answers) == 11, 10, "all but one are served elsewhere")
    assert len(up.requests_of("k-1")) == 2
    gate.open()
    for thread in threads:
        thread.join()
    assert {got.status_code for got in answers} == {200}
    told()
    assert outcomes(record_of(two.post(world))) == [("k1", "served")]


def test_slots_are_counted_over_both(doors, up):
    one, two = doors
    world = made(doors, up, "k-1", key={"concurrency": 2})
    most = []

    def answering(_request):
        most.append(sum(1 for seen in up.requests if not seen.ended))
        return answer("Hello.", head_delay_s=0.05)

    up.default(answering)
    threads, answers = at_once([lambda n=n: (one, two)[n % 2].post(world, asking(f"{n}")) for n in range(12)])
    for thread in threads:
        thread.join()
    assert [got.status_code for got in answers] == [200] * 12
    assert max(most) == 2


def test_a_lines_calls_per_minute_are_counted_over_both(doors, up):
    world = made(doors, up, "k-1", line={"rpm": 5}, group={"policy": {"slot_wait_s": 0}})
    codes = [doors[number % 2].post(world, asking(f"{number}")).status_code for number in range(8)]
    assert codes == [200] * 5 + [429] * 3
    assert len(up.requests) == 5


def test_a_conversation_stays_wherever_it_arrives(doors, up):
    one, two = doors
    up.default(WARM)
    world = made(doors, up, "k-1", "k-2", group={"strategy": "round_robin"})
    first = one.post(world, headers={"x-session-id": "s"})
    key = up.keys()[-1]
    told()
    later = two.post(world, headers={"x-session-id": "s"})
    assert (first.headers["x-pointsman-session"], later.headers["x-pointsman-session"]) == ("new", "cache")
    assert up.keys()[-1] == key


def test_a_rotation_is_one(doors, up):
    world = made(doors, up, "k-1", "k-2", group={"strategy": "round_robin"})
    for number in range(20):
        assert doors[number // 3 % 2].post(world, asking(f"{number}")).status_code == 200
        time.sleep(0.03)
    served = Counter(up.keys())
    assert abs(served["k-1"] - served["k-2"]) <= 4


def test_a_killed_process_gives_its_slots_back(doors, up, tmp_path):
    world = made(doors, up, "k-1", key={"concurrency": 1}, group={"policy": {"slot_wait_s": 15}})
    gate = Gate()
    up.script("k-1", answer("never", holds=((-1, gate),)))
    with spawned(tmp_path) as doomed:
        known([doomed], world)

        def call():
            with pytest.raises(httpx.TransportError):
                doomed.post(world)

        thread = threading.Thread(target=call)
        thread.start()
        up.wait_for_requests(1)
        doomed.process.send_signal(signal.SIGKILL)
        thread.join()
    shared = redis_client.Redis.from_url(settings.REDIS_URL, decode_responses=True)
    scope = f"{{pm}}:slots:key:{world.keys[0].pk}"
    (held,) = shared.zrange(scope, 0, -1, withscores=True)
    assert time.time() < held[1] <= time.time() + 30
    shared.zadd(scope, {held[0]: time.time() + 0.5})  # as if 29 s of the lease had passed
    shared.close()
    got = doors[0].post(world)
    assert (got.status_code, up.keys()) == (200, ["k-1", "k-1"])
    gate.open()


def test_changed_configuration_is_seen_by_all_within_two_seconds(doors, up):
    world = made(doors, up, "k-1", "k-2")
    UpstreamKey.objects.filter(pk=world.keys[0].pk).update(enabled=False)
    touch_config()
    until = time.monotonic() + 2
    for door in doors:
        wait_until(lambda door=door: outcomes(record_of(door.post(world, chat()))) == [("k2", "served")], 2.0)
    assert time.monotonic() < until + 0.5
