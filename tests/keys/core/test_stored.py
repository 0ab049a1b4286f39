"""States, counters and the pool as they are stored and shown."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keys.core.counts import Counts, error_text, loaded_counts
from keys.core.outcome import Cause, Outcome, Scope, Verdict
from keys.core.pool import Pool, pool_of_rows, reason_text
from keys.core.state import KeyState, Rest, Status
from keys.core.stored import dumped, loaded

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ends = st.integers(-(10**15), 10**15).map(lambda steps: NOW + timedelta(microseconds=steps))
moments = st.none() | ends
rests = st.builds(
    Rest,
    model=st.text(max_size=8),
    until=ends,
    cause=st.sampled_from(list(Cause)),
    reason=st.text(max_size=8),
)
states = st.builds(
    KeyState,
    status=st.sampled_from([Status.HEALTHY, Status.DEAD]),
    epoch=st.integers(0, 9),
    until=moments,
    since=moments,
    cause=st.none() | st.sampled_from(list(Cause)),
    reason=st.text(max_size=9),
    message=st.text(max_size=9),
    by_strikes=st.booleans(),
    strikes=st.integers(0, 9),
    trips=st.integers(0, 9),
    waits=st.integers(0, 9),
    models=st.lists(rests, max_size=3).map(tuple),
)


def outcome(cause: Cause, message: str = "", reason: str = "") -> Outcome:
    return Outcome(cause, Verdict.NEXT, Scope.KEY, message=message, reason=reason)


@given(states)
def test_a_state_comes_back_to_the_microsecond(state: KeyState) -> None:
    back = loaded(json.loads(json.dumps(dumped(state))))
    assert (back.state, back.warning) == (state, "")


def test_a_fresh_state_is_stored_in_two_fields() -> None:
    assert dumped(KeyState()) == {"status": "healthy", "epoch": 0}


@pytest.mark.parametrize(
    "values",
    [
        {"status": "frozen", "epoch": 4},
        {"status": "cooling", "epoch": 4},
        {"status": "cooling", "epoch": 4, "until": "tomorrow"},
        {"status": "cooling", "epoch": 4, "until": 1e300},
        {"status": "dead", "epoch": 4, "cause": "boredom"},
        {"status": "healthy", "epoch": 4, "models": [["gpt"]]},
        {"status": "healthy", "epoch": 4, "models": 7},
    ],
)
def test_what_is_not_understood_reads_as_healthy_with_a_warning(values: dict[str, Any]) -> None:
    read = loaded(values)
    assert read.state == KeyState(epoch=4)
    assert "read as healthy" in read.warning


@pytest.mark.parametrize("values", [None, 5, "dead", []])
def test_no_object_reads_as_healthy(values: object) -> None:
    assert loaded(values).state == KeyState()
    assert loaded(values).warning


@pytest.mark.parametrize("epoch", [-1, True, "3", None, 2.5])
def test_counts_that_are_none_read_as_zero(epoch: object) -> None:
    assert loaded({"status": "dead", "epoch": epoch, "strikes": epoch}).state == KeyState(status=Status.DEAD)


def test_counters_count_calls_failures_and_the_last_error() -> None:
    counts = Counts()
    for minute, cause in enumerate([Cause.SERVED, Cause.TIMEOUT, Cause.ABORTED, Cause.BAD_REQUEST]):
        counts.add(outcome(cause, "slow"), NOW + timedelta(minutes=minute))
    assert (counts.calls, counts.failures, counts.last_error, counts.last_served) == (4, 1, "timeout: slow", NOW)
    assert counts.failure_rate_1h(NOW) == 0.25
    assert counts.failure_rate_1h(NOW + timedelta(minutes=59)) == 0.25
    assert counts.failure_rate_1h(NOW + timedelta(minutes=60)) == 0.0
    assert (counts.calls_24h(NOW + timedelta(hours=23)), counts.calls_24h(NOW + timedelta(hours=24))) == (4, 0)


def test_counters_forget_old_buckets() -> None:
    counts = Counts()
    for minute in range(0, 60 * 48, 5):
        counts.add(outcome(Cause.SERVED), NOW + timedelta(minutes=minute))
    assert (len(counts.recent), len(counts.hours), counts.calls) == (12, 24, 576)


def test_counters_come_back() -> None:
    counts = Counts()
    counts.add(outcome(Cause.SERVED), NOW)
    counts.add(outcome(Cause.TIMEOUT), NOW)
    assert loaded_counts(json.loads(json.dumps(counts.dumped()))) == counts
    assert loaded_counts(Counts().dumped()) == Counts()


@pytest.mark.parametrize("values", [None, {"calls": "many"}, {"recent": {"x": [1, 2]}}, {"recent": {"1": [1]}}])
def test_damaged_counters_start_anew(values: object) -> None:
    assert loaded_counts(values) == Counts()


def test_the_last_error_fits() -> None:
    assert error_text(outcome(Cause.TIMEOUT)) == "timeout"
    assert error_text(outcome(Cause.TIMEOUT, "x" * 151)) == "timeout: " + "x" * 151
    assert error_text(outcome(Cause.TIMEOUT, "x" * 152)) == "timeout: " + "x" * 150 + "…"


def test_a_row_of_the_pool() -> None:
    state = KeyState(
        status=Status.COOLING,
        epoch=2,
        until=NOW + timedelta(seconds=42.04),
        cause=Cause.QUOTA_EXHAUSTED,
        reason="per_day",
        strikes=1,
        trips=3,
        models=(
            Rest("gpt", NOW + timedelta(seconds=5), Cause.MODEL_UNAVAILABLE),
            Rest("old", NOW, Cause.MODEL_UNAVAILABLE),
        ),
    )
    counts = Counts()
    counts.add(outcome(Cause.QUOTA_EXHAUSTED, "no more today"), NOW)
    assert Pool({"key:1": state}, {1: counts}, NOW).sheet(1).as_json() == {
        "status": "cooling",
        "cooling_left_s": 42.0,
        "reason": "quota_exhausted (per_day)",
        "strikes": 1,
        "trips": 3,
        "calls": 1,
        "failure_rate_1h": 1.0,
        "last_error": "quota_exhausted: no more today",
        "epoch": 2,
        "models": {"gpt": {"reason": "model_unavailable", "left_s": 5.0}},
    }


def test_the_account_shows_on_its_keys_and_dead_before_cooling() -> None:
    cooling = KeyState(status=Status.COOLING, until=NOW + timedelta(seconds=9), cause=Cause.INSUFFICIENT_BALANCE)
    dead = KeyState(status=Status.DEAD, cause=Cause.AUTH_INVALID)
    pool = Pool({"account:7": cooling, "key:2": dead}, {}, NOW)
    assert [(pool.sheet(1, 7).status, pool.sheet(1, 7).reason)] == [("cooling", "insufficient_balance")]
    assert (pool.sheet(2, 7).status, pool.sheet(2, 7).reason) == ("dead", "auth_invalid")
    assert (pool.sheet(1).status, pool.sheet(1).reason, pool.sheet(1).half_open) == ("healthy", "", False)
    later = Pool(pool.states, {}, NOW + timedelta(seconds=9)).sheet(1, 7)
    assert (later.status, later.reason, later.half_open) == ("healthy", "", True)
    assert reason_text(KeyState()) == ""


def test_the_persisted_copy_reads_as_a_pool() -> None:
    pool = pool_of_rows(
        {
            "key:1": {"state": {"status": "dead", "epoch": 1}, "counts": {"calls": 3}},
            "key:2": "damaged",
            "key:x": {"state": {"status": "dead", "epoch": 1}},
            "account:7": {"state": {"status": "healthy", "epoch": 0}},
            "record:a": {"value": 1},
        },
        NOW,
    )
    assert (pool.sheet(1).status, pool.sheet(1).calls, pool.sheet(2).status) == ("dead", 3, "healthy")
    assert pool.warnings == ("key:2: stored state is no object: read as healthy",)
    assert sorted(pool.states) == ["account:7", "key:1", "key:2", "key:x"]
