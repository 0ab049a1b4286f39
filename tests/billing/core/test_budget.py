from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.core.budget import Standing, admits, closes_blind, crossed, percent_used, reached

amounts = st.decimals(0, 1000, places=2)


def standing(amount: str, spent: str, reserved: str = "0", in_flight: int = 0) -> Standing:
    return Standing(Decimal(amount), Decimal(spent), Decimal(reserved), in_flight)


@pytest.mark.parametrize(
    ("now", "estimate", "expected"),
    [
        (standing("10", "0"), "10", True),
        (standing("10", "4", "3", 2), "3", True),
        (standing("10", "4", "3", 2), "3.000000000001", False),
        (standing("10", "4", "3", 1), "4", False),
        (standing("10", "4"), "100", True),  # alone, and some is left
        (standing("10", "9.999999999999"), "100", True),
        (standing("10", "9.99", "0", 1), "100", False),  # a free call is in flight too
        (standing("10", "10"), "0.01", False),
        (standing("10", "10"), "0", True),  # a free model fits exactly
        (standing("10", "10.01"), "0", False),
        (standing("10", "0", "10", 1), "0", True),
        (standing("0", "0"), "0.01", False),
        (standing("0", "0"), "0", True),
    ],
)
def test_admits(now, estimate, expected):
    assert admits(now, Decimal(estimate)) is expected


@given(amounts, st.lists(st.tuples(amounts, amounts, st.booleans()), max_size=30))
def test_overshoot_is_bounded_by_what_the_estimates_are_off(amount, calls):
    """Calls start and end in any order. What is spent above the amount is at most the underestimates of the calls
    that were in flight, and the whole of one call that was let in alone.
    """
    spent, flying, slack = Decimal(0), [], Decimal(0)
    for estimate, truth, ends_at_once in calls:
        reserved = sum((guess for guess, _ in flying), Decimal(0))
        if admits(Standing(amount, spent, reserved, len(flying)), estimate):
            alone = spent + reserved + estimate > amount
            slack += truth if alone else max(truth - estimate, Decimal(0))
            flying.append((estimate, truth))
        if ends_at_once and flying:
            spent += flying.pop(0)[1]
    spent += sum((truth for _, truth in flying), Decimal(0))

    assert spent <= amount + slack


@pytest.mark.parametrize(
    ("spent", "expected"), [("94.99", False), ("95", True), ("100", True), ("101", True), ("0", False)]
)
def test_without_the_store_a_hard_budget_closes_at_95_percent(spent, expected):
    assert closes_blind(standing("100", spent)) is expected


def test_an_empty_budget_is_closed_without_the_store():
    assert closes_blind(standing("0", "0")) is True


@pytest.mark.parametrize(
    ("spent", "alert_at", "expected"),
    [
        ("79.999999999999", [80, 100], ()),
        ("80", [80, 100], (80,)),
        ("100", [100, 80, 80], (80, 100)),
        ("150", [80, 100, 150, 151], (80, 100, 150)),
        ("62.5", [Decimal("62.5")], (Decimal("62.5"),)),
        ("100", [], ()),
        ("0", [0, 80], ()),
    ],
)
def test_reached(spent, alert_at, expected):
    assert reached(Decimal(100), Decimal(spent), alert_at) == expected


def test_an_amount_of_zero_is_reached_by_the_first_spending():
    assert reached(Decimal(0), Decimal(0), [80, 100]) == ()
    assert reached(Decimal(0), Decimal("0.01"), [80, 100]) == (80, 100)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [("0", "79", ()), ("79", "80", (80,)), ("80", "99", ()), ("79", "101", (80, 100)), ("101", "102", ())],
)
def test_crossed(before, after, expected):
    assert crossed(Decimal(100), Decimal(before), Decimal(after), [80, 100]) == expected


@pytest.mark.parametrize(
    ("amount", "spent", "expected"), [("80", "68", "85.0"), ("3", "2", "66.7"), ("5", "6", "120.0")]
)
def test_percent_used(amount, spent, expected):
    assert str(percent_used(Decimal(amount), Decimal(spent))) == expected


def test_no_percentage_of_nothing():
    assert percent_used(Decimal(0), Decimal(1)) is None
