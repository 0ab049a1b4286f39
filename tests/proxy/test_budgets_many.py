"""Budgets over two gateway processes on one PostgreSQL and one Redis: reserved, spent and told as if they were one."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.conf import settings
from django.db import connections, transaction

from billing.models import Attempt, Budget, RequestRecord
from billing.standing import standings
from billing.tasks import sweep_budgets
from tenants.models import Alert, AlertDelivery, Tenant
from tenants.services import touch_config
from tests.factories import BudgetFactory, LineFactory, PriceFactory, serving
from tests.fake_upstream import Gate, answer
from tests.gateway import CHARGE, PRICE, encoded, wait_until
from tests.gateway import chat as asked
from tests.proxy.test_many_processes import doors, known, told

__all__ = ["doors"]
pytestmark = pytest.mark.skipif(not settings.REDIS_URL, reason="needs PostgreSQL and Redis: ./bin/test")

D = Decimal
BODY = asked(max_tokens=7)  # the default answer's output: an estimate is close to its charge
INPUT = D(-(-len(encoded(BODY)) // 4))
ESTIMATE = (INPUT * D("2.50") + 7 * D(10)) / 1_000_000
AT_ONCE = 100


def bound(doors, up, amount, **fields):
    """A world with a budget that both processes know: its key is seen together with all the rest."""
    with transaction.atomic():
        world = serving(up.base_url, "k-1")
        Tenant.objects.filter(pk=world.tenant.pk).update(alert_emails=["a@example.com"])
        PriceFactory(tenant=world.tenant, **PRICE)
        budget = BudgetFactory(amount=amount, **{"tenant": world.tenant, "line": world.line, "hard": True, **fields})
        touch_config()
    known(doors, world)
    return world, budget


def storm(doors, world, count=AT_ONCE):
    """So many calls at the same time, half of them through each process; their answers."""
    with ThreadPoolExecutor(50) as pool:
        return list(pool.map(lambda n: doors[n % 2].post(world, BODY, timeout=60), range(count)))


def charges(world):
    return sum((row.charge or D(0) for row in RequestRecord.objects.filter(tenant=world.tenant)), D(0))


def now_of(budget):
    row = Budget.objects.select_related("tenant", "line", "account").get(pk=budget.pk)
    return standings([row], datetime.now(UTC))[row.pk]


@pytest.mark.parametrize("owner", ["line", "tenant"])
def test_a_hundred_at_once_overshoot_by_no_more_than_the_estimates_are_off(doors, up, owner):
    up.default(answer("Hello from the fake upstream.", head_delay_s=0.2))
    amount = CHARGE * 5
    world, budget = bound(doors, up, amount, **({} if owner == "line" else {"line": None}))
    answers = storm(doors, world)
    codes = Counter(got.status_code for got in answers)
    assert set(codes) == {200, 429}
    assert codes[200] == len(up.requests) >= 5
    # Each call that was let in may cost more than its estimate by the difference of the two, and no more.
    assert charges(world) <= amount + codes[200] * max(CHARGE - ESTIMATE, D(0))
    refused = next(got for got in answers if got.status_code == 429)
    assert refused.json()["error"]["code"] == "insufficient_quota"
    assert refused.headers["x-should-retry"] == "false"
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    records = RequestRecord.objects.filter(tenant=world.tenant, refusal_limit=f"budget:{owner}:month")
    assert records.count() == codes[429]
    first_of_next = (datetime.now(UTC).replace(day=28).date().toordinal() + 4, 1)
    until = set(records.values_list("refusal_until", flat=True))
    assert {(at.day, at.hour, at.toordinal() <= first_of_next[0]) for at in until} == {(1, 0, True)}
    assert not Attempt.objects.filter(record__in=records).exists()
    wait_until(lambda: now_of(budget).held.in_flight == 0, 30, "every call is settled")
    assert now_of(budget).spent == charges(world)
    # What one process spent binds the other: the rest goes to neither.
    while doors[0].post(world, BODY).status_code == 200:
        told()
    assert [door.post(world, BODY).status_code for door in doors] == [429, 429]


def test_a_soft_budget_refuses_nobody_and_tells_each_threshold_once(doors, up):
    world, _budget = bound(doors, up, CHARGE * 5, hard=False, alert_at=[50, 80, 100])
    assert {got.status_code for got in storm(doors, world)} == {200}
    alerts = Alert.objects.filter(tenant=world.tenant, kind="budget")

    def sweep(_number):
        try:
            sweep_budgets()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(sweep, range(4)))
    wait_until(lambda: alerts.count() == 3, 10, "every threshold is told")
    assert doors[0].post(world, BODY).status_code == doors[1].post(world, BODY).status_code == 200
    with pytest.raises(AssertionError):
        wait_until(lambda: alerts.count() > 3, 5)  # both processes have looked again by then
    assert sorted(alerts.values_list("details__threshold", flat=True)) == [50, 80, 100]
    mails = AlertDelivery.objects.filter(alert__in=alerts, target="a@example.com")
    assert sorted(mails.values_list("alert__details__threshold", flat=True)) == [50, 80, 100]


def test_what_both_reserve_is_read_by_a_third_process(doors, up):
    gate = Gate()
    up.default(answer("Hello from the fake upstream.", holds=((-1, gate),)))
    world, budget = bound(doors, up, 1)
    other = BudgetFactory(tenant=world.tenant, line=LineFactory(tenant=world.tenant), hard=True)
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(doors[n % 2].post, world, BODY, timeout=60) for n in range(4)]
        up.wait_for_requests(4, timeout_s=50)
        held = wait_until(lambda: (seen := now_of(budget)).held.in_flight == 4 and seen, 30, "four are in flight")
        assert (held.spent, held.reserved, held.left) == (0, ESTIMATE * 4, 1 - ESTIMATE * 4)
        assert now_of(other).held.in_flight == 0
        gate.open()
        assert {call.result().status_code for call in calls} == {200}
    done = wait_until(lambda: (seen := now_of(budget)).held.in_flight == 0 and seen, 30, "all are settled")
    assert (done.reserved, done.left) == (0, 1 - charges(world))


def test_a_raised_amount_is_spent_to_its_end_by_both(doors, up):
    world, budget = bound(doors, up, 0)
    assert [door.post(world, BODY).status_code for door in doors] == [429, 429]
    Budget.objects.filter(pk=budget.pk).update(amount=CHARGE * 6)
    touch_config()
    for door in doors:  # each call that passes spends: one of each must do
        wait_until(lambda door=door: door.post(world, BODY).status_code == 200, 10)
    told()
    codes = Counter(got.status_code for got in storm(doors, world, 20))
    assert set(codes) == {200, 429}
    assert charges(world) <= CHARGE * 6 + (codes[200] + 2) * max(CHARGE - ESTIMATE, D(0))
