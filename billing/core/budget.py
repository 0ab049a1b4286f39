"""When a budget lets a call pass, and when it has something to say.

Amounts are in the budget's currency. `spent` is what the ledger holds for the period, `reserved` the estimates of the
calls in flight. Reserving happens atomically in the store; these functions are the decision it makes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

CLOSED_SHARE = Decimal("0.95")


@dataclass(frozen=True, slots=True)
class Standing:
    """A budget in its current period. `in_flight` counts reservations, those of zero included."""

    amount: Decimal
    spent: Decimal
    reserved: Decimal = Decimal(0)
    in_flight: int = 0


@dataclass(frozen=True, slots=True)
class Held:
    """What calls in flight have reserved of a budget's period, and how many they are."""

    reserved: Decimal = Decimal(0)
    in_flight: int = 0


def admits(standing: Standing, estimate: Decimal) -> bool:
    """Say whether a call estimated at `estimate` may start.

    Yes when everything fits, or when nothing is in flight and some of the amount is left: so a budget smaller than one
    estimate can still be spent, and the overshoot is bounded by how far the estimates of calls in flight are off.
    """
    if standing.spent + standing.reserved + estimate <= standing.amount:
        return True
    return standing.in_flight == 0 and standing.spent < standing.amount


def closes_blind(standing: Standing) -> bool:
    """Say whether a hard budget refuses while reservations cannot be shared (the store is down)."""
    return standing.spent >= standing.amount * CLOSED_SHARE


def reached(amount: Decimal, spent: Decimal, alert_at: Sequence[int | Decimal]) -> tuple[int | Decimal, ...]:
    """Return the percentages of `alert_at` that `spent` has reached, ascending, each once.

    The sender claims each with (budget, period, amount, percentage), which makes one mail of many sightings. An amount
    of zero is reached by the first spending.
    """
    if spent <= 0:
        return ()
    return tuple(sorted(percent for percent in set(alert_at) if spent * 100 >= amount * percent))


def crossed(
    amount: Decimal, before: Decimal, after: Decimal, alert_at: Sequence[int | Decimal]
) -> tuple[int | Decimal, ...]:
    """Return the percentages reached by `after` that `before` had not reached."""
    earlier = set(reached(amount, before, alert_at))
    return tuple(percent for percent in reached(amount, after, alert_at) if percent not in earlier)


def percent_used(amount: Decimal, spent: Decimal) -> Decimal | None:
    """Return the share used in percent, to one place; None for an amount of zero."""
    return None if amount == 0 else (spent * 100 / amount).quantize(Decimal("0.1"))
