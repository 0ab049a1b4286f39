"""Hours reckoned from records, for pages and forecasts: made anew as a whole, so a second run changes nothing.

A run makes every hour from a little before its mark until now, those that late ledger entries belong to (spooled
records, repricing), and those of the last day that hold more records than were counted (late failures); then the days
of what it made are added up from their hours. Stopped anywhere, the next run goes on from the mark.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

from django.db import transaction
from django.db.models import Count, F, Max, Min, Sum
from django.db.models.functions import TruncHour

from billing.core.histogram import bucket_of, merged, percentile
from billing.kinds import NOT_THE_KEYS
from billing.models import (
    Attempt,
    DaySpeed,
    KeyHour,
    LedgerEntry,
    LineDay,
    LineHour,
    OutputSize,
    RequestRecord,
    RollupMark,
)

HOUR = timedelta(hours=1)
AGAIN = timedelta(hours=2)  # long streams end late
OPEN = timedelta(minutes=15)  # an hour joins its day's sums when it has been over for so long
LOOK_BACK = timedelta(hours=24)
SIZES_OF = timedelta(days=7)
FEWEST_SAMPLES = 20
_LATE_MOST = 5000  # ledger entries looked at for late ones in one run; more = a run of `rebuild` is due
_HOURS_MOST = 500  # in one run; the next goes on
_CHUNK = 2000
_EXACT = Context(prec=60)
_ZERO = Decimal(0)
_RECORD = (
    "tenant_id", "day", "line_id", "line_slug", "currency", "model_served", "model_requested", "status",
    "refusal_limit", "http_status", "priced", "estimated", "attempt_count", "input_tokens", "cached_read_tokens",
    "cache_write_tokens", "output_tokens", "charge", "cost", "waste", "first_content_ms",
)  # fmt: skip
_ATTEMPT = ("record_id", "record__tenant_id", "upstream_key_id", "upstream", "upstream_key", "outcome", "cost",
            "waste", "first_content_ms")  # fmt: skip
_LINE_KEY: tuple[str, ...] = ("tenant_id", "day", "line_id", "line_slug", "model", "currency")
_COUNTS = ("calls", "failed", "lost", "refused", "cancelled", "unpriced", "estimated", "retried", "rescued",
           "input_tokens", "cached_read_tokens", "cache_write_tokens", "output_tokens")  # fmt: skip
_AMOUNTS = ("charge", "cost", "waste")
_SERVER_ERROR, _TOO_MANY = 500, 429


@dataclass(frozen=True, slots=True)
class Hours:
    """The rows of one hour."""

    lines: list[LineHour] = field(default_factory=list)
    keys: list[KeyHour] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Day:
    """The rows of one tenant's day."""

    lines: list[LineDay]
    speeds: list[DaySpeed]


def floor(at: datetime) -> datetime:
    """Return the hour, in UTC, that holds an instant."""
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def roll_up(*, now: datetime) -> int:
    """Bring hours and days up to date; returns how many hours were made."""
    newest = LedgerEntry.objects.aggregate(newest=Max("pk"))["newest"] or 0
    mark = RollupMark.objects.filter(pk=1).first()
    if mark is None:
        first = RequestRecord.objects.aggregate(first=Min("created"))["first"]
        mark = RollupMark(pk=1, done_until=floor(first or now), ledger_id=newest)
        mark.save()
    first = hour = floor(mark.done_until) - AGAIN
    late, made = sorted(one for one in late_hours(mark, newest) | _miscounted(first) if one < first), 0
    for dirty in late:
        rebuild_hour(dirty)
        made += 1
    while hour <= now and made < _HOURS_MOST:
        rebuild_hour(hour)
        made += 1
        # The mark moves with each hour: a run that is cut short loses nothing.
        RollupMark.objects.filter(pk=1).update(done_until=hour)
        hour += HOUR
    add_up_days(
        [*late, *_span(min(first, (mark.days_until or first) - AGAIN), hour)], until=min(hour, floor(now - OPEN))
    )
    RollupMark.objects.filter(pk=1).update(ledger_id=newest)
    return made


def rebuild_hour(hour: datetime) -> None:
    """Replace an hour's rows by what the records say."""
    made = reckon(hour)  # outside the transaction, which would keep SQLite's other writers waiting
    with transaction.atomic():
        LineHour.objects.filter(hour=hour).delete()
        KeyHour.objects.filter(hour=hour).delete()
        # Another run may have put the same rows there in the meantime: its figures are as good.
        LineHour.objects.bulk_create(made.lines, batch_size=_CHUNK, ignore_conflicts=True)
        KeyHour.objects.bulk_create(made.keys, batch_size=_CHUNK, ignore_conflicts=True)


def add_up_days(hours: Collection[datetime], *, until: datetime | None = None) -> None:
    """Sum up anew the days that these hours are part of, from their rows; `until` moves the mark.

    Mark and sums change together: who reads both in one go never counts an hour twice, nor misses one.
    """
    if not hours:
        return
    touched = LineHour.objects.filter(hour__gte=min(hours), hour__lte=max(hours), hour__in=set(hours))
    places = set(touched.order_by().values_list("tenant_id", "day").distinct())
    with transaction.atomic():
        mark = RollupMark.objects.select_for_update().filter(pk=1).first()
        if mark is None:
            return
        if until is not None and (mark.days_until is None or until > mark.days_until):
            mark.days_until = until
            mark.save(update_fields=["days_until"])
        for tenant_id, day in sorted(places):
            made = day_of_hours(tenant_id, day, mark.days_until)
            LineDay.objects.filter(tenant_id=tenant_id, day=day).delete()
            LineDay.objects.bulk_create(made.lines, batch_size=_CHUNK)
            DaySpeed.objects.filter(tenant_id=tenant_id, day=day).delete()
            DaySpeed.objects.bulk_create(made.speeds, batch_size=_CHUNK)


def _span(first: datetime, end: datetime) -> list[datetime]:
    """Return the hours from the first to before the end."""
    return [first + n * HOUR for n in range(max(0, round((end - first) / HOUR)))]


def day_of_hours(tenant_id: int, day: date, until: datetime | None) -> Day:
    """Add up a tenant's day from its hours before `until`."""
    lines: dict[tuple[Any, ...], LineDay] = {}
    speeds: dict[int, DaySpeed] = {}
    rows = LineHour.objects.filter(tenant_id=tenant_id, day=day, hour__lt=until) if until else LineHour.objects.none()
    for row in rows.order_by("pk").defer("outputs").iterator(chunk_size=_CHUNK):
        key = tuple(getattr(row, name) for name in _LINE_KEY)
        if key not in lines:
            lines[key] = LineDay(**dict(zip(_LINE_KEY, key, strict=True)), **dict.fromkeys(_AMOUNTS, _ZERO))
        for name in _COUNTS:
            setattr(lines[key], name, getattr(lines[key], name) + getattr(row, name))
        for name in _AMOUNTS:
            setattr(lines[key], name, _EXACT.add(getattr(lines[key], name), getattr(row, name)))
        if row.first_content:
            place = {"tenant_id": tenant_id, "day": day, "line_id": row.line_id}
            speed = speeds.setdefault(row.line_id, DaySpeed(**place, first_content={}))
            speed.first_content = merged((speed.first_content, row.first_content))
    return Day(list(lines.values()), list(speeds.values()))


def reckon(hour: datetime) -> Hours:
    """Return an hour's rows as the records say; writes nothing."""
    lines: dict[tuple[Any, ...], LineHour] = {}
    records = RequestRecord.objects.filter(created__gte=hour, created__lt=hour + HOUR, replay_of="")
    for row in records.values(*_RECORD).iterator(chunk_size=_CHUNK):
        row["model"] = row["model_served"] or row["model_requested"]
        key = tuple(row[name] for name in _LINE_KEY)
        if key not in lines:
            amounts = {"charge": _ZERO, "cost": _ZERO, "waste": _ZERO, "first_content": {}, "outputs": {}}
            lines[key] = LineHour(hour=hour, **dict(zip(_LINE_KEY, key, strict=True)), **amounts)
        _count_record(lines[key], row)
    keys: dict[tuple[int, int], KeyHour] = {}
    tries = Attempt.objects.filter(
        record__created__gte=hour, record__created__lt=hour + HOUR, skipped="", upstream_key_id__isnull=False
    )
    before: dict[str, Any] | None = None
    for row in tries.order_by("record_id", "n").values(*_ATTEMPT).iterator(chunk_size=_CHUNK):
        if before is not None and before["record_id"] == row["record_id"] and before["outcome"] not in NOT_THE_KEYS:
            keys[before["record__tenant_id"], before["upstream_key_id"]].moved_on += 1
        _count_attempt(keys, hour, row)
        before = row
    return Hours(list(lines.values()), list(keys.values()))


def measure_outputs(*, now: datetime) -> int:
    """Keep the 95th percentile of each line's and model's output over seven days; returns how many there are."""
    sizes: dict[tuple[int, int, str], list[dict[str, int]]] = {}
    rows = LineHour.objects.filter(hour__gte=floor(now - SIZES_OF)).exclude(outputs={})
    for tenant_id, line_id, model, outputs in rows.values_list("tenant_id", "line_id", "model", "outputs").iterator():
        sizes.setdefault((tenant_id, line_id, model), []).append(outputs)
    made = []
    for (tenant_id, line_id, model), parts in sizes.items():
        counts = merged(parts)
        samples, p95 = sum(counts.values()), percentile(counts, 0.95)
        if samples >= FEWEST_SAMPLES and p95 is not None:
            made.append(OutputSize(tenant_id=tenant_id, line_id=line_id, model=model, p95=p95, samples=samples))
    with transaction.atomic():
        OutputSize.objects.all().delete()
        OutputSize.objects.bulk_create(made, batch_size=_CHUNK, ignore_conflicts=True)
    return len(made)


def late_hours(mark: RollupMark, newest: int) -> set[datetime]:
    """Return the hours, before those that a run makes anyway, that ledger entries came to since the last run."""
    entries = LedgerEntry.objects.filter(pk__gt=mark.ledger_id, pk__lte=newest, record__isnull=False)
    moments = entries.filter(created__lt=floor(mark.done_until) - AGAIN).order_by("pk")
    return {floor(created) for created in moments.values_list("created", flat=True)[:_LATE_MOST]}


def _miscounted(end: datetime) -> set[datetime]:
    """Return the hours of the day before `end` whose records are not as many as were counted."""
    start = end - LOOK_BACK
    records = RequestRecord.objects.filter(created__gte=start, created__lt=end, replay_of="").order_by()
    by_hour = records.annotate(hour=TruncHour("created", tzinfo=UTC)).values("hour")
    there = dict(by_hour.annotate(n=Count("pk")).values_list("hour", "n"))
    hours = LineHour.objects.filter(hour__gte=start, hour__lt=end).order_by().values("hour")
    counted = dict(hours.annotate(n=Sum(F("calls") + F("failed") + F("refused"))).values_list("hour", "n"))
    return {hour for hour in {*there, *counted} if there.get(hour, 0) != counted.get(hour, 0)}


def _count_record(line: LineHour, row: dict[str, Any]) -> None:
    line.waste = _EXACT.add(line.waste, row["waste"] or _ZERO)
    if row["refusal_limit"]:
        line.refused += 1
        return
    failed = row["status"] == RequestRecord.Status.FAILED
    retried = row["attempt_count"] > 1
    line.retried += retried
    line.rescued += retried and row["status"] == RequestRecord.Status.FINISHED
    if failed:
        line.failed += 1
        status = row["http_status"]
        line.lost += status is None or status >= _SERVER_ERROR or status == _TOO_MANY
        return
    line.calls += 1
    line.cancelled += row["status"] == RequestRecord.Status.CANCELLED
    line.unpriced += not row["priced"]
    line.estimated += row["estimated"]
    for name in ("input_tokens", "cached_read_tokens", "cache_write_tokens", "output_tokens"):
        setattr(line, name, getattr(line, name) + (row[name] or 0))
    line.charge = _EXACT.add(line.charge, row["charge"] or _ZERO)
    line.cost = _EXACT.add(line.cost, row["cost"] or _ZERO)
    _add(line.first_content, row["first_content_ms"])
    if row["status"] == RequestRecord.Status.FINISHED:
        _add(line.outputs, row["output_tokens"])


def _count_attempt(keys: dict[tuple[int, int], KeyHour], hour: datetime, row: dict[str, Any]) -> None:
    identity = (row["record__tenant_id"], row["upstream_key_id"])
    if identity not in keys:
        keys[identity] = KeyHour(
            tenant_id=identity[0], hour=hour, upstream_key_id=identity[1], upstream=row["upstream"],
            upstream_key=row["upstream_key"], cost=_ZERO, waste=_ZERO, first_content={},
        )  # fmt: skip
    key = keys[identity]
    key.attempts += 1
    key.failed += row["outcome"] not in NOT_THE_KEYS
    key.cost = _EXACT.add(key.cost, row["cost"] or _ZERO)
    key.waste = _EXACT.add(key.waste, row["waste"] or _ZERO)
    _add(key.first_content, row["first_content_ms"])


def _add(counts: dict[str, int], value: int | None) -> None:
    if value is not None:
        bucket = bucket_of(value)
        counts[bucket] = counts.get(bucket, 0) + 1


def identity_of(row: LineHour | LineDay | DaySpeed | KeyHour) -> tuple[Any, ...]:
    names = _LINE_KEY
    if isinstance(row, KeyHour):
        names = ("tenant_id", "upstream_key_id")
    elif isinstance(row, DaySpeed):
        names = ("tenant_id", "day", "line_id")
    return tuple(getattr(row, name) for name in names)


def figures_of(row: LineHour | LineDay | DaySpeed | KeyHour) -> dict[str, Any]:
    left_out = {"id", "tenant", "hour", "upstream", "upstream_key"}
    return {one.name: getattr(row, one.attname) for one in row._meta.concrete_fields if one.name not in left_out}
