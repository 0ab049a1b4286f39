"""A request that fails everywhere must not take the keys down with it."""

from keys.core.state import Status
from tests.fake_upstream import answer, status
from tests.gateway import attempts, chat, wait_until

OTHER = [{"role": "user", "content": "something harmless"}]


def statuses(gateway, world):
    pool = gateway.runtime.store.board.pool(gateway.runtime.now())
    return [pool.sheet(key.pk) for key in world.keys]


def serve_each(gateway, up, world, count):
    """Let every key serve something else, lately."""
    up.default(answer("fine"))
    for _ in range(count):
        assert gateway.post(world, chat(messages=OTHER)).status_code == 200
    wait_until(gateway.is_idle)


def test_strikes_of_a_request_that_fails_at_two_accounts_are_dropped(gateway, up):
    world = gateway.serving(up, "k-1", "k-2", group={"strategy": "round_robin", "policy": {"strikes": 1}})
    serve_each(gateway, up, world, 2)
    up.default(status(500))
    assert gateway.post(world, chat()).status_code == 502
    wait_until(gateway.is_idle)
    assert [(one.status, one.strikes) for one in statuses(gateway, world)] == [(Status.HEALTHY, 0)] * 2


def test_the_same_request_then_gets_one_attempt_only(gateway, up):
    world = gateway.serving(up, "k-1", "k-2", group={"strategy": "round_robin"})
    serve_each(gateway, up, world, 2)
    up.default(status(500))
    first = gateway.post(world, chat())
    assert len(attempts(gateway.record(first))) == 2
    wait_until(gateway.is_idle)
    again = gateway.post(world, chat())
    assert len(attempts(gateway.record(again))) == 1
    other = gateway.post(world, chat(messages=OTHER))
    assert len(attempts(gateway.record(other))) == 2


def test_keys_that_served_nobody_lately_are_struck(gateway, up):
    up.default(status(500))
    world = gateway.serving(up, "k-1", "k-2", group={"policy": {"strikes": 1}})
    assert gateway.post(world, chat()).status_code == 502
    wait_until(lambda: [one.status for one in statuses(gateway, world)] == [Status.COOLING] * 2)


def test_a_second_accounts_refused_credential_kills_neither_key(gateway, up):
    up.default(status(401))
    world = gateway.serving(up, "k-1", "k-2")
    refused = gateway.post(world, chat())
    assert (refused.status_code, refused.json()["error"]["code"]) == (502, "upstream_credentials")
    wait_until(gateway.is_idle)
    assert [one.status for one in statuses(gateway, world)] == [Status.HEALTHY] * 2

    def both_are_due():
        for key in world.keys:
            key.refresh_from_db()
        return all(key.probe_due is not None for key in world.keys)

    wait_until(both_are_due)


def test_one_refused_credential_kills_the_key(gateway, up):
    up.script("k-1", status(401))
    world = gateway.serving(up, "k-1", "k-2")
    assert gateway.post(world, chat()).status_code == 200
    wait_until(lambda: [one.status for one in statuses(gateway, world)] == [Status.DEAD, Status.HEALTHY])
