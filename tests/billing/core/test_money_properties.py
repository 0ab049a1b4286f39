"""What holds for all amounts."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from billing.core.periods import day_of, days_of_month, midnight, month_of
from billing.core.pricing import PriceBook, RateRow, amount_of, rounded
from billing.core.usage import NO_USAGE, Usage, UsageSource, read_usage
from keys.core.dialect import Dialect
from tests.billing.core.price_list import EVER, NOW, price

ONE = Decimal(1)
EPSILON = Decimal("1E-12")
# With and without summer time; changes at midnight, by half an hour, and across the date line.
ZONES = [
    ZoneInfo(name)
    for name in (
        "UTC",
        "Asia/Shanghai",
        "Europe/Berlin",
        "America/Los_Angeles",
        "America/Sao_Paulo",
        "America/Havana",
        "America/St_Johns",
        "Africa/Cairo",
        "Asia/Beirut",
        "Asia/Kathmandu",
        "Australia/Lord_Howe",
        "Pacific/Apia",
        "Pacific/Kiritimati",
    )
]
zones = st.sampled_from(ZONES)
firsts = st.builds(date, st.integers(2000, 2035), st.integers(1, 12), st.just(1))
rates = st.decimals(0, 1000, places=6, allow_nan=False, allow_infinity=False)
rates_or_none = st.none() | rates


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    plain, read, write_5m, write_1h, output = (draw(st.integers(0, 2_000_000)) for _ in range(5))
    write = write_5m + write_1h
    return Usage(plain + read + write, read, write, write_1h, output, 0, UsageSource.UPSTREAM)


@st.composite
def prices(draw: st.DrawFn):
    names = ("cached_input", "cache_write", "cache_write_1h")
    optional = {name: draw(rates_or_none) for name in names}
    stated = {name: str(rate) for name, rate in optional.items() if rate is not None}
    return price(input=str(draw(rates)), output=str(draw(rates)), **stated)


def added(one: Usage, other: Usage) -> Usage:
    return Usage(
        one.input_tokens + other.input_tokens,
        one.cached_read_tokens + other.cached_read_tokens,
        one.cache_write_tokens + other.cache_write_tokens,
        one.cache_write_1h_tokens + other.cache_write_1h_tokens,
        one.output_tokens + other.output_tokens,
        0,
        UsageSource.UPSTREAM,
    )


@given(usages(), usages(), prices())
def test_amounts_add_up(one, other, listed):
    """Rates of at most 6 places make amounts of at most 12: nothing is lost to rounding."""
    assert amount_of(added(one, other), listed, ONE) == amount_of(one, listed, ONE) + amount_of(other, listed, ONE)


@given(usages(), prices(), st.integers(0, 50))
def test_the_multiplier_is_linear(used, listed, times):
    assert amount_of(used, listed, Decimal(times)) == amount_of(used, listed, ONE) * times


@given(usages(), prices(), rates)
def test_no_amount_is_negative(used, listed, multiplier):
    assert amount_of(used, listed, multiplier) >= 0


@given(usages(), prices())
def test_a_dearer_part_never_makes_a_call_cheaper(used, listed):
    dearer = price(
        input=str(listed.input + 1),
        cached_input=None if listed.cached_input is None else str(listed.cached_input + 1),
        cache_write=None if listed.cache_write is None else str(listed.cache_write + 1),
        cache_write_1h=None if listed.cache_write_1h is None else str(listed.cache_write_1h + 1),
        output=str(listed.output + 1),
    )
    difference = amount_of(used, dearer, ONE) - amount_of(used, listed, ONE)

    assert difference == Decimal(used.input_tokens + used.output_tokens) / 1_000_000


@given(
    st.decimals(-(10**9), 10**9, places=12, allow_nan=False),
    st.decimals(Decimal("0.0001"), 100000, places=12, allow_nan=False),
)
def test_there_and_back_is_the_same_amount(amount, rate):
    book = PriceBook((), (RateRow("USD", "CNY", rate, EVER),))

    there = book.convert(amount, "USD", "CNY", NOW)
    back = book.convert(there, "CNY", "USD", NOW)

    assert abs(back - amount) <= EPSILON * (1 + 1 / rate) / 2


@given(st.fractions(-(10**12), 10**12))
def test_rounding_moves_by_at_most_half_a_unit_and_only_once(value):
    once = Fraction(rounded(value))

    assert abs(once - value) <= Fraction(EPSILON) / 2
    assert Fraction(rounded(once)) == once


@given(firsts, zones)
def test_the_days_of_a_month_add_up_to_it(first, zone):
    days = list(days_of_month(first, zone))
    span = month_of(first, zone)

    assert (days[0].start, days[-1].end) == span
    assert all(one.end == other.start for one, other in pairwise(days))
    assert [day.day.day for day in days] == list(range(1, len(days) + 1))


@given(st.integers(0, 36 * 366 * 24 * 60), zones)
def test_every_instant_lies_in_the_bounds_of_its_own_day(minutes, zone):
    instant = datetime(2000, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    day = day_of(instant, zone)

    assert midnight(day, zone) <= instant < midnight(day + timedelta(days=1), zone)


@given(firsts, zones, st.lists(st.tuples(st.integers(0, 45 * 24 * 60), usages()), max_size=30), prices())
def test_daily_sums_add_up_to_the_month(first, zone, calls, listed):
    span = month_of(first, zone)
    booked = [
        (span.start - timedelta(days=5) + timedelta(minutes=minutes), amount_of(used, listed, ONE))
        for minutes, used in calls
    ]

    by_day = [
        sum((amount for at, amount in booked if day.start <= at < day.end), Decimal(0))
        for day in days_of_month(first, zone)
    ]

    assert sum(by_day) == sum(amount for at, amount in booked if span.start <= at < span.end)


counts = st.none() | st.booleans() | st.floats() | st.text(max_size=3) | st.integers(-5, 10**9)
reports = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        [
            "prompt_tokens", "completion_tokens", "total_tokens", "input_tokens", "output_tokens", "cached_tokens",
            "prompt_cache_miss_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "reasoning_tokens",
            "promptTokenCount", "candidatesTokenCount", "totalTokenCount", "thoughtsTokenCount",
            "cachedContentTokenCount", "toolUsePromptTokenCount", "cost", "cost_in_usd_ticks", "iterations",
        ],
        counts,
    ),
)  # fmt: skip


@given(st.sampled_from(Dialect), reports, st.sampled_from(["", "inclusive", "exclusive"]))
def test_whatever_is_reported_reads_as_counts_or_unknown(dialect, report, semantics):
    found = read_usage(dialect, {"choices": [], "usage": report, "usageMetadata": report}, semantics) or NO_USAGE
    numbers = (
        found.input_tokens,
        found.cached_read_tokens,
        found.cache_write_tokens,
        found.cache_write_1h_tokens,
        found.output_tokens,
        found.reasoning_tokens,
    )

    assert all(number is None or (type(number) is int and number >= 0) for number in numbers)
    assert amount_of(found, price(input="1", output="1"), ONE) is None or found.source is UsageSource.UPSTREAM


@given(st.sampled_from([Dialect.OPENAI, Dialect.RESPONSES]), reports)
def test_caches_stay_inside_the_input_unless_flagged(dialect, report):
    found = read_usage(dialect, {"choices": [], "usage": report})

    if found is not None and found.input_tokens is not None:
        inside = (found.cached_read_tokens or 0) + (found.cache_write_tokens or 0) <= found.input_tokens
        assert inside
        assert "cache_exceeds_input" not in found.flags
