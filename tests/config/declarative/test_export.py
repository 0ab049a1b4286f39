"""export is the reverse of apply: what comes out goes back in and changes nothing."""

from datetime import date
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from config.declarative import UnknownTenantError, export_document
from config.declarative.yaml_file import dump
from keys.models import Upstream, UpstreamKey
from tenants.models import Tenant
from tests.config.declarative.samples import FULL, applied, errors_of, small, tenant_of

pytestmark = pytest.mark.django_db


def test_what_comes_out_goes_back_in() -> None:
    applied(FULL)
    text = dump(export_document())
    assert applied(text).changes == ()
    assert applied(text, prune=True).changes == ()
    assert dump(export_document()) == text


def test_no_secret_comes_out() -> None:
    applied(FULL)
    text = dump(export_document())
    for secret in ("sk-relay", "sk-live", "sk-official", "sk-small", "sk-support", "hush"):
        assert secret not in text
    assert text.count("!redacted") == 7  # five upstream keys, one gateway key, one header
    assert "X-Title: acme" in text


def test_the_export_is_complete() -> None:
    """On an empty database the file says the same once its secrets are filled in."""
    applied(FULL)
    document = export_document()
    Tenant.objects.get().prices.all().delete()
    applied({"tenants": [{"slug": "acme"}]}, prune=True)
    Tenant.objects.get().delete()
    for n, upstream in enumerate(document["tenants"][0]["upstreams"]):
        for m, key in enumerate(upstream["keys"]):
            key["secret"] = f"sk-new-{n}-{m}-0000000"
        for header in upstream.get("headers", {}):
            upstream["headers"][header] = "new"
    for key in document["tenants"][0]["lines"][0]["keys"]:
        key["secret"] = "sk-new-gateway-00000000"
    applied(document)
    again = export_document()
    assert dump(_redacted(again)) == dump(_redacted(document))


def _redacted(document: dict[str, Any]) -> dict[str, Any]:
    for tenant in document["tenants"]:
        for upstream in tenant["upstreams"]:
            upstream["headers"] = None
            for key in upstream["keys"]:
                key["secret"] = None
        for line in tenant["lines"]:
            for key in line["keys"]:
                key["secret"] = None
    return document


def test_a_redacted_secret_needs_a_stored_one() -> None:
    applied(FULL)
    text = dump(export_document())
    UpstreamKey.objects.filter(name="s1").delete()
    assert errors_of(text) == (
        "tenants[0].upstreams[0].keys[0].secret: is redacted and there is no stored secret to keep; "
        "write the secret or env:NAME",
    )


def test_a_redacted_header_keeps_its_value() -> None:
    applied(FULL)
    document = {
        "tenants": [
            {
                "slug": "acme",
                "upstreams": [{"name": "relay-a", "headers": {"X-Extra-Token": "!redacted", "X-New": "1"}}],
            }
        ]
    }
    applied(document)
    assert Upstream.objects.get(name="relay-a").headers == {"X-Extra-Token": "hush-0123456789", "X-New": "1"}


def test_one_tenant_alone() -> None:
    applied(FULL)
    document = small()
    tenant_of(document)["slug"] = "other"
    applied(document)
    found = export_document("other")
    assert [tenant["slug"] for tenant in found["tenants"]] == ["other"]
    assert set(found) == {"version", "tenants"}
    assert applied(dump(found)).changes == ()
    with pytest.raises(UnknownTenantError):
        export_document("nobody")


def test_an_empty_database() -> None:
    assert export_document() == {"version": 1}
    assert applied(dump(export_document())).changes == ()


# --- any configuration ---

names = st.from_regex(r"[a-z0-9]([a-z0-9._-]{0,6}[a-z0-9])?", fullmatch=True)
texts = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp", "Zs")), min_size=1, max_size=12
)
money = st.decimals(min_value=0, max_value=10**6, places=6).map(lambda value: format(value, "f"))
multipliers = st.decimals(min_value=0, max_value=99, places=4).map(lambda value: format(value, "f"))
currencies = st.sampled_from(["USD", "CNY", "EUR"])
days = st.dates(min_value=date(1971, 1, 1)).map(str)
counts = st.none() | st.integers(1, 2**31 - 1)


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


def listed(entry: st.SearchStrategy[dict[str, Any]], *unique: str, most: int = 3) -> st.SearchStrategy[list[Any]]:
    def identity(item: dict[str, Any]) -> Any:
        return tuple(str(item.get(name)).casefold() for name in unique)

    return st.lists(entry, max_size=most, unique_by=identity)


limits = optional(rpm=counts, tpm=counts, per_day=counts, tokens_per_day=counts, concurrency=counts)
policies = optional(
    preset=st.sampled_from(["standard", "relay"]), strikes=st.integers(1, 9), obey_retry_after=st.booleans()
)
budgets = listed(
    st.fixed_dictionaries(
        {"amount": money, "currency": currencies, "period": st.sampled_from(["day", "week", "month", "total"])},
        optional={"hard": st.booleans(), "alert_at": st.lists(st.integers(1, 100), unique=True, max_size=3)},
    ),
    "period",
)
prices = listed(
    st.fixed_dictionaries(
        {"model": texts, "currency": currencies, "input": money, "output": money}, optional={"from": days}
    ),
    "model",
    "from",
)


@st.composite
def tenants(draw: st.DrawFn, slug: str) -> dict[str, Any]:
    accounts = draw(listed(st.fixed_dictionaries({"name": names}, optional={"budgets": budgets}), "name"))
    pots = st.sampled_from([None, *(account["name"] for account in accounts)])
    secrets = iter(f"sk-{slug}-{n:012d}" for n in range(1000))
    keys = st.fixed_dictionaries(
        {"name": names, "account": pots}, optional={"weight": st.integers(1, 9), "policy": policies}
    )
    upstreams = draw(
        listed(
            st.fixed_dictionaries(
                {"name": names, "base_url": st.just("https://a.example")},
                optional={
                    "dialect": st.sampled_from(["openai", "gemini"]),
                    "models": st.just("auto") | st.lists(texts, unique=True, max_size=3) | st.none(),
                    "aliases": st.dictionaries(texts, texts, max_size=2),
                    "cost_multiplier": multipliers,
                    "headers": st.dictionaries(st.sampled_from(["X-A", "X-Key"]), st.just("v"), max_size=2),
                    "keys": listed(keys, "name"),
                    "enabled": st.booleans(),
                },
            ),
            "name",
        )
    )
    for upstream in upstreams:
        for key in upstream.get("keys", []):
            key["secret"] = next(secrets)
    places = [upstream["name"] for upstream in upstreams]
    members = (
        listed(st.fixed_dictionaries({"upstream": st.sampled_from(places or [""])}), "upstream")
        if places
        else st.just([])
    )
    groups = draw(
        listed(
            st.fixed_dictionaries(
                {"name": names, "members": members, "last_resort": st.sampled_from([None, *places])},
                optional={"strategy": st.sampled_from(["weighted", "random"]), "policy": policies},
            ),
            "name",
        )
    )
    targets = [
        {"deny": "no"},
        {"set": {"temperature": 0.5, "stop": ["a"]}},
        *({"group": each["name"]} for each in groups),
    ]
    rules = listed(
        st.fixed_dictionaries(
            {"name": names, "when": texts.map(lambda text: {"model": f"{text}-1"}), "then": st.sampled_from(targets)}
        ),
        "name",
    )
    routes = draw(listed(st.fixed_dictionaries({"name": names, "rules": rules}), "name"))
    for number, route in enumerate(routes):
        route["default"] = number == 0
        models = [rule["when"]["model"].casefold() for rule in route["rules"]]
        route["rules"] = [
            rule
            for place, rule in enumerate(route["rules"])
            if not {*"*?"} & {*models[place]} and models[place] not in models[:place]
        ]
    lines = draw(
        listed(
            st.fixed_dictionaries(
                {"slug": names, "route": st.sampled_from([None, *(route["name"] for route in routes)])},
                optional={
                    "name": texts,
                    "models": st.lists(texts, unique=True, max_size=2),
                    "limits": limits,
                    "budgets": budgets,
                    "charge_multiplier": multipliers,
                    "history": st.booleans(),
                    "keys": listed(
                        st.fixed_dictionaries({"name": texts}, optional={"expires": days, "limits": limits}), "name"
                    ),
                },
            ),
            "slug",
        )
    )
    return {
        "slug": slug,
        "currency": draw(currencies),
        "timezone": draw(st.sampled_from(["UTC", "Asia/Shanghai", "America/New_York"])),
        "accounts": accounts,
        "upstreams": upstreams,
        "groups": groups,
        "routes": routes,
        "lines": lines,
        "budgets": draw(budgets),
        "prices": draw(prices),
    }


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(first=tenants("one"), second=tenants("one"), prices=prices)
def test_any_configuration_goes_round(first: dict[str, Any], second: dict[str, Any], prices: list[Any]) -> None:
    with transaction.atomic():
        document = {"version": 1, "prices": prices, "tenants": [first]}
        applied(document)
        assert applied(document, prune=True).changes == ()
        exported = dump(export_document())
        assert applied(exported, prune=True).changes == ()
        other = {"version": 1, "tenants": [second]}
        applied(other, prune=True)
        assert applied(other, prune=True).changes == ()
        transaction.set_rollback(True)
