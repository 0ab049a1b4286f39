"""Months per line: hourly sums and the records after them say what the records alone would."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing.models import RollupMark
from billing.monthly import Total, month_rows
from billing.months import figures, unpriced_models
from billing.rollups import roll_up
from tests import factories

pytestmark = pytest.mark.django_db

AT = datetime(2026, 11, 15, 12, 30, tzinfo=UTC)
SPAN = (date(2026, 10, 1), date(2026, 12, 1))


@pytest.fixture
def line():
    made = factories.LineFactory()
    call(made, charge="1.000000000001")
    call(made, charge="2", created=AT - timedelta(days=20))
    call(made, charge="4", created=AT - timedelta(hours=5), status="cancelled", estimated=True)
    call(made, charge="0", status="failed", input_tokens=7)
    call(made, charge=None, priced=False, model_served="mystery", created=AT - timedelta(hours=2))
    call(made, charge="0", status="failed", refusal_limit="rpm")
    call(made, charge="0", replay_of="req_x")
    call(factories.LineFactory(tenant=made.tenant), charge="8", currency="CNY")
    call(factories.LineFactory(), charge="16")
    return made


def call(line, *, charge, **fields):
    fields = {"created": AT, **fields}
    factories.RecordFactory(line=line, charge=None if charge is None else Decimal(charge), **fields)


def test_with_and_without_hours_the_same(line):
    plain = figures(line.tenant, *SPAN)
    november = next(row for row in plain if row.line_id == line.pk and row.first.month == 11)
    assert (november.calls, november.failed, november.unpriced, november.estimated) == (3, 1, 1, 1)
    assert (november.charge, november.input_tokens) == (Decimal("5.000000000001"), 300)
    assert [(row.first.month, row.currency) for row in plain] == [(10, "USD"), (11, "USD"), (11, "CNY")]
    roll_up(now=AT)
    assert RollupMark.objects.get().done_until == AT.replace(minute=0)
    assert figures(line.tenant, *SPAN) == plain
    call(line, charge="32", created=AT + timedelta(minutes=1))
    later = next(row for row in figures(line.tenant, *SPAN) if row.line_id == line.pk and row.first.month == 11)
    assert later.charge == Decimal("37.000000000001")


def test_a_month_adds_up_to_its_bill(line):
    roll_up(now=AT)
    total = Total()
    list(total.through(month_rows(line.tenant, date(2026, 11, 1), line.slug)))
    (row,) = [row for row in figures(line.tenant, date(2026, 11, 1), SPAN[1]) if row.line_id == line.pk]
    assert (row.charge, row.calls, row.failed, row.unpriced) == (
        total.row.charge, total.row.calls, total.row.failed_calls, total.row.unpriced_calls,
    )  # fmt: skip


def test_calls_without_a_price_are_named(line):
    assert unpriced_models(line.tenant, date(2026, 11, 1), SPAN[1]) == {"mystery": 1}
    assert unpriced_models(line.tenant, date(2026, 10, 1), date(2026, 11, 1)) == {}


def test_it_costs_three_queries(line):
    roll_up(now=AT)
    with CaptureQueriesContext(connection) as asked:
        figures(line.tenant, *SPAN)
    assert len(asked) == 3
