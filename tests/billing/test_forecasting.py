"""Forecasts per line and account: kept, told when the money ends before its period, closed when it does not."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from billing.forecasting import forecast_all
from billing.models import Budget, Forecast
from keys.models import BalanceWatch
from tenants.models import Alert
from tests.factories import AccountFactory, BudgetFactory, LedgerEntryFactory, LineFactory, RecordFactory, TenantFactory

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
D = Decimal


@pytest.fixture
def line():
    return LineFactory(name="Bot", tenant=TenantFactory(alert_emails=["a@example.com"]))


def spend(line, amount, days_ago, **fields):
    at = NOW - timedelta(days=days_ago)
    fields = {"kind": "charge", "record": None, "currency": "USD", "line_id": line.pk, **fields}
    LedgerEntryFactory(tenant=line.tenant, amount=D(amount), created=at, day=at.date(), **fields)


def of(kind):
    return Forecast.objects.get(subject__startswith=f"{kind}:")


def test_ten_a_day_and_fifty_left_are_five_days(line):
    BudgetFactory(tenant=line.tenant, line=line, amount=120)
    spend(line, 0, 10)
    for day in range(7):
        spend(line, 10, day + 0.5)
    assert forecast_all(now=NOW) == 1
    row = of("line")
    assert (row.spent, row.amount, row.burn_per_day, row.days_left) == (70, 120, 10, D("5.0"))
    assert row.exhausted_at == NOW + timedelta(days=5)
    assert row.expected == 70 + D(10) * D("12.5")
    (alert,) = Alert.objects.all()
    assert (alert.kind, alert.closed) == ("forecast", None)
    assert alert.text == ("line Bot: at 10.00 USD a day the 120.00 USD are gone in 5.0 days, on 2026-11-23 12:00 UTC.")
    assert alert.details["resets_at"] == "2026-12-01T00:00:00+00:00"


def test_it_tells_once_and_is_over_when_the_limit_is_raised(line):
    budget = BudgetFactory(tenant=line.tenant, line=line, amount=120)
    for day in range(7):
        spend(line, 10, day + 0.5)
    for _ in range(3):
        forecast_all(now=NOW)
    assert Alert.objects.count() == 1
    Budget.objects.filter(pk=budget.pk).update(amount=1000)
    forecast_all(now=NOW)
    assert Alert.objects.get().closed == NOW


def test_what_is_used_up_already_is_the_budgets_alert(line):
    BudgetFactory(tenant=line.tenant, line=line, amount=5)
    spend(line, 10, 1)
    forecast_all(now=NOW)
    assert of("line").days_left == 0
    assert not Alert.objects.exists()


def test_a_line_without_a_budget_is_forecast_by_the_month(line):
    spend(line, 7, 1)
    forecast_all(now=NOW)
    row = of("line")
    assert (row.amount, row.days_left, row.period, row.spent) == (None, None, "month", 7)
    assert row.expected > 7


def test_an_accounts_stated_credit_counts_cost_and_waste_in_its_currency(line):
    account = AccountFactory(tenant=line.tenant, credit_amount=D(100), credit_currency="USD", credit_period="total")
    record = RecordFactory(line=line)
    spend(line, 20, 200, kind="cost", account_id=account.pk, record=record, attempt_n=1)
    spend(line, 15, 3, kind="waste", account_id=account.pk, record=record, attempt_n=1)
    spend(line, 1000, 3)
    forecast_all(now=NOW)
    row = of("account")
    assert (row.spent, row.amount, row.resets_at, row.expected) == (35, 100, None, None)
    assert row.days_left is not None
    assert Alert.objects.get(subject=row.subject).details["of"] == f"account {account.name}"


def test_forecasts_of_what_is_gone_are_dropped(line):
    budget = BudgetFactory(tenant=line.tenant, amount=10)
    forecast_all(now=NOW)
    assert Forecast.objects.count() == 2
    budget.delete()
    forecast_all(now=NOW)
    assert [row.subject for row in Forecast.objects.all()] == [f"line:{line.pk}:month"]


class TestBalanceReadings:
    """What the provider said is left stands in where the ledger cannot know."""

    @pytest.fixture
    def spent(self, line):
        def begin(**fields):
            account = AccountFactory(tenant=line.tenant, **fields)
            record = RecordFactory(line=line)
            for n in range(1, 8):
                spend(line, 10, n - 0.5, kind="cost", account_id=account.pk, record=record, attempt_n=n)
            spend(line, 0, 9, kind="waste", account_id=account.pk, record=record, attempt_n=9)
            return account

        return begin

    def read(self, account, amount, currency="USD", at=NOW):
        BalanceWatch.objects.create(tenant=account.tenant, account=account, amount=amount, currency=currency, read=at)
        forecast_all(now=NOW)
        row = of("account")
        return (row.amount, row.days_left)

    def test_it_is_the_limit_of_who_states_none(self, spent):
        assert self.read(spent(), 30) == (100, D("3.0"))
        assert Alert.objects.get().kind == "forecast"

    def test_it_takes_the_place_of_a_credit_without_an_end(self, spent):
        account = spent(credit_amount=D(60), credit_currency="USD", credit_period="total")
        assert self.read(account, 300) == (370, D("30.0"))

    @pytest.mark.parametrize(("amount", "days"), [(300, D("3.0")), (20, D("2.0"))])
    def test_a_credit_that_is_renewed_and_a_budget_stay_what_they_are(self, spent, amount, days):
        account = spent(credit_amount=D(100), credit_currency="USD", credit_period="month")
        assert self.read(account, amount) == (100, days)

    def test_a_budget_without_an_end_stays_too(self, spent, line):
        account = spent()
        BudgetFactory(tenant=line.tenant, account=account, amount=100, period="total")
        assert self.read(account, 300) == (100, D("3.0"))

    def test_overdrawn_is_nothing(self, spent):
        assert self.read(spent(), -5) == (70, D(0))

    @pytest.mark.parametrize(("currency", "at"), [("", NOW), ("EUR", NOW), ("USD", NOW - timedelta(hours=1))])
    def test_what_cannot_be_compared_or_is_old_says_nothing(self, spent, currency, at):
        assert self.read(spent(), 30, currency, at) == (None, None)
