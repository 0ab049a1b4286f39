"""Waiting for room: what is worth it, for how long, and what becomes of those who leave the queue."""

import threading
import time

import httpx
import pytest

from tests.factories import MemberFactory, UpstreamFactory, UpstreamKeyFactory
from tests.fake_upstream import Gate, Tokens, answer, status
from tests.gateway import CHAT, attempts, chat, outcomes, wait_until
from tests.proxy.pool import Calls, settled, sheets

WARM = answer("Hello.", tokens=Tokens(2000, 5, cached_read=1500))


@pytest.fixture
def calls(gateway):
    made = Calls(gateway)
    yield made
    made.finish()


def limited(gateway, up, *secrets, key=None, line=None, policy=None, **options):
    """A world whose keys, and whose line, have these limits."""
    world = gateway.serving(up, *secrets, group={"policy": policy or {}}, line=line, **options)
    for row in world.keys:
        for name, value in (key or {}).items():
            setattr(row, name, value)
        row.save()
    gateway.refresh()
    return world


def with_last_resort(gateway, world, up, secret, **limits):
    last = UpstreamFactory(tenant=world.tenant, name="last", base_url=up.base_url)
    UpstreamKeyFactory(upstream=last, name="k9", secret=secret, **limits)
    world.group.last_resort = last
    world.group.save()
    gateway.refresh()


def held(up, key, text="Hello."):
    """Let the next request of a key wait for the gate that is returned."""
    gate = Gate()
    up.script(key, answer(text, holds=((-1, gate),)))
    return gate


def queued(gateway, count):
    """Wait until so many calls stand in a queue."""
    wait_until(lambda: sum(call.idle for call in gateway.runtime.calls.values()) == count, what=f"{count} in a queue")


def test_a_lines_limit_is_waited_for_although_a_last_resort_stands_by(gateway, up, calls):
    world = limited(gateway, up, "k-1", line={"concurrency": 1})
    with_last_resort(gateway, world, up, "k-9")
    gate = held(up, "k-1")
    calls.start(world)
    up.wait_for_requests(1)
    calls.start(world)
    queued(gateway, 1)
    gate.open()
    assert [got.status_code for got in calls.finish()] == [200, 200]
    assert up.keys() == ["k-1", "k-1"]


def test_a_sticky_conversation_waits_for_its_line_longer_than_for_its_key(gateway, up, calls):
    up.default(WARM)
    policy = {"sticky_wait_s": 0.05, "slot_wait_s": 5}
    world = limited(gateway, up, "k-1", "k-2", line={"concurrency": 1}, policy=policy)
    assert gateway.post(world, headers={"x-session-id": "s"}).status_code == 200
    wait_until(gateway.is_idle)
    gate = held(up, "k-1")
    calls.start(world, chat(messages=[{"role": "user", "content": "other"}]))
    up.wait_for_requests(2)
    calls.start(world, headers={"x-session-id": "s"})
    queued(gateway, 1)
    time.sleep(0.2)
    gate.open()
    assert [got.status_code for got in calls.finish()] == [200, 200]
    assert calls.answers[-1].headers["x-pointsman-session"] == "cache"


def test_a_sticky_conversation_waits_for_its_key_then_moves(gateway, up, calls):
    up.default(WARM)
    world = limited(gateway, up, "k-1", "k-2", key={"concurrency": 1}, policy={"sticky_wait_s": 0.2})
    assert gateway.post(world, headers={"x-session-id": "s"}).status_code == 200
    wait_until(gateway.is_idle)
    gate = held(up, "k-1")
    calls.start(world, chat(messages=[{"role": "user", "content": "other"}]))
    up.wait_for_requests(2)
    moved = gateway.post(world, headers={"x-session-id": "s"})
    assert moved.headers["x-pointsman-session"] == "repinned"
    record = gateway.record(moved)
    assert outcomes(record) == [("k1", "skipped: busy"), ("k2", "served")]
    assert 150 <= attempts(record)[-1].queued_ms < 2000
    gate.open()


def test_a_sticky_conversation_stays_when_its_key_frees_in_time(gateway, up, calls):
    up.default(WARM)
    world = limited(gateway, up, "k-1", "k-2", key={"concurrency": 1})
    assert gateway.post(world, headers={"x-session-id": "s"}).status_code == 200
    wait_until(gateway.is_idle)
    gate = held(up, "k-1")
    calls.start(world, chat(messages=[{"role": "user", "content": "other"}]))
    up.wait_for_requests(2)
    calls.start(world, headers={"x-session-id": "s"})
    queued(gateway, 1)
    gate.open()
    calls.finish()
    assert up.keys() == ["k-1", "k-1", "k-1"]


def test_what_waits_for_line_and_key_has_one_budget(gateway, up, calls):
    policy = {"slot_wait_s": 0.6}
    world = limited(gateway, up, "k-1", key={"concurrency": 1}, line={"concurrency": 1}, policy=policy)
    other = limited(gateway, up, "k-2", policy=policy)
    other.line.tenant = world.tenant
    other.line.save()
    gateway.refresh()
    line, key = held(up, "k-1"), held(up, "k-1")
    calls.start(world)
    up.wait_for_requests(1)
    calls.start(other)  # another line of the same tenant stands first in the key's queue
    queued(gateway, 1)
    began = time.monotonic()
    calls.start(world)
    queued(gateway, 2)
    time.sleep(0.35)
    line.open()  # the line is free now, the key is taken by the other line
    up.wait_for_requests(2)
    calls.threads[2].join()
    assert time.monotonic() - began < 0.6 + 0.4
    refused = next(got for got in calls.answers if got.status_code != 200)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
    key.open()


def test_keys_found_full_only_at_admission_are_waited_for(gateway, up, calls):
    """Five calls at once, one slot, a last resort with one slot: nobody is refused while the budget lasts."""
    world = limited(gateway, up, "k-1", key={"concurrency": 1}, policy={"slot_wait_s": 10})
    with_last_resort(gateway, world, up, "k-9", concurrency=1)
    up.default(answer("Hello.", head_delay_s=0.05))
    for _ in range(8):
        calls.start(world)
    assert [got.status_code for got in calls.finish()] == [200] * 8
    assert {key: up.keys().count(key) > 0 for key in ("k-1", "k-9")} == {"k-1": True, "k-9": True}


def test_when_something_was_sent_the_real_failure_is_told(gateway, up, calls):
    world = limited(gateway, up, "k-1", "k-2", key={"concurrency": 1}, policy={"slot_wait_s": 0.2})
    up.default(status(500, "broken here"), key="k-1")
    gate = held(up, "k-2")
    calls.start(world)
    up.wait_for_requests(2)
    got = gateway.post(world)
    assert (got.status_code, got.json()["error"]["code"]) == (502, "upstream_failed")
    assert "broken here" in got.json()["error"]["message"]
    assert outcomes(gateway.record(got)) == [("k2", "skipped: busy"), ("k1", "server_error")]
    gate.open()


def test_no_wait_outlasts_the_deadline(gateway, up, calls):
    policy = {"slot_wait_s": 20, "first_content_deadline_s": 0.4}
    world = limited(gateway, up, "k-1", key={"concurrency": 1}, policy=policy)
    gate = held(up, "k-1")
    calls.start(world)
    up.wait_for_requests(1)
    began = time.monotonic()
    assert gateway.post(world).status_code == 429
    assert 0.3 < time.monotonic() - began < 5
    gate.open()
    calls.finish()
    assert up.keys() == ["k-1"]


def test_a_client_that_leaves_the_queue_frees_its_place_at_once(gateway, up, calls):
    world = limited(gateway, up, "k-1", key={"concurrency": 1})
    gate = held(up, "k-1")
    calls.start(world)
    up.wait_for_requests(1)
    with gateway.client(world) as client:

        def leave():
            with pytest.raises(httpx.ReadTimeout):
                client.post(CHAT, json=chat(), timeout=0.3)

        leaving = threading.Thread(target=leave)
        leaving.start()
        queued(gateway, 1)
        calls.start(world)
        queued(gateway, 2)
        leaving.join()
    wait_until(lambda: len(gateway.runtime.calls) == 2, what="the one who left is gone")
    gate.open()
    assert [got.status_code for got in calls.finish()] == [200, 200]
    assert len(up.requests) == 2


def test_a_client_that_leaves_in_the_pause_starts_nothing(gateway, up, monkeypatch):
    """The pause before another key of an upstream that has just failed."""
    monkeypatch.setattr("proxy.failover._JITTER_S", (2.0, 2.0))
    world = gateway.serving(up, "k-1", "k-2", one_upstream=True)
    up.default(status(500))
    with gateway.client(world) as client, pytest.raises(httpx.ReadTimeout):
        client.post(CHAT, json=chat(), timeout=0.4)
    record = gateway.only_record(world, timeout_s=1.0)
    assert (record.status, outcomes(record)) == ("cancelled", [("k1", "server_error")])
    wait_until(gateway.is_idle)
    assert len(up.requests) == 1


def test_an_attempt_given_up_behind_a_client_is_on_record_once(gateway, up):
    """The failure before it is not told a second time, and neither key is struck for the client's leaving."""
    policy = {"drain_s": 0.1, "strikes": 2}
    world = gateway.serving(up, "k-1", "k-2", group={"policy": policy})
    gate = Gate()
    up.script("k-1", status(500))
    up.script("k-2", answer(holds=((-1, gate),)))
    with gateway.client(world) as client, pytest.raises(httpx.ReadTimeout):
        client.post(CHAT, json=chat(), timeout=0.4)
    record = gateway.only_record(world)
    assert (record.status, record.charge) == ("cancelled", 0)
    assert outcomes(record) == [("k1", "server_error"), ("k2", "aborted")]
    settled(gateway)
    gate.open()
    assert [(sheet.calls, sheet.strikes) for sheet in sheets(gateway, world)] == [(1, 1), (1, 0)]


def test_a_member_of_the_group_joins_while_calls_wait(gateway, up, calls):
    """A configuration change does not disturb who waits: it is served by what it was decided with."""
    world = limited(gateway, up, "k-1", key={"concurrency": 1})
    gate = held(up, "k-1")
    calls.start(world)
    up.wait_for_requests(1)
    calls.start(world)
    queued(gateway, 1)
    late = UpstreamFactory(tenant=world.tenant, name="late", base_url=up.base_url)
    UpstreamKeyFactory(upstream=late, name="k5", secret="k-5")
    MemberFactory(group=world.group, upstream=late, position=5)
    gateway.refresh()
    assert gateway.post(world).status_code == 200
    assert up.keys() == ["k-1", "k-5"]
    gate.open()
    assert [got.status_code for got in calls.finish()] == [200, 200]
