"""One record for each admitted request, with exact amounts; the ledger agrees with it."""

import json
from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from billing.models import Attempt, LedgerEntry, RequestRecord
from tests.factories import ExchangeRateFactory, PriceFactory
from tests.fake_upstream import Tokens, answer, raw, sse_error_after, status
from tests.gateway import CHARGE, MESSAGES, attempts, chat, ledger
from tests.proxy.asking import ask

COUNTED = Tokens(input=1000, output=200, cached_read=600, reasoning=50)


def test_the_whole_record(gateway, up):
    up.script("k-1", status(500, "boom"))
    world = gateway.serving(up, "k-1", "k-2")
    before = timezone.now()
    record = gateway.record(ask(gateway, world, stream=True))
    assert (record.tenant, record.line_id, record.line_slug) == (world.tenant, world.line.pk, world.line.slug)
    assert (record.line_name, record.gateway_key_id, record.key_name) == (world.line.name, world.gateway_key.pk, "prod")
    assert record.key_last4 == world.secret[-4:]
    assert before <= record.created <= timezone.now()
    assert record.day == record.created.date()
    assert (record.dialect, record.endpoint, record.stream) == ("openai", "chat/completions", True)
    assert (record.route, record.rule, record.group) == ("default", "everything", "main")
    assert (record.upstream, record.upstream_key_id) == ("u2", world.keys[1].pk)
    assert record.upstream_key.startswith("k2 (…")
    assert (record.currency, record.priced, record.replay_of) == ("USD", True, "")
    assert record.price["input"] == "2.50"
    lost, served = attempts(record)
    assert (lost.n, lost.upstream_key_id, lost.outcome, lost.status) == (1, world.keys[0].pk, "server_error", 500)
    assert (lost.message, lost.cost, lost.waste, lost.input_tokens) == ("boom", None, None, None)
    assert (served.n, served.model_sent, served.cost, served.output_tokens) == (2, "gpt-4o", CHARGE, 7)
    assert lost.started_ms <= served.started_ms
    charge, cost = LedgerEntry.objects.filter(record=record).order_by("kind")
    assert (charge.tenant, charge.line_id, charge.attempt_n) == (world.tenant, world.line.pk, None)
    assert (cost.upstream_key_id, cost.attempt_n, cost.currency) == (world.keys[1].pk, 2, "USD")
    assert charge.day == record.day


class TestMoney:
    def charged(self, gateway, up, world, body=None, path="/v1/chat/completions"):
        return gateway.record(gateway.post(world, body, path=path))

    def test_cached_tokens_are_a_part_of_the_input_charged_once(self, gateway, up):
        """Report 7."""
        up.script("k-1", answer(tokens=COUNTED))
        record = self.charged(gateway, up, gateway.serving(up, "k-1"))
        assert record.charge == Decimal("0.00375")  # 400 × 2.50 + 600 × 1.25 + 200 × 10, per million

    def test_cache_writes_of_anthropic(self, gateway, up):
        """Report 6."""
        price = {"currency": "USD", "input": "3", "cached_input": "0.3", "cache_write": "3.75", "output": "15"}
        world = gateway.serving(up, "k-1", upstream={"dialect": "anthropic"}, price=price)
        up.default(answer(tokens=Tokens(input=12307, output=550, cache_write=12304)))
        records = [
            self.charged(gateway, up, world, chat(max_tokens=9, stream=flag), "/v1/messages") for flag in (False, True)
        ]
        assert [record.charge for record in records] == [Decimal("0.054399")] * 2
        assert [record.cache_write_tokens for record in records] == [12304] * 2

    def test_multipliers(self, gateway, up):
        up.script("k-1", answer(tokens=COUNTED))
        world = gateway.serving(
            up, "k-1", upstream={"cost_multiplier": Decimal("0.8")}, line={"charge_multiplier": Decimal("1.1")}
        )
        record = self.charged(gateway, up, world)
        assert (record.charge, record.cost) == (Decimal("0.004125"), Decimal("0.003"))
        assert ledger(record) == [("charge", Decimal("0.004125")), ("cost", Decimal("0.003"))]

    def test_another_currency(self, gateway, up):
        ExchangeRateFactory(source="USD", target="JPY", rate=Decimal("150"))
        world = gateway.serving(up, "k-1")
        world.tenant.currency = "JPY"
        world.tenant.save()
        gateway.refresh()
        record = self.charged(gateway, up, world)
        assert (record.charge, record.currency) == (CHARGE * 150, "JPY")

    def test_without_a_rate_it_is_unpriced(self, gateway, up):
        world = gateway.serving(up, "k-1", price={"currency": "XAF", "input": "1", "output": "1"})
        record = self.charged(gateway, up, world)
        assert (record.charge, record.cost, record.priced, ledger(record)) == (None, None, False, [])

    def test_a_model_without_a_price_is_unpriced_never_free(self, gateway, up):
        """Report 13."""
        record = self.charged(gateway, up, gateway.serving(up, "k-1", price=None))
        assert (record.charge, record.cost, record.priced, ledger(record)) == (None, None, False, [])
        assert (record.price_id, "input" in record.price) == (None, False)
        assert (record.status, record.input_tokens) == ("finished", 25)

    def test_a_price_of_zero_is_a_price(self, gateway, up):
        world = gateway.serving(up, "k-1", price={"currency": "USD", "input": "0", "output": "0"})
        record = self.charged(gateway, up, world)
        assert (record.charge, record.priced, ledger(record)) == (0, True, [])

    def test_the_price_of_the_day(self, gateway, up):
        """Dates begin at midnight in the tenant's zone."""
        world = gateway.serving(up, "k-1")
        today = timezone.now().date()
        for days, amount in ((0, "7"), (2, "9")):
            PriceFactory(
                tenant=world.tenant, model="*", input=Decimal(amount), output=Decimal(0),
                starts=today + timedelta(days=days),
            )  # fmt: skip
        gateway.refresh()
        assert self.charged(gateway, up, world).charge == Decimal("0.000175")  # 25 × 7

    def test_the_name_sent_is_priced_else_the_name_before_the_alias(self, gateway, up):
        """Report 15."""
        world = gateway.serving(up, "k-1", price=None, upstream={"aliases": {"gpt-4o": "relay/gpt-4o"}})
        PriceFactory(tenant=world.tenant, model="gpt-4o", input=Decimal(1), output=Decimal(0))
        gateway.refresh()
        assert self.charged(gateway, up, world).charge == Decimal("0.000025")
        PriceFactory(tenant=world.tenant, model="relay/*", input=Decimal(2), output=Decimal(0))
        gateway.refresh()
        assert self.charged(gateway, up, world).charge == Decimal("0.00005")

    def test_a_price_per_call_behind_an_alias(self, gateway, up):
        """Report 15: charged once content was delivered, whatever the tokens."""
        price = {"currency": "USD", "unit": "per_call", "call": "0.031", "input": None, "output": None}
        price |= {"cached_input": None, "model": "real-name"}
        world = gateway.serving(up, "k-1", "k-2", price=price, upstream={"aliases": {"gpt-4o": "real-name"}})
        up.script("k-1", answer(tokens=None))
        record = self.charged(gateway, up, world)
        assert (record.charge, record.cost) == (Decimal("0.031"), Decimal("0.031"))
        up.default(status(500))
        failed = self.charged(gateway, up, world)
        assert (failed.charge, failed.cost, ledger(failed)) == (0, None, [])

    def test_a_tenants_price_goes_before_the_global_one(self, gateway, up):
        PriceFactory(model="gpt-own", input=Decimal(100), output=Decimal(100))
        world = gateway.serving(up, "k-1", price={"currency": "USD", "model": "gpt-own", "input": "1", "output": "0"})
        assert self.charged(gateway, up, world, chat(model="gpt-own")).charge == Decimal("0.000025")


class TestUsageOfOddUpstreams:
    def usage_of(self, gateway, up, usage):
        body = {"choices": [{"index": 0, "message": {"content": "ok"}, "finish_reason": "stop"}], "usage": usage}
        up.script("k-1", raw(json.dumps(body)))
        return gateway.record(gateway.post(gateway.serving(up, "k-1")))

    @pytest.mark.parametrize("count", [10**19, 10**30, -5, 1.5, "7", True, None, [], float(2**80)])
    def test_numbers_that_are_none(self, gateway, up, count):
        """Neither the record nor the gateway suffers from them."""
        record = self.usage_of(gateway, up, {"prompt_tokens": count, "completion_tokens": 4})
        assert record.status == "finished"
        assert record.input_tokens is None or 0 <= record.input_tokens < 2**63

    def test_zero_is_not_missing(self, gateway, up):
        record = self.usage_of(gateway, up, {"prompt_tokens": 0, "completion_tokens": 0})
        assert (record.input_tokens, record.output_tokens, record.charge) == (0, 0, 0)
        assert (record.usage_source, record.priced, record.estimated) == ("upstream", True, False)

    def test_missing_is_estimated_not_zero(self, gateway, up):
        record = self.usage_of(gateway, up, {"prompt_tokens": 9})
        assert (record.input_tokens, record.usage_source, record.estimated) == (9, "estimated", True)
        assert record.output_tokens == 1


@pytest.mark.parametrize("text", ["\u0000", "a\u0000b", "\ud83d", "名" * 600, "\\x00"])
def test_odd_text_from_upstreams_is_recorded_all_the_same(gateway, up, text):
    """An upstream's wording goes into rows whatever it holds; other requests do not suffer for it."""
    wrong = {"error": {"message": f"bad {text} thing", "type": text, "code": text}}
    up.script("k-1", raw(json.dumps(wrong), status=400))
    world = gateway.serving(up, "k-1")
    got = gateway.post(world)
    assert got.status_code == 400
    assert gateway.record(got).attempts.get().message.startswith("bad ")
    assert gateway.record(gateway.post(world)).status == "finished"
    assert gateway.get(None, "/readyz").text == "ok\n"


@pytest.mark.parametrize("name", ["模" * 300, "a" * 512, "=1+1", "../..", "gpt 4o", "\u3000", "名/前@1"])
def test_odd_model_names_are_recorded_all_the_same(gateway, up, name):
    got = gateway.post(gateway.serving(up, "k-1"), chat(model=name))
    assert (got.status_code, up.last.json["model"]) == (200, name)
    assert gateway.record(got).model_requested == name[:200]


@pytest.mark.parametrize("name", ["gpt\u0000", "\ud83d", "gpt\n4", "\x7f"])
def test_what_can_be_no_models_name_is_refused(gateway, up, name):
    world = gateway.serving(up, "k-1")
    got = gateway.post(world, chat(model=name))
    assert (got.status_code, got.json()["error"]["param"], up.requests) == (400, "model", [])
    assert gateway.record(got).status == "failed"
    assert gateway.record(gateway.post(world)).status == "finished"


def test_each_request_has_one_record_whatever_its_ending(gateway, up):
    world = gateway.serving(up, "k-1", line={"model_globs": ["gpt-4o"]})
    up.script("k-1", answer(), status(400), sse_error_after(2), status(500))
    bodies = [chat(), chat(), chat(stream=True), chat(), chat(model="other"), b"{"]
    statuses = [gateway.record(gateway.post(world, body)).status for body in bodies]
    assert statuses == ["finished", "failed", "failed", "failed", "failed", "failed"]
    records = RequestRecord.objects.filter(tenant=world.tenant)
    assert records.count() == 6
    assert len(set(records.values_list("pk", flat=True))) == 6
    assert Attempt.objects.filter(record__in=records).count() == 4
    assert sum(charge for charge in records.values_list("charge", flat=True)) == CHARGE


def test_the_day_is_the_tenants(gateway, up):
    world = gateway.serving(up, "k-1")
    world.tenant.timezone = "Pacific/Kiritimati"  # UTC+14
    world.tenant.save()
    gateway.refresh()
    record = gateway.record(gateway.post(world))
    assert record.day == (record.created + timedelta(hours=14)).date()
    assert LedgerEntry.objects.filter(record=record).values_list("day", flat=True)[0] == record.day


def test_fetching_a_request_costs_nothing(gateway, up):
    """Report 12, for the gateway's own look-up."""
    world = gateway.serving(up, "k-1")
    got = gateway.post(world, {"model": "gpt-4o", "messages": MESSAGES})
    for _ in range(2):
        gateway.get(world, f"/v1/requests/{got.headers['x-request-id']}")
    assert RequestRecord.objects.filter(tenant=world.tenant).count() == 1
    assert LedgerEntry.objects.filter(tenant=world.tenant).count() == 2
