"""What is told to a state store about an attempt, and what it answers."""

from dataclasses import replace
from datetime import datetime
from enum import StrEnum

from keys.core.outcome import Cause, Outcome, Scope
from keys.core.policy import Policy
from keys.core.state import (
    BROKE,
    KeyState,
    Status,
    after,
    is_half_open,
    kills,
    left_s,
    rested,
    resting,
    revived,
    status_at,
    strikes_by,
)
from tenants.core.values import valueclass


class Part(StrEnum):
    """Which part of a report to apply. The poison guard needs strikes and deaths kept back until the chain's end."""

    WHOLE = "whole"
    PROMPT = "prompt"  # all but strikes and deaths for credentials
    LATE = "late"  # those alone; counters were already changed by PROMPT


class Skip(StrEnum):
    """Why a key is not a candidate. The values are those of an attempt's `skipped`."""

    COOLING = "cooling"
    DEAD = "dead"
    BUSY = "busy"
    MODEL = "model"
    CONTEXT = "context"
    QUOTA = "quota"


@valueclass(frozen=True, slots=True)
class Report:
    """One attempt as the store needs it.

    `model` is the name sent upstream. `account_id` None = the key has a balance of its own. `epoch` is the one that
    `Standing` showed when the attempt was planned. `probe` marks health probes: they count as no call, and their
    success only lets a strike cooling half open. `first_ms`: milliseconds from sending to first content, or those of
    silence; None when neither was measured.
    """

    key_id: int
    account_id: int | None
    model: str
    outcome: Outcome
    began: datetime
    epoch: int
    part: Part = Part.WHOLE
    probe: bool = False
    first_ms: float | None = None


@valueclass(frozen=True, slots=True)
class Change:
    """What a report did to one target (`key:12`, `account:3`)."""

    target: str
    old: KeyState
    new: KeyState
    now: datetime

    @property
    def changed(self) -> bool:
        return self.old is not self.new and self.old != self.new

    @property
    def entered(self) -> bool:
        """A state worth an alert began. Re-opening for the same cause after a lease is the same state going on."""
        if self.new.status is Status.HEALTHY or not self.changed:
            return False
        if self.new.status is Status.DEAD or self.old.until is None:
            return self.old.status is not self.new.status
        return _kind(self.old) != _kind(self.new)

    @property
    def ended(self) -> bool:
        """A cooling or death is over for good: closed by a success, a person or a balance."""
        was = self.old.status is Status.DEAD or self.old.until is not None
        return was and self.new.status is Status.HEALTHY and self.new.until is None


@valueclass(frozen=True, slots=True)
class Standing:
    """A key-and-model pair as decisions see it.

    `skip` None = available; `left_s` None = nobody knows (dead). `cause` is that of the cooling, death or rest.
    `by_strikes`: cools by strikes alone, so it may be tried when nothing else is left. `half_open`: the request must
    hold the probe lease (admission takes it).
    """

    skip: Skip | None = None
    left_s: float | None = 0.0
    epoch: int = 0
    cause: Cause | None = None
    reason: str = ""
    strikes: int = 0
    by_strikes: bool = False
    half_open: bool = False

    @property
    def available(self) -> bool:
        return self.skip is None


def key_target(key_id: int) -> str:
    return f"key:{key_id}"


def account_target(account_id: int) -> str:
    return f"account:{account_id}"


def target_of(report: Report) -> str:
    """Where the effect falls. Without an account, the key carries its own balance."""
    if report.outcome.scope is Scope.ACCOUNT and report.account_id is not None:
        return account_target(report.account_id)
    return key_target(report.key_id)


def targets_of(report: Report) -> tuple[str, ...]:
    """All states that a report may change: a success closes the account's half-open state, too."""
    if report.outcome.cause is Cause.SERVED and report.account_id is not None:
        return (key_target(report.key_id), account_target(report.account_id))
    return (target_of(report),)


def reported(state: KeyState, report: Report, policy: Policy, now: datetime, target: str) -> KeyState:
    """Apply a report to the state of one of its targets: epochs, parts, then `after()`.

    A stale epoch changes nothing. A newer one than the store knows (it lost its memory) starts fresh.
    """
    if target.startswith("key:"):
        if report.epoch < state.epoch:
            return state
        if report.epoch > state.epoch:
            state = replace(revived(state, now, report.epoch), since=None)
    if report.probe and report.outcome.cause is Cause.SERVED:
        return state
    late = strikes_by(report.outcome, policy) or kills(report.outcome, policy)
    if report.part is Part.PROMPT and late:
        return _pair_only(state, report, policy, now)
    if report.part is Part.LATE and not late:
        return state
    return after(state, report.outcome, policy, now, report.began, report.model)


def _pair_only(state: KeyState, report: Report, policy: Policy, now: datetime) -> KeyState:
    """The rest of a refused pair needs no second opinion; its strike does."""
    if report.outcome.cause is not Cause.PERMISSION_DENIED:
        return state
    as_model = replace(report.outcome, cause=Cause.MODEL_UNAVAILABLE)
    paired = after(state, as_model, policy, now, report.began, report.model)
    rests = tuple(
        replace(rest, cause=Cause.PERMISSION_DENIED) if rest.model == report.model else rest for rest in paired.models
    )
    return state if paired is state else replace(paired, models=rests)


def standing_of(key: KeyState, account: KeyState | None, model: str, now: datetime) -> Standing:
    """Judge a key-and-model pair from its states; leases and slots are the stores' knowledge.

    The state that blocks longest speaks: dead, then the later end of key and account, then the pair's rest.
    """
    states = [s for s in (key, account) if s is not None]
    blocked = max(states, key=lambda state: _weight(state, now))
    status = status_at(blocked, now)
    half_open = any(is_half_open(state, now) for state in states)
    base = Standing(epoch=key.epoch, strikes=rested(key, now).strikes, half_open=half_open)
    if status is not Status.HEALTHY:
        return _blocked(base, blocked, status, states, now)
    rest = resting(key, model, now)
    if rest is not None:
        skip = Skip.QUOTA if rest.cause is Cause.QUOTA_EXHAUSTED else Skip.MODEL
        left = (rest.until - now).total_seconds()
        return replace(base, skip=skip, left_s=left, cause=rest.cause, reason=rest.reason)
    return base


def _blocked(base: Standing, blocked: KeyState, status: Status, states: list[KeyState], now: datetime) -> Standing:
    if status is Status.DEAD:
        return replace(base, skip=Skip.DEAD, left_s=None, cause=blocked.cause, reason=blocked.reason)
    cooling = [state for state in states if status_at(state, now) is Status.COOLING]
    return replace(
        base,
        skip=Skip.QUOTA if blocked.cause is Cause.QUOTA_EXHAUSTED else Skip.COOLING,
        left_s=left_s(blocked, now),
        cause=blocked.cause,
        reason=blocked.reason,
        by_strikes=all(state.by_strikes for state in cooling),
    )


def is_broke(standing: Standing) -> bool:
    """Out of money or quota: never tried, and waiting is useless."""
    return standing.cause in BROKE


def _weight(state: KeyState, now: datetime) -> tuple[bool, float]:
    return (state.status is Status.DEAD, left_s(state, now))


def _kind(state: KeyState) -> Cause | str | None:
    return "strikes" if state.by_strikes else state.cause
