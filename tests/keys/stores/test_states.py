"""Conformance, part one: states, epochs, leases, counters. Every test runs on both stores."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from keys.core.outcome import Cause, Outcome, Scope, Verdict
from keys.core.policy import Policy
from keys.core.report import Change, Part, Report, Skip
from keys.core.state import Status
from tests.keys.stores.conftest import NOW, Store, eventually

POLICY = Policy()
SCOPES = {
    Cause.SERVED: Scope.NONE,
    Cause.INSUFFICIENT_BALANCE: Scope.ACCOUNT,
    Cause.QUOTA_EXHAUSTED: Scope.ACCOUNT,
    Cause.PERMISSION_DENIED: Scope.KEY_MODEL,
    Cause.MODEL_UNAVAILABLE: Scope.KEY_MODEL,
    Cause.BAD_REQUEST: Scope.REQUEST,
}
SECOND = timedelta(seconds=1)


def report(cause: Cause, *, key: int = 1, account: int | None = None, began: float = 0, epoch: int = 0) -> Report:
    outcome = Outcome(cause, Verdict.NEXT, SCOPES.get(cause, Scope.KEY), message=f"it said {cause.value}")
    return Report(key, account, "gpt", outcome, NOW + began * SECOND, epoch)


async def tell(store: Store, cause: Cause, at: float, **fields: float | int | None) -> tuple[Change, ...]:
    return await store.report(report(cause, **fields), POLICY, NOW + at * SECOND)  # type: ignore[arg-type]


async def trip(store: Store, at: float = 0) -> None:
    for _ in range(3):
        await tell(store, Cause.SERVER_ERROR, at, began=at)


async def test_an_unknown_key_is_available(store: Store) -> None:
    standing = store.standing(1, 2, "gpt", NOW)
    assert (standing.available, standing.epoch, standing.half_open) == (True, 0, False)


async def test_the_third_strike_cools_for_every_process(store: Store, peer: Store) -> None:
    changes = []
    for at in (1, 2, 3):
        changes.append(await tell(store, Cause.SERVER_ERROR, at, began=at))
    assert [[(c.target, c.new.status, c.entered) for c in step] for step in changes] == [
        [("key:1", Status.HEALTHY, False)],
        [("key:1", Status.HEALTHY, False)],
        [("key:1", Status.COOLING, True)],
    ]
    await eventually(lambda: peer.standing(1, None, "gpt", NOW + 3 * SECOND).skip is Skip.COOLING)
    standing = peer.standing(1, None, "gpt", NOW + 3 * SECOND)
    assert (standing.left_s, standing.by_strikes, standing.cause) == (60, True, Cause.SERVER_ERROR)
    assert store.standing(2, None, "gpt", NOW).available


async def test_fifty_parallel_failures_from_two_processes_are_one_trip(store: Store, peer: Store) -> None:
    reports = [tell((store, peer)[number % 2], Cause.SERVER_ERROR, 1 + number / 100, began=0.5) for number in range(50)]
    changes = await asyncio.gather(*reports)
    assert sum(change.entered for step in changes for change in step) == 1
    sheet = (await store.snapshot(NOW + 2 * SECOND)).sheet(1)
    assert (sheet.status, sheet.trips, sheet.calls, sheet.failure_rate_1h) == (Status.COOLING, 1, 50, 1.0)


async def test_a_late_success_does_not_revive_a_dead_key(store: Store) -> None:
    await tell(store, Cause.AUTH_INVALID, 1)
    assert await tell(store, Cause.SERVED, 2) == ()
    assert await tell(store, Cause.RATE_LIMITED, 3, began=2) == ()
    standing = store.standing(1, None, "gpt", NOW + timedelta(days=900))
    assert (standing.skip, standing.left_s, standing.cause) == (Skip.DEAD, None, Cause.AUTH_INVALID)


async def test_reviving_starts_an_epoch_that_stale_reports_cannot_touch(store: Store, peer: Store) -> None:
    await tell(store, Cause.AUTH_INVALID, 1)
    await eventually(lambda: peer.standing(1, None, "gpt", NOW).skip is Skip.DEAD)
    (change,) = await peer.revive(1, NOW + 5 * SECOND)
    assert change.ended
    await eventually(lambda: store.standing(1, None, "gpt", NOW).available)
    assert store.standing(1, None, "gpt", NOW).epoch == 1
    assert await tell(store, Cause.AUTH_INVALID, 6, began=5.5, epoch=0) == ()
    assert store.standing(1, None, "gpt", NOW).available
    (change,) = await tell(store, Cause.AUTH_INVALID, 7, began=5.5, epoch=1)
    assert change.new.status is Status.DEAD


async def test_an_edited_secret_starts_its_epoch_once(store: Store) -> None:
    await tell(store, Cause.AUTH_INVALID, 1)
    assert store.standing(1, None, "gpt", NOW, epoch=3).available  # the routing table knew first
    (change,) = await store.set_epoch(1, 3, NOW + 2 * SECOND)
    assert (change.new.status, change.new.epoch) == (Status.HEALTHY, 3)
    assert await store.set_epoch(1, 3, NOW + 3 * SECOND) == ()
    assert await store.set_epoch(1, 2, NOW + 3 * SECOND) == ()


async def test_a_report_of_a_newer_epoch_starts_fresh(store: Store) -> None:
    await tell(store, Cause.AUTH_INVALID, 1)
    await tell(store, Cause.SERVER_ERROR, 2, began=1.5, epoch=1)
    sheet = (await store.snapshot(NOW + 2 * SECOND)).sheet(1)
    assert (sheet.status, sheet.strikes, sheet.epoch) == (Status.HEALTHY, 1, 1)


async def test_no_balance_stops_the_whole_account_and_only_it(store: Store, peer: Store) -> None:
    (change,) = await tell(store, Cause.INSUFFICIENT_BALANCE, 1, key=1, account=7)
    assert (change.target, change.entered) == ("account:7", True)
    await eventually(lambda: peer.standing(2, 7, "gpt", NOW + SECOND).skip is Skip.COOLING)
    standing = peer.standing(2, 7, "gpt", NOW + SECOND)
    assert (standing.left_s, standing.by_strikes, standing.cause) == (1800, False, Cause.INSUFFICIENT_BALANCE)
    assert peer.standing(1, 8, "gpt", NOW + SECOND).available
    sheet = (await peer.snapshot(NOW + SECOND)).sheet(2, 7)
    assert (sheet.status, sheet.reason, sheet.cooling_left_s) == (Status.COOLING, "insufficient_balance", 1800)


async def test_one_alert_for_a_balance_that_stays_empty(store: Store) -> None:
    (first,) = await tell(store, Cause.INSUFFICIENT_BALANCE, 0, account=7)
    (again,) = await tell(store, Cause.INSUFFICIENT_BALANCE, 1801, began=1800, account=7)
    assert (first.entered, again.entered, again.ended) == (True, False, False)
    (key, account) = (await tell(store, Cause.SERVED, 3700, began=3650, account=7) + (None,))[:2]
    assert key is not None
    assert (key.target, key.ended, account) == ("account:7", True, None)


async def test_a_balance_read_ends_only_a_balance_cooling(store: Store) -> None:
    await tell(store, Cause.INSUFFICIENT_BALANCE, 0, account=7)
    await tell(store, Cause.QUOTA_EXHAUSTED, 0, account=8)
    (change,) = await store.balance_seen("account:7", NOW + SECOND)
    assert change.ended
    assert await store.balance_seen("account:8", NOW + SECOND) == ()
    assert store.standing(1, 7, "gpt", NOW + SECOND).available
    assert store.standing(1, 8, "gpt", NOW + SECOND).skip is Skip.QUOTA


async def test_an_account_is_revived_by_hand(store: Store) -> None:
    kills = replace(POLICY, on_balance="dead")
    await store.report(report(Cause.INSUFFICIENT_BALANCE, account=7), kills, NOW)
    assert store.standing(1, 7, "gpt", NOW).skip is Skip.DEAD
    await store.revive_account(7, NOW + 2 * SECOND)
    assert await store.report(report(Cause.INSUFFICIENT_BALANCE, account=7, began=1), kills, NOW + 3 * SECOND) == ()
    assert store.standing(1, 7, "gpt", NOW + 3 * SECOND).available


async def test_a_key_without_account_carries_its_own_balance(store: Store) -> None:
    (change,) = await tell(store, Cause.INSUFFICIENT_BALANCE, 0)
    assert change.target == "key:1"
    assert store.standing(1, None, "gpt", NOW).cause is Cause.INSUFFICIENT_BALANCE


async def test_a_missing_model_rests_the_pair_alone(store: Store, peer: Store) -> None:
    await tell(store, Cause.MODEL_UNAVAILABLE, 0)
    await eventually(lambda: peer.standing(1, None, "gpt", NOW).skip is Skip.MODEL)
    assert peer.standing(1, None, "gpt", NOW).left_s == 600
    assert peer.standing(1, None, "claude", NOW).available
    assert peer.standing(1, None, "gpt", NOW + 600 * SECOND).available
    assert (await peer.snapshot(NOW)).sheet(1).models == {"gpt": {"reason": "model_unavailable", "left_s": 600}}


async def test_a_half_open_key_lets_one_request_through_across_processes(store: Store, peer: Store) -> None:
    await trip(store)
    at = NOW + 60 * SECOND
    await eventually(lambda: peer.standing(1, None, "gpt", at).half_open)
    leases = await asyncio.gather(*((store, peer)[n % 2].lease_probe(1, None, at) for n in range(20)))
    (lease,) = [lease for lease in leases if lease is not None]
    for process in (store, peer):
        await eventually(lambda process=process: process.standing(1, None, "gpt", at).skip is Skip.BUSY)  # type: ignore[misc]
    await store.end_probe(lease)
    await eventually(lambda: peer.standing(1, None, "gpt", at).available)
    assert await peer.lease_probe(1, None, at) is not None


async def test_a_half_open_lease_ends_after_ten_seconds(store: Store, peer: Store) -> None:
    await trip(store)
    at = NOW + 60 * SECOND
    assert await store.lease_probe(1, None, at) is not None
    await eventually(lambda: peer.standing(1, None, "gpt", at).skip is Skip.BUSY)
    assert await peer.lease_probe(1, None, at + 9.9 * SECOND) is None
    assert peer.standing(1, None, "gpt", at + 10 * SECOND).available
    assert await peer.lease_probe(1, None, at + 10 * SECOND) is not None


async def test_ending_a_lease_twice_leaves_the_next_holder_alone(store: Store) -> None:
    await trip(store)
    at = NOW + 60 * SECOND
    first = await store.lease_probe(1, None, at)
    assert first is not None
    await store.end_probe(first)
    await eventually(lambda: store.standing(1, None, "gpt", at).available)
    assert await store.lease_probe(1, None, at) is not None
    await store.end_probe(first)
    assert await store.lease_probe(1, None, at) is None


async def test_a_healthy_key_needs_no_lease(store: Store) -> None:
    leases = [await store.lease_probe(1, 2, NOW) for _ in range(2)]
    assert [lease.targets for lease in leases if lease] == [(), ()]


async def test_an_account_that_is_half_open_lets_one_key_through(store: Store) -> None:
    await tell(store, Cause.INSUFFICIENT_BALANCE, 0, key=1, account=7)
    at = NOW + 1800 * SECOND
    lease = await store.lease_probe(1, 7, at)
    assert lease is not None
    assert lease.targets == ("account:7",)
    assert await store.lease_probe(2, 7, at) is None


async def test_failing_while_half_open_doubles_and_succeeding_closes(store: Store) -> None:
    await trip(store)
    (change,) = await tell(store, Cause.TIMEOUT, 61, began=60.5)
    assert ((change.new.until or NOW) - NOW, change.entered) == (181 * SECOND, False)
    (change,) = await tell(store, Cause.SERVED, 200, began=190)
    assert (change.ended, change.new.trips) == (True, 0)
    assert not store.standing(1, None, "gpt", NOW + 200 * SECOND).half_open


async def test_a_probe_ends_a_strike_cooling_early_and_no_other(store: Store, peer: Store) -> None:
    await trip(store)
    await tell(store, Cause.RATE_LIMITED, 0, key=2)
    await peer.probe_succeeded(1, NOW + 5 * SECOND)
    assert await peer.probe_succeeded(2, NOW + 5 * SECOND) == ()
    await eventually(lambda: store.standing(1, None, "gpt", NOW + 5 * SECOND).half_open)
    assert store.standing(2, None, "gpt", NOW + 5 * SECOND).skip is Skip.COOLING


async def test_a_health_probes_report_counts_no_call(store: Store) -> None:
    probe = replace(report(Cause.AUTH_INVALID), probe=True)
    (change,) = await store.report(probe, POLICY, NOW + SECOND)
    assert change.new.status is Status.DEAD
    assert (await store.snapshot(NOW)).sheet(1).calls == 0
    await trip(store)
    served = replace(report(Cause.SERVED, key=2, began=9), probe=True)
    await tell(store, Cause.SERVER_ERROR, 5, key=2)
    assert await store.report(served, POLICY, NOW + 10 * SECOND) == ()


async def test_strikes_held_back_for_the_chains_end(store: Store) -> None:
    prompt = [replace(report(cause), part=Part.PROMPT) for cause in (Cause.SERVER_ERROR, Cause.AUTH_INVALID)]
    for one in prompt:
        assert await store.report(one, POLICY, NOW + SECOND) == ()
    assert store.standing(1, None, "gpt", NOW + SECOND).available
    late = [(replace(one, part=Part.LATE), POLICY) for one in prompt]
    (change,) = await store.report_chain(late, NOW + 2 * SECOND)
    assert (change.new.status, change.new.strikes) == (Status.DEAD, 1)
    assert (await store.snapshot(NOW + 2 * SECOND)).sheet(1).calls == 2


async def test_a_refused_model_rests_at_once_and_strikes_late(store: Store) -> None:
    refused = report(Cause.PERMISSION_DENIED)
    await store.report(replace(refused, part=Part.PROMPT), POLICY, NOW + SECOND)
    standing = store.standing(1, None, "gpt", NOW + SECOND)
    assert (standing.skip, standing.cause, standing.strikes) == (Skip.MODEL, Cause.PERMISSION_DENIED, 0)
    await store.report(replace(refused, part=Part.LATE), POLICY, NOW + SECOND)
    assert store.standing(1, None, "gpt", NOW + SECOND).strikes == 1


async def test_limits_do_not_wait_for_the_chains_end(store: Store) -> None:
    limited = report(Cause.RATE_LIMITED)
    (change,) = await store.report(replace(limited, part=Part.PROMPT), POLICY, NOW + SECOND)
    assert change.new.status is Status.COOLING
    assert await store.report(replace(limited, part=Part.LATE), POLICY, NOW + SECOND) == ()


@pytest.mark.parametrize("cause", [Cause.BAD_REQUEST, Cause.ABORTED, Cause.CONTENT_FILTERED])
async def test_neutral_answers_count_as_calls_alone(store: Store, cause: Cause) -> None:
    assert await tell(store, cause, 1) == ()
    sheet = (await store.snapshot(NOW + SECOND)).sheet(1)
    assert (sheet.calls, sheet.failures, sheet.last_error) == (1, 0, "")


async def test_the_pools_figures(store: Store, peer: Store) -> None:
    await tell(store, Cause.SERVED, 1)
    await tell(peer, Cause.SERVED, 2)
    long = replace(report(Cause.TIMEOUT).outcome, message="x" * 400)
    await store.report(replace(report(Cause.TIMEOUT), outcome=long), POLICY, NOW + 3 * SECOND)
    sheet = (await peer.snapshot(NOW + 4 * SECOND)).sheet(1)
    assert (sheet.calls, sheet.failures, round(sheet.failure_rate_1h, 3)) == (3, 1, 0.333)
    assert (len(sheet.last_error), sheet.last_error[:12]) == (160, "timeout: xxx")
    later = (await peer.snapshot(NOW + timedelta(hours=2))).sheet(1)
    assert (later.failure_rate_1h, later.calls) == (0.0, 3)
