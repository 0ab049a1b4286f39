"""export is the reverse of apply: what comes out goes back in and changes nothing."""

from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings

from config.declarative import UnknownTenantError, export_document
from config.declarative.yaml_file import dump
from keys.models import Upstream, UpstreamKey
from tenants.models import Tenant
from tests.config.declarative.generated import prices, tenants
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
