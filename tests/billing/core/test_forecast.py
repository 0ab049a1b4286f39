from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from billing.core.forecast import Forecast, History, forecast, past_error, runs_out_inside
from billing.core.periods import Span, period_of

HOUR, DAY, WEEK = timedelta(hours=1), timedelta(days=1), timedelta(days=7)
NOW = datetime(2026, 11, 12, tzinfo=UTC)  # a Thursday
SHANGHAI = ZoneInfo("Asia/Shanghai")
NEVER = Span(None, None)


def even(per_day: str, days: int, until: datetime = NOW) -> History:
    """The same spend every hour (`per_day` divides by 24 without remainder)."""
    hours = days * 24
    return History({until - (n + 1) * HOUR: Decimal(per_day) / 24 for n in range(hours)}, until - days * DAY)


def office(weeks: int, zone=UTC, until: datetime = NOW) -> History:
    """1 an hour on working days from 9 to 17 of `zone`: 40 a week."""
    hours = {}
    for n in range(weeks * 168):
        hour = until - (n + 1) * HOUR
        local = hour.astimezone(zone)
        if local.weekday() < 5 and 9 <= local.hour < 17:
            hours[hour] = Decimal(1)
    return History(hours, until - weeks * WEEK)


def ahead(history: History, left: str | None, now: datetime = NOW, zone=UTC, period: str = "month") -> Forecast:
    limit = None if left is None else Decimal(left)
    return forecast(history, now, zone, left=limit, span=period_of(now, period, zone), period=period)


def test_golden_70_in_7_days_leaves_50_for_5_days():
    once = History({NOW - 3 * DAY: Decimal(70)}, NOW - 20 * DAY)

    found = ahead(once, "50")

    assert str(found.days_left) == "5.0"
    assert found.burn_per_day == 10
    assert found.exhausted_at == NOW + 5 * DAY


@pytest.mark.parametrize(
    ("left", "days", "exhausted"),
    [("0", "0.0", 0), ("-3", "0.0", 0), ("12", "0.5", 0.5), ("24", "1.0", 1), ("87840", "3660.0", 3660)],
)
def test_even_pace(left, days, exhausted):
    found = ahead(even("24", 7), left)

    assert str(found.days_left) == days
    assert found.exhausted_at == NOW + exhausted * DAY


@pytest.mark.parametrize(
    ("history", "left"),
    [
        (even("24", 7), None),
        (even("24", 7), "87841"),
        (History({}, NOW - WEEK), "5"),
        (History({}, NOW - 9 * WEEK), "5"),
    ],
)
def test_no_end_in_sight(history, left):
    found = ahead(history, left)

    assert (found.days_left, found.exhausted_at) == (None, None)


def test_a_week_is_what_counts():
    """Dear days before the last seven are over."""
    history = even("24", 20)
    dear = {hour: amount * (100 if hour < NOW - WEEK else 1) for hour, amount in history.hours.items()}

    assert ahead(History(dear, history.since), "24").burn_per_day == 24


@pytest.mark.parametrize(
    ("age", "spent", "burn"),
    [
        (timedelta(hours=3), "6", "6"),  # younger than a day: no wild multiples
        (timedelta(0), "0", "0"),
        (timedelta(days=2), "20", "10"),
        (timedelta(days=7), "70", "10"),
    ],
)
def test_a_young_line_is_judged_by_its_own_days(age, spent, burn):
    history = History({NOW - age: Decimal(spent)} if age else {}, NOW - age)

    assert ahead(history, "100").burn_per_day == Decimal(burn)


def test_the_period_comes_to_what_is_spent_and_what_is_to_come():
    found = ahead(even("24", 20), None)

    assert found.expected == 24 * 30  # 11 days behind, 19 to come
    assert ahead(even("24", 20), None, period="total").expected is None


def test_less_than_four_weeks_spread_evenly():
    assert ahead(office(3), "40").exhausted_at == NOW + WEEK
    friday_evening = datetime(2026, 11, 13, 18, tzinfo=UTC)
    assert ahead(office(3, until=friday_evening), "20", friday_evening).exhausted_at == friday_evening + WEEK / 2


def test_four_weeks_give_the_week_its_shape():
    """A Friday evening with 20 left: nothing goes at the weekend, all of it by Wednesday noon."""
    friday_evening = datetime(2026, 11, 13, 18, tzinfo=UTC)

    found = ahead(office(4, until=friday_evening), "20", friday_evening)

    assert found.exhausted_at == datetime(2026, 11, 18, 13, tzinfo=UTC)
    assert str(found.days_left) == "4.8"


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        ("0.5", datetime(2026, 11, 12, 9, 30, tzinfo=UTC)),
        ("1", datetime(2026, 11, 12, 10, tzinfo=UTC)),
        ("8", datetime(2026, 11, 12, 17, tzinfo=UTC)),
        ("40", NOW + WEEK),
        ("88", datetime(2026, 11, 26, 17, tzinfo=UTC)),  # two whole weeks and a day
    ],
)
def test_shaped_exhaustion(left, expected):
    assert ahead(office(4), left).exhausted_at == expected


def test_the_shape_is_the_zones():
    found = ahead(office(5, SHANGHAI), "8", zone=SHANGHAI)

    assert found.exhausted_at == datetime(2026, 11, 12, 9, tzinfo=UTC)  # 17:00 in Shanghai


def test_a_shaped_period_counts_its_own_working_days():
    """November 2026 has 21 working days; 8 of them are over."""
    found = ahead(office(5), None)

    assert found.expected == 21 * 8


def test_an_hour_that_has_begun_is_forecast_for_its_rest():
    half_past = datetime(2026, 11, 12, 12, 30, tzinfo=UTC)
    history = even("24", 20, until=half_past.replace(minute=0))
    per_hour = Decimal(167) / 168  # of the last 168 hours, the one that has begun holds nothing yet

    found = ahead(history, None, half_past, period="day")

    assert found.expected == pytest.approx(12 + Decimal("11.5") * per_hour, abs=Decimal("1E-20"))


def test_past_error_of_a_steady_line_is_zero():
    assert ahead(even("24", 70), None).past_error == 0


def test_past_error_is_the_share_of_the_truth():
    """Weeks of 7 (1 a day), then of 14 (2 a day): each forecast is made on Wednesday's end from the 7 days before."""
    monday = datetime(2026, 11, 9, tzinfo=UTC)
    hours = {monday - n * DAY: Decimal(1 if n > 7 else 2) for n in range(1, 29)}
    history = History(hours, monday - 28 * DAY)
    now = monday + 3 * DAY

    # Last week: 3 days at 2, then 4 at (3*2 + 4*1)/7, came to 14; the two before: exact, 7 each.
    expected = abs(6 + 4 * Decimal(10) / 7 - 14) / 28
    assert past_error(history, now, UTC, period_of(now, "week", UTC), "week") == pytest.approx(expected)


@pytest.mark.parametrize(
    ("history", "period"),
    [
        (even("24", 20), "month"),  # no whole month before
        (History({}, NOW - 200 * DAY), "month"),  # nothing was spent: no share of it
        (even("24", 20), "total"),
    ],
)
def test_no_past_error_without_a_past(history, period):
    assert ahead(history, None, period=period).past_error is None


def test_a_moment_that_a_shorter_period_lacks_is_left_out():
    """On 30 March there is no 30 February to look at, only 30 January and 30 December."""
    now = datetime(2027, 3, 30, 12, tzinfo=UTC)
    history = even("24", 130, until=now.replace(hour=0))
    jumps = {hour: amount * (5 if hour.month == 2 else 1) for hour, amount in history.hours.items()}

    found = past_error(History(jumps, history.since), now, UTC, period_of(now, "month", UTC), "month")

    assert found == pytest.approx(0, abs=Decimal("1E-20"))


@pytest.mark.parametrize(
    ("exhausted_at", "end", "expected"),
    [
        (NOW + DAY, NOW + 2 * DAY, True),
        (NOW + 2 * DAY, NOW + 2 * DAY, False),
        (NOW + 3 * DAY, NOW + 2 * DAY, False),
        (NOW + 3 * DAY, None, True),
        (NOW, NOW + 2 * DAY, False),  # gone already: another mail's business
        (None, None, False),
    ],
)
def test_a_warning_is_due_when_it_runs_out_inside_the_period(exhausted_at, end, expected):
    found = Forecast(Decimal(1), None, exhausted_at, None, None)

    assert runs_out_inside(found, NOW, Span(None, end)) is expected
