"""What is left of an account's credit by our own ledger."""

from datetime import timedelta
from decimal import Decimal

import pytest

from billing.credit import credits_left
from billing.models import LedgerEntry
from tests.factories import NOON, AccountFactory

pytestmark = pytest.mark.django_db


def paid(account, amount, *, kind="cost", at=NOON, currency="USD"):
    LedgerEntry.objects.create(
        tenant=account.tenant, kind=kind, account_id=account.pk, amount=Decimal(amount), currency=currency,
        day=at.date(), created=at,
    )  # fmt: skip


def test_costs_and_waste_of_the_period_count_and_nothing_else():
    account = AccountFactory(credit_amount=Decimal(100), credit_currency="USD", credit_period="month")
    other = AccountFactory(tenant=account.tenant)
    paid(account, "30")
    paid(account, "5", kind="waste")
    paid(account, "40", at=NOON - timedelta(days=31))
    paid(account, "7", kind="charge")
    paid(other, "20")
    assert credits_left(NOON) == {account.pk: 0.65}


def test_a_credit_that_is_overspent_is_empty():
    account = AccountFactory(credit_amount=Decimal(10), credit_currency="USD", credit_period="total")
    paid(account, "11", at=NOON - timedelta(days=400))
    assert credits_left(NOON) == {account.pk: 0.0}


@pytest.mark.parametrize("missing", ["credit_amount", "credit_currency", "credit_period"])
def test_an_account_that_does_not_state_all_is_left_out(missing):
    stated = {"credit_amount": Decimal(10), "credit_currency": "USD", "credit_period": "month"}
    AccountFactory(**{**stated, missing: None if missing == "credit_amount" else ""})
    assert credits_left(NOON) == {}
