"""Calls, tokens and money per tenant, day and line: what the tiles and plots add up.

A day that is over in every time zone changes only when something is repriced, so its figures are kept for some
minutes; the present days are always read.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from django.core.cache import cache
from django.db.models import Count, Q, Sum

from billing.models import RequestRecord
from billing.models.fields import MoneySum
from tenants.models import Tenant

KEPT_S = 600
_OPEN_DAYS = 2  # today somewhere on earth


@dataclass(frozen=True, slots=True)
class Figures:
    """One line on one day. Refused calls and replays are left out; unpriced calls are counted, not summed.

    `lost`: failed through no fault of the client; `rescued`: finished after more than one attempt.
    """

    tenant_id: int
    day: date
    line_id: int
    line: str
    currency: str
    calls: int
    finished: int
    lost: int
    rescued: int
    unpriced: int
    estimated: int
    input_tokens: int
    cached_tokens: int
    charge: Decimal
    cost: Decimal
    waste: Decimal


_LOST = Q(status="failed") & (Q(http_status=None) | Q(http_status__gte=500) | Q(http_status=429))


def figures(tenants: Sequence[Tenant], first: date, last: date, today: date) -> list[Figures]:
    """Return the figures of these tenants for the days from `first` to `last`. `today` is UTC's."""
    days = [first + timedelta(days=n) for n in range((last - first).days + 1)]
    closed = [day for day in days if day <= today - timedelta(days=_OPEN_DAYS)]
    keys = {_key(tenant, day): (tenant.pk, day) for tenant in tenants for day in closed}
    kept: dict[str, list[Figures]] = cache.get_many(keys)
    missing = {place for key, place in keys.items() if key not in kept}
    wanted = sorted({day for _tenant, day in missing} | set(days) - set(closed))
    found = _read({tenant.pk for tenant in tenants}, wanted) if wanted and tenants else []
    _keep(keys, missing, found)
    fresh = [row for row in found if (row.tenant_id, row.day) in missing or row.day not in closed]
    return [*(row for rows in kept.values() for row in rows), *fresh]


def _key(tenant: Tenant, day: date) -> str:
    return f"daily:{tenant.pk}:{tenant.created.timestamp()}:{day}"


def _keep(keys: dict[str, tuple[int, date]], missing: set[tuple[int, date]], found: Iterable[Figures]) -> None:
    by_place: dict[tuple[int, date], list[Figures]] = {place: [] for place in missing}
    for row in found:
        if (row.tenant_id, row.day) in by_place:
            by_place[row.tenant_id, row.day].append(row)
    cache.set_many({key: by_place[place] for key, place in keys.items() if place in missing}, KEPT_S)


def _read(tenants: Iterable[int], days: Sequence[date]) -> list[Figures]:
    rows: Any = (
        RequestRecord.objects.filter(tenant_id__in=sorted(tenants), day__gte=days[0], day__lte=days[-1])
        .filter(replay_of="", refusal_limit="")
        .order_by()
        .values("tenant_id", "day", "line_id", "line_slug", "currency")
        .annotate(
            calls=Count("pk"),
            finished=Count("pk", filter=Q(status="finished")),
            lost=Count("pk", filter=_LOST),
            rescued=Count("pk", filter=Q(status="finished", attempt_count__gt=1)),
            unpriced=Count("pk", filter=Q(priced=False)),
            guessed=Count("pk", filter=Q(estimated=True)),
            tokens=Sum("input_tokens"),
            cached=Sum("cached_read_tokens"),
            charged=MoneySum("charge"),
            paid=MoneySum("cost"),
            lost_money=MoneySum("waste"),
        )
    )
    return [_figures(row) for row in rows]


def _figures(row: dict[str, Any]) -> Figures:
    return Figures(
        tenant_id=row["tenant_id"],
        day=row["day"],
        line_id=row["line_id"],
        line=row["line_slug"],
        currency=row["currency"],
        calls=row["calls"],
        finished=row["finished"],
        lost=row["lost"],
        rescued=row["rescued"],
        unpriced=row["unpriced"],
        estimated=row["guessed"],
        input_tokens=row["tokens"] or 0,
        cached_tokens=row["cached"] or 0,
        charge=row["charged"] or Decimal(0),
        cost=row["paid"] or Decimal(0),
        waste=row["lost_money"] or Decimal(0),
    )
