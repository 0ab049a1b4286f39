"""A budget's spend is the ledger's sum, however it is kept."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from billing.models import BudgetSpent
from billing.spent import SETTLED_AFTER, info_of, read_budgets, spent
from tests.factories import (
    AccountFactory,
    BudgetFactory,
    ExchangeRateFactory,
    LedgerEntryFactory,
    LineFactory,
    RecordFactory,
    TenantFactory,
)

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)  # a Wednesday
D = Decimal


@pytest.fixture
def line():
    return LineFactory(tenant=TenantFactory(timezone="Asia/Shanghai"))


def entry(line, amount, at=NOW, day=None, **fields):
    fields = {"tenant": line.tenant, "line_id": line.pk, "record": None, "currency": "USD", "kind": "charge", **fields}
    return LedgerEntryFactory(amount=D(amount), created=at, day=day or (at + timedelta(hours=8)).date(), **fields)


def look(budget, now=NOW):
    return spent(info_of(budget), at=now, now=now)


def test_the_sum_follows_the_ledger_through_every_stage_of_keeping(line):
    budget = BudgetFactory(tenant=line.tenant, line=line)
    total, now = D(0), NOW
    for step in range(6):
        entry(line, "1.000000000001")
        total += D("1.000000000001")
        assert look(budget, now) == total, step
        assert look(budget, now) == total, step
        now += SETTLED_AFTER / 2
    assert look(budget, now) == total
    (kept,) = BudgetSpent.objects.all()
    assert 0 < kept.spent <= total
    assert kept.ledger_id > 0


def test_an_entry_that_appears_out_of_order_is_not_missed(line):
    budget = BudgetFactory(tenant=line.tenant, line=line)
    late = entry(line, 5)
    pk = late.pk
    late.delete()
    entry(line, 1)
    assert look(budget) == 1
    entry(line, 5, pk=pk)
    assert look(budget, NOW + timedelta(seconds=59)) == 6
    assert look(budget, NOW + timedelta(seconds=61)) == 6


# period -> entries (amount, day) that count on 2026-11-18 in Shanghai
DAYS = {"1": date(2026, 11, 18), "2": date(2026, 11, 17), "4": date(2026, 11, 16), "8": date(2026, 11, 15),
        "16": date(2026, 11, 1), "32": date(2026, 10, 31), "64": date(2026, 11, 19)}  # fmt: skip


@pytest.mark.parametrize(
    ("period", "total"), [("day", 1), ("week", 1 + 2 + 4 + 64), ("month", 127 - 32), ("total", 127)]
)
def test_periods_are_the_tenants(line, period, total):
    budget = BudgetFactory(tenant=line.tenant, line=line, period=period)
    for amount, day in DAYS.items():
        entry(line, amount, day=day)
    assert look(budget) == total


def test_what_each_kind_of_budget_counts(line):
    account = AccountFactory(tenant=line.tenant)
    other = LineFactory(tenant=line.tenant)
    entry(line, 1)
    entry(other, 2)
    entry(line, "-0.25", kind="credit")
    record = RecordFactory(line=line)
    entry(line, 4, kind="cost", account_id=account.pk, record=record, attempt_n=1)
    entry(line, 8, kind="waste", account_id=account.pk, record=record, attempt_n=1)
    entry(line, 16, kind="cost", account_id=None, record=record, attempt_n=2)
    entry(LineFactory(), 32)
    assert look(BudgetFactory(tenant=line.tenant, line=line)) == D("0.75")
    assert look(BudgetFactory(tenant=line.tenant)) == D("2.75")
    assert look(BudgetFactory(tenant=line.tenant, account=account)) == 12


def test_an_accounts_day_is_its_quotas(line):
    account = AccountFactory(tenant=line.tenant, quota_timezone="America/Los_Angeles")
    budget = BudgetFactory(tenant=line.tenant, account=account, period="day")
    for amount, at in (("1", datetime(2026, 11, 18, 8, tzinfo=UTC)), ("2", datetime(2026, 11, 18, 7, 59, tzinfo=UTC))):
        entry(line, amount, at=at, kind="cost", account_id=account.pk, record=RecordFactory(line=line), attempt_n=1)
    assert look(budget) == 1


def test_other_currencies_are_converted_at_their_days_rate(line):
    budget = BudgetFactory(tenant=line.tenant, line=line, currency="CNY")
    ExchangeRateFactory(source="USD", target="CNY", rate=7, starts=date(2026, 1, 1))
    ExchangeRateFactory(source="USD", target="CNY", rate=8, starts=date(2026, 11, 18))
    entry(line, 1, day=date(2026, 11, 17))
    entry(line, 1, day=date(2026, 11, 18))
    entry(line, 3, currency="CNY")
    entry(line, 5, currency="JPY")
    assert look(budget) == 18


def test_the_book_knows_hard_budgets_by_owner(line):
    account = AccountFactory(tenant=line.tenant, quota_timezone="America/Los_Angeles")
    hard = BudgetFactory(tenant=line.tenant, line=line, hard=True)
    BudgetFactory(tenant=line.tenant, line=line, period="day")
    of_account = BudgetFactory(tenant=line.tenant, account=account, hard=True)
    of_tenant = BudgetFactory(tenant=line.tenant, hard=True)
    book = read_budgets()
    assert [b.id for b in book.hard("line", line.pk)] == [hard.pk]
    assert [b.id for b in book.hard("tenant", line.tenant_id)] == [of_tenant.pk]
    assert [(b.id, b.zone, b.owner) for b in book.hard("account", account.pk)] == [
        (of_account.pk, "America/Los_Angeles", "account")
    ]
    assert book.hard("line", 0) == ()
