"""Amounts as people read them, and the chain on its axis."""

from decimal import Decimal

import pytest

from billing.adminmoney import amount, shown, tokens
from billing.chain import chain_of
from billing.models import Attempt, RequestRecord


@pytest.mark.parametrize(
    ("value", "places", "text"),
    [
        ("0", 6, "0.00"),
        ("1234567.5", 6, "1,234,567.50"),
        ("0.000525", 6, "0.000525"),
        ("0.0000001", 6, "<0.000001"),
        ("-0.0000001", 6, ">-0.000001"),
        ("-12.3", 6, "-12.30"),
        ("62.155015", 2, "62.16"),
        ("0.0025", 2, "0.0025"),
        ("-0.000001", 2, "-0.000001"),
        ("0.0000001", 2, "<0.000001"),
    ],
)
def test_an_amount_is_shown_with_two_places_at_least(value, places, text):
    assert shown(Decimal(value), places) == text


def test_an_amount_keeps_all_its_digits_on_hover_and_its_mark_beside_it():
    html = amount(Decimal("0.000000000123"), "USD", "cost", "est.")
    assert 'title="0.000000000123 USD"' in html
    assert "&lt;0.000001 USD" in html
    assert "est." in html


def test_what_is_not_known_is_a_dash_and_never_zero():
    assert "–" in amount(None, "USD")
    assert "0" not in tokens(None)
    assert "unpriced" in amount(None, "USD", mark="unpriced")


def test_tries_share_one_axis():
    tries = [
        Attempt(n=1, upstream="a", outcome="rate_limited", status=429, started_ms=100, queued_ms=100, ms=200),
        Attempt(n=2, upstream="b", skipped="dead"),
        Attempt(n=3, upstream="c", outcome="served", started_ms=300, ms=700, first_content_ms=200),
    ]
    first, second, third = chain_of(RequestRecord(duration_ms=1000), tries)
    assert (first.queued, first.bar, first.tick, first.tone) == ((0, 10), (10, 20), None, "wait")
    assert (second.bar, second.tone) == (None, "off")
    assert (third.queued, third.bar, third.tick, third.tone) == (None, (30, 70), 50, "good")
