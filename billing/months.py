"""What each line's months have come to, quick at any number of records: hourly sums, and the records after them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Count, F, Q, Sum, Value
from django.db.models.functions import Coalesce, NullIf, TruncMonth

from billing.models import LineHour, RequestRecord, RollupMark
from billing.models.fields import MoneySum
from tenants.models import Tenant

_ZERO = Decimal(0)
_DAY = timedelta(days=1)
_NUMBERS = ("calls", "failed", "unpriced", "estimated", "input_tokens", "output_tokens")
_AMOUNTS = ("cost", "charge")


@dataclass(frozen=True, slots=True)
class MonthFigures:
    """A line's month in one currency. `calls` are finished and cancelled; amounts and tokens are theirs.

    Unpriced calls are counted and not in the amounts.
    """

    first: date
    line_id: int
    line: str  # slug
    currency: str
    calls: int = 0
    failed: int = 0
    unpriced: int = 0
    estimated: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: Decimal = _ZERO
    charge: Decimal = _ZERO


def figures(tenant: Tenant, since: date, until: date) -> list[MonthFigures]:
    """Return the months from `since` to before `until` (first days), by month and line. Three queries."""
    sums: defaultdict[tuple[date, int, str, str], dict[str, Any]] = defaultdict(lambda: defaultdict(int))
    mark = RollupMark.objects.filter(pk=1).first()
    if mark is not None:
        hours = LineHour.objects.filter(tenant=tenant, day__gte=since, day__lt=until, hour__lt=mark.done_until)
        _add(sums, hours.annotate(month=TruncMonth("day")).order_by().values(*_KEYS).annotate(**_HOUR_SUMS))
    records = RequestRecord.objects.filter(tenant=tenant, day__gte=since, day__lt=until)
    if mark is not None:
        records = records.filter(created__gte=mark.done_until, day__gte=mark.done_until.date() - _DAY)
    billed = records.filter(replay_of="", refusal_limit="")
    _add(sums, billed.annotate(month=TruncMonth("day")).order_by().values(*_KEYS).annotate(**_RECORD_SUMS))
    found = [MonthFigures(first, line_id, line, currency, **values)
             for (first, line_id, line, currency), values in sums.items()]  # fmt: skip
    return sorted(
        (row for row in found if row.calls or row.failed), key=lambda row: (row.first, row.line, row.currency)
    )


def unpriced_models(tenant: Tenant, first: date, until: date) -> dict[str, int]:
    """Return how many calls of a month have no price, by model, the most first."""
    rows = RequestRecord.objects.filter(
        tenant=tenant, day__gte=first, day__lt=until, priced=False, status=RequestRecord.Status.FINISHED
    ).filter(replay_of="", refusal_limit="")
    named = rows.annotate(model=Coalesce(NullIf("model_served", Value("")), F("model_requested")))
    return dict(named.order_by().values("model").annotate(n=Count("pk")).order_by("-n").values_list("model", "n"))


_KEYS = ("month", "line_id", "line_slug", "currency")
_HOUR_SUMS: Mapping[str, Any] = {
    **{f"all_{name}": Sum(name) for name in _NUMBERS},
    **{f"all_{name}": MoneySum(name) for name in _AMOUNTS},
}
_CALLED = ~Q(status=RequestRecord.Status.FAILED)
_RECORD_SUMS: Mapping[str, Any] = {
    "all_calls": Count("pk", filter=_CALLED),
    "all_failed": Count("pk", filter=~_CALLED),
    "all_unpriced": Count("pk", filter=_CALLED & Q(priced=False)),
    "all_estimated": Count("pk", filter=_CALLED & Q(estimated=True)),
    "all_input_tokens": Sum("input_tokens", filter=_CALLED),
    "all_output_tokens": Sum("output_tokens", filter=_CALLED),
    "all_cost": MoneySum("cost", filter=_CALLED),
    "all_charge": MoneySum("charge", filter=_CALLED),
}


def _add(sums: defaultdict[tuple[date, int, str, str], dict[str, Any]], rows: Iterable[Mapping[str, Any]]) -> None:
    for row in rows:
        values = sums[row["month"], row["line_id"], row["line_slug"], row["currency"]]
        for name in _NUMBERS:
            values[name] += row[f"all_{name}"] or 0
        for name in _AMOUNTS:
            values[name] = (values[name] or _ZERO) + (row[f"all_{name}"] or _ZERO)
