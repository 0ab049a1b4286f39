import csv
import io
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.core.csvtext import BOM, COLUMNS, HEADER, CsvRow, csv_line, plain_decimal, row_text, safe_text, total_text

ROW = CsvRow(
    date="2026-11-01",
    tenant="acme",
    line="support-bot",
    line_name="Support, bot",
    gateway_key="prod",
    key_last4="-2ab",
    model_requested="gpt-4o",
    model_served="=gpt",
    calls=3,
    failed_calls=1,
    input_tokens=12,
    cached_read_tokens=4,
    cache_write_tokens=0,
    output_tokens=9,
    reasoning_tokens=2,
    cost=Decimal("-0.000000000001"),
    charge=Decimal("5580"),
    currency="CNY",
    unpriced_calls=1,
    estimated_calls=0,
)


def test_the_header_is_the_contracts():
    assert HEADER == (
        "date,tenant,line,line_name,gateway_key,key_last4,model_requested,model_served,calls,failed_calls,"
        "input_tokens,cached_read_tokens,cache_write_tokens,output_tokens,reasoning_tokens,cost,charge,currency,"
        "unpriced_calls,estimated_calls\r\n"
    )
    assert len(COLUMNS) == 20
    assert BOM.encode() == b"\xef\xbb\xbf"


def test_a_row():
    assert row_text(ROW) == (
        "2026-11-01,acme,support-bot,\"Support, bot\",prod,'-2ab,gpt-4o,'=gpt,3,1,12,4,0,9,2,"
        "-0.000000000001,5580.00,CNY,1,0\r\n"
    )


def test_the_total_keeps_numbers_only():
    assert total_text(ROW) == "TOTAL,,,,,,,,3,1,12,4,0,9,2,-0.000000000001,5580.00,,1,0\r\n"


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        " =1+1",
        "+1",
        "-2",
        "@x",
        "\t@x",
        "\tx",
        "\rx",
        "\nx",
        "\r=1",
        "  \t=1",
        " \tx",
        "\u00a0=1",  # no-break space
        "\u3000=1",  # ideographic space
        "\ufeff=1",  # byte order mark
        "\u200b=1",  # zero width space
        "\x00=1",
        "\x0b=1",
        "＝1",
        "＋1",
        "－1",
        "＠x",
    ],
)
def test_a_formula_is_made_text(text):
    assert safe_text(text) == "'" + text


@pytest.mark.parametrize(
    "text", ["", " ", "a=1", " a=1", "1-2", "'=1", "客服", "gpt-4o", "x\ty", "#ref", "$1", "\u3000客服"]
)
def test_other_text_stays(text):
    assert safe_text(text) == text


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        ("0", "0.00"),
        ("-0", "0.00"),
        ("5580", "5580.00"),
        ("0.5", "0.50"),
        ("0.054399000000", "0.054399"),
        ("1E+3", "1000.00"),
        ("1E-12", "0.000000000001"),
        ("123456789012345678901234567890.000000000001", "123456789012345678901234567890.000000000001"),
        ("-1.50", "-1.50"),
        ("0.0000000000005", "0.00"),
        ("0.0000000000015", "0.000000000002"),
        ("100", "100.00"),
    ],
)
def test_plain_decimal(amount, expected):
    assert plain_decimal(Decimal(amount)) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["a", 1, Decimal("1.5"), None], "a,1,1.50,\r\n"),
        (['say "hi"', "a,b", "x\r\ny", "x\ny"], '"say ""hi""","a,b","x\r\ny","x\ny"\r\n'),
        (["\r=1"], '"\'\r=1"\r\n'),
        ([-5, Decimal("-5")], "-5,-5.00\r\n"),
    ],
)
def test_csv_line(values, expected):
    assert csv_line(values) == expected


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(st.lists(texts, min_size=2, max_size=5))
def test_any_text_is_read_back_and_safe(values):
    (fields,) = csv.reader(io.StringIO(csv_line(values), newline=""), strict=True)

    assert [text.removeprefix("'") for text in fields] == [text.removeprefix("'") for text in values]
    assert not any(text.lstrip(" \u00a0\u3000\ufeff").startswith(tuple("=+-@\t\r")) for text in fields)


@given(st.decimals(-(10**9), 10**9, places=12, allow_nan=False))
def test_any_amount_is_read_back_exactly(amount):
    text = plain_decimal(amount)

    assert Decimal(text) == amount
    assert len(text.partition(".")[2]) >= 2
    assert "E" not in text
