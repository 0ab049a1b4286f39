"""How contenders are put in order: the members of a group, or the keys of an upstream.

Theory of the rotation. `round_robin` and `weighted` are nginx's smooth weighted round-robin: every contender in the
draw gains its effective weight, the one with most leads and pays the sum of all weights. The balances are integers kept
in the store. They add up to zero while membership stands still, so who leads often pays often, whatever made it lead: a
sticky conversation is charged like a draw. A contender that is away (cooling, full) neither gains nor pays. Balances
are clamped to ± the sum of weights, so an absence, or a stretch of sticky traffic, can be paid back for a short while
only and starves nobody.

`least_used` counts 24 h. Someone new, or back after more than 10 minutes away, would take every call until it had
caught up; so it is lent the difference to the smallest count of the others, for as long as their calls are counted.

Ties go to the order as listed. Contenders of a later tier (low water, slow) are no part of the draw.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from statistics import median
from typing import TypeAlias

from routing.core.views import Charge
from tenants.core.values import valueclass

WEIGHT_UNIT = 1000
SPEED_MIN, SPEED_MAX = 0.1, 10.0
STABILITY_MIN = 0.05
SPEED_SAMPLES, SPEED_SAMPLES_MIN = 32, 3
RESULTS_MIN = 5
STALE_S = 1800.0
EXPLORE_EVERY = 20
AWAY_S = 600
SEEN_EVERY_S = 60
_HOUR_S = 3600
_DAY_HOURS = 24

_Rotation: TypeAlias = Mapping[str, int]
Score: TypeAlias = str | int | float | None  # JSON values: records keep them
_Scores: TypeAlias = dict[int, Mapping[str, Score]]
NO_SCORES: Mapping[str, Score] = {}


@valueclass(frozen=True, slots=True)
class Entry:
    """One contender. `tier` 0 goes first. `cost` None = unpriced; `remaining` None = uncapped; see `KeyView`."""

    id: int
    weight: int = 1
    tier: int = 0
    calls: int = 0
    median_ms: float | None = None
    sample_age_s: float | None = None
    ok: int = 0
    results: int = 0
    cost: Decimal | None = None
    remaining: int | None = None


@valueclass(frozen=True, slots=True)
class Method:
    """A strategy as configured. `scope` names the rotation; `basis` matters to `weighted` alone."""

    strategy: str
    scope: str
    basis: str = "share"


@valueclass(frozen=True, slots=True)
class Ranking:
    """Ids in order, and per id what it was judged by, for people. An id without scores was judged by its place."""

    order: tuple[int, ...]
    scores: Mapping[int, Mapping[str, Score]]


@valueclass(frozen=True, slots=True)
class Moment:
    """The outside of a draw: the scope's integers, a number in [0, 1), the clock."""

    rotation: _Rotation
    draw: float
    now: datetime


def rank(method: Method, entries: Sequence[Entry], moment: Moment) -> Ranking:
    """Order all entries: tier by tier, each by the strategy."""
    if len(entries) == 1:
        return Ranking((entries[0].id,), {})
    order: list[int] = []
    scores: _Scores = {}
    for tier in sorted({entry.tier for entry in entries}):
        drawn = [entry for entry in entries if entry.tier == tier]
        ranked, judged = _ORDERS[method.strategy](method, drawn, moment)
        order += [entry.id for entry in ranked]
        scores |= judged
    return Ranking(tuple(order), scores)


def charge(method: Method, entries: Sequence[Entry], lead: int, moment: Moment) -> Charge | None:
    """Return what the rotation is charged when `lead` really goes first; None = nothing to write.

    In the draw are the entries of the best tier and the lead itself, whatever its tier.
    """
    best = min((entry.tier for entry in entries), default=0)
    drawn = [entry for entry in entries if entry.tier == best or entry.id == lead]
    if len(drawn) <= 1 and method.strategy != "least_used":  # that one must know who was here
        return None
    match method.strategy:
        case "round_robin" | "weighted":
            return _charge_smooth(method, drawn, lead, moment)
        case "least_used":
            return _charge_least_used(method, drawn, moment)
        case "fastest":
            return _charge_fastest(method, drawn, lead, moment)
    return None


def speed_factors(medians: Mapping[int, float]) -> dict[int, float]:
    """Return (group median ÷ own)² in 0.1–10 for each measured contender (ms)."""
    if not medians:
        return {}
    middle = median(medians.values())
    return {
        name: SPEED_MAX if own <= 0 else min(max((middle / own) ** 2, SPEED_MIN), SPEED_MAX)
        for name, own in medians.items()
    }


def stability_factor(ok: int, results: int) -> float:
    """Return max(rate², 0.05); 1 with too few results."""
    return 1.0 if results < RESULTS_MIN else max((ok / results) ** 2, STABILITY_MIN)


def median_of(samples: Sequence[float]) -> float | None:
    """Return the median of the last 32 times to first content; None below 3."""
    recent = samples[-SPEED_SAMPLES:]
    return None if len(recent) < SPEED_SAMPLES_MIN else float(median(recent))


def is_slow(mean_ms: float | None, baseline_ms: float | None, factor: float) -> bool:
    """Tell whether the 5-minute mean lies above `factor` times the baseline. Unknown is not slow."""
    return mean_ms is not None and baseline_ms is not None and baseline_ms > 0 and mean_ms > factor * baseline_ms


def effective_weights(method: Method, entries: Sequence[Entry]) -> dict[int, int]:
    """Return max(1, round(weight × factor × 1000)) per contender; round-robin knows no weights."""
    if method.strategy == "round_robin":
        return {entry.id: WEIGHT_UNIT for entry in entries}
    speeds: Mapping[int, float] = {}
    if method.basis in ("speed", "speed_and_stability"):
        speeds = speed_factors({entry.id: entry.median_ms for entry in entries if entry.median_ms is not None})
    steady = method.basis in ("stability", "speed_and_stability")
    weights = {}
    for entry in entries:
        factor = speeds.get(entry.id, 1.0) * (stability_factor(entry.ok, entry.results) if steady else 1.0)
        weights[entry.id] = max(1, round(entry.weight * factor * WEIGHT_UNIT))
    return weights


_Ordered: TypeAlias = tuple[list[Entry], _Scores]


def _by(
    entries: Sequence[Entry], key: Callable[[Entry], tuple[object, ...]], score: Callable[[Entry], Mapping[str, Score]]
) -> _Ordered:
    return sorted(entries, key=key), {entry.id: score(entry) for entry in entries}


def _listed(_method: Method, entries: Sequence[Entry], _moment: Moment) -> _Ordered:
    return list(entries), {}


def _smooth(method: Method, entries: Sequence[Entry], moment: Moment) -> _Ordered:
    weights = effective_weights(method, entries)
    gained = _gained(weights, moment.rotation)
    return _by(
        entries,
        lambda entry: (-gained[entry.id],),
        lambda entry: {"weight": weights[entry.id], "balance": gained[entry.id]},
    )


def _gained(weights: Mapping[int, int], rotation: _Rotation) -> dict[int, int]:
    total = sum(weights.values())
    return {name: _clamped(rotation.get(str(name), 0), total) + weight for name, weight in weights.items()}


def _clamped(value: int, limit: int) -> int:
    return min(max(value, -limit), limit)


def _charge_smooth(method: Method, entries: Sequence[Entry], lead: int, moment: Moment) -> Charge:
    weights = effective_weights(method, entries)
    total = sum(weights.values())
    add = {}
    for name, gained in _gained(weights, moment.rotation).items():
        paid = _clamped(gained - total if name == lead else gained, total)
        add[str(name)] = paid - moment.rotation.get(str(name), 0)
    return Charge(method.scope, add={name: step for name, step in add.items() if step})


def _random(_method: Method, entries: Sequence[Entry], moment: Moment) -> _Ordered:
    """Shuffle by one number: each pick uses it up to its whole part and passes on the rest."""
    left, ranked, rest = list(entries), [], moment.draw
    while left:
        rest *= len(left)
        place = min(int(rest), len(left) - 1)
        rest -= place
        ranked.append(left.pop(place))
    return ranked, {}


def _least_used(_method: Method, entries: Sequence[Entry], moment: Moment) -> _Ordered:
    counts = {entry.id: entry.calls + _lent(entry.id, moment) for entry in entries}
    loans = _loans(entries, counts, moment)
    return _by(
        entries,
        lambda entry: (counts[entry.id] + loans.get(entry.id, 0),),
        lambda entry: {"calls_24h": entry.calls, "counted": counts[entry.id] + loans.get(entry.id, 0)},
    )


def _loans(entries: Sequence[Entry], counts: Mapping[int, int], moment: Moment) -> dict[int, int]:
    """Return what newcomers and returners lack to the smallest count of those who were here."""
    away = {entry.id for entry in entries if _is_away(entry.id, moment)}
    settled = [counts[entry.id] for entry in entries if entry.id not in away]
    # Nobody is known after a restart of the store: those with calls were here.
    least = min(settled or [count for count in counts.values() if count], default=0)
    return {name: least - counts[name] for name in away if counts[name] < least}


def _is_away(name: int, moment: Moment) -> bool:
    return int(moment.now.timestamp()) - moment.rotation.get(f"seen:{name}", 0) > AWAY_S


def _lent(name: int, moment: Moment) -> int:
    """Sum the loans of the last 24 h. They are kept by the hour."""
    oldest = int(moment.now.timestamp()) // _HOUR_S - _DAY_HOURS
    return sum(
        value
        for key, value in moment.rotation.items()
        if key.startswith(f"lent:{name}@") and int(key.partition("@")[2]) > oldest
    )


def _charge_least_used(method: Method, entries: Sequence[Entry], moment: Moment) -> Charge | None:
    now_s = int(moment.now.timestamp())
    counts = {entry.id: entry.calls + _lent(entry.id, moment) for entry in entries}
    # Set, not added: two processes that meet the same newcomer must not both lend.
    put = {}
    for name, loan in _loans(entries, counts, moment).items():
        kept = f"lent:{name}@{now_s // _HOUR_S}"
        put[kept] = moment.rotation.get(kept, 0) + loan
    put |= {
        f"seen:{entry.id}": now_s
        for entry in entries
        if now_s - moment.rotation.get(f"seen:{entry.id}", 0) > SEEN_EVERY_S
    }
    oldest = now_s // _HOUR_S - _DAY_HOURS
    drop = tuple(key for key in moment.rotation if key.startswith("lent:") and int(key.partition("@")[2]) <= oldest)
    return Charge(method.scope, put=put, drop=drop) if put or drop else None


def _fastest(_method: Method, entries: Sequence[Entry], moment: Moment) -> _Ordered:
    ranked, scores = _by(
        entries,
        lambda entry: (entry.median_ms is None, entry.median_ms or 0.0),
        lambda entry: {"median_ms": entry.median_ms},
    )
    explorer = _explored(ranked, moment)
    if explorer is not None:
        ranked.remove(explorer)
        ranked.insert(0, explorer)
        scores[explorer.id] = {**scores[explorer.id], "explored": 1}
    return ranked, scores


def _explored(ranked: Sequence[Entry], moment: Moment) -> Entry | None:
    """Every 20th draw goes to an unmeasured or stale contender: the one explored least, unmeasured before stale."""
    if (moment.rotation.get("draws", 0) + 1) % EXPLORE_EVERY:
        return None
    unknown = [entry for entry in ranked[1:] if entry.median_ms is None or (entry.sample_age_s or 0.0) > STALE_S]
    return min(
        unknown,
        key=lambda entry: (moment.rotation.get(f"explored:{entry.id}", 0), entry.median_ms is not None),
        default=None,
    )


def _charge_fastest(method: Method, entries: Sequence[Entry], lead: int, moment: Moment) -> Charge:
    ranked, _ = _fastest(method, entries, moment)
    explored = (moment.rotation.get("draws", 0) + 1) % EXPLORE_EVERY == 0 and ranked[0].id == lead
    return Charge(method.scope, add={"draws": 1, f"explored:{lead}": 1} if explored else {"draws": 1})


def _cheapest(_method: Method, entries: Sequence[Entry], _moment: Moment) -> _Ordered:
    return _by(
        entries,
        lambda entry: (entry.cost is None, entry.cost or Decimal(0)),
        lambda entry: {"cost": None if entry.cost is None else f"{entry.cost:f}"},
    )


def _headroom(_method: Method, entries: Sequence[Entry], _moment: Moment) -> _Ordered:
    return _by(
        entries,
        lambda entry: (entry.remaining is None, -(entry.remaining or 0)),
        lambda entry: {"remaining": entry.remaining},
    )


_ORDERS: Mapping[str, Callable[[Method, Sequence[Entry], Moment], _Ordered]] = {
    "priority": _listed,
    "round_robin": _smooth,
    "weighted": _smooth,
    "least_used": _least_used,
    "random": _random,
    "fastest": _fastest,
    "cheapest": _cheapest,
    "headroom": _headroom,
}
