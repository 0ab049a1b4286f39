"""Nothing available, and what a failure does to the order."""

from dataclasses import replace

import pytest

from keys.core.outcome import Cause, Outcome, Scope, Verdict
from keys.core.policy import Policy
from keys.core.report import Skip, Standing
from routing.core.decision import Candidate, Decision, Fallback, RefusalKind
from routing.core.fallback import reorder_after
from routing.core.views import KeyView
from tests.routing.core.build import (
    BROKE,
    COOLING,
    DEAD,
    LEASED,
    RESTING,
    STRUCK,
    capped,
    decided,
    key,
    order,
    table,
    upstream,
)

FAILED = Outcome(Cause.SERVER_ERROR, Verdict.NEXT, Scope.KEY)


def struck(left_s: float) -> KeyView:
    return KeyView(Standing(Skip.COOLING, left_s, cause=Cause.SERVER_ERROR, by_strikes=True))


def fallback(decision: Decision) -> Fallback:
    assert decision.fallback is not None
    assert decision.candidates == ()
    return decision.fallback


def ids(candidates: tuple[Candidate, ...]) -> list[int]:
    return [candidate.key_id for candidate in candidates]


def test_struck_keys_are_tried_soonest_first_at_most_two() -> None:
    views = {11: struck(60), 12: struck(20), 13: struck(40), 14: COOLING}
    found = fallback(decided(table([upstream(1, keys=4)]), views))
    assert ids(found.struck) == [12, 13]
    assert found.awaited == ()


def test_others_are_awaited_within_5_seconds() -> None:
    views = {
        11: KeyView(Standing(Skip.COOLING, 5.0, cause=Cause.RATE_LIMITED)),
        12: KeyView(Standing(Skip.COOLING, 5.1, cause=Cause.RATE_LIMITED)),
        13: LEASED,
        14: DEAD,
    }
    found = fallback(decided(table([upstream(1, keys=4)]), views))
    assert [(c.key_id, c.wait_s, c.wait_for) for c in found.awaited] == [(13, 1.0, "state"), (11, 5.0, "state")]
    assert found.struck == ()


def test_a_struck_key_is_tried_or_awaited_never_both() -> None:
    found = fallback(decided(table([upstream(1, keys=3)]), {11: struck(3), 12: struck(1), 13: struck(2)}))
    assert ids(found.struck) == [12, 13]
    assert ids(found.awaited) == [11]


def test_dead_broke_and_used_up_keys_are_never_tried() -> None:
    quota = KeyView(Standing(Skip.QUOTA, 3600.0, cause=Cause.QUOTA_EXHAUSTED))
    found = fallback(decided(table([upstream(1, keys=3)]), {11: DEAD, 12: BROKE, 13: quota}))
    assert (found.struck, found.awaited, found.waiting, found.last_resort) == ((), (), (), ())
    assert (found.refusal.status, found.refusal.retry_after_s, found.refusal.do_not_retry) == (503, 60, True)


def test_the_last_resort_stands_by_and_is_charged_when_used() -> None:
    routing = table([upstream(1), upstream(9, keys=2)], last_resort_id=9)
    found = fallback(decided(routing, {11: DEAD}, rotation={"upstream:9:round_robin": {"91": -1000, "92": 1000}}))
    assert ids(found.last_resort) == [92, 91]
    assert found.last_resort_charge is not None
    assert found.last_resort_charge.add == {"91": 1000, "92": -1000}
    one_left = fallback(decided(routing, {11: DEAD, 91: COOLING}))
    assert ids(one_left.last_resort) == [92]


def test_full_keys_and_short_caps_are_waited_for() -> None:
    member = replace(upstream(1), keys=(capped(11, 1, 1), key(12, 1), key(13, 1), key(14, 1)))
    views = {
        11: KeyView(in_flight=1),
        12: KeyView(cap="rpm", cap_left_s=30),
        13: KeyView(cap="per_hour", cap_left_s=31),
        14: COOLING,
    }
    found = fallback(decided(table([member]), views))
    assert [(c.key_id, c.wait_s, c.wait_for) for c in found.waiting] == [(11, 30.0, "slot"), (12, 30.0, "slot")]
    assert ids(fallback(decided(table([member], policy=Policy(slot_wait_s=29)), views)).waiting) == [11]


def test_a_key_that_another_request_probes_is_waited_for() -> None:
    leased = KeyView(Standing(Skip.BUSY, 9.5))
    found = fallback(decided(table([upstream(1, keys=2)]), {11: leased, 12: DEAD}))
    assert (ids(found.awaited), ids(found.waiting)) == ([], [11])


def test_a_sole_candidate_ignores_strike_cooling() -> None:
    off = replace(upstream(1), keys=(key(11, 1), key(12, 1, enabled=False)))
    assert order(decided(table([off, upstream(2, models=("x",))]), {11: STRUCK})) == [11]
    assert order(decided(table([upstream(1)]), {11: COOLING})) == []
    assert order(decided(table([upstream(1), upstream(2)]), {11: STRUCK, 21: COOLING})) == []


@pytest.mark.parametrize(
    ("views", "kind", "retry_after_s", "do_not_retry"),
    [
        ({11: DEAD, 12: DEAD}, RefusalKind.NO_KEY, None, True),
        ({11: COOLING, 12: COOLING}, RefusalKind.LIMITED, 30, False),
        ({11: COOLING, 12: KeyView(in_flight=1)}, RefusalKind.LIMITED, 5, False),
        ({11: COOLING, 12: KeyView(cap="rpm", cap_left_s=0.2)}, RefusalKind.LIMITED, 1, False),
        ({11: COOLING, 12: DEAD}, RefusalKind.NO_KEY, 30, False),
        ({11: STRUCK, 12: struck(71.5)}, RefusalKind.NO_KEY, 60, False),
        ({11: BROKE, 12: DEAD}, RefusalKind.NO_KEY, 60, True),
        ({11: KeyView(Standing(Skip.COOLING, 601.0)), 12: DEAD}, RefusalKind.NO_KEY, 60, True),
        ({11: KeyView(Standing(Skip.COOLING, 600.0)), 12: DEAD}, RefusalKind.NO_KEY, 60, False),
        ({11: RESTING, 12: RESTING}, RefusalKind.MODEL_UNKNOWN, None, True),
        ({11: RESTING, 12: DEAD}, RefusalKind.NO_KEY, 60, False),
        ({11: LEASED, 12: LEASED}, RefusalKind.LIMITED, 1, False),
    ],
)
def test_what_is_answered_when_nothing_was_tried(
    views: dict[int, KeyView], kind: RefusalKind, retry_after_s: int | None, do_not_retry: bool
) -> None:
    member = replace(upstream(1), keys=(capped(11, 1, 1), capped(12, 1, 1)))
    refusal = fallback(decided(table([member]), views)).refusal
    assert (refusal.kind, refusal.retry_after_s, refusal.do_not_retry) == (kind, retry_after_s, do_not_retry)


def test_the_text_holds_the_real_time() -> None:
    refusal = fallback(decided(table([upstream(1, keys=2)]), {11: BROKE, 12: BROKE})).refusal
    assert refusal.wait_s == 1800
    assert refusal.text == "No upstream key is available; the first is expected back in 1800 s."


def test_keys_that_were_free_but_are_gone_count_as_busy() -> None:
    decision = decided(table([upstream(1)]))
    assert decision.fallback is not None
    assert (decision.fallback.refusal.status, decision.fallback.refusal.retry_after_s) == (429, 5)


def test_a_route_to_nothing_says_so() -> None:
    refusal = decided(table([upstream(1, enabled=False)])).refusal
    assert refusal is not None
    assert (refusal.status, refusal.do_not_retry) == (503, True)
    assert decided(table([])).refusal == refusal


THREE = decided(table([upstream(1, keys=2), upstream(2, keys=2)])).candidates


@pytest.mark.parametrize(
    "cause", [Cause.SERVER_ERROR, Cause.OVERLOADED, Cause.CONNECTION, Cause.TIMEOUT, Cause.MODEL_UNAVAILABLE]
)
def test_trouble_of_the_endpoint_sends_its_other_keys_to_the_end(cause: Cause) -> None:
    assert ids(reorder_after(THREE[1:], THREE[0], replace(FAILED, cause=cause))) == [21, 22, 12]


@pytest.mark.parametrize("cause", [Cause.RATE_LIMITED, Cause.AUTH_INVALID, Cause.PERMISSION_DENIED])
def test_trouble_of_the_key_leaves_the_order(cause: Cause) -> None:
    assert ids(reorder_after(THREE, THREE[0], replace(FAILED, cause=cause))) == [12, 21, 22]


def test_an_empty_account_takes_its_other_keys_away() -> None:
    shared = [replace(candidate, account_id=7) if candidate.key_id in (11, 22) else candidate for candidate in THREE]
    broke = Outcome(Cause.INSUFFICIENT_BALANCE, Verdict.NEXT, Scope.ACCOUNT)
    assert ids(reorder_after(shared[1:], shared[0], broke)) == [12, 21]
    assert ids(reorder_after(THREE[1:], THREE[0], broke)) == [12, 21, 22]
    sized = replace(broke, scope=Scope.REQUEST, reason="size")
    assert ids(reorder_after(shared[1:], shared[0], sized)) == [12, 21, 22]


def test_too_long_a_context_goes_to_larger_windows_only() -> None:
    long = Outcome(Cause.CONTEXT_TOO_LONG, Verdict.NEXT, Scope.REQUEST)
    windows = {11: 1000, 12: 1000, 21: 2000, 22: None}
    sized = [replace(candidate, window=windows[candidate.key_id]) for candidate in THREE]
    assert ids(reorder_after(sized[1:], sized[0], long)) == [21]
    assert reorder_after(sized[:3], sized[3], long) == ()


@pytest.mark.parametrize("verdict", [Verdict.STOP, Verdict.ANSWERED])
def test_nothing_follows_a_final_answer(verdict: Verdict) -> None:
    assert reorder_after(THREE[1:], THREE[0], replace(FAILED, verdict=verdict)) == ()
