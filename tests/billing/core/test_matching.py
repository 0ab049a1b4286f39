"""Invoices are read strictly and compared line by line."""

from datetime import UTC, date, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from billing.core.matching import (
    Billed,
    Drift,
    Fall,
    Reading,
    compare,
    falls,
    holds_balances,
    read_balances,
    read_invoice,
)

DAY = date(2026, 11, 15)
D = Decimal


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("day,key,amount\n2026-11-15,a1,1.50\n", [Billed(DAY, "a1", D("1.50"))]),
        ('\ufeffDate,Model,Cost\r\n2026-11-15T08:00:00Z, m ,"1,234.5"\r\n', [Billed(DAY, "m", D("1234.5"))]),
        ("日期,金额\n2026-11-15,-2\n", [Billed(DAY, "", D(-2))]),
        ("day,amount\n", []),
        ("day,amount,\n2026-11-15,.5,\n", [Billed(DAY, "", D("0.5"))]),
        ("day,amount\n2026-11-15,1e-05\n", [Billed(DAY, "", D("0.00001"))]),
    ],
)  # fmt: skip
def test_reading(text, expected):
    assert read_invoice(text) == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "the file is empty"),
        ("day;amount\n", "line 1: no column day or date or 日期 among 'day;amount'; a comma separates"),
        ('day,amount\n2026-11-15,"12,50"\n', "line 2: not a day and an amount: '2026-11-15', '12,50'"),
        ('day,amount\n2026-11-15,"1.234,56"\n', "line 2: not a day and an amount"),
        ('day,amount\n2026-11-15,"1,2345"\n', "line 2: not a day and an amount"),
        ("day,amount\n2026-11-15,1,234.50\n", "line 2: more columns than in line 1"),
        ("day,amount\n2026-11-15,1e999\n", "line 2: not a day and an amount"),
        ("day,amount\n9999-12-31,1\n", "line 2: not a day and an amount"),
        ("day,sum\n", "line 1: no column amount or cost"),
        ("day,amount\n2026-11-15,1\n15.11.2026,1\n", "line 3: not a day and an amount: '15.11.2026', '1'"),
        ("day,amount\n2026-11-15,one\n", "line 2: not a day and an amount"),
        ("day,amount\n2026-11-15,NaN\n", "line 2: not a day and an amount: '2026-11-15', 'NaN'"),
        ("day,amount\n2026-11-15\n", "line 2: not a day and an amount"),
    ],
)
def test_what_is_no_invoice(text, complaint):
    with pytest.raises(ValueError, match=complaint):
        read_invoice(text)


def test_both_sides_are_listed_and_lines_of_one_name_added():
    theirs = [Billed(DAY, "a", D(1)), Billed(DAY, "a", D(2)), Billed(DAY, "b", D(5))]
    ours = {(DAY, "a"): D("2.5"), (DAY, "c"): D(7)}
    found = list(compare(theirs, ours))
    assert found == [
        Drift(DAY, "a", D(3), D("2.5")),
        Drift(DAY, "b", D(5), D(0)),
        Drift(DAY, "c", D(0), D(7)),
    ]
    assert [row.drift for row in found] == [D("0.5"), D(5), D(-7)]


SHANGHAI = ZoneInfo("Asia/Shanghai")


def test_balances_are_read_oldest_first_in_the_zone_unless_they_say():
    text = 'At,Remaining\n2026-11-15T09:00:00,1\n2026-11-15T00:30:00Z,"1,002.5"\n2026-11-15,3\n'
    found = read_balances(text, SHANGHAI)
    assert [(reading.at.astimezone(UTC), reading.balance) for reading in found] == [
        (datetime(2026, 11, 14, 16, tzinfo=UTC), 3),
        (datetime(2026, 11, 15, 0, 30, tzinfo=UTC), D("1002.5")),
        (datetime(2026, 11, 15, 1, tzinfo=UTC), 1),
    ]


@pytest.mark.parametrize(
    ("header", "found"),
    [("time,balance", True), ("day,余额", True), ("day,amount", False), ("day,amount,balance", False), ("", False)],
)
def test_what_holds_balances(header, found):
    assert holds_balances(header + "\n") is found


def test_a_rise_is_a_top_up_and_says_nothing_of_what_was_spent():
    at = [datetime(2026, 11, 15, hour, tzinfo=UTC) for hour in range(4)]
    readings = [Reading(at[n], D(balance)) for n, balance in enumerate(("10", "7.5", "7.5", "20"))]
    assert falls(readings) == [Fall(at[0], at[1], D("2.5")), Fall(at[1], at[2], D(0)), Fall(at[2], at[3], None)]
    assert falls(readings[:1]) == []


@pytest.mark.parametrize("text", ["time,balance\n2026-13-01,1\n", "time,balance\n2026-11-15\n", "time,balance\n,\n"])
def test_balances_that_are_none(text):
    with pytest.raises(ValueError, match="line 2: not a time and a balance"):
        read_balances(text, SHANGHAI)
