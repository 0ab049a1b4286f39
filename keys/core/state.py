"""The state machine of an upstream key, and of an account.

Theory. A target (a key or an account) is in one of three states:

    HEALTHY   usable.
    COOLING   unusable until `until`. Nothing needs to write its end: `rested()` reads an elapsed cooling as HEALTHY.
    DEAD      unusable until a person acts. Absorbing: `after()` never leaves it, only `revived()` does.

A HEALTHY state that still carries `until` is *half open*: its cooling is over but nobody has succeeded since. Then one
leased request goes first (the stores hold the lease, see `keys/stores`), every other request sees it busy. A success
closes it again (`until` gone, strikes and trips zero); a failure re-opens it with the next doubling.

Strikes are failures that the answer does not explain (5xx, connection, timeout). The third in a row is a *trip*: a
cooling of 60 s, doubling with each further trip to 600 s. Limits and empty balances state, or imply, their own end.

`since` is the start of the last cooling. An attempt that began no later than that learnt nothing about what came
after, so it changes nothing here: fifty parallel failures are one trip, and a late success ends nothing.

The end of a cooling never moves earlier, with two exceptions that lie outside `after()` or in real traffic: a person
(`revived`, `funded`), and evidence that the key works again while it cools by strikes: a health probe makes it half
open early (`probed`), and a request that dared to use it and was served closes it. A strike during a cooling never
lengthens it; a limit stated by the upstream may.

A key remembers the models it does not serve (`models`): those pairs rest, its health is untouched by them.

Accounts use the same machine. They never strike; cooling comes from the balance or the quota.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from math import isnan

from keys.core.outcome import Cause, Outcome, Scope
from keys.core.policy import Policy
from tenants.core.values import valueclass

RATE_WAIT_MIN_S = 1.0
RATE_UNSTATED_MAX_S = 600.0  # where the doubling of waits that nobody stated ends
QUOTA_WAIT_MAX_S = 7 * 86400.0
LONGEST_S = 366 * 86400.0  # bounds what a policy can ask for, so that dates stay representable
MAX_DOUBLINGS = 30
MODELS_MAX = 256  # resting pairs remembered per key

STRIKING = frozenset({Cause.OVERLOADED, Cause.SERVER_ERROR, Cause.CONNECTION, Cause.TIMEOUT})
# Says nothing about the key: the client's own fault, or the client left.
NEUTRAL = frozenset({Cause.ABORTED, Cause.BAD_REQUEST, Cause.CONTENT_FILTERED, Cause.CONTEXT_TOO_LONG})
BROKE = frozenset({Cause.INSUFFICIENT_BALANCE, Cause.QUOTA_EXHAUSTED})


class Status(StrEnum):
    HEALTHY = "healthy"
    COOLING = "cooling"
    DEAD = "dead"


@valueclass(frozen=True, slots=True)
class Rest:
    """One model that a key does not serve until `until`."""

    model: str
    until: datetime
    cause: Cause
    reason: str = ""


@valueclass(frozen=True, slots=True)
class KeyState:
    """State of a key or an account. The module's docstring holds the theory.

    `cause`, `reason` and `message` say why the present or last cooling (or death) came; they are kept while half
    open. `by_strikes` tells a trip from a cooling that the upstream asked for. `waits` counts consecutive coolings
    for limits without a stated end (their doubling).
    """

    status: Status = Status.HEALTHY
    epoch: int = 0
    until: datetime | None = None
    since: datetime | None = None
    cause: Cause | None = None
    reason: str = ""
    message: str = ""
    by_strikes: bool = False
    strikes: int = 0
    trips: int = 0
    waits: int = 0
    models: tuple[Rest, ...] = ()


FRESH = KeyState()


def status_at(state: KeyState, now: datetime) -> Status:
    """The status at a moment: an elapsed cooling is HEALTHY."""
    if state.status is Status.COOLING and (state.until is None or state.until <= now):
        return Status.HEALTHY
    return state.status


def rested(state: KeyState, now: datetime) -> KeyState:
    """The whole state at a moment: once a cooling is over, strikes are zero and trips are kept."""
    if status_at(state, now) is not state.status:
        return replace(state, status=Status.HEALTHY, strikes=0)
    return state


def is_half_open(state: KeyState, now: datetime) -> bool:
    """Whether the next request must hold the lease."""
    return state.until is not None and status_at(state, now) is Status.HEALTHY


def left_s(state: KeyState, now: datetime) -> float:
    """Seconds of cooling left; 0 when it is not cooling."""
    if state.until is None or state.status is not Status.COOLING:
        return 0.0
    return max(0.0, (state.until - now).total_seconds())


def resting(state: KeyState, model: str, now: datetime) -> Rest | None:
    """The running rest of a key-and-model pair."""
    return next((rest for rest in state.models if rest.model == model and rest.until > now), None)


def is_stale(state: KeyState, began: datetime | None, now: datetime) -> bool:
    """Whether an attempt began before the present cooling or the last trip.

    A start that lies in the future means that the clock stepped back: it is no yardstick then.
    """
    return began is not None and state.since is not None and began <= state.since <= now


def after(
    state: KeyState,
    outcome: Outcome,
    policy: Policy,
    now: datetime,
    began: datetime | None = None,
    model: str = "",
) -> KeyState:
    """Return the state that follows one attempt.

    The caller picks the target by `outcome.scope` (see `keys.core.report.target_of`) and has compared epochs.
    `began` is the attempt's start, None = now. Returns the very same object when nothing changed.
    """
    seen = rested(state, now)
    if seen.status is Status.DEAD or is_stale(seen, began, now) or explains_nothing(outcome):
        return state
    if outcome.cause is Cause.SERVED:
        return _succeeded(state, seen)
    following = _EFFECTS[outcome.cause](seen, outcome, policy, now, model)
    return state if following == seen else following


def explains_nothing(outcome: Outcome) -> bool:
    """True for answers that are about the request alone: neither strike nor success."""
    if outcome.cause in NEUTRAL or outcome.reason == "size":
        return True
    return outcome.cause is not Cause.SERVED and outcome.scope in (Scope.NONE, Scope.REQUEST)


def is_failure(outcome: Outcome) -> bool:
    """Whether the counters call it a failure of the key."""
    return outcome.cause is not Cause.SERVED and outcome.cause not in NEUTRAL and outcome.reason != "size"


def strikes_by(outcome: Outcome, policy: Policy) -> bool:
    """Whether this outcome is a strike under the policy; such effects wait for the chain's end (poison guard)."""
    if explains_nothing(outcome):
        return False
    match outcome.cause:
        case Cause.TIMEOUT:
            return policy.timeouts_cool
        case Cause.AUTH_INVALID:
            return policy.on_auth == "strike"
        case Cause.PERMISSION_DENIED:
            return policy.on_permission == "strike"
        case cause:
            return cause in STRIKING


def kills(outcome: Outcome, policy: Policy) -> bool:
    """Whether this outcome ends the key for its credentials (the poison guard may hold that back)."""
    return outcome.cause is Cause.AUTH_INVALID and policy.on_auth == "dead" and not explains_nothing(outcome)


def struck(state: KeyState, outcome: Outcome, policy: Policy, now: datetime) -> KeyState:
    """Add one strike, and trip when it is the last one allowed or the key is half open."""
    if state.status is Status.COOLING:
        return state
    strikes = state.strikes + 1
    if strikes < policy.strikes and not is_half_open(state, now):
        return replace(state, strikes=strikes)
    wait = _doubled(policy.cool_strike_s, state.trips, policy.cool_strike_max_s)
    tripped = _cooled(state, outcome, now, wait)
    return replace(tripped, by_strikes=True, strikes=strikes, trips=state.trips + 1)


def revived(state: KeyState, now: datetime, epoch: int | None = None) -> KeyState:
    """A person's word: a fresh state in a new epoch (the next one unless given).

    `since` makes attempts that are still under way stale, also where reports carry no epoch (accounts).
    """
    return KeyState(epoch=state.epoch + 1 if epoch is None else epoch, since=now)


def probed(state: KeyState, now: datetime) -> KeyState:
    """A health probe succeeded: a cooling by strikes becomes half open now. Others know their end better."""
    if state.by_strikes and status_at(state, now) is Status.COOLING:
        return replace(state, status=Status.HEALTHY, strikes=0, until=now)
    return state


def funded(state: KeyState, now: datetime) -> KeyState:
    """A balance read above zero: a cooling for lack of balance is over."""
    if state.status is not Status.DEAD and state.cause is Cause.INSUFFICIENT_BALANCE and state.until is not None:
        return _closed(state, since=now)
    return state


def merged(one: KeyState, other: KeyState) -> KeyState:
    """Join what two processes learnt while they could not agree.

    The newer epoch wins; then DEAD; then the later end. Order does not matter.
    """
    if one.epoch != other.epoch:
        return max(one, other, key=lambda state: state.epoch)
    first, second = sorted((one, other), key=_severity, reverse=True)
    pairs = {rest.model: rest for rest in sorted(first.models + second.models, key=lambda rest: rest.until)}
    return replace(
        first,
        strikes=max(first.strikes, second.strikes),
        trips=max(first.trips, second.trips),
        waits=max(first.waits, second.waits),
        since=max((s for s in (first.since, second.since) if s is not None), default=None),
        models=tuple(sorted(pairs.values(), key=lambda rest: rest.model)),
    )


def _severity(state: KeyState) -> tuple[bool, float, str]:
    return (state.status is Status.DEAD, state.until.timestamp() if state.until else 0.0, str(state))


def _succeeded(state: KeyState, seen: KeyState) -> KeyState:
    if seen.status is Status.COOLING and not seen.by_strikes:
        return state
    if seen.until is None and not (seen.strikes or seen.trips or seen.waits):
        return state
    return _closed(seen, since=seen.since)


def _closed(state: KeyState, since: datetime | None) -> KeyState:
    return KeyState(epoch=state.epoch, since=since, models=state.models)


def _balance(state: KeyState, outcome: Outcome, policy: Policy, now: datetime, model: str) -> KeyState:
    if policy.on_balance == "dead":
        return _died(state, outcome, now)
    return _cooled(state, outcome, now, policy.cool_balance_s)


def _quota(state: KeyState, outcome: Outcome, policy: Policy, now: datetime, model: str) -> KeyState:
    stated = _credible(outcome.wait_s)
    # A reset that has passed does not explain a quota that is still used up.
    wait = min(stated, QUOTA_WAIT_MAX_S) if stated is not None and stated > 0 else policy.cool_quota_s
    if outcome.scope is Scope.KEY_MODEL:
        return _paired(state, outcome, now, max(wait, RATE_WAIT_MIN_S), model)
    return _cooled(state, outcome, now, wait)


def _rate(state: KeyState, outcome: Outcome, policy: Policy, now: datetime, model: str) -> KeyState:
    stated = _credible(outcome.wait_s) if policy.obey_retry_after else None
    if stated is not None:
        wait = max(RATE_WAIT_MIN_S, min(stated, policy.cool_429_max_s))
    else:
        ceiling = min(policy.cool_429_max_s, max(RATE_UNSTATED_MAX_S, policy.cool_429_s))
        wait = _doubled(policy.cool_429_s, state.waits, ceiling)
    if outcome.scope is Scope.KEY_MODEL:
        return _paired(state, outcome, now, wait, model)
    cooled = _cooled(state, outcome, now, wait)
    if stated is None and cooled is not state:
        return replace(cooled, waits=state.waits + 1)
    return cooled


def _auth(state: KeyState, outcome: Outcome, policy: Policy, now: datetime, model: str) -> KeyState:
    return _refused(policy.on_auth, state, outcome, policy, now)


def _permission(state: KeyState, outcome: Outcome, policy: Policy, now: datetime, model: str) -> KeyState:
    if policy.on_permission == "strike":
        state = _paired(state, outcome, now, policy.model_memory_s, model)
    return _refused(policy.on_permission, state, outcome, policy, now)


def _refused(how: str, state: KeyState, outcome: Outcome, policy: Policy, now: datetime) -> KeyState:
    match how:
        case "dead":
            return _died(state, outcome, now)
        case "strike":
            return struck(state, outcome, policy, now)
        case _:  # stop: the client gets the refusal, the key stays as it is
            return state


def _model(state: KeyState, outcome: Outcome, policy: Policy, now: datetime, model: str) -> KeyState:
    return _paired(state, outcome, now, policy.model_memory_s, model)


def _strike(state: KeyState, outcome: Outcome, policy: Policy, now: datetime, model: str) -> KeyState:
    return struck(state, outcome, policy, now) if strikes_by(outcome, policy) else state


_EFFECTS: Mapping[Cause, Callable[[KeyState, Outcome, Policy, datetime, str], KeyState]] = {
    Cause.INSUFFICIENT_BALANCE: _balance,
    Cause.QUOTA_EXHAUSTED: _quota,
    Cause.RATE_LIMITED: _rate,
    Cause.AUTH_INVALID: _auth,
    Cause.PERMISSION_DENIED: _permission,
    Cause.MODEL_UNAVAILABLE: _model,
    **dict.fromkeys(STRIKING, _strike),
}


def _cooled(state: KeyState, outcome: Outcome, now: datetime, wait_s: float) -> KeyState:
    until = now + timedelta(seconds=min(max(wait_s, 0.0), LONGEST_S))
    if state.status is Status.COOLING and state.until is not None and until <= state.until:
        return state
    return replace(
        state,
        status=Status.COOLING,
        until=until,
        since=now,
        cause=outcome.cause,
        reason=outcome.reason,
        message=outcome.message,
        by_strikes=False,
    )


def _died(state: KeyState, outcome: Outcome, now: datetime) -> KeyState:
    return replace(
        state,
        status=Status.DEAD,
        until=None,
        since=now,
        cause=outcome.cause,
        reason=outcome.reason,
        message=outcome.message,
        by_strikes=False,
    )


def _paired(state: KeyState, outcome: Outcome, now: datetime, wait_s: float, model: str) -> KeyState:
    """Let one model rest. Never shortens a running rest; forgets elapsed ones."""
    until = now + timedelta(seconds=min(max(wait_s, 0.0), LONGEST_S))
    running = {rest.model: rest for rest in state.models if rest.until > now}
    if model not in running or running[model].until < until:
        running[model] = Rest(model, until, outcome.cause, outcome.reason)
    kept = sorted(running.values(), key=lambda rest: rest.until, reverse=True)[:MODELS_MAX]
    return replace(state, models=tuple(sorted(kept, key=lambda rest: rest.model)))


def _credible(wait_s: float | None) -> float | None:
    return None if wait_s is None or isnan(wait_s) else wait_s


def _doubled(base_s: float, times: int, ceiling_s: float) -> float:
    return float(min(base_s * 2 ** min(times, MAX_DOUBLINGS), ceiling_s))
