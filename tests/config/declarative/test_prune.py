"""--prune removes what the file does not name inside the tenants that it names; what is protected says so."""

from datetime import date
from decimal import Decimal

import pytest

from billing.models import Budget, ExchangeRate, LedgerEntry, Price, RequestRecord
from config.declarative.resolving import no_lookup
from config.declarative.service import apply_document
from keys.models import Account, Upstream, UpstreamKey
from routing.models import GroupMember, LineRoute, Route, RoutingRule, StrategyGroup
from tenants.models import AuditEntry, BusinessLine, GatewayKey, Tenant
from tenants.services import revoke_gateway_key
from tests.config.declarative.samples import FULL, applied, errors_of, small, tenant_of
from tests.factories import NOON, RecordFactory, TenantFactory

pytestmark = pytest.mark.django_db

ALL_BELOW_TENANT = (
    Account, Upstream, UpstreamKey, StrategyGroup, GroupMember, Route, RoutingRule, BusinessLine, LineRoute, GatewayKey,
    Budget,
)  # fmt: skip


def test_a_bare_tenant_loses_everything_but_itself() -> None:
    applied(FULL)
    result = applied({"tenants": [{"slug": "acme"}]}, prune=True)
    assert [model.__name__ for model in ALL_BELOW_TENANT if model.objects.exists()] == []
    assert list(Tenant.objects.values_list("slug", flat=True)) == ["acme"]
    assert not Price.objects.filter(tenant__isnull=False).exists()
    assert Price.objects.filter(tenant=None).count() == 3  # what is global is never pruned
    assert ExchangeRate.objects.count() == 1
    assert "- tenants[acme].lines[support-bot].keys[prod]: clients that use it are refused" in result.changes
    assert (
        "- tenants[acme].lines[support-bot]: its gateway keys stop working; recorded calls keep its name"
        in result.changes
    )
    assert AuditEntry.objects.filter(action="removed", object_name="tenants[acme].lines[support-bot]").count() == 1


def test_tenants_that_the_file_does_not_name_are_left_alone() -> None:
    applied(small())
    other = small()
    tenant_of(other)["slug"] = "other"
    tenant_of(other)["lines"][0]["keys"][0]["secret"] = "sk-gateway-0000000002"
    applied(other)
    applied({"tenants": [{"slug": "acme"}]}, prune=True)
    assert set(Upstream.objects.values_list("tenant__slug", flat=True)) == {"other"}
    assert set(GatewayKey.objects.values_list("line__tenant__slug", flat=True)) == {"other"}


def test_pruning_with_the_same_file_changes_nothing() -> None:
    applied(FULL)
    assert applied(FULL, prune=True).changes == ()


def test_a_field_that_the_file_leaves_out_goes_back_to_its_default_but_switches_and_secrets_stay() -> None:
    document = small()
    tenant = tenant_of(document)
    tenant["upstreams"][0] |= {"rotation": "random", "enabled": False}
    tenant["upstreams"][0]["keys"][0] |= {"rpm": 5, "enabled": False}
    tenant["lines"][0] |= {"name": "The bot", "limits": {"rpm": 5}, "models": ["a"]}
    applied(document)
    shorter = small()
    del tenant_of(shorter)["lines"][0]["keys"][0]["secret"]
    assert applied(shorter, prune=True).changes == (
        "~ tenants[acme].upstreams[up].rotation: random → round_robin",
        "~ tenants[acme].upstreams[up].keys[k].rpm: 5 → none",
        "~ tenants[acme].lines[bot].models: [a] → []",
        "~ tenants[acme].lines[bot].limits.rpm: 5 → none",
    )
    key = UpstreamKey.objects.get(upstream__name="up")
    assert (key.enabled, key.secret, key.upstream.enabled) == (False, "sk-up-000000001", False)
    assert BusinessLine.objects.get().name == "The bot"


def test_members_and_rules_that_the_file_leaves_out_go() -> None:
    document = small()
    tenant_of(document)["routes"][0]["rules"].insert(0, {"name": "x", "when": {"stream": True}, "then": {"deny": "no"}})
    applied(document)
    shorter = small()
    tenant_of(shorter)["groups"][0]["members"] = [{"upstream": "spare"}]
    assert applied(shorter, prune=True).changes == (
        "- tenants[acme].groups[main].members[up]: the group no longer uses this upstream",
        "- tenants[acme].routes[default].rules[x]: requests that it matched go by the rules below it",
    )


def test_a_reference_to_what_would_go_is_dangling() -> None:
    applied(small())
    document = small()
    del tenant_of(document)["upstreams"][1]
    assert errors_of(document, prune=True) == (
        'tenants[0].groups[0].members[1].upstream: unknown upstream "spare"; known: up',
    )
    assert Upstream.objects.count() == 2


def test_a_secret_can_move_to_another_key_while_the_first_goes() -> None:
    applied(small())
    document = small()
    tenant_of(document)["upstreams"][0]["keys"] = [{"name": "renamed", "secret": "sk-up-000000001"}]
    tenant_of(document)["lines"][0]["keys"] = [{"name": "renamed", "secret": "sk-gateway-0000000001"}]
    assert errors_of(document) == (
        "tenants[acme].upstreams[up].keys[k].secret: is the same secret as that of key renamed "
        "(at tenants[0].upstreams[0].keys[0])",
        "tenants[acme].lines[bot].keys[prod].secret: is the same secret as that of bot/renamed "
        "(at tenants[0].lines[0].keys[0])",
    )
    applied(document, prune=True)
    assert [key.name for key in UpstreamKey.objects.filter(upstream__name="up")] == ["renamed"]
    assert [key.name for key in GatewayKey.objects.all()] == ["renamed"]


def priced(price: Price, line: BusinessLine) -> RequestRecord:
    record: RequestRecord = RecordFactory(line=line, tenant=line.tenant)
    RequestRecord.objects.filter(pk=record.pk).update(price_id=price.pk)
    return record


PRICE = {"model": "m", "currency": "USD", "input": "1", "output": "2"}


def test_a_price_that_a_record_used_is_neither_edited_nor_removed() -> None:
    document = {**small(), "prices": [PRICE]}
    tenant_of(document)["prices"] = [PRICE]
    applied(document)
    line = BusinessLine.objects.get()
    for price in Price.objects.all():
        priced(price, line)
    changed = {**PRICE, "input": "1.5"}
    tenant_of(document)["prices"] = [changed]
    document["prices"] = [changed]
    text = "recorded calls were billed by this price: it is never edited; add a row with a later from"
    assert errors_of(document) == (f"prices[0]: {text}", f"tenants[0].prices[0]: {text}")
    tenant_of(document)["prices"] = []
    document["prices"] = [PRICE]
    assert errors_of(document, prune=True) == (
        "tenants[acme].prices[m 1970-01-01]: recorded calls were billed by this price: it stays; keep it in the file",
    )
    document["prices"] = [PRICE, {**changed, "from": "2026-12-01"}]
    tenant_of(document)["prices"] = [PRICE]
    applied(document, prune=True)
    assert list(Price.objects.filter(tenant=None).values_list("input", "starts").order_by("starts")) == [
        (Decimal(1), date(1970, 1, 1)),
        (Decimal("1.5"), date(2026, 12, 1)),
    ]


def test_another_currency_after_the_first_calls_is_warned_of() -> None:
    applied(small())
    document = small()
    tenant_of(document)["currency"] = "EUR"
    assert applied(document, dry_run=True).warnings == ()
    RecordFactory(line=BusinessLine.objects.get(), tenant=Tenant.objects.get())
    assert applied(document).warnings == ("tenants[0].currency: recorded calls keep their amounts in USD",)


def test_a_price_that_nothing_used_may_be_corrected() -> None:
    applied({"prices": [PRICE]})
    applied({"prices": [{**PRICE, "input": "1.5"}]})
    assert Price.objects.get().input == Decimal("1.5")


def test_an_entry_states_the_whole_price() -> None:
    applied({"prices": [{**PRICE, "cached_input": "0.5"}]})
    assert applied({"prices": [PRICE]}).changes == ("~ prices[m 1970-01-01].cached_input: 0.5 → none",)


def test_a_line_with_history_may_go_and_its_records_stay() -> None:
    applied(small())
    line = BusinessLine.objects.get()
    record = RecordFactory(line=line, tenant=line.tenant, line_slug="bot")
    document = small()
    tenant_of(document)["lines"] = []
    applied(document, prune=True)
    assert not BusinessLine.objects.exists()
    assert RequestRecord.objects.get(pk=record.pk).line_slug == "bot"


def test_a_revoked_gateway_key_does_not_come_back() -> None:
    applied(small())
    revoke_gateway_key(key=GatewayKey.objects.get(), now=NOON)
    assert applied(small()).changes == ()
    document = small()
    tenant_of(document)["lines"][0]["keys"][0]["enabled"] = True
    text = "tenants[0].lines[0].keys[0]: was revoked for good; issue a key under another name"
    assert errors_of(document) == (text,)
    document = small()
    tenant_of(document)["lines"][0]["keys"][0]["secret"] = "sk-gateway-0000000009"
    assert errors_of(document) == (text,)


def test_a_gateway_secret_of_another_tenant_is_refused() -> None:
    applied(small())
    document = small()
    tenant_of(document)["slug"] = "other"
    assert errors_of(document) == ("tenants[0].lines[0].keys[0].secret: is the same secret as that of acme/bot/prod",)


def test_a_row_that_is_still_in_use_says_so_and_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    applied(small())
    account = Account.objects.get()
    elsewhere = Upstream.objects.create(tenant=TenantFactory(slug="b"), name="x", base_url="https://x.example")
    UpstreamKey.objects.create(upstream=elsewhere, name="k", secret="s", digest="d", account=account)
    document = small()
    tenant_of(document)["accounts"] = []
    tenant_of(document)["name"] = "Renamed"
    assert errors_of(document, prune=True) == (
        "tenants[acme].accounts[pot]: cannot be removed, it is still in use (upstream key)",
    )
    assert Tenant.objects.get(slug="acme").name == "acme"


def test_the_ledger_is_out_of_reach() -> None:
    applied(small())
    tenant = Tenant.objects.get()
    LedgerEntry.objects.create(tenant=tenant, kind="credit", amount=1, currency="USD", day=NOON.date(), created=NOON)
    apply_document({"tenants": [{"slug": "acme"}]}, prune=True, resolve=no_lookup)
    assert LedgerEntry.objects.count() == 1
