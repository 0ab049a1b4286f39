"""Budget thresholds tell once per budget, period and amount, also when many look at once."""

import threading
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.db import connection, connections

from billing.models import Budget, BudgetAlert
from billing.thresholds import check
from tenants.mails import compose
from tenants.models import Alert, AlertDelivery
from tests.factories import AccountFactory, BudgetFactory, LedgerEntryFactory, LineFactory, TenantFactory

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)


@pytest.fixture
def line(db):
    return LineFactory(name="Bot", tenant=TenantFactory(alert_emails=["a@example.com"], timezone="Asia/Shanghai"))


def entry(line, amount, at=NOW):
    return LedgerEntryFactory(
        tenant=line.tenant, line_id=line.pk, record=None, currency="USD", kind="charge", amount=Decimal(amount),
        created=at, day=(at + timedelta(hours=8)).date(),
    )  # fmt: skip


def told():
    return list(Alert.objects.order_by("pk").values_list("details__threshold", flat=True))


def test_each_threshold_tells_once_and_says_what_is_meant(line):
    BudgetFactory(tenant=line.tenant, line=line, amount=100, alert_at=[80, 100], hard=True)
    entry(line, "79.99")
    assert check(now=NOW) == 0
    entry(line, "1.26")
    assert [check(now=NOW) for _ in range(3)] == [1, 0, 0]
    alert = Alert.objects.get()
    assert alert.text == "line Bot has crossed 80 % of its budget: 81.25 of 100.00 USD per month used, 81.2 %."
    assert alert.details == {
        "of": "line Bot", "of_zh": "业务线 Bot", "threshold": 80, "percent": "81.2", "spent": "81.25",
        "amount": "100.00", "currency": "USD", "period": "month", "period_start": "2026-10-31T16:00:00+00:00",
        "resets_at": "2026-11-30T16:00:00+00:00", "hard": True,
    }  # fmt: skip
    assert AlertDelivery.objects.count() == 1
    entry(line, 200)
    assert check(now=NOW) == 1
    assert told() == [80, 100]


def test_a_jump_over_two_thresholds_tells_both(line):
    BudgetFactory(tenant=line.tenant, line=line, amount=1, alert_at=[100, 80])
    entry(line, 5)
    assert check(now=NOW) == 2
    assert told() == [80, 100]


def test_a_new_period_or_amount_arms_it_anew_and_the_old_alert_is_over_once(line):
    budget = BudgetFactory(tenant=line.tenant, line=line, amount=10, alert_at=[80], period="day")
    entry(line, 9)
    check(now=NOW)
    tomorrow = NOW + timedelta(days=1)
    assert check(now=tomorrow) == 0
    assert Alert.objects.get().closed == tomorrow
    entry(line, 9, tomorrow)
    assert check(now=tomorrow) == 1
    Budget.objects.filter(pk=budget.pk).update(amount=11)
    assert check(now=tomorrow) == 1
    Budget.objects.filter(pk=budget.pk).update(amount=10)
    assert check(now=tomorrow) == 0
    assert BudgetAlert.objects.count() == 3
    assert AlertDelivery.objects.filter(occasion="opened").count() == 3
    for _ in range(2):
        check(now=tomorrow)
        check(now=tomorrow, budget_ids=[budget.pk])
    over = AlertDelivery.objects.filter(occasion="resolved").order_by("pk")
    assert list(over.values_list("alert__details__ended", flat=True)) == ["period", "amount", "amount"]
    assert Alert.objects.filter(closed=None).count() == 0
    subject, body = compose(over.first())
    assert subject.endswith("Over: line Bot: 80 % of the budget used")
    assert "line Bot had crossed 80 % of its budget.\nA new period has begun" in body


def test_a_removed_threshold_or_budget_is_over_too(line):
    one = BudgetFactory(tenant=line.tenant, line=line, amount=10, alert_at=[50, 80])
    two = BudgetFactory(tenant=line.tenant, amount=10, alert_at=[80])
    entry(line, 9)
    assert check(now=NOW) == 3
    Budget.objects.filter(pk=one.pk).update(alert_at=[])
    two.delete()
    later = NOW + timedelta(hours=1)
    check(now=later, budget_ids=[one.pk])
    assert Alert.objects.filter(closed=None).count() == 1
    for _ in range(2):
        check(now=later)
    assert [alert.details["ended"] for alert in Alert.objects.filter(closed=later)] == ["removed"] * 3
    assert AlertDelivery.objects.filter(occasion="resolved").count() == 3
    Budget.objects.filter(pk=one.pk).update(alert_at=[50, 80])
    assert check(now=later) == 0  # each tells once per period and amount


def test_another_teams_budgets_are_left_alone(line):
    other = LineFactory()
    BudgetFactory(tenant=other.tenant, line=other, amount=10, alert_at=[80])
    BudgetFactory(tenant=line.tenant, line=line, amount=10, alert_at=[80])
    entry(line, 9)
    entry(other, 9)
    assert check(now=NOW) == 2
    check(now=NOW, budget_ids=[Budget.objects.get(line=line).pk])
    assert Alert.objects.filter(closed=None).count() == 2


def test_tenants_and_accounts_have_names_of_their_own(line):
    account = AccountFactory(tenant=line.tenant, name="relay-a")
    BudgetFactory(tenant=line.tenant, amount=0, alert_at=[1])
    BudgetFactory(tenant=line.tenant, account=account, amount=0, alert_at=[1])
    entry(line, 1)
    LedgerEntryFactory(
        tenant=line.tenant, account_id=account.pk, record=None, line_id=None, currency="USD", kind="cost", amount=1,
        created=NOW, day=NOW.date(),
    )  # fmt: skip
    check(now=NOW)
    assert {alert.details["of"] for alert in Alert.objects.all()} == {
        f"team {line.tenant.name}", "account relay-a",
    }  # fmt: skip


def test_only_the_named_budgets_are_looked_at(line):
    BudgetFactory(tenant=line.tenant, line=line, amount=1, alert_at=[80])
    entry(line, 5)
    assert check(now=NOW, budget_ids=[0]) == 0
    assert check(now=NOW, budget_ids=Budget.objects.values_list("pk", flat=True)) == 1


@pytest.mark.django_db(transaction=True)
def test_many_lookers_at_once_tell_once(transactional_db):
    line = LineFactory(tenant=TenantFactory(alert_emails=["a@example.com"]))
    BudgetFactory(tenant=line.tenant, line=line, amount=1, alert_at=[80, 100])
    entry(line, 5)
    found = at_once(lambda: check(now=NOW))
    assert sum(found) == 2
    assert Alert.objects.count() == AlertDelivery.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_many_sweeps_at_once_tell_the_end_once(transactional_db):
    line = LineFactory(tenant=TenantFactory(alert_emails=["a@example.com"]))
    BudgetFactory(tenant=line.tenant, line=line, amount=1, alert_at=[80, 100], period="day")
    entry(line, 5)
    check(now=NOW)
    at_once(lambda: check(now=NOW + timedelta(days=1)))
    over = AlertDelivery.objects.filter(occasion="resolved")
    assert sorted(over.values_list("alert__details__threshold", flat=True)) == [80, 100]


def at_once(work, count=6):
    gate, found = threading.Barrier(count), []

    def look():
        try:
            gate.wait(10)
            found.append(work())
        finally:
            connections.close_all()

    lookers = [threading.Thread(target=look) for _ in range(count)]
    for looker in lookers:
        looker.start()
    for looker in lookers:
        looker.join(30)
    assert len(found) == count, connection.vendor
    return found
