"""What is left of an account's credit by our own ledger."""

from datetime import timedelta
from decimal import Decimal

import pytest

from billing.credit import READ_FOR, credits_left
from billing.models import ExchangeRate, LedgerEntry
from keys.models import BalanceWatch
from tests.factories import NOON, AccountFactory, UpstreamKeyFactory

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
    assert credits_left(NOON) == {f"account:{account.pk}": 0.65}


def test_a_credit_that_is_overspent_is_empty():
    account = AccountFactory(credit_amount=Decimal(10), credit_currency="USD", credit_period="total")
    paid(account, "11", at=NOON - timedelta(days=400))
    assert credits_left(NOON) == {f"account:{account.pk}": 0.0}


@pytest.mark.parametrize("missing", ["credit_amount", "credit_currency", "credit_period"])
def test_an_account_that_does_not_state_all_is_left_out(missing):
    stated = {"credit_amount": Decimal(10), "credit_currency": "USD", "credit_period": "month"}
    AccountFactory(**{**stated, missing: None if missing == "credit_amount" else ""})
    assert credits_left(NOON) == {}


def reading(account, amount, currency="USD", *, high=None, at=NOON, **fields):
    return BalanceWatch.objects.create(
        tenant=account.tenant, account=account, amount=Decimal(amount), currency=currency,
        high=Decimal(high if high is not None else amount), read=at, **fields,
    )  # fmt: skip


class TestReadings:
    def stated(self, period="total", amount=100):
        return AccountFactory(credit_amount=Decimal(amount), credit_currency="USD", credit_period=period)

    def left(self, account):
        return credits_left(NOON).get(f"account:{account.pk}")

    def test_without_a_credit_it_is_held_against_the_last_top_up(self):
        account = AccountFactory()
        reading(account, 15, high=60)
        assert self.left(account) == 0.25

    def test_it_knows_better_than_the_ledger_what_is_left_of_a_credit_without_an_end(self):
        account = self.stated()
        paid(account, 99)
        reading(account, 50)
        assert self.left(account) == 0.5

    @pytest.mark.parametrize(("amount", "share"), [(50, 0.3), (10, 0.1)])
    def test_of_a_credit_that_is_renewed_the_smaller_share_counts(self, amount, share):
        account = self.stated("month")
        paid(account, 70)
        reading(account, amount)
        assert self.left(account) == share

    @pytest.mark.parametrize(
        ("amount", "high", "available", "share"),
        [("-3", 50, True, 0.0), ("0", 0, True, 0.0), ("30", 40, False, 0.0), ("250", 250, True, 1.0)],
    )
    def test_the_ends(self, amount, high, available, share):
        account = self.stated()
        reading(account, amount, high=high, available=available)
        assert self.left(account) == share

    def test_another_currency_is_converted_or_held_against_the_top_up(self):
        account, unpriced, own_unit = self.stated(), self.stated(), self.stated()
        ExchangeRate.objects.create(source="USD", target="CNY", rate=Decimal("7.10"), starts=NOON.date())
        reading(account, 71, "CNY")
        reading(unpriced, 50, "EUR", high=200)
        reading(own_unit, 50, "", high=500)
        assert list(credits_left(NOON).values()) == [0.1, 0.25, 0.1]

    def test_an_old_reading_says_nothing(self):
        account = AccountFactory()
        reading(account, 1, high=100, at=NOON - READ_FOR)
        assert self.left(account) is None

    def test_a_key_without_an_account_has_its_own(self):
        key = UpstreamKeyFactory()
        BalanceWatch.objects.create(
            tenant=key.upstream.tenant, upstream_key=key, amount=1, high=10, currency="CNY", read=NOON
        )
        assert credits_left(NOON) == {f"key:{key.pk}": 0.1}
