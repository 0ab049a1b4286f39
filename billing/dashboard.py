"""Reads for the home page: sums of days, and the records since those end. Quick at any number, exact to the digit.

Every read starts from a set of tenants (ids; None = all, for the operator). Days are those of each tenant's zone.
Amounts come per currency and are never added across.

The sums end at an hour that has been over for a while (`RollupMark.days_until`); the records from it on are added up
by the database, over the index on their time. A fresh record is therefore seen at once.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar

from django.db.models import Case, Count, F, FloatField, Model, Q, QuerySet, Sum, Value, When
from django.db.models.functions import Cast, Ceil, Ln, TruncHour

from billing.core.histogram import STEPS, merged
from billing.kinds import ATTEMPTS, BILLED, COUNTED, MODEL, RECORDS
from billing.models import Attempt, DaySpeed, Forecast, KeyHour, LineDay, RequestRecord, RollupMark
from billing.models.fields import MoneySum

TAIL_MOST = timedelta(hours=26)  # records further back are only in the sums
ACTIVE = timedelta(minutes=30)  # a conversation without a call for so long is over
_TRIES = 3
_ZERO = Decimal(0)
_LN2, _EDGE = 0.6931471805599453, 1e-9  # as in billing/core/histogram.py

Histogram = dict[str, int]
Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, slots=True)
class Sums:
    """What calls came to. `calls` finished or were cancelled; tokens, charge and cost are theirs, waste is of all.

    `lost`: failed through no fault of the client. `rescued`: finished after more than one attempt.
    """

    calls: int = 0
    failed: int = 0
    lost: int = 0
    refused: int = 0
    cancelled: int = 0
    unpriced: int = 0
    estimated: int = 0
    retried: int = 0
    rescued: int = 0
    input_tokens: int = 0
    cached_read_tokens: int = 0
    output_tokens: int = 0
    charge: Decimal = _ZERO
    cost: Decimal = _ZERO
    waste: Decimal = _ZERO

    @property
    def admitted(self) -> int:
        return self.calls + self.failed

    @property
    def finished(self) -> int:
        return self.calls - self.cancelled

    @property
    def judged(self) -> int:
        """What availability is a share of: neither cancelled nor refused nor at fault itself."""
        return self.finished + self.lost

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(*(getattr(self, name) + getattr(other, name) for name in _NAMES))


_NAMES = tuple(field.name for field in fields(Sums))
_AMOUNTS = ("charge", "cost", "waste")
_TOKENS = ("input_tokens", "cached_read_tokens", "output_tokens")
_KEPT: Mapping[str, Any] = {f"all_{name}": MoneySum(name) if name in _AMOUNTS else Sum(name) for name in _NAMES}
_FRESH: Mapping[str, Any] = {
    "all_calls": Count("pk", filter=BILLED),
    **{f"all_{name}": Count("pk", filter=RECORDS[name]) for name in _NAMES if name in RECORDS},
    **{f"all_{name}": Sum(name, filter=BILLED) for name in _TOKENS},
    "all_charge": MoneySum("charge", filter=BILLED),
    "all_cost": MoneySum("cost", filter=BILLED),
    "all_waste": MoneySum("waste"),
}


@dataclass(frozen=True, slots=True)
class LineFigures:
    """A line's calls of a day in one currency."""

    tenant_id: int
    day: date
    line_id: int
    line: str  # slug
    currency: str
    sums: Sums


@dataclass(frozen=True, slots=True)
class ModelFigures:
    """A model's calls in one currency."""

    model: str
    currency: str
    sums: Sums


@dataclass(frozen=True, slots=True)
class KeyFigures:
    """An upstream key's exchanges in one hour. `moved_on`: failed, and another key was tried after it."""

    tenant_id: int
    upstream: str
    upstream_key: str
    upstream_key_id: int
    hour: datetime
    attempts: int
    failed: int
    moved_on: int


@dataclass(frozen=True, slots=True)
class Asked:
    """Whose traffic: `first` to `last` day by line; models and times from `since` on. `line_id` None = all lines."""

    tenants: Collection[int] | None
    line_id: int | None
    first: date
    since: date
    last: date

    def of(self, rows: "QuerySet[Row]", first: date) -> "QuerySet[Row]":
        """Cut rows of days, or records, down to what is asked."""
        rows = rows.filter(day__gte=first, day__lte=self.last).order_by()
        rows = rows if self.tenants is None else rows.filter(tenant_id__in=sorted(self.tenants))
        return rows if self.line_id is None else rows.filter(line_id=self.line_id)


@dataclass(frozen=True, slots=True)
class Traffic:
    """`times`: histograms of ms to first content, by day. `behind`: since when sums are missing, else None."""

    lines: list[LineFigures]
    models: list[ModelFigures]
    times: dict[date, Histogram]
    behind: datetime | None


def traffic(asked: Asked, *, now: datetime) -> Traffic:
    """Return what calls came to. Read again when the sums moved on meanwhile, so that no hour counts twice."""
    until = _summed_until()
    for _try in range(_TRIES):
        found = _traffic(asked, until, now)
        before, until = until, _summed_until()
        if before == until:
            break
    return found


def keys_by_hour(tenants: Collection[int] | None, *, since: datetime, now: datetime) -> list[KeyFigures]:
    """Return each upstream key's exchanges per hour, from `since` (a whole hour) on."""
    tail = max(since, _tail(_summed_until(), now))
    kept = KeyHour.objects.filter(hour__gte=since, hour__lt=tail).order_by()
    fresh = Attempt.objects.filter(ATTEMPTS["tried"], record__created__gte=tail).order_by()
    if tenants is not None:
        kept, fresh = kept.filter(tenant_id__in=tenants), fresh.filter(record__tenant_id__in=tenants)
    found = [
        KeyFigures(*row)
        for row in kept.values_list(
            "tenant_id", "upstream", "upstream_key", "upstream_key_id", "hour", "attempts", "failed", "moved_on"
        )
    ]
    grouped = fresh.annotate(hour=TruncHour("record__created", tzinfo=UTC)).values_list(
        "record__tenant_id", "upstream", "upstream_key", "upstream_key_id", "hour"
    )
    counted = grouped.annotate(
        tried=Count("pk"),
        faulty=Count("pk", filter=ATTEMPTS["failed"]),
        went_on=Count("pk", filter=ATTEMPTS["moved_on"]),
    )
    return found + [KeyFigures(*row) for row in counted]


def active_conversations(tenants: Collection[int] | None, line_id: int | None, *, since: datetime) -> int:
    """Return how many conversations had a call since then."""
    rows = RequestRecord.objects.filter(RECORDS["talking"], created__gte=since)
    rows = rows if tenants is None else rows.filter(tenant_id__in=tenants)
    rows = rows if line_id is None else rows.filter(line_id=line_id)
    return int(rows.aggregate(n=Count("conversation", distinct=True))["n"])


def forecasts(tenants: Collection[int] | None) -> list[Forecast]:
    """Return the newest forecasts, what ends first on top, what has no end in sight last."""
    rows = Forecast.objects.select_related("tenant")
    if tenants is not None:
        rows = rows.filter(tenant__in=tenants)
    return sorted(rows, key=lambda row: (row.days_left is None, row.days_left or 0, row.subject))


def added(rows: Iterable[LineFigures | ModelFigures]) -> Sums:
    """Add up figures of one currency (of any, where only counts are read)."""
    total = Sums()
    for row in rows:
        total += row.sums
    return total


def _summed_until() -> datetime | None:
    return RollupMark.objects.filter(pk=1).values_list("days_until", flat=True).first()


def _tail(until: datetime | None, now: datetime) -> datetime:
    """Return from when on records are read."""
    least = now.replace(minute=0, second=0, microsecond=0) - TAIL_MOST
    return least if until is None else max(until, least)


def _traffic(asked: Asked, until: datetime | None, now: datetime) -> Traffic:
    tail = _tail(until, now)
    lines: dict[tuple[Any, ...], Sums] = {}
    models: dict[tuple[Any, ...], Sums] = {}
    by_line, by_model = ("tenant_id", "day", "line_id", "line_slug", "currency"), ("model", "currency")
    for row in asked.of(LineDay.objects.all(), asked.first).values(*by_line).annotate(**_KEPT):
        _fold(lines, by_line, row)
    for row in asked.of(LineDay.objects.all(), asked.since).values(*by_model).annotate(**_KEPT):
        _fold(models, by_model, row)
    fresh = asked.of(RequestRecord.objects.filter(COUNTED, created__gte=tail), asked.first)
    for row in fresh.annotate(model=MODEL).values(*by_line, "model").annotate(**_FRESH):
        _fold(lines, by_line, row)
        if row["day"] >= asked.since:
            _fold(models, by_model, row)
    behind = until is not None and until < tail
    return Traffic(
        [LineFigures(*(*key, sums)) for key, sums in sorted(lines.items())],
        [ModelFigures(*(*key, sums)) for key, sums in sorted(models.items())],
        _times(asked, tail),
        until if behind else None,
    )


def _fold(sums: dict[tuple[Any, ...], Sums], names: Iterable[str], row: Mapping[str, Any]) -> None:
    key = tuple(row[name] for name in names)
    values: dict[str, Any] = {name: row[f"all_{name}"] or (_ZERO if name in _AMOUNTS else 0) for name in _NAMES}
    read = Sums(**values)
    sums[key] = sums[key] + read if key in sums else read


def _times(asked: Asked, tail: datetime) -> dict[date, Histogram]:
    """Return the times to first content by day; buckets of fresh records are reckoned by the database."""
    parts: dict[date, list[Histogram]] = {}
    for day, counts in asked.of(DaySpeed.objects.all(), asked.since).values_list("day", "first_content"):
        parts.setdefault(day, []).append(counts)
    fresh = asked.of(RequestRecord.objects.filter(RECORDS["timed"], created__gte=tail), asked.since)
    bucket = Ceil(Ln(Cast(F("first_content_ms"), FloatField())) / Value(_LN2) * Value(STEPS) - Value(_EDGE))
    sized = fresh.annotate(bucket=Case(When(Q(first_content_ms__lte=1), then=Value(0.0)), default=bucket))
    for day, number, count in sized.values("day", "bucket").annotate(n=Count("pk")).values_list("day", "bucket", "n"):
        parts.setdefault(day, []).append({str(int(number)): count})
    return {day: merged(counts) for day, counts in sorted(parts.items())}
