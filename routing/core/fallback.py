"""What to do when nothing is available, and how a failure changes the order of what is left."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import ceil

from keys.core.outcome import Cause, Outcome, Scope, Verdict
from keys.core.policy import Policy
from routing.core.decision import Bar, Candidate, Refusal, RefusalKind
from routing.core.seats import Seat, candidate_of, is_struck

STRUCK_MAX = 2
AWAIT_MAX_S = 5.0
BUSY_RETRY_S = 5.0
RETRY_MIN_S, RETRY_MAX_S = 1, 60
HOPELESS_S = 600.0

# Faults of the endpoint rather than of the key, and of what it offers: its other keys will hardly do better.
_UPSTREAM_WIDE = frozenset(
    {Cause.OVERLOADED, Cause.SERVER_ERROR, Cause.CONNECTION, Cause.TIMEOUT, Cause.MODEL_UNAVAILABLE}
)


def reorder_after(rest: Sequence[Candidate], failed: Candidate, outcome: Outcome) -> tuple[Candidate, ...]:
    """Return what is left to try, in order, after one attempt failed.

    Endpoint trouble sends that upstream's other keys to the end; an empty or used-up account takes its other keys away;
    a request too long goes to larger windows only (an unknown one is not larger). A failed key never comes back.
    """
    if outcome.verdict is not Verdict.NEXT:
        return ()
    left = tuple(candidate for candidate in rest if candidate.key_id != failed.key_id)
    if outcome.scope is Scope.ACCOUNT:
        return tuple(candidate for candidate in left if candidate.balance != failed.balance)
    if outcome.cause is Cause.CONTEXT_TOO_LONG:
        return tuple(candidate for candidate in left if _is_larger(candidate, failed))
    if outcome.cause in _UPSTREAM_WIDE:
        others = tuple(candidate for candidate in left if candidate.upstream_id != failed.upstream_id)
        return others + tuple(candidate for candidate in left if candidate.upstream_id == failed.upstream_id)
    return left


def struck_of(seats: Iterable[Seat]) -> tuple[Candidate, ...]:
    """Return at most two keys that cool by strikes, soonest first."""
    struck = sorted((seat for seat in seats if is_struck(seat)), key=_left)
    return tuple(candidate_of(seat) for seat in struck[:STRUCK_MAX])


def awaited_of(seats: Iterable[Seat], struck: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Return the keys other than those `struck` that are at most 5 s from their end, soonest first."""
    named = {candidate.key_id for candidate in struck}
    soon = [
        seat
        for seat in seats
        if seat.eligible and seat.left_s is not None and seat.left_s <= AWAIT_MAX_S and seat.key.id not in named
    ]
    return tuple(
        replace(candidate_of(seat), wait_s=max(_left(seat), 0.0), wait_for="state") for seat in sorted(soon, key=_left)
    )


def waiting_of(seats: Iterable[Seat], policy: Policy) -> tuple[Candidate, ...]:
    """Return the keys that are full, lent to another request's probe, or at a cap that ends within the slot budget."""
    return tuple(
        replace(candidate_of(seat), wait_s=policy.slot_wait_s, wait_for="slot")
        for seat in seats
        if seat.bar is Bar.BUSY or (is_capped(seat) and _left(seat) <= policy.slot_wait_s)
    )


def is_capped(seat: Seat) -> bool:
    return seat.bar is Bar.QUOTA and seat.view.standing.skip is None


def refusal_for(seats: Sequence[Seat]) -> Refusal:
    """Return what to answer when nothing could be attempted. `seats`: the eligible ones, also of the last resort."""
    if all(seat.bar is Bar.MODEL and seat.view.standing.cause is Cause.MODEL_UNAVAILABLE for seat in seats):
        return Refusal(RefusalKind.MODEL_UNKNOWN, "No upstream has this model.", do_not_retry=True)
    waits = [_left(seat) for seat in seats if seat.bar is not Bar.DEAD]
    wait_s = min(waits, default=float("inf"))
    if wait_s == float("inf"):
        text = "No upstream key is available, and none comes back by itself."
        return Refusal(RefusalKind.NO_KEY, text, do_not_retry=True)
    kind = RefusalKind.LIMITED if all(_is_rate(seat) for seat in seats) else RefusalKind.NO_KEY
    whole = ceil(wait_s)
    return Refusal(
        kind,
        f"No upstream key is available; the first is expected back in {whole} s.",
        retry_after_s=min(max(whole, RETRY_MIN_S), RETRY_MAX_S),
        wait_s=wait_s,
        do_not_retry=wait_s > HOPELESS_S,
    )


def _left(seat: Seat) -> float:
    """Seconds until the key comes back. A full one, or one that others took meanwhile, should have a slot soon."""
    if seat.left_s is None:
        return BUSY_RETRY_S if seat.full or seat.usable else float("inf")
    return seat.left_s


def _is_rate(seat: Seat) -> bool:
    return seat.usable or seat.bar is Bar.BUSY or is_capped(seat) or seat.view.standing.cause is Cause.RATE_LIMITED


def _is_larger(candidate: Candidate, failed: Candidate) -> bool:
    return candidate.window is not None and failed.window is not None and candidate.window > failed.window
