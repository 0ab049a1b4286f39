"""Reads for the dashboard, from the hourly sums: quick at any number of records, exact to the digit.

Every read starts from a set of tenants (ids; None = all, for the operator). Days are those of each tenant's zone;
`days` is the last of so many, counted back from `today`. Amounts come per currency and are never added across.
Figures run until the last roll-up, two minutes ago at most.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Max, QuerySet, Sum

from billing.core.histogram import merged, percentile
from billing.models import Forecast, KeyHour, LineHour
from billing.models.fields import MoneySum

SUSPICIOUS = 3  # times the failure rate of the others
FEWEST_CALLS = 10
_HALF, _MOST = 0.5, 0.95


@dataclass(frozen=True, slots=True)
class Spend:
    """What a line's calls of a day came to. `cost` and `waste` are ours."""

    day: date
    tenant_id: int
    line: str
    currency: str
    charge: Decimal
    cost: Decimal
    waste: Decimal
    calls: int
    failed: int
    unpriced: int
    estimated: int


@dataclass(frozen=True, slots=True)
class KeyRate:
    """An upstream key's exchanges. `rate` None = none. `suspicious`: fails 3 times as often as the others together."""

    upstream_key_id: int
    upstream: str
    upstream_key: str
    attempts: int
    failed: int
    rate: float | None
    suspicious: bool = False


@dataclass(frozen=True, slots=True)
class KeyHourRate:
    hour: datetime
    upstream_key_id: int
    attempts: int
    failed: int


@dataclass(frozen=True, slots=True)
class Health:
    """What clients met. Shares are 0 to 1, None = no calls. Times in ms, to about 9 %.

    `available`: answered of all that were not refused; `without_failover`: what it would have been had only the first
    attempt counted. `cache_share`: cached of all input tokens.
    """

    calls: int
    failed: int
    refused: int
    cancelled: int
    retried: int
    rescued: int
    available: float | None
    without_failover: float | None
    failover_rate: float | None
    cache_share: float | None
    p50_ms: int | None
    p95_ms: int | None


def spend_by_line_and_day(tenants: Collection[int] | None, *, today: date, days: int = 30) -> list[Spend]:
    """Return one row per day, line and currency, by day then line."""
    rows = _line_hours(tenants, today, days).values("day", "tenant_id", "line_slug", "currency")
    summed = rows.annotate(
        sum_charge=MoneySum("charge"),
        sum_cost=MoneySum("cost"),
        sum_waste=MoneySum("waste"),
        sum_calls=Sum("calls"),
        sum_failed=Sum("failed"),
        sum_unpriced=Sum("unpriced"),
        sum_estimated=Sum("estimated"),
    ).order_by("day", "tenant_id", "line_slug", "currency")
    return [
        Spend(
            row["day"], row["tenant_id"], row["line_slug"], row["currency"], row["sum_charge"], row["sum_cost"],
            row["sum_waste"], row["sum_calls"], row["sum_failed"], row["sum_unpriced"], row["sum_estimated"],
        )
        for row in summed
    ]  # fmt: skip


def keys_by_failure(tenants: Collection[int] | None, *, since: datetime) -> list[KeyRate]:
    """Return the upstream keys that were used, the worst first, those that stand out marked."""
    names = KeyHour.objects.filter(hour__gte=since) if tenants is None else _key_hours(tenants, since)
    rows = list(
        names.values("upstream_key_id")
        .annotate(
            all_attempts=Sum("attempts"), all_failed=Sum("failed"), name=Max("upstream_key"), where=Max("upstream")
        )
        .values_list("upstream_key_id", "where", "name", "all_attempts", "all_failed")
    )
    attempts, failed = sum(row[3] for row in rows), sum(row[4] for row in rows)
    found = [
        KeyRate(*row, row[4] / row[3] if row[3] else None, _stands_out(row[3], row[4], attempts, failed))
        for row in rows
    ]
    return sorted(found, key=lambda one: (-(one.rate or 0), -one.attempts, one.upstream_key_id))


def keys_by_hour(tenants: Collection[int] | None, *, since: datetime) -> list[KeyHourRate]:
    """Return attempts and failures per key and hour, by hour."""
    rows = KeyHour.objects.filter(hour__gte=since) if tenants is None else _key_hours(tenants, since)
    listed = rows.order_by("hour", "upstream_key_id").values_list("hour", "upstream_key_id", "attempts", "failed")
    return [KeyHourRate(*row) for row in listed]


def health(tenants: Collection[int] | None, *, today: date, days: int = 1, line: str | None = None) -> Health:
    """Return how calls went."""
    rows = _line_hours(tenants, today, days)
    if line is not None:
        rows = rows.filter(line_slug=line)
    names = ("calls", "failed", "refused", "cancelled", "retried", "rescued", "input_tokens", "cached_read_tokens")
    sums: dict[str, Any] = rows.aggregate(**{f"all_{name}": Sum(name) for name in names})
    count = {name: sums[f"all_{name}"] or 0 for name in names}
    met = count["calls"] + count["failed"]
    firsts = merged(rows.exclude(first_content={}).values_list("first_content", flat=True))
    return Health(
        **{name: count[name] for name in names[:6]},
        available=_share(count["calls"], met),
        without_failover=_share(count["calls"] - count["rescued"], met),
        failover_rate=_share(count["retried"], met),
        cache_share=_share(count["cached_read_tokens"], count["input_tokens"]),
        p50_ms=percentile(firsts, _HALF),
        p95_ms=percentile(firsts, _MOST),
    )


def first_content_by_day(
    tenants: Collection[int] | None, *, today: date, days: int = 30
) -> dict[date, tuple[int, int]]:
    """Return p50 and p95 of the time to first content, in ms, of each day that has calls."""
    by_day: defaultdict[date, list[dict[str, int]]] = defaultdict(list)
    rows: Iterable[tuple[date, dict[str, int]]] = (
        _line_hours(tenants, today, days).exclude(first_content={}).values_list("day", "first_content")
    )
    for day, counts in rows:
        by_day[day].append(counts)
    return {
        day: (percentile(merged(parts), _HALF) or 0, percentile(merged(parts), _MOST) or 0)
        for day, parts in sorted(by_day.items())
    }


def forecasts(tenants: Collection[int] | None) -> list[Forecast]:
    """Return the newest forecasts, what ends first on top, what has no end in sight last."""
    rows = Forecast.objects.select_related("tenant")
    if tenants is not None:
        rows = rows.filter(tenant__in=tenants)
    return sorted(rows, key=lambda row: (row.days_left is None, row.days_left or 0, row.subject))


def _line_hours(tenants: Collection[int] | None, today: date, days: int) -> QuerySet[LineHour]:
    rows = LineHour.objects.filter(day__gt=today - timedelta(days=days), day__lte=today)
    return rows if tenants is None else rows.filter(tenant__in=tenants)


def _key_hours(tenants: Collection[int], since: datetime) -> QuerySet[KeyHour]:
    return KeyHour.objects.filter(tenant__in=tenants, hour__gte=since)


def _stands_out(attempts: int, failed: int, all_attempts: int, all_failed: int) -> bool:
    others = all_attempts - attempts
    if attempts < FEWEST_CALLS or others == 0 or failed == 0:
        return False
    return failed / attempts > SUSPICIOUS * (all_failed - failed) / others


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
