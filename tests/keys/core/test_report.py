"""What a report changes, whom it concerns, and how a key then stands."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from keys.core.admission import Admission, Block
from keys.core.outcome import Cause, Outcome, Scope, Verdict
from keys.core.policy import Policy
from keys.core.report import (
    Change,
    Part,
    Report,
    Skip,
    Standing,
    is_broke,
    reported,
    standing_of,
    target_of,
    targets_of,
)
from keys.core.state import FRESH, KeyState, Rest, Status

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
POLICY = Policy()


def s(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def report(cause: Cause, scope: Scope = Scope.KEY, account: int | None = 7, **fields: object) -> Report:
    made = Report(1, account, "gpt", Outcome(cause, Verdict.NEXT, scope), s(-1), 0)
    return replace(made, **fields)  # type: ignore[arg-type]


COOLING = KeyState(status=Status.COOLING, until=s(60), since=s(-5), cause=Cause.RATE_LIMITED)
TRIPPED = replace(COOLING, cause=Cause.TIMEOUT, by_strikes=True, strikes=3)
DEAD = KeyState(status=Status.DEAD, cause=Cause.AUTH_INVALID)
OVER = replace(COOLING, until=s(-1))


@pytest.mark.parametrize(
    ("cause", "scope", "account", "expected"),
    [
        (Cause.INSUFFICIENT_BALANCE, Scope.ACCOUNT, 7, ("account:7",)),
        (Cause.INSUFFICIENT_BALANCE, Scope.ACCOUNT, None, ("key:1",)),
        (Cause.QUOTA_EXHAUSTED, Scope.KEY, 7, ("key:1",)),
        (Cause.MODEL_UNAVAILABLE, Scope.KEY_MODEL, 7, ("key:1",)),
        (Cause.SERVED, Scope.NONE, 7, ("key:1", "account:7")),
        (Cause.SERVED, Scope.NONE, None, ("key:1",)),
    ],
)
def test_whom_an_outcome_concerns(cause: Cause, scope: Scope, account: int | None, expected: tuple[str, ...]) -> None:
    assert targets_of(report(cause, scope, account)) == expected
    assert target_of(report(cause, scope, account)) == expected[0]


@pytest.mark.parametrize(
    ("case", "state", "told", "expected"),
    [
        ("stale epoch", KeyState(epoch=2), report(Cause.AUTH_INVALID, epoch=1), "healthy 2"),
        ("same epoch", KeyState(epoch=1), report(Cause.AUTH_INVALID, epoch=1), "dead 1"),
        ("newer epoch", replace(DEAD, epoch=1), report(Cause.SERVED, epoch=2), "healthy 2"),
        ("probe's success", TRIPPED, report(Cause.SERVED, probe=True), "cooling 0"),
        ("probe's failure", FRESH, report(Cause.AUTH_INVALID, probe=True), "dead 0"),
        ("a death waits", FRESH, report(Cause.AUTH_INVALID, part=Part.PROMPT), "healthy 0"),
        ("and comes late", FRESH, report(Cause.AUTH_INVALID, part=Part.LATE), "dead 0"),
        ("a limit does not wait", FRESH, report(Cause.RATE_LIMITED, part=Part.PROMPT), "cooling 0"),
        ("nor comes twice", FRESH, report(Cause.RATE_LIMITED, part=Part.LATE), "healthy 0"),
        ("size is no strike", FRESH, report(Cause.SERVER_ERROR, Scope.NONE, part=Part.LATE), "healthy 0"),
    ],
)
def test_reports(case: str, state: KeyState, told: Report, expected: str) -> None:
    following = reported(state, told, POLICY, NOW, "key:1")
    assert f"{following.status.value} {following.epoch}" == expected


def test_accounts_have_no_epoch_of_a_key() -> None:
    told = report(Cause.INSUFFICIENT_BALANCE, Scope.ACCOUNT, epoch=9)
    following = reported(KeyState(epoch=2), told, POLICY, NOW, "account:7")
    assert (following.status, following.epoch) == (Status.COOLING, 2)


def test_a_refused_pair_rests_before_its_strike() -> None:
    told = report(Cause.PERMISSION_DENIED, Scope.KEY_MODEL, part=Part.PROMPT)
    following = reported(FRESH, told, POLICY, NOW, "key:1")
    assert (following.strikes, following.models) == (0, (Rest("gpt", s(600), Cause.PERMISSION_DENIED),))
    again = reported(following, told, POLICY, NOW, "key:1")
    assert again is following
    late = reported(following, replace(told, part=Part.LATE), POLICY, NOW, "key:1")
    assert (late.strikes, late.models) == (1, following.models)


@pytest.mark.parametrize(
    ("case", "old", "new", "entered", "ended"),
    [
        ("nothing", FRESH, FRESH, False, False),
        ("a strike", FRESH, KeyState(strikes=1), False, False),
        ("cools", FRESH, COOLING, True, False),
        ("dies", FRESH, DEAD, True, False),
        ("dies while cooling", COOLING, DEAD, True, False),
        ("opens again for the same", OVER, COOLING, False, False),
        ("opens again for something else", OVER, replace(COOLING, cause=Cause.INSUFFICIENT_BALANCE), True, False),
        ("strikes of another kind", TRIPPED, replace(TRIPPED, cause=Cause.OVERLOADED, trips=2), False, False),
        ("half open early", TRIPPED, replace(TRIPPED, status=Status.HEALTHY, until=NOW), False, False),
        ("closes", OVER, KeyState(since=s(-5)), False, True),
        ("revived", DEAD, KeyState(epoch=1), False, True),
        ("still dead", DEAD, replace(DEAD, message="again"), False, False),
    ],
)
def test_what_deserves_an_alert(case: str, old: KeyState, new: KeyState, entered: bool, ended: bool) -> None:
    change = Change("key:1", old, new, NOW)
    assert (change.entered, change.ended, change.changed) == (entered, ended, old != new)


@pytest.mark.parametrize(
    ("case", "key", "account", "expected"),
    [
        ("healthy", FRESH, None, Standing()),
        ("dead", DEAD, COOLING, Standing(Skip.DEAD, None, cause=Cause.AUTH_INVALID)),
        ("dead account", COOLING, DEAD, Standing(Skip.DEAD, None, cause=Cause.AUTH_INVALID)),
        ("limited", COOLING, FRESH, Standing(Skip.COOLING, 60, cause=Cause.RATE_LIMITED)),
        ("tripped", TRIPPED, FRESH, Standing(Skip.COOLING, 60, cause=Cause.TIMEOUT, strikes=3, by_strikes=True)),
        (
            "tripped on a limited account",
            TRIPPED,
            COOLING,
            Standing(Skip.COOLING, 60, cause=Cause.TIMEOUT, strikes=3, by_strikes=False),
        ),
        (
            "the later end speaks",
            COOLING,
            replace(COOLING, until=s(90), cause=Cause.QUOTA_EXHAUSTED, reason="per_day"),
            Standing(Skip.QUOTA, 90, cause=Cause.QUOTA_EXHAUSTED, reason="per_day"),
        ),
        ("half open", OVER, None, Standing(half_open=True)),
        ("half open account", FRESH, OVER, Standing(half_open=True)),
        (
            "resting model",
            KeyState(models=(Rest("gpt", s(9), Cause.MODEL_UNAVAILABLE, "x"),)),
            None,
            Standing(Skip.MODEL, 9, cause=Cause.MODEL_UNAVAILABLE, reason="x"),
        ),
        (
            "model's quota",
            KeyState(models=(Rest("gpt", s(9), Cause.QUOTA_EXHAUSTED),)),
            None,
            Standing(Skip.QUOTA, 9, cause=Cause.QUOTA_EXHAUSTED),
        ),
        ("another model rests", KeyState(models=(Rest("o1", s(9), Cause.MODEL_UNAVAILABLE),)), None, Standing()),
    ],
)
def test_standings(case: str, key: KeyState, account: KeyState | None, expected: Standing) -> None:
    standing = standing_of(key, account, "gpt", NOW)
    assert standing == expected
    assert standing.available == (expected.skip is None)


def test_money_and_quota_are_not_waited_for() -> None:
    assert is_broke(Standing(Skip.QUOTA, 9, cause=Cause.QUOTA_EXHAUSTED))
    assert not is_broke(Standing(Skip.COOLING, 9, cause=Cause.RATE_LIMITED))


def test_the_nearest_end_of_several_blocks() -> None:
    blocks = (Block("key:1", "rpm", 9), Block("key:2", "concurrency"), Block("key:3", "rpm", 4))
    assert Admission(blocks=blocks).retry_after_s == 4
    assert Admission(blocks=blocks[1:2]).retry_after_s is None
