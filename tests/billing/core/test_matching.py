"""Invoices are read strictly and compared line by line."""

from datetime import date
from decimal import Decimal

import pytest

from billing.core.matching import Billed, Drift, compare, read_invoice

DAY = date(2026, 11, 15)
D = Decimal


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("day,key,amount\n2026-11-15,a1,1.50\n", [Billed(DAY, "a1", D("1.50"))]),
        ('\ufeffDate,Model,Cost\r\n2026-11-15T08:00:00Z, m ,"1,234.5"\r\n', [Billed(DAY, "m", D("1234.5"))]),
        ("日期,金额\n2026-11-15,-2\n", [Billed(DAY, "", D(-2))]),
        ("day,amount\n", []),
    ],
)  # fmt: skip
def test_reading(text, expected):
    assert read_invoice(text) == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "line 1: no column day or date"),
        ("day,sum\n", "line 1: no column amount or cost"),
        ("day,amount\n2026-11-15,1\n15.11.2026,1\n", "line 3: not a day and an amount: '15.11.2026', '1'"),
        ("day,amount\n2026-11-15,one\n", "line 2: not a day and an amount"),
        ("day,amount\n2026-11-15,NaN\n", "line 2: not an amount: 'NaN'"),
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
