"""Which kept sums are not what the records say, and which of those only wait for the next roll-up.

The next run makes the newest hours again, and those that late ledger entries came to. A sum of such an hour that is
behind its records waits; one that is ahead of them, or an older one, is wrong.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

from django.db.models import Max

from billing.models import DaySpeed, KeyHour, LedgerEntry, LineDay, LineHour, RollupMark
from billing.rollups import AGAIN, day_of_hours, figures_of, floor, identity_of, late_hours, reckon

# Repricing takes calls out of it.
_MAY_FALL = frozenset({"unpriced"})


@dataclass(slots=True)
class Found:
    """One line of text for each sum that is not what the records say; `behind` = the next run sees to it."""

    wrong: list[str] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class NextRun:
    """What the next roll-up makes: the hours from `first` on, and `late` ones before."""

    first: datetime
    late: frozenset[datetime]

    def makes(self, hour: datetime) -> bool:
        """Say whether it makes an hour."""
        return hour >= self.first or hour in self.late


def next_run(now: datetime) -> NextRun:
    """Return what a roll-up that starts now would make. One that never ran makes everything."""
    mark = RollupMark.objects.filter(pk=1).first()
    if mark is not None:
        newest = LedgerEntry.objects.aggregate(newest=Max("pk"))["newest"] or 0
        return NextRun(floor(mark.done_until) - AGAIN, frozenset(late_hours(mark, newest)))
    oldest = LineHour.objects.order_by("hour").values_list("hour", flat=True).first()
    return NextRun(floor(now) - AGAIN if oldest is not None else datetime.min.replace(tzinfo=now.tzinfo), frozenset())


def differences(hour: datetime, run: NextRun | None = None) -> Found:
    """Compare an hour's kept rows with its records."""
    # Kept rows first: a run or a call in between makes them behind, never ahead.
    kept = {kind: _by_identity(kind._default_manager.filter(hour=hour)) for kind in (LineHour, KeyHour)}
    made = reckon(hour)
    found = Found()
    for kind, fresh in ((LineHour, made.lines), (KeyHour, made.keys)):
        wanted = _by_identity(fresh)
        for key in _unequal(kept[kind], wanted):
            text = f"{hour:%Y-%m-%d %H:00} {kind.__name__} {' '.join(map(str, key))}"
            late = run is not None and hour in run.late
            waits = run is not None and run.makes(hour) and (late or _is_behind(kept[kind].get(key), wanted.get(key)))
            (found.behind if waits else found.wrong).append(text)
    return found


def day_differences(first: date, last: date, run: NextRun | None = None) -> Found:
    """Compare the days' sums with their hours."""
    mark = RollupMark.objects.filter(pk=1).first()
    until = mark.days_until if mark is not None else None
    places: set[tuple[int, date]] = set()
    for kind in (LineDay, DaySpeed, LineHour):
        rows = kind._default_manager.filter(day__gte=first, day__lte=last).order_by()
        places.update(rows.values_list("tenant_id", "day").distinct())
    # A day of a zone far from UTC holds hours of its neighbours.
    again = {hour.date() + timedelta(days=n) for hour in run.late for n in (-1, 0, 1)} if run is not None else set()
    since = run.first.date() - timedelta(days=1) if run is not None and run.first.year > 1 else None
    found = Found()
    for tenant_id, day in sorted(places):
        made = day_of_hours(tenant_id, day, until)
        waits = day in again or (since is not None and day >= since)
        for kind, fresh in ((LineDay, made.lines), (DaySpeed, made.speeds)):
            kept = _by_identity(kind._default_manager.filter(tenant_id=tenant_id, day=day))
            texts = [f"{day} {kind.__name__} {' '.join(map(str, key))}" for key in _unequal(kept, _by_identity(fresh))]
            (found.behind if waits else found.wrong).extend(texts)
    return found


def _by_identity(rows: Iterable[Any]) -> dict[tuple[Any, ...], Any]:
    return {identity_of(row): row for row in rows}


def _unequal(kept: Mapping[tuple[Any, ...], Any], wanted: Mapping[tuple[Any, ...], Any]) -> list[tuple[Any, ...]]:
    """Return which rows are missing, left over or of other figures."""
    return [
        key
        for key in sorted({*kept, *wanted}, key=str)
        if key not in kept or key not in wanted or figures_of(kept[key]) != figures_of(wanted[key])
    ]


def _is_behind(kept: Any, wanted: Any) -> bool:
    """Say whether no figure of a kept row is ahead of its records; a missing row is behind any."""
    if kept is None or wanted is None:
        return kept is None
    before, after = figures_of(kept), figures_of(wanted)
    return all(_up_to(value, after[name]) for name, value in before.items() if name not in _MAY_FALL)


def _up_to(kept: Any, wanted: Any) -> bool:
    if isinstance(kept, dict):
        return all(count <= wanted.get(bucket, 0) for bucket, count in kept.items())
    return bool(kept == wanted) if isinstance(kept, str | date) else bool(kept <= wanted)
