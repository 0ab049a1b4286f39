from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from billing.core.periods import (
    Period,
    Span,
    day_of,
    days_of_month,
    first_of_month,
    midnight,
    month_of,
    period_of,
    previous_period,
    seconds_until,
)

SHANGHAI, LOS_ANGELES, BERLIN = ZoneInfo("Asia/Shanghai"), ZoneInfo("America/Los_Angeles"), ZoneInfo("Europe/Berlin")


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "period", "zone", "start", "end"),
    [
        ("2026-11-10T15:59", "day", SHANGHAI, "2026-11-09T16:00", "2026-11-10T16:00"),
        ("2026-11-10T16:00", "day", SHANGHAI, "2026-11-10T16:00", "2026-11-11T16:00"),
        ("2026-11-10T12:00", "week", SHANGHAI, "2026-11-08T16:00", "2026-11-15T16:00"),  # a Tuesday
        ("2026-11-08T15:59", "week", SHANGHAI, "2026-11-01T16:00", "2026-11-08T16:00"),  # Sunday, last minute
        ("2026-11-08T16:00", "week", SHANGHAI, "2026-11-08T16:00", "2026-11-15T16:00"),  # Monday
        ("2026-12-31T16:00", "month", SHANGHAI, "2026-12-31T16:00", "2027-01-31T16:00"),
        ("2028-02-10T00:00", "month", UTC, "2028-02-01T00:00", "2028-03-01T00:00"),
        # clocks forward: a day of 23 hours, a month an hour short; and back
        ("2026-03-29T12:00", "day", BERLIN, "2026-03-28T23:00", "2026-03-29T22:00"),
        ("2026-03-29T12:00", "month", BERLIN, "2026-02-28T23:00", "2026-03-31T22:00"),
        ("2026-10-25T12:00", "day", BERLIN, "2026-10-24T22:00", "2026-10-25T23:00"),
        ("2026-10-25T12:00", "week", BERLIN, "2026-10-18T22:00", "2026-10-25T23:00"),
        # an evening in the west belongs to its own month
        ("2026-12-01T05:30", "month", LOS_ANGELES, "2026-11-01T07:00", "2026-12-01T08:00"),
        # a midnight that does not exist: the day begins at the change
        ("2024-04-26T12:00", "day", ZoneInfo("Africa/Cairo"), "2024-04-25T22:00", "2024-04-26T21:00"),
        # a midnight that comes twice: the first
        ("2026-11-01T12:00", "day", ZoneInfo("America/Havana"), "2026-11-01T04:00", "2026-11-02T05:00"),
    ],
)
def test_period_of(now, period, zone, start, end):
    assert period_of(utc(now), period, zone) == (utc(start), utc(end))


def test_a_total_has_no_bounds():
    assert period_of(utc("2026-11-10T12:00"), Period.TOTAL, SHANGHAI) == Span(None, None)


def test_an_unknown_period_is_an_error():
    with pytest.raises(ValueError, match="fortnight"):
        period_of(utc("2026-11-10T12:00"), "fortnight", UTC)


def test_clocks_set_back_over_midnight_reopen_no_day():
    """St. John's went from 00:01 on 1 November 2009 back to 23:01 on 31 October."""
    zone = ZoneInfo("America/St_Johns")
    again_october = utc("2009-11-01T03:00")

    assert again_october.astimezone(zone).date() == date(2009, 10, 31)
    assert day_of(again_october, zone) == date(2009, 11, 1)
    assert period_of(again_october, "month", zone).start == utc("2009-11-01T02:30")


@pytest.mark.parametrize(
    ("instant", "zone", "expected"),
    [
        ("2026-11-10T15:59", SHANGHAI, date(2026, 11, 10)),
        ("2026-11-10T16:00", SHANGHAI, date(2026, 11, 11)),
        ("2026-12-01T05:30", LOS_ANGELES, date(2026, 11, 30)),
    ],
)
def test_day_of(instant, zone, expected):
    assert day_of(utc(instant), zone) == expected


@pytest.mark.parametrize(
    ("period", "start", "end"),
    [
        ("day", "2026-10-31T00:00", "2026-11-01T00:00"),
        ("week", "2026-10-19T00:00", "2026-10-26T00:00"),
        ("month", "2026-10-01T00:00", "2026-11-01T00:00"),
    ],
)
def test_previous_period(period, start, end):
    now = utc("2026-11-01T12:00")

    assert previous_period(period_of(now, period, UTC), period, UTC) == (utc(start), utc(end))


def test_a_total_has_none_before():
    assert previous_period(Span(None, None), "total", UTC) == Span(None, None)


@pytest.mark.parametrize(("text", "expected"), [("2026-11", date(2026, 11, 1)), ("0001-01", date(1, 1, 1))])
def test_first_of_month(text, expected):
    assert first_of_month(text) == expected


@pytest.mark.parametrize(
    "text", ["2026-13", "2026-00", "2026-1", "26-01", "2026-11-01", " 2026-11", "2026-11\n", "٢٠٢٦-11"]
)
def test_a_text_that_is_no_month_is_an_error(text):
    with pytest.raises(ValueError, match="not a month"):
        first_of_month(text)


def test_the_days_of_a_month_with_a_change_of_clocks():
    days = list(days_of_month(date(2026, 10, 1), BERLIN))
    lengths = [(day.end - day.start) / timedelta(hours=1) for day in days]

    assert lengths == [24] * 24 + [25] + [24] * 6
    assert (days[0].start, days[-1].end) == month_of(date(2026, 10, 17), BERLIN)


def test_the_first_year_is_since_ever():
    assert midnight(date.min, SHANGHAI) == utc("0001-01-01T00:00")


@pytest.mark.parametrize(
    ("end", "expected"),
    [("2026-11-10T12:00:10", 10), ("2026-11-10T12:00:09.000001", 10), ("2026-11-10T12:00", 0), ("2026-11-10T11:00", 0)],
)
def test_seconds_until(end, expected):
    assert seconds_until(utc(end), utc("2026-11-10T12:00")) == expected


def test_no_seconds_until_never():
    assert seconds_until(None, utc("2026-11-10T12:00")) is None
