"""Days, weeks and months as people in a zone see them, as half-open spans of UTC instants.

A day runs from one local midnight to the next: 23 to 25 hours where clocks change. Where midnight does not exist the
day begins at the change; where it comes twice, at the first. `day_of` follows the same bounds, so that every instant
lies in exactly one day and the days of a month add up to it.
"""

import re
from collections.abc import Iterator
from datetime import MINYEAR, UTC, date, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import NamedTuple

_MONTH_TEXT = re.compile(r"([0-9]{4})-(0[1-9]|1[0-2])")
_ONE_DAY = timedelta(days=1)


class Period(StrEnum):
    DAY = "day"
    WEEK = "week"  # from Monday
    MONTH = "month"
    TOTAL = "total"  # never begins again


class Span(NamedTuple):
    """`start` <= instant < `end`, in UTC. None = without bound (both, for a total)."""

    start: datetime | None
    end: datetime | None


class Day(NamedTuple):
    day: date
    start: datetime
    end: datetime


def midnight(day: date, zone: tzinfo) -> datetime:
    """Return the instant, in UTC, at which `day` begins in `zone`."""
    local = datetime(day.year, day.month, day.day, tzinfo=zone)
    # "Since ever" (the year 1) has no instant in UTC east of Greenwich.
    return local.replace(tzinfo=UTC) if day.year == MINYEAR else local.astimezone(UTC)


def day_of(instant: datetime, zone: tzinfo) -> date:
    """Return the day that holds an aware `instant`."""
    day = instant.astimezone(zone).date()
    # Clocks set back just after midnight show the day before once more; it is over all the same.
    return day + _ONE_DAY if instant >= midnight(day + _ONE_DAY, zone) else day


def period_of(now: datetime, period: Period | str, zone: tzinfo) -> Span:
    """Return the period that holds `now`. Raises ValueError for an unknown period."""
    kind = Period(period)
    if kind is Period.TOTAL:
        return Span(None, None)
    today = day_of(now, zone)
    if kind is Period.MONTH:
        return month_of(today, zone)
    first = today - timedelta(days=today.weekday()) if kind is Period.WEEK else today
    last = first + timedelta(days=6) if kind is Period.WEEK else first
    return Span(midnight(first, zone), midnight(last + _ONE_DAY, zone))


def previous_period(span: Span, period: Period | str, zone: tzinfo) -> Span:
    """Return the period before `span`; a total has none and comes back as it is."""
    return span if span.start is None else period_of(span.start - timedelta(microseconds=1), period, zone)


def month_of(day: date, zone: tzinfo) -> Span:
    """Return the month that holds `day`."""
    first = day.replace(day=1)
    following = (first + timedelta(days=31)).replace(day=1)
    return Span(midnight(first, zone), midnight(following, zone))


def first_of_month(text: str) -> date:
    """Read `YYYY-MM`. Raises ValueError for anything else."""
    match = _MONTH_TEXT.fullmatch(text)
    if match is None:
        raise ValueError(f"not a month as YYYY-MM: {text!r}")
    return date(int(match[1]), int(match[2]), 1)


def days_of_month(first: date, zone: tzinfo) -> Iterator[Day]:
    """Yield the days of the month that begins on `first`, without gaps or overlaps."""
    day = first
    while day.month == first.month:
        yield Day(day, midnight(day, zone), midnight(day + _ONE_DAY, zone))
        day += _ONE_DAY


def seconds_until(end: datetime | None, now: datetime) -> int | None:
    """Return whole seconds, rounded up, from `now` to `end`, at least 0; None without an end."""
    return None if end is None else max(-((now - end) // timedelta(seconds=1)), 0)
