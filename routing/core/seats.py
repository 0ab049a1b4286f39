"""Every upstream key a target reaches, with what speaks against it at this moment."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from statistics import median

from billing.core.pricing import amount_of
from billing.core.tokens import Usage, UsageSource
from keys.core.policy import Policy, overridden
from routing.core.choose import is_bound_to, owner_for
from routing.core.decision import Bar, Candidate, Hop, Skipped, Target, upstream_scope
from routing.core.facts import Facts
from routing.core.strategies import NO_SCORES, Entry, Method, Score, is_slow
from routing.core.table import KeyInfo, RoutingTable
from routing.core.views import FRESH, KeyView, Situation
from tenants.core.values import valueclass

LOW_WATER_TIER = 1
SLOW_TIER = 2
BATCH_WATER_FACTOR = 2  # batch lines leave a draining account first
TYPICAL_OUTPUT_TOKENS = 1024

# What passes with time, or with a person's act. Everything else is a property of configuration and request.
PASSING = frozenset({Bar.COOLING, Bar.DEAD, Bar.BUSY, Bar.QUOTA})


@valueclass(frozen=True, slots=True)
class Seat:
    """A hop and one of its keys. `full`: busy with its own calls, not with another's probe lease."""

    hop: Hop
    key: KeyInfo
    view: KeyView
    bar: Bar | None = None
    why: str = ""
    left_s: float | None = None
    tier: int = 0
    full: bool = False

    @property
    def usable(self) -> bool:
        return self.bar is None

    @property
    def eligible(self) -> bool:
        """Usable, or only for the moment not. A resting key × model pair counts: the table admits it."""
        return self.bar is None or self.bar in PASSING or (self.bar is Bar.MODEL and self.left_s is not None)


def seats_of(hops: Sequence[Hop], target: Target, facts: Facts, situation: Situation, *, held: bool) -> list[Seat]:
    """Return the keys of all hops as listed. `held`: the conversation stays, so low water does not matter."""
    balances, provider = owner_for(facts, situation.owners)
    base = target.policy
    seats = []
    for hop in hops:
        for key in hop.upstream.keys:
            view = situation.keys.get(key.id, FRESH)
            if hop.bar is not None:
                seats.append(Seat(hop, key, view, hop.bar, hop.why))
            elif not key.enabled:
                seats.append(Seat(hop, key, view, Bar.DISABLED, "the key is switched off"))
            elif not is_bound_to(hop.upstream, key, balances, provider):
                seats.append(Seat(hop, key, view, Bar.ELSEWHERE, "the request is bound to another account"))
            else:
                policy = overridden(base, key.policy) if key.policy else base
                seats.append(_judged(hop, key, view, _tier(view, policy, batch=facts.batch, held=held)))
    return seats


def sole_is_tried(seats: list[Seat]) -> list[Seat]:
    """A sole candidate ignores strike cooling."""
    eligible = [place for place, seat in enumerate(seats) if seat.eligible]
    if len(eligible) == 1 and is_struck(seats[eligible[0]]):
        seats[eligible[0]] = replace(seats[eligible[0]], bar=None, why="", left_s=None)
    return seats


def is_struck(seat: Seat) -> bool:
    return seat.bar is Bar.COOLING and seat.view.standing.by_strikes


def candidate_of(seat: Seat, scores: Mapping[str, Score] = NO_SCORES) -> Candidate:
    hop, key = seat.hop, seat.key
    return Candidate(
        key_id=key.id,
        upstream_id=hop.upstream.id,
        account_id=key.account_id,
        upstream=hop.upstream.name,
        key=key.name,
        dialect=hop.upstream.dialect,
        model=hop.model,
        model_sent=hop.model_sent,
        values=hop.values,
        rules=tuple([verdict.name for verdict in hop.rules if verdict.matched]) if hop.rules else (),
        window=hop.upstream.max_context_tokens,
        tier=seat.tier,
        epoch=seat.view.standing.epoch,
        half_open=seat.view.standing.half_open,
        scores=scores,
    )


def skipped_of(seat: Seat, bar: Bar) -> Skipped:
    hop, key = seat.hop, seat.key
    cause = seat.view.standing.cause if bar in PASSING or bar is Bar.MODEL else None
    return Skipped(key.id, hop.upstream.id, hop.upstream.name, key.name, bar, seat.why, seat.left_s, cause)


def key_entries(seats: Iterable[Seat]) -> list[Entry]:
    """The keys of one upstream as contenders of its rotation."""
    return [Entry(seat.key.id, seat.key.weight, seat.tier, seat.view.calls_24h) for seat in seats]


def member_entry(hop: Hop, seats: Sequence[Seat], calls: int, cost: Decimal | None) -> Entry:
    """An upstream as a contender of its group: its usable keys taken together."""
    medians, ages, caps = [], [], []
    tier, ok, results = seats[0].tier, 0, 0
    for seat in seats:
        view = seat.view
        tier = min(tier, seat.tier)
        ok += view.ok
        results += view.results
        if view.median_ms is not None:
            medians.append(view.median_ms)
        if view.sample_age_s is not None:
            ages.append(view.sample_age_s)
        if view.remaining is not None:
            caps.append(view.remaining)
    return Entry(
        id=hop.upstream.id,
        weight=hop.weight,
        tier=tier,
        calls=calls,
        median_ms=float(median(medians)) if medians else None,
        sample_age_s=min(ages) if ages else None,
        ok=ok,
        results=results,
        cost=cost,
        remaining=sum(caps) if len(caps) == len(seats) else None,
    )


def rotation_of(hop: Hop) -> Method:
    return Method(hop.upstream.rotation, upstream_scope(hop.upstream))


def cost_of(hop: Hop, facts: Facts, table: RoutingTable, situation: Situation) -> Decimal | None:
    """Return what the call would about cost us there, in the tenant's currency; None = unpriced."""
    price = table.prices.find(facts.tenant_id, (hop.model_sent, hop.model), situation.now)
    if price is None:
        return None
    currency = table.tenants[facts.tenant_id].currency
    rate = table.prices.rate_of(price.currency, currency, situation.now, facts.tenant_id)
    output = TYPICAL_OUTPUT_TOKENS if facts.max_tokens is None else min(facts.max_tokens, TYPICAL_OUTPUT_TOKENS)
    usage = Usage(facts.input_tokens, None, None, None, output, None, UsageSource.ESTIMATED)
    return None if rate is None else amount_of(usage, price, hop.upstream.cost_multiplier, rate)


def _judged(hop: Hop, key: KeyInfo, view: KeyView, tier: int) -> Seat:
    standing, limit = view.standing, key.limits.concurrency
    if standing.skip is not None:
        why = standing.reason or (standing.cause.value if standing.cause else standing.skip.value)
        return Seat(hop, key, view, Bar(standing.skip.value), why, standing.left_s, tier)
    if view.cap:
        return Seat(hop, key, view, Bar.QUOTA, f"its own limit {view.cap}", view.cap_left_s, tier)
    if limit is not None and view.in_flight >= limit:
        return Seat(hop, key, view, Bar.BUSY, f"{view.in_flight} calls in flight of {limit}", None, tier, full=True)
    return Seat(hop, key, view, tier=tier)


def _tier(view: KeyView, policy: Policy, *, batch: bool, held: bool) -> int:
    mark = policy.low_water * (BATCH_WATER_FACTOR if batch else 1)
    low = view.water is not None and view.water < mark and not held
    slow = is_slow(view.mean_ms, view.baseline_ms, policy.slow_factor)
    return LOW_WATER_TIER * low + SLOW_TIER * slow
