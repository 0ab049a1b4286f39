"""How long the money lasts, and what the period will come to.

The pace is the spend of the last 7 days (of all days since the start, at least one, when there are fewer). With four
whole weeks of history it is spread over the week as those weeks were, hour by hour in the zone's time: a Friday
evening does not promise a weekend like it. With less it is even. How far such a forecast is off is measured on the
history itself: the same forecast, made at the same moment of earlier periods, against what they came to.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from decimal import Decimal

from billing.core.periods import Period, Span, previous_period

_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
_WEEK = timedelta(days=7)
_SHAPE_WEEKS = 4
_HOURS_OF_WEEK = 7 * 24
_PAST_PERIODS = 3
_HORIZON = timedelta(days=3660)  # later than this is "not in sight"
_NOTHING = Decimal(0)
_ONE_PLACE = Decimal("0.1")
_MICROSECOND = timedelta(microseconds=1)
_MICROSECONDS_OF_DAY = Decimal(_DAY // _MICROSECOND)


@dataclass(frozen=True, slots=True)
class History:
    """Spend per hour. `hours` maps the UTC start of an hour to its amount; a missing hour had none.

    `since` is when counting began: earlier hours are unknown, not empty.
    """

    hours: Mapping[datetime, Decimal]
    since: datetime

    def between(self, start: datetime, end: datetime) -> Decimal:
        """Return the spend of the hours that begin in `start` <= hour < `end`."""
        return sum((amount for hour, amount in self.hours.items() if start <= hour < end), _NOTHING)


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is expected, seen from one moment.

    `days_left` (one place) and `exhausted_at`: None = not in sight at this pace, or there is no limit.
    `expected`: what the period will come to; None for a period without end. `past_error`: by what share of the truth
    such figures were off in up to three earlier periods; None = no earlier period to look at.
    """

    burn_per_day: Decimal
    days_left: Decimal | None
    exhausted_at: datetime | None
    expected: Decimal | None
    past_error: Decimal | None


def forecast(
    history: History, now: datetime, zone: tzinfo, *, left: Decimal | None, span: Span, period: Period | str
) -> Forecast:
    """Look ahead from `now`.

    `left` is what the account or budget still has (None = no limit); `span` is the current period, `period` its kind.
    """
    pace = _Pace.of(history, now, zone)
    exhausted_at = None if left is None else pace.exhaustion(now, left)
    expected = None
    if span.start is not None and span.end is not None:
        expected = history.between(span.start, now) + pace.expected(now, span.end)
    return Forecast(
        burn_per_day=pace.per_day,
        days_left=None if exhausted_at is None else _days(exhausted_at - now).quantize(_ONE_PLACE),
        exhausted_at=exhausted_at,
        expected=expected,
        past_error=past_error(history, now, zone, span, period),
    )


def past_error(history: History, now: datetime, zone: tzinfo, span: Span, period: Period | str) -> Decimal | None:
    """Return by what share of the truth the same forecast was off in earlier periods the history knows whole."""
    if span.start is None:
        return None
    into = now - span.start
    off = truth = _NOTHING
    for _ in range(_PAST_PERIODS):
        span = previous_period(span, period, zone)
        if span.start is None or span.end is None or span.start < history.since:
            break
        moment = span.start + into
        if moment < span.end:
            came_to = history.between(span.start, span.end)
            pace = _Pace.of(history, moment, zone)
            off += abs(history.between(span.start, moment) + pace.expected(moment, span.end) - came_to)
            truth += came_to
    return off / truth if truth > 0 else None


def runs_out_inside(ahead: Forecast, now: datetime, span: Span) -> bool:
    """Say whether the money is going to end before the period does: the case for a warning."""
    if ahead.exhausted_at is None or ahead.exhausted_at <= now:
        return False
    return span.end is None or ahead.exhausted_at < span.end


@dataclass(frozen=True, slots=True)
class _Pace:
    """`weights`: how much an hour of the week differs from the mean hour (1 = as it); None = even."""

    per_day: Decimal
    weights: Sequence[Decimal] | None
    zone: tzinfo

    @classmethod
    def of(cls, history: History, at: datetime, zone: tzinfo) -> "_Pace":
        seen = min(max(at - history.since, _DAY), _WEEK)
        per_day = history.between(at - seen, at) / _days(seen)
        weights = _weights(history, at, zone) if at - history.since >= _SHAPE_WEEKS * _WEEK else None
        return cls(per_day, weights, zone)

    def expected(self, start: datetime, end: datetime) -> Decimal:
        if self.weights is None:
            return self.per_day * max(_days(end - start), _NOTHING)
        return sum((self._slot(hour, until) for hour, until in _slots(start, end)), _NOTHING)

    def exhaustion(self, now: datetime, left: Decimal) -> datetime | None:
        """Return when `left` is gone; None beyond the horizon."""
        if left <= 0:
            return now
        if self.per_day <= 0 or left / self.per_day > _days(_HORIZON):
            return None
        if self.weights is None:
            return now + _span_of(left / self.per_day)
        per_week = self.per_day * 7
        weeks = int(left // per_week)
        rest, end = left - weeks * per_week, now + weeks * _WEEK
        slots = _slots(end, end + 2 * _WEEK)  # one week would do, were it not for changing clocks
        while rest > 0:
            hour, until = next(slots)
            costs = self._slot(hour, until)
            end = until if costs < rest else hour + _span_of(_days(until - hour) * rest / costs)
            rest -= costs
        return end

    def _slot(self, start: datetime, end: datetime) -> Decimal:
        local = start.astimezone(self.zone)
        weight = self.weights[local.weekday() * 24 + local.hour] if self.weights else 1
        return self.per_day * _days(end - start) * weight


def _weights(history: History, at: datetime, zone: tzinfo) -> Sequence[Decimal] | None:
    sums = [_NOTHING] * _HOURS_OF_WEEK
    since = at - _SHAPE_WEEKS * _WEEK
    for hour, amount in history.hours.items():
        if since <= hour < at:
            local = hour.astimezone(zone)
            sums[local.weekday() * 24 + local.hour] += amount
    total = sum(sums, _NOTHING)
    return [amount * _HOURS_OF_WEEK / total for amount in sums] if total > 0 else None


def _slots(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Cut a span at the full hours."""
    while start < end:
        until = min(start.replace(minute=0, second=0, microsecond=0) + _HOUR, end)
        yield start, until
        start = until


def _days(span: timedelta) -> Decimal:
    return Decimal(span // _MICROSECOND) / _MICROSECONDS_OF_DAY


def _span_of(days: Decimal) -> timedelta:
    return timedelta(microseconds=int(days * _MICROSECONDS_OF_DAY))
