"""Which upstream keys a request tries, in which order, and why not the others.

The order: hard pins narrow the choice; the group's strategy orders its members; each member's rotation orders its keys;
low water and slowness send keys to the end; a conversation that holds its key goes there first. The member that really
leads is charged to the rotations.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from routing.core.choose import choose, owner_for
from routing.core.decision import Bar, Candidate, Decision, Fallback, Hop, Refusal, RefusalKind, Target, group_scope
from routing.core.facts import Facts
from routing.core.fallback import awaited_of, is_capped, refusal_for, struck_of, waiting_of
from routing.core.seats import (
    Seat,
    candidate_of,
    cost_of,
    key_entries,
    member_entry,
    rotation_of,
    seats_of,
    skipped_of,
    sole_is_tried,
)
from routing.core.sticky import Hold, hold_of
from routing.core.strategies import NO_SCORES, Entry, Method, Moment, Ranking, charge, rank
from routing.core.table import RoutingTable
from routing.core.views import Charge, Situation
from tenants.core.values import valueclass

_DEFAULT_METHOD = Method("priority", "")
_INNER_STEP = 999_983  # a group and its members must not draw by the same number: some keys would never lead

_Contest: TypeAlias = tuple[Method, Sequence[Entry]]


@valueclass(frozen=True, slots=True)
class _Order:
    """Seats in the order of strategy and rotations, with what is needed to charge a lead."""

    hops: tuple[Hop, ...]
    seats: tuple[Seat, ...]
    ranking: Ranking
    key_rankings: dict[int, Ranking]  # by upstream
    group: _Contest
    keys: dict[int, _Contest]


def decide(facts: Facts, table: RoutingTable, situation: Situation, target: Target | None = None) -> Decision:
    """Return the decision. `target` is what `choose` gave for the same request, pin and owners; None = choose now."""
    if target is None:
        target = choose(facts, table, situation.now, situation.pin, situation.owners)
    if target.refusal is not None:
        return Decision(target, refusal=target.refusal)
    hold = hold_of(situation.pin, facts, situation.now)
    seats = sole_is_tried(seats_of(target.hops, target, facts, situation, held=hold is not None))
    last_hops = () if target.last_resort is None else (target.last_resort,)
    last_seats = seats_of(last_hops, target, facts, situation, held=hold is not None)
    refusal = _refused(facts, situation, [*seats, *last_seats])
    order = _ordered(target, facts, table, situation, seats)
    # A turn that the last resort began is its own to finish; a warm cache there holds nobody.
    homes = [*seats, *last_seats] if hold is Hold.TURN else seats
    candidates = _candidates(target, order, homes if hold else (), situation)
    chosen = {candidate.key_id for candidate in candidates}
    max_attempts = 1 if situation.one_attempt else max(target.policy.max_attempts, 1)
    return Decision(
        target=target,
        candidates=candidates,
        skipped=tuple(
            skipped_of(seat, seat.bar)
            for seat in (*seats, *last_seats)
            if seat.bar is not None and seat.key.id not in chosen
        ),
        refusal=refusal,
        fallback=None if refusal else _fallback(target, situation, seats, last_seats, chosen),
        charges=_charges(order, homes, candidates[0], situation) if candidates else (),
        max_attempts=max_attempts,
        member_attempts=max(max_attempts - any(seat.usable for seat in last_seats), 1),
        hold=hold,
        pinned_key_id=None if situation.pin is None else situation.pin.key_id,
        unknown_pin=bool(facts.pins) and not any(pin.value in situation.owners for pin in facts.pins),
    )


def _ordered(target: Target, facts: Facts, table: RoutingTable, situation: Situation, seats: Sequence[Seat]) -> _Order:
    """Order the usable seats. Keys of a later tier come after those of all members."""
    group = target.group
    method = _DEFAULT_METHOD if group is None else Method(group.strategy, group_scope(group), group.basis)
    usable: dict[int, list[Seat]] = {}
    calls: dict[int, int] = {}
    for seat in seats:
        upstream_id = seat.hop.upstream.id
        calls[upstream_id] = calls.get(upstream_id, 0) + seat.view.calls_24h
        if seat.usable:
            usable.setdefault(upstream_id, []).append(seat)
    entries = []
    for upstream_id, taken in usable.items():
        hop = taken[0].hop
        cost = cost_of(hop, facts, table, situation) if method.strategy == "cheapest" else None
        entries.append(member_entry(hop, taken, calls[upstream_id], cost))
    ranking = rank(method, entries, _moment(situation, method))
    keys: dict[int, _Contest] = {}
    key_rankings = {}
    ordered: list[Seat] = []
    for upstream_id in ranking.order:
        taken = usable[upstream_id]
        keys[upstream_id] = contest = (rotation_of(taken[0].hop), key_entries(taken))
        if len(taken) == 1:
            ordered += taken
            continue
        key_rankings[upstream_id] = rank(*contest, _inner(situation, contest[0]))
        by_id = {seat.key.id: seat for seat in taken}
        ordered += [by_id[key_id] for key_id in key_rankings[upstream_id].order]
    ordered.sort(key=_tier_of)
    return _Order(target.hops, tuple(ordered), ranking, key_rankings, (method, entries), keys)


def _candidates(target: Target, order: _Order, homes: Sequence[Seat], situation: Situation) -> tuple[Candidate, ...]:
    """Return the usable keys in order. `homes`: where the conversation may stay."""
    candidates = [_scored(order, seat) for seat in order.seats]
    pinned = None if situation.pin is None else _pinned(target, homes, situation.pin.key_id, order)
    if pinned is None:
        return tuple(candidates)
    return (pinned, *(candidate for candidate in candidates if candidate.key_id != pinned.key_id))


def _pinned(target: Target, seats: Sequence[Seat], key_id: int, order: _Order) -> Candidate | None:
    """Return the conversation's own key when it is usable, or will be within the short wait that its cache is worth."""
    seat = next((seat for seat in seats if seat.key.id == key_id), None)
    if seat is None:
        return None
    if seat.usable:
        return _scored(order, seat)
    patience = target.policy.sticky_wait_s
    if seat.full:
        return replace(candidate_of(seat), wait_s=patience, wait_for="slot")
    if seat.eligible and seat.bar is not Bar.DEAD and seat.left_s is not None and seat.left_s <= patience:
        return replace(candidate_of(seat), wait_s=seat.left_s, wait_for="slot" if is_capped(seat) else "state")
    return None


def _scored(order: _Order, seat: Seat) -> Candidate:
    upstream_id = seat.hop.upstream.id
    scores = order.ranking.scores.get(upstream_id, NO_SCORES)
    ranking = order.key_rankings.get(upstream_id)
    own = NO_SCORES if ranking is None else ranking.scores.get(seat.key.id, NO_SCORES)
    if own:
        scores = {**scores, **{f"key_{name}": value for name, value in own.items()}}
    return candidate_of(seat, scores)


def _charges(order: _Order, seats: Sequence[Seat], lead: Candidate, situation: Situation) -> tuple[Charge, ...]:
    """Charge the rotations of the group and of the leading upstream, the lead in the draw whether drawn or not."""
    method, members = order.group
    leading = [seat for seat in seats if seat.hop.upstream.id == lead.upstream_id]
    seat = next(seat for seat in leading if seat.key.id == lead.key_id)
    is_member = any(hop.upstream.id == lead.upstream_id for hop in order.hops)
    if is_member and all(entry.id != lead.upstream_id for entry in members):
        members = [*members, member_entry(seat.hop, [seat], sum(each.view.calls_24h for each in leading), None)]
    rotation, contenders = order.keys.get(lead.upstream_id, (rotation_of(seat.hop), ()))
    if all(entry.id != lead.key_id for entry in contenders):
        contenders = [*contenders, *key_entries([seat])]
    due = (
        charge(method, members, lead.upstream_id, _moment(situation, method)) if is_member else None,
        charge(rotation, contenders, lead.key_id, _inner(situation, rotation)),
    )
    return tuple(each for each in due if each is not None)


def _fallback(
    target: Target, situation: Situation, seats: Sequence[Seat], last_seats: Sequence[Seat], chosen: set[int]
) -> Fallback:
    left = [seat for seat in seats if seat.bar is not None and seat.key.id not in chosen]
    struck = struck_of(left)
    usable = [seat for seat in last_seats if seat.usable and seat.key.id not in chosen]
    ranked: tuple[Candidate, ...] = ()
    due = None
    if usable:
        rotation, entries = rotation_of(usable[0].hop), key_entries(usable)
        moment = _inner(situation, rotation)
        by_id = {seat.key.id: seat for seat in usable}
        ranked = tuple(candidate_of(by_id[key_id]) for key_id in rank(rotation, entries, moment).order)
        due = charge(rotation, entries, ranked[0].key_id, moment)
    return Fallback(
        refusal=refusal_for([seat for seat in (*seats, *last_seats) if seat.eligible]),
        struck=struck,
        awaited=awaited_of(left, struck),
        last_resort=ranked,
        last_resort_charge=due,
        waiting=waiting_of(seats, target.policy),
    )


def _tier_of(seat: Seat) -> int:
    return seat.tier


def _moment(situation: Situation, method: Method) -> Moment:
    return Moment(situation.rotation.get(method.scope, {}), situation.draw, situation.now)


def _inner(situation: Situation, method: Method) -> Moment:
    draw = situation.draw * _INNER_STEP % 1.0
    return Moment(situation.rotation.get(method.scope, {}), draw, situation.now)


def _refused(facts: Facts, situation: Situation, seats: Sequence[Seat]) -> Refusal | None:
    """Return why nothing can ever be tried for this request as things are configured; None = something can."""
    balances, provider = owner_for(facts, situation.owners)
    eligible = [seat for seat in seats if seat.eligible]
    if balances or provider:
        return _pinned_refusal(facts, balances, eligible)
    if eligible:
        return None
    bars = {seat.bar: seat for seat in reversed(seats)}
    if Bar.RULE in bars:
        return Refusal(RefusalKind.DENIED, bars[Bar.RULE].why, do_not_retry=True)
    if Bar.FORBIDDEN in bars:
        return Refusal(RefusalKind.NOT_ALLOWED, _first_upper(bars[Bar.FORBIDDEN].why), do_not_retry=True)
    unserved = bars.get(Bar.MODEL, bars.get(Bar.DIALECT))
    if unserved is not None:
        what = f"the model {facts.model}" if unserved.bar is Bar.MODEL else facts.operation
        return Refusal(RefusalKind.MODEL_UNKNOWN, f"No upstream of this route offers {what}.", do_not_retry=True)
    return Refusal(RefusalKind.NO_KEY, "The route leads to no upstream key that is switched on.", do_not_retry=True)


def _pinned_refusal(facts: Facts, balances: frozenset[int], eligible: Sequence[Seat]) -> Refusal | None:
    """A request bound to one account or provider goes there or nowhere."""
    if any(seat.bar is not Bar.DEAD for seat in eligible):
        return None
    named = ", ".join(dict.fromkeys(pin.field for pin in facts.pins)) or "the signed thinking in the history"
    if len(balances) > 1:
        why = "live on different upstream accounts and cannot be used together"
    elif eligible:
        why = "belongs to an upstream account whose keys no longer work"
    else:
        why = "belongs to an upstream account or provider that this route does not reach"
    text = f"This request cannot be moved: {named} {why}. Start a new conversation without it."
    return Refusal(RefusalKind.PINNED, text, do_not_retry=True)


def _first_upper(text: str) -> str:
    return text[:1].upper() + text[1:] + "."
