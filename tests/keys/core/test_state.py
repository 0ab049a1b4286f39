"""The state machine: every state × outcome pair, the numbers, and what must hold in any history."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keys.core.outcome import Cause, Outcome, Scope, Verdict
from keys.core.policy import PRESETS, Policy, overridden
from keys.core.state import (
    FRESH,
    MODELS_MAX,
    KeyState,
    Status,
    after,
    explains_nothing,
    funded,
    is_half_open,
    left_s,
    merged,
    probed,
    rested,
    resting,
    revived,
    status_at,
    struck,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
STANDARD = Policy()
KEYPOOL = overridden(STANDARD, {"preset": "keypool"})
SCOPES = {
    Cause.SERVED: Scope.NONE,
    Cause.INSUFFICIENT_BALANCE: Scope.ACCOUNT,
    Cause.QUOTA_EXHAUSTED: Scope.ACCOUNT,
    Cause.PERMISSION_DENIED: Scope.KEY_MODEL,
    Cause.MODEL_UNAVAILABLE: Scope.KEY_MODEL,
    Cause.CONTEXT_TOO_LONG: Scope.REQUEST,
    Cause.BAD_REQUEST: Scope.REQUEST,
    Cause.CONTENT_FILTERED: Scope.REQUEST,
    Cause.ABORTED: Scope.NONE,
}


def s(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def outcome(cause: Cause, wait_s: float | None = None, scope: Scope | None = None, reason: str = "") -> Outcome:
    return Outcome(cause, Verdict.NEXT, scope or SCOPES.get(cause, Scope.KEY), wait_s=wait_s, reason=reason)


def summary(state: KeyState, at: datetime = NOW) -> str:
    """`cooling 60 s3 t1 (gpt)`: status, seconds left, strikes, trips, resting models."""
    words = [status_at(state, at).value]
    if status_at(state, at) is Status.COOLING:
        words.append(f"{left_s(state, at):g}")
    if is_half_open(state, at):
        words.append("half-open")
    words += [f"s{state.strikes}"] * bool(state.strikes) + [f"t{state.trips}"] * bool(state.trips)
    words += [f"({rest.model})" for rest in state.models]
    return " ".join(words)


STATES = {
    "healthy": FRESH,
    "struck": KeyState(strikes=2, trips=1, since=s(-500)),
    "tripped": KeyState(
        status=Status.COOLING, until=s(100), since=s(-20), cause=Cause.TIMEOUT, by_strikes=True, strikes=3, trips=2
    ),
    "limited": KeyState(status=Status.COOLING, until=s(100), since=s(-20), cause=Cause.RATE_LIMITED, strikes=1),
    "half-open": KeyState(
        status=Status.COOLING, until=s(-1), since=s(-61), cause=Cause.TIMEOUT, by_strikes=True, strikes=3, trips=1
    ),
    "dead": KeyState(status=Status.DEAD, since=s(-20), cause=Cause.AUTH_INVALID),
}
SAME = "same"
NOTHING = dict.fromkeys((Cause.ABORTED, Cause.BAD_REQUEST, Cause.CONTENT_FILTERED, Cause.CONTEXT_TOO_LONG), SAME)
STRIKES = (Cause.OVERLOADED, Cause.SERVER_ERROR, Cause.CONNECTION, Cause.TIMEOUT)

# One row per state × outcome; every attempt began a second ago.
EXPECTED: dict[str, dict[Cause, str]] = {
    "healthy": {
        Cause.SERVED: SAME,
        Cause.INSUFFICIENT_BALANCE: "cooling 1800",
        Cause.QUOTA_EXHAUSTED: "cooling 3600",
        Cause.RATE_LIMITED: "cooling 60",
        Cause.AUTH_INVALID: "dead",
        Cause.PERMISSION_DENIED: "healthy s1 (gpt)",
        Cause.MODEL_UNAVAILABLE: "healthy (gpt)",
        **dict.fromkeys(STRIKES, "healthy s1"),
        **NOTHING,
    },
    "struck": {
        Cause.SERVED: "healthy",
        Cause.INSUFFICIENT_BALANCE: "cooling 1800 s2 t1",
        Cause.QUOTA_EXHAUSTED: "cooling 3600 s2 t1",
        Cause.RATE_LIMITED: "cooling 60 s2 t1",
        Cause.AUTH_INVALID: "dead s2 t1",
        Cause.PERMISSION_DENIED: "cooling 120 s3 t2 (gpt)",
        Cause.MODEL_UNAVAILABLE: "healthy s2 t1 (gpt)",
        **dict.fromkeys(STRIKES, "cooling 120 s3 t2"),
        **NOTHING,
    },
    "tripped": {
        Cause.SERVED: "healthy",
        Cause.INSUFFICIENT_BALANCE: "cooling 1800 s3 t2",
        Cause.QUOTA_EXHAUSTED: "cooling 3600 s3 t2",
        Cause.RATE_LIMITED: SAME,
        Cause.AUTH_INVALID: "dead s3 t2",
        Cause.PERMISSION_DENIED: "cooling 100 s3 t2 (gpt)",
        Cause.MODEL_UNAVAILABLE: "cooling 100 s3 t2 (gpt)",
        **dict.fromkeys(STRIKES, SAME),
        **NOTHING,
    },
    "limited": {
        Cause.SERVED: SAME,
        Cause.INSUFFICIENT_BALANCE: "cooling 1800 s1",
        Cause.QUOTA_EXHAUSTED: "cooling 3600 s1",
        Cause.RATE_LIMITED: SAME,
        Cause.AUTH_INVALID: "dead s1",
        Cause.PERMISSION_DENIED: "cooling 100 s1 (gpt)",
        Cause.MODEL_UNAVAILABLE: "cooling 100 s1 (gpt)",
        **dict.fromkeys(STRIKES, SAME),
        **NOTHING,
    },
    "half-open": {
        Cause.SERVED: "healthy",
        Cause.INSUFFICIENT_BALANCE: "cooling 1800 t1",
        Cause.QUOTA_EXHAUSTED: "cooling 3600 t1",
        Cause.RATE_LIMITED: "cooling 60 t1",
        Cause.AUTH_INVALID: "dead t1",
        Cause.PERMISSION_DENIED: "cooling 120 s1 t2 (gpt)",
        Cause.MODEL_UNAVAILABLE: "healthy half-open t1 (gpt)",
        **dict.fromkeys(STRIKES, "cooling 120 s1 t2"),
        **NOTHING,
    },
    "dead": dict.fromkeys(Cause, SAME),
}
PAIRS = [(name, cause) for name in STATES for cause in Cause]


@pytest.mark.parametrize(("name", "cause"), PAIRS, ids=[f"{n}-{c}" for n, c in PAIRS])
def test_every_state_and_outcome(name: str, cause: Cause) -> None:
    state = STATES[name]
    following = after(state, outcome(cause), STANDARD, NOW, s(-1), "gpt")
    expected = EXPECTED[name][cause]
    if expected == SAME:
        assert following is state
    else:
        assert summary(following) == expected


@pytest.mark.parametrize("name", ["tripped", "limited", "struck", "half-open"])
@pytest.mark.parametrize("cause", list(Cause))
def test_an_attempt_that_began_before_the_last_cooling_changes_nothing(name: str, cause: Cause) -> None:
    state = STATES[name]
    assert after(state, outcome(cause), STANDARD, NOW, state.since, "gpt") is state


def test_fifty_parallel_failures_are_one_trip() -> None:
    state = FRESH
    for number in range(50):
        state = after(state, outcome(Cause.SERVER_ERROR), STANDARD, s(number / 100), s(-1))
    assert (state.trips, state.strikes, state.until) == (1, 3, s(0.02 + 60))
    assert after(state, outcome(Cause.SERVED), STANDARD, s(5), s(-1)) is state


def test_trips_double_to_their_ceiling() -> None:
    state, at, waits = FRESH, NOW, []
    for _ in range(3):
        state = after(state, outcome(Cause.SERVER_ERROR), STANDARD, at, at)
    for _ in range(6):
        waits.append(left_s(state, at))
        at += timedelta(seconds=waits[-1])
        state = after(state, outcome(Cause.SERVER_ERROR), STANDARD, at, at)
    assert waits == [60, 120, 240, 480, 600, 600]


def test_a_success_resets_strikes_trips_and_doublings() -> None:
    tired = KeyState(strikes=2, trips=4, waits=3, until=s(-1), since=s(-9), cause=Cause.TIMEOUT, by_strikes=True)
    assert after(tired, outcome(Cause.SERVED), STANDARD, NOW, s(-2)) == KeyState(since=s(-9))


def test_an_elapsed_cooling_keeps_trips_only() -> None:
    over = rested(STATES["tripped"], s(100))
    assert (over.status, over.strikes, over.trips) == (Status.HEALTHY, 0, 2)
    assert is_half_open(over, s(100))
    assert left_s(STATES["tripped"], s(100)) == 0
    assert rested(STATES["tripped"], s(99.9)) is STATES["tripped"]


@pytest.mark.parametrize(
    ("case", "policy", "wait_s", "waits", "expected"),
    [
        ("stated", STANDARD, 20, 0, 20),
        ("stated, after others", STANDARD, 20, 5, 20),
        ("zero", STANDARD, 0, 0, 1),
        ("past", STANDARD, -30, 0, 1),
        ("minus infinity", STANDARD, -inf, 0, 1),
        ("a year", STANDARD, 31536000, 0, 3600),
        ("infinity", STANDARD, inf, 0, 3600),
        ("not a number", STANDARD, nan, 0, 60),
        ("none stated", STANDARD, None, 0, 60),
        ("none stated, third time", STANDARD, None, 2, 240),
        ("none stated, tenth time", STANDARD, None, 9, 600),
        ("none stated, for ever", STANDARD, None, 10**6, 600),
        ("keypool ignores the statement", KEYPOOL, 20, 0, 60),
        ("keypool does not double", KEYPOOL, None, 4, 60),
        ("long base", replace(STANDARD, cool_429_s=900), None, 3, 900),
        ("short ceiling", replace(STANDARD, cool_429_max_s=30), None, 0, 30),
    ],
)
def test_rate_limits_cool_for(case: str, policy: Policy, wait_s: float | None, waits: int, expected: float) -> None:
    state = after(KeyState(waits=waits), outcome(Cause.RATE_LIMITED, wait_s), policy, NOW)
    assert left_s(state, NOW) == expected
    assert not state.by_strikes


def test_waits_nobody_stated_double_until_a_success() -> None:
    state, at, waits = FRESH, NOW, []
    for _ in range(5):
        state = after(state, outcome(Cause.RATE_LIMITED), STANDARD, at, at)
        waits.append(left_s(state, at))
        at += timedelta(seconds=waits[-1])
    assert waits == [60, 120, 240, 480, 600]
    served = after(state, outcome(Cause.SERVED), STANDARD, at, at)
    assert left_s(after(served, outcome(Cause.RATE_LIMITED), STANDARD, s(9999), s(9999)), s(9999)) == 60


@pytest.mark.parametrize(
    ("wait_s", "expected"),
    [(7200, 7200), (None, 3600), (nan, 3600), (0, 3600), (-5, 3600), (8 * 86400, 7 * 86400), (inf, 7 * 86400)],
)
def test_quota_cools_to_its_reset(wait_s: float | None, expected: float) -> None:
    assert left_s(after(FRESH, outcome(Cause.QUOTA_EXHAUSTED, wait_s), STANDARD, NOW), NOW) == expected


@pytest.mark.parametrize("cause", [Cause.QUOTA_EXHAUSTED, Cause.RATE_LIMITED])
def test_a_limit_of_one_model_rests_that_pair_alone(cause: Cause) -> None:
    state = after(FRESH, outcome(cause, 300, Scope.KEY_MODEL), STANDARD, NOW, None, "gpt")
    rest = resting(state, "gpt", NOW)
    assert (status_at(state, NOW), rest and (rest.until, rest.cause)) == (Status.HEALTHY, (s(300), cause))
    assert resting(state, "claude", NOW) is None
    assert resting(state, "gpt", s(300)) is None


def test_a_pairs_rest_is_never_shortened() -> None:
    state = after(FRESH, outcome(Cause.QUOTA_EXHAUSTED, 9000, Scope.KEY_MODEL), STANDARD, NOW, None, "gpt")
    assert after(state, outcome(Cause.MODEL_UNAVAILABLE), STANDARD, s(10), s(9), "gpt") is state


def test_resting_pairs_are_bounded() -> None:
    state = FRESH
    for number in range(MODELS_MAX + 5):
        state = after(state, outcome(Cause.MODEL_UNAVAILABLE), STANDARD, s(number / 1000), None, f"m{number:04}")
    assert len(state.models) == MODELS_MAX
    assert resting(state, "m0004", s(1)) is None
    assert resting(state, f"m{MODELS_MAX + 4:04}", s(1)) is not None


@pytest.mark.parametrize("reason", ["size"])
@pytest.mark.parametrize("cause", [Cause.RATE_LIMITED, Cause.INSUFFICIENT_BALANCE])
def test_a_refusal_of_this_requests_size_changes_nothing(cause: Cause, reason: str) -> None:
    assert after(FRESH, outcome(cause, 86400, Scope.KEY, reason), STANDARD, NOW) is FRESH
    assert after(FRESH, outcome(cause, 86400, Scope.REQUEST), STANDARD, NOW) is FRESH
    assert explains_nothing(outcome(cause, None, Scope.NONE))


@pytest.mark.parametrize(
    ("case", "policy", "cause", "expected"),
    [
        ("balance kills", {"on_balance": "dead"}, Cause.INSUFFICIENT_BALANCE, "dead"),
        ("auth strikes", {"on_auth": "strike"}, Cause.AUTH_INVALID, "healthy s1"),
        ("auth stops", {"on_auth": "stop"}, Cause.AUTH_INVALID, "healthy"),
        ("permission kills", {"on_permission": "dead"}, Cause.PERMISSION_DENIED, "dead"),
        ("permission stops", {"on_permission": "stop"}, Cause.PERMISSION_DENIED, "healthy"),
        ("timeouts do not cool", {"timeouts_cool": False, "strikes": 1}, Cause.TIMEOUT, "healthy"),
        ("but 5xx do", {"timeouts_cool": False, "strikes": 1}, Cause.SERVER_ERROR, "cooling 60 s1 t1"),
        ("keypool's 402", PRESETS["keypool"], Cause.INSUFFICIENT_BALANCE, "dead"),
        ("keypool's 5xx", {**PRESETS["keypool"], "strikes": 1}, Cause.SERVER_ERROR, "cooling 300 s1 t1"),
        ("no representable end", {"cool_balance_s": 1e300}, Cause.INSUFFICIENT_BALANCE, "cooling 3.16224e+07"),
    ],
)
def test_the_policy_decides(case: str, policy: dict[str, object], cause: Cause, expected: str) -> None:
    following = after(FRESH, outcome(cause), overridden(STANDARD, policy), NOW, None, "gpt")
    assert summary(following) == expected


def test_a_stated_limit_lengthens_a_strike_cooling_and_takes_it_over() -> None:
    state = after(STATES["tripped"], outcome(Cause.RATE_LIMITED, 500), STANDARD, NOW, s(-1))
    assert (left_s(state, NOW), state.cause, state.by_strikes) == (500, Cause.RATE_LIMITED, False)


def test_a_probe_lets_only_a_strike_cooling_half_open() -> None:
    early = probed(STATES["tripped"], NOW)
    assert summary(early) == "healthy half-open t2"
    assert summary(after(early, outcome(Cause.SERVER_ERROR), STANDARD, s(1), s(0.5)), s(1)) == "cooling 240 s1 t3"
    for name in ("healthy", "struck", "limited", "half-open", "dead"):
        assert probed(STATES[name], NOW) is STATES[name]


def test_a_balance_ends_only_a_cooling_for_balance() -> None:
    broke = after(FRESH, outcome(Cause.INSUFFICIENT_BALANCE), STANDARD, NOW)
    assert funded(broke, s(9)) == KeyState(since=s(9))
    assert after(funded(broke, s(9)), outcome(Cause.INSUFFICIENT_BALANCE), STANDARD, s(10), s(8)).until is None
    killed = after(FRESH, outcome(Cause.INSUFFICIENT_BALANCE), replace(STANDARD, on_balance="dead"), NOW)
    for state in (killed, STATES["limited"], STATES["tripped"], STATES["dead"], FRESH):
        assert funded(state, NOW) is state


def test_reviving_starts_a_new_epoch_without_memory() -> None:
    state = after(STATES["dead"], outcome(Cause.MODEL_UNAVAILABLE), STANDARD, NOW, None, "gpt")
    assert revived(state, NOW) == KeyState(epoch=1, since=NOW)
    assert revived(state, NOW, 7) == KeyState(epoch=7, since=NOW)


@pytest.mark.parametrize("step_s", [-86400, -5, 5, 86400])
def test_a_clock_step_moves_a_cooling_by_the_step_and_no_more(step_s: float) -> None:
    state = after(FRESH, outcome(Cause.RATE_LIMITED, 60), STANDARD, NOW)
    assert left_s(state, s(step_s)) == max(0, 60 - step_s)


def test_failures_count_while_the_clock_stands_before_the_last_trip() -> None:
    state = KeyState(since=s(3600))
    assert after(state, outcome(Cause.SERVER_ERROR), STANDARD, NOW, s(-1)).strikes == 1


def test_a_strike_while_cooling_is_ignored() -> None:
    assert struck(STATES["limited"], outcome(Cause.TIMEOUT), STANDARD, NOW) is STATES["limited"]


@pytest.mark.parametrize(
    ("case", "one", "other", "expected"),
    [
        ("newer epoch", STATES["dead"], KeyState(epoch=1), "healthy"),
        ("dead wins", STATES["dead"], STATES["tripped"], "dead s3 t2"),
        ("later end", STATES["tripped"], replace(STATES["limited"], until=s(200)), "cooling 200 s3 t2"),
        ("healthy and struck", FRESH, STATES["struck"], "healthy s2 t1"),
    ],
)
def test_joining_what_two_processes_learnt(case: str, one: KeyState, other: KeyState, expected: str) -> None:
    assert summary(merged(one, other)) == expected
    assert merged(one, other) == merged(other, one)
    assert merged(one, one) == one


# What holds in any history.

events = st.tuples(
    st.sampled_from(list(Cause)),
    st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True)),
    st.floats(0, 700),  # seconds since the event before
    st.floats(0, 900),  # how long the attempt took
)
policies = st.sampled_from([STANDARD, KEYPOOL, *(overridden(STANDARD, PRESETS[name]) for name in ("relay", "strict"))])


@given(st.lists(events, max_size=40), policies)
def test_dead_is_absorbing(history: list[tuple[Cause, float | None, float, float]], policy: Policy) -> None:
    state, at = STATES["dead"], NOW
    for cause, wait_s, gap, took in history:
        at += timedelta(seconds=gap)
        state = after(state, outcome(cause, wait_s), policy, at, at - timedelta(seconds=took), "gpt")
        assert state.status is Status.DEAD


@given(st.lists(events, max_size=40), policies)
def test_a_running_cooling_never_ends_earlier(
    history: list[tuple[Cause, float | None, float, float]], policy: Policy
) -> None:
    state, at = FRESH, NOW
    for cause, wait_s, gap, took in history:
        at += timedelta(seconds=gap)
        old, began = state, at - timedelta(seconds=took)
        state = after(old, outcome(cause, wait_s), policy, at, began, "gpt")
        if status_at(old, at) is Status.COOLING and state.status is not Status.DEAD:
            proven = cause is Cause.SERVED and old.by_strikes and old.since is not None and began > old.since
            assert proven or (state.until is not None and old.until is not None and state.until >= old.until)
        if old.since is not None and began <= old.since:
            assert state is old
        assert left_s(state, at) <= 7 * 86400
