"""Many budgets read together say what each says by itself."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing.models import Budget, BudgetSpent
from billing.spent import info_of, spent
from billing.standing import spent_now
from tests import factories
from tests.factories import NOON

pytestmark = pytest.mark.django_db


def charge(line, amount, created=NOON, kind="charge", **fields):
    record = factories.RecordFactory(line=line, created=created, charge=Decimal(amount))
    factories.LedgerEntryFactory(record=record, kind=kind, amount=Decimal(amount), **fields)


def budgets():
    return list(Budget.objects.select_related("tenant", "account").order_by("pk"))


@pytest.fixture
def world():
    tenant = factories.TenantFactory(currency="USD")
    line, other = factories.LineFactory.create_batch(2, tenant=tenant)
    account = factories.AccountFactory(tenant=tenant)
    for period in ("day", "week", "month", "total"):
        factories.BudgetFactory(tenant=tenant, period=period)
        factories.BudgetFactory(tenant=tenant, line=line, period=period)
    factories.BudgetFactory(tenant=tenant, account=account)
    factories.BudgetFactory(tenant=tenant, line=other, currency="EUR")
    charge(line, "1.000000000001")
    charge(line, "2", created=NOON - timedelta(days=1))
    charge(line, "4", created=NOON - timedelta(days=40))
    charge(other, "8")
    charge(other, "-16", kind="credit")
    charge(line, "32", kind="cost", account_id=account.pk)
    charge(line, "64", kind="waste", account_id=account.pk)
    return tenant, line


def test_together_as_by_themselves(world):
    _tenant, line = world
    expected = {row.pk: spent(info_of(row), at=NOON, now=NOON) for row in budgets()}
    assert sorted(set(expected.values()))[-1] == 96
    assert spent_now(budgets(), NOON) == expected
    charge(line, "128")
    later = NOON + timedelta(seconds=90)
    again = {row.pk: spent(info_of(row), at=NOON, now=NOON) for row in budgets()}
    assert again != expected
    assert spent_now(budgets(), later) == again


def test_without_kept_sums_it_begins_them(world):
    found = spent_now(budgets(), NOON)
    assert BudgetSpent.objects.count() == len(found) == 10


def test_once_kept_it_costs_the_same_for_all(world):
    tenant, _line = world

    def cost():
        with CaptureQueriesContext(connection) as asked:
            spent_now([row for row in rows if row.currency == "USD"], NOON)
        return len(asked)

    rows = budgets()
    spent_now(rows, NOON)
    assert cost() == 2
    for line in factories.LineFactory.create_batch(5, tenant=tenant):
        factories.BudgetFactory(tenant=tenant, line=line)
    rows = budgets()
    spent_now(rows, NOON)
    assert cost() == 2


def test_a_new_period_begins_at_nothing(world):
    day = next(row for row in budgets() if row.period == "day" and row.line_id is None)
    spent_now([day], NOON)
    assert spent_now([day], NOON + timedelta(days=1)) == {day.pk: Decimal(0)}


def test_nothing_of_nothing():
    assert spent_now([], NOON) == {}
