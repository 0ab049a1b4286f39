"""The list of requests: found by id, model, line and key, cut down to the person's teams."""

import pytest
from django.urls import reverse

from tests import factories
from tests.config.admin_world import member, person

pytestmark = pytest.mark.django_db

LIST = reverse("admin:billing_requestrecord_changelist")


@pytest.fixture
def rows():
    tenant = factories.TenantFactory(slug="acme", name="Acme")
    bot = factories.LineFactory(tenant=tenant, slug="bot", name="Support bot")
    batch = factories.LineFactory(tenant=tenant, slug="batch", name="Nightly batch")
    gateway_key = factories.GatewayKeyFactory(line=bot, name="prod")
    upstream_key = factories.UpstreamKeyFactory(upstream=factories.UpstreamFactory(tenant=tenant), name="a1")
    one = {"line": bot, "model_served": "gpt-4o", "model_requested": "gpt-4o"}
    apart = gateway_key.pk + 1
    return {
        "served": factories.RecordFactory(
            **one, request_id="req_served", gateway_key_id=gateway_key.pk, upstream_key_id=upstream_key.pk
        ),
        "failed": factories.RecordFactory(
            line=batch, request_id="req_failed", model_requested="claude-x", model_served="", status="failed",
            http_status=502, error_code="upstream_failed", charge=None, priced=False, gateway_key_id=apart,
        ),
        "other": factories.RecordFactory(**one, request_id="req_other", gateway_key_id=apart),
        "tenant": tenant, "gateway_key": gateway_key, "upstream_key": upstream_key,
    }  # fmt: skip


def shown(client, word):
    page = client.get(LIST, {"q": word, "period": "all"}).content.decode()
    return {name for name in ("served", "failed", "other", "foreign") if f'title="req_{name}"' in page}


def test_by_id_model_line_and_key(client, rows):
    client.force_login(member(rows["tenant"], "viewer"))
    assert shown(client, "req_failed") == {"failed"}
    assert shown(client, "gpt-4o") == {"served", "other"}
    assert shown(client, "claude-x") == {"failed"}  # nothing served it: by the model that was asked for
    assert shown(client, "bot") == shown(client, "support BOT") == {"served", "other"}
    assert shown(client, "prod") == shown(client, rows["gateway_key"].last4) == {"served"}
    assert shown(client, "a1") == shown(client, f"…{rows['upstream_key'].tail}") == {"served"}
    assert shown(client, "nothing-of-that-name") == set()
    assert shown(client, "") == {"served", "failed", "other"}


def test_another_teams_names_lead_nowhere(client, rows):
    foreign = factories.LineFactory(tenant=factories.TenantFactory(slug="bravo"), slug="theirs", name="Theirs")
    factories.RecordFactory(line=foreign, request_id="req_foreign", model_served="gpt-4o")
    client.force_login(member(rows["tenant"], "admin"))
    assert shown(client, "theirs") == set()
    assert shown(client, "req_foreign") == set()
    assert shown(client, "gpt-4o") == {"served", "other"}


def test_a_failure_names_its_status_and_code(client, rows):
    client.force_login(member(rows["tenant"], "finance"))
    assert "<small>502 · upstream_failed</small>" in client.get(LIST, {"period": "all"}).content.decode()


def test_the_team_is_named_to_those_who_see_several(client, rows):
    client.force_login(member(rows["tenant"], "admin"))
    assert "field-tenant" not in client.get(LIST, {"period": "all"}).content.decode()
    client.force_login(person("root", is_superuser=True))
    assert "field-tenant" in client.get(LIST, {"period": "all"}).content.decode()
