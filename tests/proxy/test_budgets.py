"""Hard budgets and missing prices as clients meet them."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from billing.models import Attempt, Budget, ExchangeRate, LedgerEntry, Price, RequestRecord
from tenants.models import Alert
from tests.factories import AccountFactory, BudgetFactory, PriceFactory, RecordFactory
from tests.fake_upstream import answer, status
from tests.gateway import CHARGE, PRICE, chat, outcomes, wait_until

D = Decimal
CAP = {"max_tokens": 7}  # the default answer's output; its estimate is close to its charge


def bind(gateway, world, amount, **fields):
    fields = {"tenant": world.tenant, "line": world.line, "hard": True, **fields}
    row = BudgetFactory(amount=D(amount), **fields)
    gateway.refresh()
    return row


def settled(gateway):
    wait_until(lambda: not gateway.runtime.budgets._held, what="every call is settled")


def charged(world):
    return sum((row.charge or D(0) for row in RequestRecord.objects.filter(tenant=world.tenant)), D(0))


def test_calls_pass_until_the_budget_is_spent_and_are_refused_then(gateway, up):
    world = gateway.serving(up, "k-1")
    budget = bind(gateway, world, CHARGE * 2)
    for _ in range(2):
        assert gateway.post(world, chat(**CAP)).status_code == 200
        settled(gateway)
    refused = gateway.post(world, chat(**CAP))
    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "insufficient_quota"
    assert refused.headers["x-should-retry"] == "false"
    assert "business line's budget of 0.000265 USD per month" in refused.json()["error"]["message"]
    record = gateway.record(refused)
    assert (record.status, record.charge, record.refusal_limit) == ("failed", 0, "budget:line:month")
    end = budget.period and record.refusal_until
    assert end.astimezone(UTC).day == 1
    assert not Attempt.objects.filter(record=record).exists()
    assert len(up.requests) == 2
    explained = gateway.get(world, f"/v1/requests/{record.request_id}").json()
    assert explained["refusal"] == {"limit": "budget:line:month", "until": end.isoformat()}


DIALECTS = {
    "anthropic": ("/v1/messages", {"model": "m", "max_tokens": 7, "messages": [{"role": "user", "content": "hi"}]}),
    "gemini": ("/v1beta/models/m:generateContent", {"contents": [{"parts": [{"text": "hi"}]}]}),
    "responses": ("/v1/responses", {"model": "m", "input": "hi"}),
    "embeddings": ("/v1/embeddings", {"model": "m", "input": "hi"}),
    "completions": ("/v1/completions", {"model": "m", "prompt": "hi"}),
}


@pytest.mark.parametrize("case", DIALECTS)
def test_every_way_in_is_refused_alike(gateway, up, case):
    world = gateway.serving(up, "k-1")
    bind(gateway, world, 0)
    path, body = DIALECTS[case]
    refused = gateway.post(world, body, path=path)
    assert refused.status_code == 429
    assert gateway.record(refused).refusal_limit == "budget:line:month"
    assert up.requests == []
    error = refused.json()["error"]
    if case == "anthropic":
        assert (error["type"], refused.headers["x-should-retry"]) == ("rate_limit_error", "false")
    elif case == "gemini":
        assert error["status"] == "RESOURCE_EXHAUSTED"
        kinds = {detail["@type"].rpartition(".")[2] for detail in error["details"]}
        assert {"RetryInfo", "QuotaFailure"} <= kinds
    else:
        assert error["code"] == "insufficient_quota"


@pytest.mark.parametrize("fields", [{"line": None}, {"period": "day"}, {"period": "week"}, {"period": "total"}])
def test_tenants_and_other_periods_bind_as_well(gateway, up, fields):
    world = gateway.serving(up, "k-1")
    bind(gateway, world, CHARGE, **fields)
    assert gateway.post(world, chat(**CAP)).status_code == 200
    settled(gateway)
    refused = gateway.post(world, chat(**CAP))
    assert refused.status_code == 429
    assert ("retry-after" in refused.headers) == (fields.get("period") != "total")


def test_a_hundred_at_once_overshoot_by_no_more_than_the_estimates_are_off(gateway, up):
    up.script("k-1", answer(delay_s=0.2))
    world = gateway.serving(up, "k-1")
    amount = CHARGE * 5
    bind(gateway, world, amount)
    with ThreadPoolExecutor(25) as pool:
        codes = list(pool.map(lambda _: gateway.post(world, chat(**CAP)).status_code, range(100)))
    settled(gateway)
    passed = codes.count(200)
    assert set(codes) == {200, 429}
    # Each admitted call may cost more than its estimate by the difference of the two, and no more.
    size = len(b'{"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 7}')
    estimate = (D(-(-size // 4)) * D("2.50") + 7 * D(10)) / 1_000_000
    assert charged(world) <= amount + passed * max(CHARGE - estimate, D(0))
    assert passed >= 5


def test_a_soft_budget_only_tells_and_tells_once(gateway, up):
    world = gateway.serving(up, "k-1")
    bind(gateway, world, CHARGE, hard=False, alert_at=[80, 100])
    for _ in range(3):
        assert gateway.post(world, chat()).status_code == 200
    wait_until(lambda: Alert.objects.filter(tenant=world.tenant, kind="budget").count() == 2, 10)
    assert {alert.details["threshold"] for alert in Alert.objects.filter(tenant=world.tenant)} == {80, 100}


def test_a_free_model_is_served_on_a_spent_budget(gateway, up):
    world = gateway.serving(up, "k-1")
    PriceFactory(tenant=world.tenant, model="free-*", input=0, cached_input=0, output=0)
    bind(gateway, world, 0)
    assert gateway.post(world, chat(model="free-1")).status_code == 200
    assert gateway.post(world, chat()).status_code == 429


def test_a_raised_budget_lets_calls_pass_again(gateway, up):
    world = gateway.serving(up, "k-1")
    budget = bind(gateway, world, 0)
    assert gateway.post(world, chat(**CAP)).status_code == 429
    Budget.objects.filter(pk=budget.pk).update(amount=1)
    gateway.refresh()
    assert gateway.post(world, chat(**CAP)).status_code == 200


def test_what_was_spent_before_the_process_started_counts(gateway, up):
    world = gateway.serving(up, "k-1")
    record = RecordFactory(line=world.line, created=datetime.now(UTC), charge=D(5))
    LedgerEntry.objects.create(
        tenant=world.tenant, kind="charge", record=record, line_id=world.line.pk, amount=D(5), currency="USD",
        day=record.day, created=record.created,
    )  # fmt: skip
    bind(gateway, world, 5)
    assert gateway.post(world, chat(**CAP)).status_code == 429


def test_a_budget_in_another_currency(gateway, up):
    world = gateway.serving(up, "k-1")
    ExchangeRate.objects.update_or_create(
        source="USD", target="CNY", starts=datetime.now(UTC).date() - timedelta(days=1), defaults={"rate": D(10)}
    )
    bind(gateway, world, CHARGE * 10, currency="CNY")
    assert gateway.post(world, chat(**CAP)).status_code == 200
    settled(gateway)
    assert gateway.post(world, chat(**CAP)).status_code == 429


def test_a_failed_call_gives_its_reservation_back(gateway, up):
    up.script("k-1", status(400), status(400), status(400))
    world = gateway.serving(up, "k-1")
    bind(gateway, world, CHARGE)
    for _ in range(3):
        assert gateway.post(world, chat(**CAP)).status_code == 400
        settled(gateway)


def test_an_accounts_budget_closes_that_account_and_the_next_serves(gateway, up):
    world = gateway.serving(up, "k-1", "k-2")
    account = AccountFactory(tenant=world.tenant)
    world.keys[0].account = account
    world.keys[0].save()
    bind(gateway, world, CHARGE, line=None, account=account)
    first = gateway.post(world, chat(**CAP))
    settled(gateway)
    second = gateway.post(world, chat(**CAP))
    assert [r.status_code for r in (first, second)] == [200, 200]
    assert outcomes(gateway.record(first))[0] == ("k1", "served")
    assert ("k1", "skipped: quota") in outcomes(gateway.record(second))
    assert ("k2", "served") in outcomes(gateway.record(second))
    world.keys[1].account = account
    world.keys[1].save()
    gateway.refresh()
    refused = gateway.post(world, chat(**CAP))
    assert refused.status_code == 429
    assert gateway.record(refused).refusal_limit == "budget:account:month"


def test_a_model_without_a_price_is_refused_where_the_line_says_so(gateway, up):
    world = gateway.serving(up, "k-1", price=None, line={"on_unpriced": "refuse"})
    refused = gateway.post(world, chat())
    assert refused.status_code == 403
    assert refused.json()["error"]["code"] == "model_unpriced"
    assert up.requests == []
    PriceFactory(tenant=world.tenant, **PRICE)
    gateway.refresh()
    assert gateway.post(world, chat()).status_code == 200


def test_a_hard_budget_makes_unpriced_models_refused_unless_the_line_serves_them(gateway, up):
    world = gateway.serving(up, "k-1", price=None)
    assert gateway.post(world, chat()).status_code == 200
    bind(gateway, world, 1)
    assert gateway.post(world, chat()).status_code == 403
    world.line.on_unpriced = "serve"
    world.line.save()
    gateway.refresh()
    answered = gateway.post(world, chat())
    assert answered.status_code == 200
    assert not gateway.record(answered).priced
    assert not Price.objects.filter(tenant=world.tenant).exists()
