"""What calls in flight reserve, written by a gateway process and read by pages; what a line meets first."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from decimal import Decimal

import pytest
from django.db import connection

from billing import budgets as budgets_module
from billing.budgets import Budgets
from billing.core.budget import Held
from billing.core.pricing import PriceBook
from billing.core.reserving import Ask, Granted
from billing.models import Budget, BudgetReserved
from billing.reserved import reserved_now, save
from billing.spent import info_of
from billing.standing import binds_first, standings
from billing.stores.embedded import EmbeddedReservations
from tests import factories
from tests.factories import NOON

D = Decimal


def rows():
    return list(Budget.objects.select_related("tenant", "line", "account").order_by("pk"))


@pytest.mark.django_db
class TestCopy:
    @pytest.fixture
    def budget(self, db):
        return factories.BudgetFactory(line=None, amount=10)

    def test_it_is_read_back_until_nobody_renews_it(self, budget):
        info = info_of(budget)
        save({info.scope(NOON): (budget.pk, Held(D("1.000000000001"), 2))}, NOON)
        assert reserved_now([info], NOON) == {budget.pk: Held(D("1.000000000001"), 2)}
        assert reserved_now([info], NOON + timedelta(seconds=30)) == {budget.pk: Held()}
        assert reserved_now([info], NOON + timedelta(days=31)) == {budget.pk: Held()}

    def test_a_later_one_replaces_it_and_none_leaves_no_row(self, budget):
        scope = info_of(budget).scope(NOON)
        for held in (Held(D(1), 1), Held(D(3), 2)):
            save({scope: (budget.pk, held)}, NOON)
        assert (BudgetReserved.objects.get().amount, BudgetReserved.objects.get().in_flight) == (3, 2)
        save({scope: (budget.pk, Held(D(0), 0))}, NOON)
        assert not BudgetReserved.objects.exists()

    def test_a_budget_that_is_gone_harms_no_other(self, budget):
        other = factories.BudgetFactory(line=None)
        scope = info_of(other).scope(NOON)
        budget_id = budget.pk
        budget.delete()
        save({"gone": (budget_id, Held(D(1), 1)), scope: (other.pk, Held(D(2), 1))}, NOON)
        assert list(BudgetReserved.objects.values_list("scope", flat=True)) == [scope]

    def test_rows_of_processes_that_are_gone_are_removed(self, budget):
        save({"old": (budget.pk, Held(D(1), 1))}, NOON)
        save({"new": (budget.pk, Held(D(1), 1))}, NOON + timedelta(minutes=6))
        assert list(BudgetReserved.objects.values_list("scope", flat=True)) == ["new"]

    def test_what_is_left_is_neither_spent_nor_reserved(self, budget):
        record = factories.RecordFactory(line__tenant=budget.tenant, charge=D(4))
        factories.LedgerEntryFactory(record=record)
        save({info_of(budget).scope(NOON): (budget.pk, Held(D(2), 3))}, NOON)
        (found,) = standings(rows(), NOON).values()
        assert (found.spent, found.reserved, found.held.in_flight, found.left) == (4, 2, 3, 4)
        assert found.resets_at == NOON.replace(month=12, day=1, hour=0)


@pytest.mark.django_db
class TestBindsFirst:
    @pytest.fixture
    def line(self, db):
        return factories.LineFactory(tenant=factories.TenantFactory(currency="USD"))

    def first(self, line, now=NOON):
        found = binds_first(line.pk, standings(rows(), now).values(), now)
        return found.budget if found is not None else None

    def test_nothing_binds_a_line_without_budgets(self, line):
        factories.BudgetFactory(tenant=line.tenant, line=factories.LineFactory(tenant=line.tenant), amount=0)
        factories.BudgetFactory(tenant=line.tenant, account=factories.AccountFactory(tenant=line.tenant), amount=0)
        assert self.first(line) is None

    def test_the_least_that_is_left_binds_reservations_included(self, line):
        own = factories.BudgetFactory(tenant=line.tenant, line=line, amount=10)
        team = factories.BudgetFactory(tenant=line.tenant, amount=11)
        assert self.first(line) == own
        save({info_of(team).scope(NOON): (team.pk, Held(D("1.5"), 1))}, NOON)
        assert self.first(line) == team

    def test_currencies_are_compared_at_the_days_rate(self, line):
        dollars = factories.BudgetFactory(tenant=line.tenant, line=line, amount=10)
        yuan = factories.BudgetFactory(tenant=line.tenant, amount=50, currency="CNY")
        assert self.first(line) == dollars  # without a rate the other cannot be compared
        factories.ExchangeRateFactory(source="USD", target="CNY", rate=D("7.10"), starts=date(2026, 1, 1))
        assert self.first(line) == yuan
        factories.ExchangeRateFactory(source="USD", target="CNY", rate=D(4), starts=date(2026, 11, 15))
        assert self.first(line) == dollars


def test_a_gateway_process_keeps_the_copy(clean_database):
    """Written when it changes, renewed while calls fly, gone when they end."""
    budget = factories.BudgetFactory(line=None, amount=10, hard=True)
    info = info_of(Budget.objects.select_related("tenant").get(pk=budget.pk))
    clock = [NOON]

    def copy():
        return list(BudgetReserved.objects.values_list("amount", "in_flight", "updated"))

    async def main():
        budgets = Budgets(EmbeddedReservations(), ThreadPoolExecutor(1), lambda: clock[0])
        seen = []

        async def show(after_s):
            clock[0] += timedelta(seconds=after_s)
            await budgets.show()
            seen.append(await asyncio.to_thread(in_thread, copy))

        for number in (1, 2):
            await budgets.reserve(Ask(f"r{number}", info.tenant_id, NOON, "USD", ((info, D(number)),)), PriceBook())
        await show(2)
        await budgets.settle("r1", D(1), {})
        await show(2)
        await show(2)
        await show(8)
        await budgets.release("r2")
        await show(2)
        await budgets.close()
        return seen

    at = [NOON + timedelta(seconds=second) for second in (2, 4, 14)]
    assert asyncio.run(main()) == [[(3, 2, at[0])], [(2, 1, at[1])], [(2, 1, at[1])], [(2, 1, at[2])], []]


class Overtaken(EmbeddedReservations):
    """A shared store in which another process looks at the ledger too: so many of our looks come to nothing."""

    def __init__(self, times):
        super().__init__()
        self.left = times

    async def load(self, scope, spent, mark, now):
        self.left -= 1
        if self.left < 0:
            await super().load(scope, spent, mark, now)


@pytest.mark.parametrize(("times", "left"), [(0, -1), (1, -1), (3, -1), (1000, 996)])
def test_a_look_at_the_ledger_that_another_overtakes_is_done_again(clean_database, monkeypatch, times, left):
    monkeypatch.setattr(budgets_module, "LOOKS_MOST", 4)
    monkeypatch.setattr(budgets_module, "LOOK_PAUSE_S", 0)
    budget = factories.BudgetFactory(line=None, amount=10, hard=True)
    info = info_of(Budget.objects.select_related("tenant").get(pk=budget.pk))

    async def main():
        store = Overtaken(times)
        budgets = Budgets(store, ThreadPoolExecutor(1), lambda: NOON)
        answer = await budgets.reserve(Ask("r1", info.tenant_id, NOON, "USD", ((info, D(1)),)), PriceBook())
        await budgets.close()
        return answer, store.left

    assert asyncio.run(main()) == (Granted(), left)


def in_thread(work):
    try:
        return work()
    finally:
        connection.close()
