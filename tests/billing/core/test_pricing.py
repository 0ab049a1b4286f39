from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest

from billing.core.pricing import PriceBook, PriceUnit, RateRow, amount_of, payable, rounded
from billing.core.usage import UsageMeter, read_usage
from keys.core.dialect import Dialect
from tests.billing.core.price_list import EVER, NOW, price, tokens

ONE = Decimal(1)
ACME, OTHER = 7, 8
SHANGHAI = ZoneInfo("Asia/Shanghai")


def found(book: PriceBook, *names: str, tenant: int | None = ACME, at: datetime = NOW) -> int | None:
    row = book.find(tenant, names, at)
    return None if row is None else row.id


# Which price ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("claude-opus-4", 3),  # the exact name
        ("claude-opus-4-1", 2),  # the longer pattern
        ("claude-haiku-4", 1),
        ("claude-", 1),
        ("CLAUDE-Haiku", 1),
        ("gpt-4o", None),
        ("xclaude-opus", None),
        ("o1", 4),
        ("o12", None),
        ("glm-4.6[1m]", 5),  # brackets are literal
        ("glm-4.61", None),
        ("glm-4x6[1m]", None),  # and so is the dot
        ("", None),
    ],
)
def test_the_longest_pattern_wins(name, expected):
    book = PriceBook(
        (
            price("claude-*", 1),
            price("claude-opus-*", 2),
            price("Claude-Opus-4", 3),
            price("o?", 4),
            price("glm-4.6[1m]", 5),
        )
    )

    assert found(book, name) == expected


def test_an_exact_name_beats_an_equally_long_pattern():
    assert found(PriceBook((price("gpt-4o*", 1), price("gpt-4o", 2))), "gpt-4o") == 2
    assert found(PriceBook((price("gpt-4o*", 1), price("gpt-4o", 2))), "gpt-4o-mini") == 1


def test_wildcards_do_not_count_as_length():
    assert found(PriceBook((price("g***********", 1), price("gp*", 2))), "gpt-4o") == 2


def test_many_stars_match_fast():
    book = PriceBook((price("a" + "*" * 60 + "b", 1),))

    assert found(book, "a" * 5000) is None
    assert found(book, "a" * 5000 + "b") == 1


def test_names_are_tried_in_order():
    book = PriceBook((price("openai/gpt-4o", 1), price("gpt-4o", 2, ACME)))

    assert found(book, "openai/gpt-4o", "gpt-4o") == 1
    assert found(book, "unknown", "gpt-4o") == 2
    assert found(book) is None


def test_a_tenants_row_beats_a_longer_global_pattern():
    book = PriceBook((price("gpt-4o", 1), price("gpt-*", 2, ACME)))

    assert found(book, "gpt-4o") == 2
    assert found(book, "gpt-4o", tenant=OTHER) == 1
    assert found(book, "gpt-4o", tenant=None) == 1


def test_the_newest_row_that_has_begun_counts():
    later = NOW + timedelta(seconds=1)
    book = PriceBook(
        (
            price("m", 1, starts=NOW - timedelta(days=9)),
            price("m", 3, starts=later),
            price("m", 2, starts=NOW),
        )
    )

    assert found(book, "m", at=NOW - timedelta(days=10)) is None
    assert found(book, "m", at=NOW - timedelta(seconds=1)) == 1
    assert found(book, "m", at=NOW) == 2
    assert found(book, "m", at=later) == 3


def test_of_two_rows_of_one_day_the_later_row_counts():
    assert found(PriceBook((price("m", 5, starts=EVER), price("m", 4, starts=EVER))), "m") == 5


def test_a_pattern_that_has_not_begun_leaves_the_shorter_one():
    book = PriceBook((price("gpt-*", 1), price("gpt-4o", 2, starts=NOW + timedelta(days=1))))

    assert found(book, "gpt-4o") == 1


def test_a_date_begins_at_midnight_of_the_asking_tenant():
    book = PriceBook((price("m", 1, starts=date(2026, 11, 10)),), zones={ACME: SHANGHAI})
    in_shanghai = datetime(2026, 11, 9, 16, tzinfo=UTC)

    assert found(book, "m", at=in_shanghai) == 1
    assert found(book, "m", at=in_shanghai - timedelta(seconds=1)) is None
    assert found(book, "m", at=in_shanghai, tenant=OTHER) is None
    assert found(book, "m", at=datetime(2026, 11, 10, tzinfo=UTC), tenant=OTHER) == 1


def test_the_first_of_all_dates_is_no_error_in_the_east():
    assert found(PriceBook((price("m", 1, starts=date.min),), zones={ACME: SHANGHAI}), "m") == 1


def test_remembered_names_do_not_grow_without_bound():
    book = PriceBook((price("m*", 1),))

    for number in range(5000):
        assert found(book, f"m{number}") == 1
    assert len(book._found) <= 4096


def test_asking_changes_nothing_that_is_compared():
    book, fresh = (PriceBook((price("m", 1),), (RateRow("USD", "CNY", Decimal(7), EVER),)) for _ in range(2))
    found(book, "m")
    book.convert(ONE, "USD", "CNY", NOW)

    assert book == fresh


# Rates ---------------------------------------------------------------------------------------------------------------


def rate(text: str, starts: date = EVER, pair: str = "USD CNY", tenant_id: int | None = None) -> RateRow:
    source, target = pair.split()
    return RateRow(source, target, Decimal(text), starts, tenant_id)


@pytest.mark.parametrize(
    ("amount", "pair", "expected"),
    [
        ("10", "USD CNY", "71.000000000000"),
        ("71", "CNY USD", "10.000000000000"),
        ("1", "CNY USD", "0.140845070423"),
        ("-1", "CNY USD", "-0.140845070423"),
        ("1.123456789012345", "CNY CNY", "1.123456789012345"),  # unchanged
        ("1", "EUR EUR", "1"),
        ("1", "USD EUR", "None"),
        ("1", "EUR CNY", "None"),
    ],
)
def test_convert(amount, pair, expected):
    source, target = pair.split()

    assert str(PriceBook((), (rate("7.10"),)).convert(Decimal(amount), source, target, NOW)) == expected


def test_a_currency_is_worth_itself_without_any_rate():
    assert PriceBook().rate_of("EUR", "EUR", NOW) == 1


def test_rates_are_dated_in_the_tenants_zone():
    book = PriceBook((), (rate("7.10", date(2026, 11, 1)), rate("7.20", date(2026, 11, 10))), {ACME: SHANGHAI})
    change = datetime(2026, 11, 9, 16, tzinfo=UTC)

    assert book.rate_of("USD", "CNY", change, ACME) == Fraction("7.20")
    assert book.rate_of("USD", "CNY", change - timedelta(seconds=1), ACME) == Fraction("7.10")
    assert book.rate_of("USD", "CNY", change) == Fraction("7.10")
    assert book.rate_of("USD", "CNY", datetime(2026, 10, 1, tzinfo=UTC), ACME) is None


def test_the_newest_row_counts_whatever_its_direction():
    book = PriceBook((), (rate("7.10", date(2026, 11, 1)), rate("0.125", date(2026, 11, 5), "CNY USD")))

    assert book.rate_of("USD", "CNY", datetime(2026, 11, 4, tzinfo=UTC)) == Fraction("7.10")
    assert book.rate_of("USD", "CNY", NOW) == 8
    assert book.rate_of("CNY", "USD", NOW) == Fraction(1, 8)


def test_on_one_day_the_stated_direction_counts():
    book = PriceBook((), (rate("0.125", EVER, "CNY USD"), rate("7.10")))

    assert book.rate_of("USD", "CNY", NOW) == Fraction("7.10")
    assert book.rate_of("CNY", "USD", NOW) == Fraction(1, 8)


def test_a_tenants_own_rate_comes_first():
    book = PriceBook((), (rate("7.10", date(2026, 11, 5)), rate("7", tenant_id=ACME)))

    assert book.rate_of("USD", "CNY", NOW, ACME) == 7
    assert book.rate_of("USD", "CNY", NOW, OTHER) == Fraction("7.10")
    assert book.rate_of("USD", "CNY", NOW) == Fraction("7.10")


# Amounts -------------------------------------------------------------------------------------------------------------

CLAUDE = price("claude-*", input="3", cached_input="0.30", cache_write="3.75", cache_write_1h="6", output="15")


def test_golden_anthropic_call():
    answer = {
        "usage": {
            "input_tokens": 3,
            "cache_creation_input_tokens": 12304,
            "cache_read_input_tokens": 0,
            "output_tokens": 550,
        }
    }

    assert amount_of(read_usage(Dialect.ANTHROPIC, answer), CLAUDE, ONE) == Decimal("0.054399")


def test_golden_per_call_month():
    image = price(unit=PriceUnit.PER_CALL, call="0.031", currency="CNY")

    one = amount_of(None, image, ONE)

    assert one == Decimal("0.031")
    assert one * 2000 * 3 * 30 == Decimal("5580.00")


def test_a_cached_read_is_charged_once_at_its_own_rate():
    answer = {"usage": {"input_tokens": 100, "cache_read_input_tokens": 900, "output_tokens": 0}}
    own = price(input="10", cached_input="1")

    assert amount_of(read_usage(Dialect.ANTHROPIC, answer), own, ONE) == Decimal("0.0019")


def test_a_stream_costs_what_the_whole_answer_costs():
    usage = {"prompt_tokens": 2006, "completion_tokens": 300, "total_tokens": 2306, "cached_tokens": 1920}
    whole = read_usage(Dialect.OPENAI, {"choices": [{"message": {"content": "ok"}}], "usage": usage})
    meter = UsageMeter(Dialect.OPENAI)
    for event in ({"choices": [{"delta": {"content": "ok"}}], "usage": None}, {"choices": [], "usage": usage}):
        meter.feed(event)
    listed = price(input="2.50", cached_input="1.25", output="10")

    assert amount_of(meter.result(), listed, ONE) == amount_of(whole, listed, ONE) == Decimal("0.005615")


@pytest.mark.parametrize(
    ("used", "listed", "expected"),
    [
        (tokens(1_000_000, 0), CLAUDE, "3"),
        (tokens(0, 1_000_000), CLAUDE, "15"),
        (tokens(1_000_000, 0, read=1_000_000), CLAUDE, "0.3"),
        (tokens(1_000_000, 0, write=1_000_000), CLAUDE, "3.75"),
        (tokens(1_000_000, 0, write=1_000_000, hour=1_000_000), CLAUDE, "6"),
        (tokens(1_000_000, 0, write=600_000, hour=400_000), CLAUDE, "4.35"),
        (tokens(0, 0), CLAUDE, "0"),
        # rates that are not stated
        (tokens(1_000_000, 0, read=500_000), price(input="2", output="8"), "2"),
        (tokens(1_000_000, 0, write=500_000, hour=500_000), price(input="2", output="8"), "2"),
        (tokens(1_000_000, 0, write=500_000, hour=500_000), price(input="2", cache_write="4", output="8"), "3"),
        (tokens(1_000_000, 0, write=1_000_000, hour=500_000), price(input="2", cache_write_1h="4", output="8"), "3"),
        (tokens(1_000_000, 0), price(input="2"), "2"),  # embeddings
        (tokens(1_000_000, 1), price(input="2"), None),
        (tokens(0, 1_000_000), price(output="8"), "8"),
        (tokens(1, 1_000_000), price(output="8"), None),
        (tokens(1_000_000, 0, read=1_000_000), price(cached_input="1"), "1"),
        (tokens(1, 0), price(), None),
        (tokens(5, 5), price(input="0", output="0"), "0"),  # free on purpose
        # what is not known
        (None, CLAUDE, None),
        (tokens(None, 5), CLAUDE, None),
        (tokens(5, None), CLAUDE, None),
        (tokens(1_000_000, 0, read=None, write=None), CLAUDE, "3"),
        # a report at odds with itself never makes a negative part
        (tokens(1_000_000, 0, read=2_000_000), CLAUDE, "0.6"),
        (tokens(1_000_000, 0, write=500_000, hour=900_000), CLAUDE, "4.5"),
        # per call
        (tokens(None, None), price(unit="per_call", call="0.031"), "0.031"),
        (tokens(5, 5), price(unit="per_call", input="1", output="1"), None),
    ],
)
def test_amount(used, listed, expected):
    assert amount_of(used, listed, ONE) == (None if expected is None else Decimal(expected))


@pytest.mark.parametrize(
    ("rate_text", "used", "multiplier", "expected"),
    [
        ("0.000001", 1, "1", "0.000000000001"),
        ("0.0000005", 1, "1", "0.000000000000"),  # half to even
        ("0.0000005", 3, "1", "0.000000000002"),
        ("0.0000005", 5, "1", "0.000000000002"),
        ("0.00000050000001", 1, "1", "0.000000000001"),
        ("1", 1, "0.8", "0.000000800000"),
        ("1", 1, "0.3333333333", "0.000000333333"),
    ],
)
def test_rounded_once_half_even_to_12_places(rate_text, used, multiplier, expected):
    amount = amount_of(tokens(used, 0), price(input=rate_text), Decimal(multiplier))

    assert f"{amount:f}" == expected


def test_a_conversion_within_the_amount_is_rounded_with_it():
    """0.5e-12 USD at a rate of 7 is 3.5e-12 CNY: 4e-12 when rounded once, 0 when rounded on the way."""
    assert amount_of(tokens(1, 0), price(input="0.0000005"), ONE, Fraction(7)) == Decimal("0.000000000004")
    assert amount_of(tokens(1, 0), price(input="0.0000005"), ONE, Decimal(7)) == Decimal("0.000000000004")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Fraction(10**40) + Fraction(1, 10**12), "10000000000000000000000000000000000000000.000000000001"),
        (Fraction(-1, 3), "-0.333333333333"),
    ],
)
def test_rounding_is_exact_at_any_size(value, expected):
    assert str(rounded(value)) == expected


@pytest.mark.parametrize(
    ("amount", "currency", "expected"),
    [
        ("1.005", "USD", "1.00"),
        ("1.015", "CNY", "1.02"),
        ("1.015", "cny", "1.02"),
        ("2.5", "JPY", "2"),
        ("3.5", "KRW", "4"),
        ("1.0005", "KWD", "1.000"),
        ("1.005000000001", "XXX", "1.01"),
    ],
)
def test_payable(amount, currency, expected):
    assert str(payable(Decimal(amount), currency)) == expected
