"""A document becomes rows, once; what it does not name stays; nothing is written when anything is wrong."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from billing.models import ALWAYS, Budget, ExchangeRate, Price
from config.declarative import ConfigError, apply_document
from config.declarative.resolving import no_lookup
from keys.models import Account, Upstream, UpstreamKey
from keys.services import secret_digest
from routing.models import GroupMember, LineRoute, Route, RoutingRule, StrategyGroup
from tenants.models import AuditEntry, BusinessLine, ConfigVersion, GatewayKey, Tenant
from tenants.services import gateway_digest
from tests.config.declarative.samples import FULL, applied, parsed, small, tenant_of

pytestmark = pytest.mark.django_db


def version() -> int:
    return ConfigVersion.objects.get(pk=1).version


def as_json(model: Any, **where: Any) -> dict[str, Any]:
    """Return the one row as a mapping of its columns."""
    found: dict[str, Any] = model.objects.filter(**where).values().get()
    return found


def holds(model: Any, where: dict[str, Any], expected: dict[str, Any]) -> None:
    row = as_json(model, **where)
    assert {name: row[name] for name in expected} == expected


def test_every_field_of_a_tenant_and_its_accounts_is_stored() -> None:
    applied(FULL)
    holds(
        Tenant,
        {"slug": "acme"},
        {
            "name": "Acme search team",
            "timezone": "Asia/Shanghai",
            "currency": "CNY",
            "alert_emails": ["ops@example.com"],
            "alert_webhook": "https://hooks.example.com/x",
            "enabled": True,
        },
    )
    holds(
        Account,
        {"name": "relay-a"},
        {
            "quota_timezone": "Asia/Tokyo",
            "credit_amount": Decimal(500),
            "credit_currency": "USD",
            "credit_period": "month",
            "balance_url": "https://relay-a.example/balance",
        },
    )


def test_every_field_of_an_upstream_and_its_keys_is_stored() -> None:
    applied(FULL)
    holds(
        Upstream,
        {"name": "relay-a"},
        {
            "dialect": "openai-responses",
            "base_url": "https://relay-a.example/v1",
            "model_list": ["gpt-4o", "gpt-4o-mini"],
            "extra_models": [],
            "aliases": {"gpt-4o": "openai/gpt-4o"},
            "max_context_tokens": 128000,
            "cost_multiplier": Decimal("0.8"),
            "rotation": "weighted",
            "auth": "both",
            "usage_semantics": "inclusive",
            "headers": {"X-Title": "acme", "X-Extra-Token": "hush-0123456789"},
            "timeouts": {"connect_s": 5, "silence_s": 120},
            "enabled": False,
        },
    )
    holds(Upstream, {"name": "official"}, {"model_list": "auto", "extra_models": ["claude-x"], "enabled": True})
    holds(Upstream, {"name": "local-small"}, {"model_list": None, "base_url": "https://small.example#"})
    a1 = UpstreamKey.objects.get(name="a1")
    assert (a1.secret, a1.tail, a1.digest) == ("sk-relay-a-000001", "0001", secret_digest("sk-relay-a-000001"))
    assert a1.account == Account.objects.get(name="relay-a")
    assert (a1.weight, a1.concurrency, a1.rpm, a1.tpm, a1.per_hour, a1.per_day) == (2, 8, 60, 9000, 700, 8000)
    a2 = UpstreamKey.objects.get(name="a2")
    assert (a2.account, a2.weight, a2.concurrency, a2.enabled) == (None, 1, None, False)
    assert a2.policy == {"preset": "keypool", "strikes": 2}
    listed = UpstreamKey.objects.filter(upstream__name="official").order_by("name")
    assert [(key.name, key.secret) for key in listed] == [("k1", "sk-official-000001"), ("k2", "sk-official-000002")]


def test_every_field_of_groups_and_routes_is_stored() -> None:
    applied(FULL)
    main = StrategyGroup.objects.get(name="main")
    assert (main.strategy, main.basis, main.stream_hold) == ("weighted", "speed_and_stability", "full")
    assert main.last_resort == Upstream.objects.get(name="local-small")
    assert main.policy == {"preset": "relay", "cool_429_s": 90}
    members = GroupMember.objects.filter(group=main).order_by("position")
    assert [(each.upstream.name, each.weight, each.position) for each in members] == [
        ("relay-a", 7, 0),
        ("official", 3, 1),
    ]
    default = Route.objects.get(is_default=True)
    assert default.name == "default"
    found = [
        (rule.name, rule.when, rule.set, rule.group and rule.group.name, rule.upstream, rule.deny, rule.proceed)
        for rule in RoutingRule.objects.filter(route=default).order_by("position")
    ]
    official = Upstream.objects.get(name="official")
    assert found == [
        ("cheap-batch", {"line": "support-*", "stream": False}, {}, "cheap", None, "", False),
        ("after-failover", {"upstream": "official"}, {"model": "gpt-4o-2024"}, None, None, "", True),
        ("night", {"hours": "22:00-07:00"}, {}, None, None, "closed at night", False),
        ("straight", {"max_tokens": ">= 32k"}, {}, None, official, "", False),
        ("everything", {}, {}, "main", None, "", False),
    ]


def test_every_field_of_a_line_and_its_gateway_keys_is_stored() -> None:
    applied(FULL)
    holds(
        BusinessLine,
        {"slug": "support-bot"},
        {
            "name": "Support bot",
            "model_globs": ["gpt-*"],
            "rpm": 600,
            "tpm": 200000,
            "per_day": 20000,
            "tokens_per_day": 5000000,
            "concurrency": 50,
            "charge_multiplier": Decimal("1.25"),
            "on_unpriced": "serve",
            "history": True,
            "line_class": "batch",
            "enabled": False,
        },
    )
    assert LineRoute.objects.get().route.name == "other"
    key = GatewayKey.objects.get()
    assert (key.name, key.last4, key.rpm, key.concurrency, key.enabled) == ("prod", "0001", 5, 2, False)
    assert key.digest == gateway_digest("sk-support-0000000000001")
    assert key.expires == datetime(2029, 12, 31, 16, tzinfo=UTC)  # midnight in Shanghai


def test_every_field_of_prices_rates_and_budgets_is_stored() -> None:
    applied(FULL)
    amounts = ("input", "cached_input", "cache_write", "cache_write_1h", "output", "call")
    rows = Price.objects.order_by("pk").values_list("tenant__slug", "model", "unit", "currency", "starts", *amounts)
    d = Decimal
    assert list(rows) == [
        (None, "gpt-4o", "per_million_tokens", "USD", date(2026, 1, 1), d("2.5"), d("1.25"), None, None, d(10), None),
        (None, "claude-*", "per_million_tokens", "USD", ALWAYS, d(3), d("0.3"), d("3.75"), d(6), d(15), None),
        (None, "gemini-2.5-pro", "per_call", "CNY", ALWAYS, None, None, None, None, None, d("0.031")),
        ("acme", "gpt-4o", "per_million_tokens", "CNY", date(2026, 2, 1), d(20), None, None, None, d(80), None),
    ]
    rates = ExchangeRate.objects.values_list("source", "target", "rate", "starts")
    assert list(rates) == [("USD", "CNY", d("7.1"), date(2026, 11, 1))]
    budgets = Budget.objects.order_by("amount").values_list(
        "tenant__slug", "line__slug", "account__name", "amount", "currency", "period", "alert_at", "hard"
    )
    assert list(budgets) == [
        ("acme", None, "relay-a", d("100.5"), "USD", "day", [], False),
        ("acme", "support-bot", None, d(1000), "CNY", "month", [80, 100], True),
        ("acme", None, None, d(9000), "CNY", "total", [], False),
    ]


def test_a_second_time_nothing_changes() -> None:
    first = applied(FULL)
    assert len(first.changes) > 1
    before = (version(), AuditEntry.objects.count())
    assert applied(FULL).changes == ()
    assert (version(), AuditEntry.objects.count()) == before


def test_one_apply_moves_the_version_once_and_notes_every_row() -> None:
    before = version()
    result = applied(small())
    assert version() == before + 1
    entries = AuditEntry.objects.order_by("pk")
    assert {(entry.user, entry.username, entry.action) for entry in entries} == {(None, "apply", "added")}
    assert len(entries) == len(result.changes)
    key = entries.get(model="keys.UpstreamKey", object_name="tenants[acme].upstreams[up].keys[k]")
    assert key.fields["secret"] == "changed"
    assert key.tenant == Tenant.objects.get()
    assert "000000001" not in str(list(entries.values_list("fields", flat=True)))


def test_the_diff_names_paths_and_never_secrets() -> None:
    result = applied(small())
    assert "+ tenants[acme].upstreams[up].keys[k] (secret …001)" in result.changes
    document = small()
    tenant_of(document)["upstreams"][0] |= {"cost_multiplier": "0.5", "headers": {"X-Key": "hush"}}
    tenant_of(document)["upstreams"][0]["keys"][0]["secret"] = "sk-up-00000000000000000042"
    tenant_of(document)["lines"][0]["keys"][0]["secret"] = "sk-gateway-0000000002"
    assert applied(document).changes == (
        "~ tenants[acme].upstreams[up].cost_multiplier: 1 → 0.5",
        "~ tenants[acme].upstreams[up].headers: none → {X-Key: …}",
        "~ tenants[acme].upstreams[up].keys[k].secret: changed (…000042)",
        "~ tenants[acme].lines[bot].keys[prod].secret: changed (…0002)",
    )
    document["tenants"][0]["upstreams"][0]["headers"] = {"X-Key": "other"}
    assert applied(document).changes == ("~ tenants[acme].upstreams[up].headers: changed ({X-Key: …})",)


def test_a_new_secret_starts_a_new_epoch() -> None:
    applied(small())
    before = UpstreamKey.objects.get(upstream__name="up").epoch
    document = small()
    tenant_of(document)["upstreams"][0]["keys"][0]["secret"] = "sk-up-000000002"
    applied(document)
    key = UpstreamKey.objects.get(upstream__name="up")
    assert (key.secret, key.tail, key.epoch) == ("sk-up-000000002", "002", before + 1)
    assert UpstreamKey.objects.get(upstream__name="spare").epoch == before


def test_secrets_can_change_places() -> None:
    document = small()
    keys = [{"name": "a", "secret": "sk-000000000001"}, {"name": "b", "secret": "sk-000000000002"}]
    tenant_of(document)["upstreams"][0]["keys"] = keys
    gateway = [{"name": "a", "secret": "sk-gw-0000000001"}, {"name": "b", "secret": "sk-gw-0000000002"}]
    tenant_of(document)["lines"][0]["keys"] = gateway
    applied(document)
    for pair in (keys, gateway):
        pair[0]["secret"], pair[1]["secret"] = pair[1]["secret"], pair[0]["secret"]
    applied(document)
    assert [key.secret for key in UpstreamKey.objects.filter(upstream__name="up").order_by("name")] == [
        "sk-000000000002",
        "sk-000000000001",
    ]
    assert GatewayKey.objects.get(name="a").digest == gateway_digest("sk-gw-0000000002")


def test_a_gateway_key_without_secret_is_made_and_told_once() -> None:
    document = small()
    tenant_of(document)["lines"][0]["keys"].append({"name": "made"})
    result = applied(document)
    [(path, secret)] = result.issued
    assert path == "acme/bot/made"
    assert secret.startswith("sk-pm-")
    assert len(secret) == len("sk-pm-") + 40
    key = GatewayKey.objects.get(name="made")
    assert (key.digest, key.last4) == (gateway_digest(secret), secret[-4:])
    assert "+ tenants[acme].lines[bot].keys[made] (a new secret)" in result.changes
    assert secret not in repr(result)
    again = applied(document)
    assert (again.changes, again.issued) == ((), ())


def test_what_the_file_does_not_name_stays() -> None:
    document = small()
    tenant_of(document)["upstreams"][0] |= {"rotation": "random", "max_context_tokens": 9}
    applied(document)
    shorter = {"tenants": [{"slug": "acme", "upstreams": [{"name": "up", "rotation": "weighted"}]}]}
    assert applied(shorter).changes == ("~ tenants[acme].upstreams[up].rotation: random → weighted",)
    holds(Upstream, {"name": "up"}, {"max_context_tokens": 9, "base_url": "https://up.example/v1"})
    assert Upstream.objects.count() == 2
    assert GatewayKey.objects.count() == 1


def test_null_clears_a_field() -> None:
    document = small()
    tenant_of(document)["accounts"][0]["credit"] = {"amount": "5", "currency": "USD"}
    tenant_of(document)["lines"][0] |= {"limits": {"rpm": 5, "tpm": 6}, "route": "quiet"}
    applied(document)
    tenant_of(document)["accounts"][0]["credit"] = None
    tenant_of(document)["lines"][0] |= {"limits": {"rpm": None}, "route": None}
    assert applied(document).changes == (
        "~ tenants[acme].accounts[pot].credit: {period: total, amount: 5, currency: USD} → none",
        "~ tenants[acme].lines[bot].route: quiet → none",
        "~ tenants[acme].lines[bot].limits.rpm: 5 → none",
    )
    holds(Account, {}, {"credit_amount": None, "credit_currency": "", "credit_period": ""})
    holds(BusinessLine, {}, {"rpm": None, "tpm": 6})
    assert not LineRoute.objects.exists()
    tenant_of(document)["lines"][0]["limits"] = None
    applied(document)
    holds(BusinessLine, {}, {"tpm": None})


def test_the_default_route_can_move() -> None:
    applied(small())
    document = small()
    routes = tenant_of(document)["routes"]
    del routes[0]["default"]
    routes[1]["default"] = True
    assert applied(document).changes == (
        "~ tenants[acme].routes[quiet].default: false → true",
        "~ tenants[acme].routes[default].default: true → false",
    )
    assert [route.name for route in Route.objects.filter(is_default=True)] == ["quiet"]


def test_a_default_route_takes_the_place_of_one_that_the_file_does_not_name() -> None:
    applied(small())
    applied({"tenants": [{"slug": "acme", "routes": [{"name": "new", "default": True}]}]})
    assert [route.name for route in Route.objects.filter(is_default=True)] == ["new"]


def test_a_dry_run_says_the_same_and_changes_nothing() -> None:
    document = small()
    tenant_of(document)["lines"][0]["keys"].append({"name": "made"})
    before = version()
    dry = applied(document, dry_run=True)
    assert dry.issued == ()
    assert Tenant.objects.count() == 0
    assert version() == before
    assert applied(document).changes == dry.changes


def test_nothing_is_written_when_anything_is_wrong() -> None:
    document = small()
    document["tenants"].append({"slug": "b", "currency": "dollars"})
    with pytest.raises(ConfigError) as caught:
        applied(document)
    assert len(caught.value.errors) == 1
    assert Tenant.objects.count() == 0
    assert AuditEntry.objects.count() == 0


def test_tenants_do_not_see_each_other() -> None:
    applied(small())
    document = small()
    tenant_of(document)["slug"] = "other"
    tenant_of(document)["lines"][0]["keys"][0]["secret"] = "sk-gateway-0000000002"
    applied(document)
    assert Upstream.objects.filter(name="up").count() == 2
    for member in GroupMember.objects.select_related("group", "upstream"):
        assert member.group.tenant_id == member.upstream.tenant_id


def test_a_document_from_code_may_hold_decimals_and_dates() -> None:
    document = {"exchange_rates": [{"from": "USD", "to": "CNY", "rate": Decimal("7.1"), "on": date(2026, 1, 2)}]}
    apply_document(document, resolve=no_lookup)
    assert ExchangeRate.objects.get().starts == date(2026, 1, 2)


def test_a_time_without_offset_is_meant_in_the_tenants_zone() -> None:
    document = small()
    tenant_of(document)["timezone"] = "Asia/Tokyo"
    keys = tenant_of(document)["lines"][0]["keys"]
    keys[0]["expires"] = "2027-01-01T09:00:00"
    keys.append({"name": "b", "secret": "sk-gateway-0000000002", "expires": "2027-01-01T09:00:00+02:00"})
    applied(document)
    assert GatewayKey.objects.get(name="prod").expires == datetime(2027, 1, 1, tzinfo=UTC)
    assert GatewayKey.objects.get(name="b").expires == datetime(2027, 1, 1, 7, tzinfo=UTC)
    assert applied(document).changes == ()


def test_a_file_that_was_read_brings_its_problems_along() -> None:
    document, inspection = parsed("tenants: [{slug: a, slug: b}]")
    with pytest.raises(ConfigError, match=r"tenants\[0\]\.slug: stands twice"):
        apply_document(document, inspection=inspection, resolve=no_lookup)
