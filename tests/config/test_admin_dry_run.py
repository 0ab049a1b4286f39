"""The dry run page: explains by the code that decides, for the own lines only, and changes nothing."""

import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils.timezone import now

from billing.models import LedgerEntry, RequestRecord
from keys.core.dialect import Dialect
from keys.core.outcome import Cause
from keys.core.state import KeyState, Status
from keys.core.stored import dumped
from keys.models import StoredState
from proxy.core.explain import DryRun, facts_for
from routing.core.sticky import pin_values
from routing.core.views import Pin
from routing.sessions import names_of
from routing.snapshot import read_table
from tenants.models import AuditEntry, ConfigVersion
from tests import factories
from tests.config.admin_world import UPSTREAM_SECRET, member, person, team

pytestmark = pytest.mark.django_db


@pytest.fixture
def alpha():
    made = team("alpha")
    factories.RuleFactory(
        route=made.rows["routing.Route"], name="batch-only", when={"line": "nightly-*"}, position=0,
        group=made.rows["routing.StrategyGroup"],
    )  # fmt: skip
    return made


def page(client, query=""):
    return client.get(reverse("admin:dry_run") + query)


def explain(client, of, **data):
    base = {"line": of.pk, "dialect": "openai", "model": "alpha-model"}
    return client.post(reverse("admin:dry_run"), base | data)


def test_the_rules_and_the_keys_are_explained(client, alpha):
    client.force_login(member(alpha.tenant, "viewer"))
    answer = explain(client, alpha.line)
    result = answer.context["result"]
    assert {(rule.name, rule.matched, rule.decided) for rule in result.rules} == {
        ("alpha-rule", True, True),
        ("batch-only", False, False),
    }
    assert result.route == "alpha-route"
    assert result.group == "alpha-group"
    key = alpha.rows["keys.UpstreamKey"]
    assert [(one.name, one.tail) for one in result.candidates] == [("alpha-upstream · alpha-key", key.tail)]
    text = answer.content.decode()
    assert reverse("admin:keys_upstreamkey_change", args=[key.pk]) in text
    assert UPSTREAM_SECRET.format("alpha") not in text


def test_a_dead_key_is_passed_over_and_the_answer_is_said(client, alpha):
    key = alpha.rows["keys.UpstreamKey"]
    state = KeyState(status=Status.DEAD, cause=Cause.AUTH_INVALID, epoch=key.epoch)
    StoredState.objects.create(target=f"key:{key.pk}", data={"state": dumped(state), "counts": {}})
    client.force_login(member(alpha.tenant, "admin"))
    result = explain(client, alpha.line).context["result"]
    assert result.candidates == []
    assert result.skipped[0].details == ["dead", "credentials refused"]
    assert result.fallback[-1][0] == "otherwise the client gets"
    assert result.fallback[-1][1].startswith("HTTP 503")


def test_load_and_the_conversation_are_told(client, alpha, settings):
    settings.REDIS_URL = ""  # then what is remembered of conversations stands in the database
    key, moment = alpha.rows["keys.UpstreamKey"], now()
    type(key).objects.filter(pk=key.pk).update(per_hour=10)
    seen = {"at": moment.timestamp(), "flying": 2, "facts": {"credit": [0.1, moment.timestamp() + 60]}}
    StoredState.objects.create(target=f"sight:key:{key.pk}", data=seen)
    StoredState.objects.create(target=f"sight:account:{key.account_id}", data=seen)
    line, body = alpha.line, {"model": "alpha-model", "messages": [{"role": "user", "content": "hi"}]}
    table = read_table()
    asked = DryRun(f"alpha/{line.slug}", Dialect.OPENAI, {"x-session-id": "s-1"}, body)
    pin = Pin(key.pk, key.upstream_id, 1, None, moment, cached_tokens=5000)
    for name in names_of(facts_for(asked, table.lines[line.pk]), table).names:
        data = {"value": pin_values(pin), "until": moment.timestamp() + 60}
        StoredState.objects.create(target=f"record:{name}", data=data)
    client.force_login(member(alpha.tenant, "admin"))
    result = explain(client, line, body=json.dumps(body), session="s-1").context["result"]
    told = dict(result.facts)
    assert told["last answered by"] == "alpha-upstream/alpha-key (stays, the prompt cache there is warm)"
    details = result.candidates[0].details
    assert [text for text in details if "in flight" in text or "leave" in text] == [
        "2 calls in flight", "its caps leave 10 calls",
    ]  # fmt: skip
    free = explain(client, line, body=json.dumps({**body, "messages": []}), session="s-2").context["result"]
    assert "last answered by" not in dict(free.facts)
    assert "behind the others: low on credit or limits" in free.candidates[0].details


def test_a_model_that_the_line_may_not_use_is_refused(client, alpha):
    type(alpha.line).objects.filter(pk=alpha.line.pk).update(model_globs=["gpt-*"])
    client.force_login(member(alpha.tenant, "admin"))
    result = explain(client, alpha.line).context["result"]
    assert result.refusal.startswith("HTTP 403 model_not_allowed")


def test_a_pasted_body_counts_instead_of_the_fields(client, alpha):
    client.force_login(member(alpha.tenant, "admin"))
    body = json.dumps({"model": "alpha-model", "messages": [], "stream": True, "max_tokens": 5})
    facts = dict(explain(client, alpha.line, model="other", body=body).context["result"].facts)
    assert (facts["model"], facts["streamed"], facts["max tokens"]) == ("alpha-model", "yes", "5")


@pytest.mark.parametrize(
    ("data", "field", "said"),
    [
        ({"model": ""}, "model", "Name the model, or paste a body."),
        ({"body": "{"}, "body", "Not valid JSON"),
        ({"body": "[1]"}, "body", "A body is a JSON object."),
        ({"headers": "no colon"}, "headers", "Line 1: write name : value."),
        ({"dialect": "smoke"}, "dialect", "Select a valid choice"),
        ({"tools": "-1"}, "tools", "greater than or equal to 0"),
        ({"input_tokens": "9999999999"}, "input_tokens", "less than or equal to 2000000"),
        ({"line": "0"}, "line", "Select a valid choice"),
    ],
)
def test_bad_input_is_said_at_its_field(client, alpha, data, field, said):
    client.force_login(member(alpha.tenant, "admin"))
    answer = explain(client, alpha.line, **data)
    assert answer.status_code == 200
    assert answer.context["result"] is None
    assert said in " ".join(answer.context["form"].errors[field])


def test_the_explanation_is_downloaded_as_json(client, alpha):
    client.force_login(member(alpha.tenant, "admin"))
    answer = explain(client, alpha.line, download="1", session="s-1")
    assert answer["content-disposition"] == 'attachment; filename="dry-run.json"'
    told = answer.json()
    assert told["line"] == "alpha/alpha-line"
    assert told["facts"]["session"] is True
    assert [one["key"] for one in told["candidates"]] == ["alpha-key"]


def test_it_begins_like_a_request_of_the_own_team(client, alpha):
    bravo = team("bravo")
    client.force_login(member(alpha.tenant, "admin"))
    record = alpha.rows["billing.RequestRecord"]
    initial = page(client, f"?like={record.request_id}").context["form"].initial
    assert (initial["line"], initial["model"], initial["input_tokens"]) == (alpha.line.pk, "gpt-4o", 100)
    answer = page(client, f"?like={bravo.rows['billing.RequestRecord'].request_id}")
    assert answer.context["form"].initial == {}
    assert answer.context["note"] == "There is no such request."
    assert "bravo" not in answer.content.decode()


def test_it_begins_with_a_line_that_takes_the_route(client, alpha):
    bravo = team("bravo")
    client.force_login(member(alpha.tenant, "admin"))
    route = alpha.rows["routing.Route"]
    assert page(client, f"?route={route.pk}").context["form"].initial == {"line": alpha.line.pk}
    assert page(client).context["form"].initial == {"line": alpha.line.pk}  # there is no other
    lonely = factories.RouteFactory(tenant=alpha.tenant)
    assert page(client, f"?route={lonely.pk}").context["note"] == "No line takes this route yet."
    assert page(client, f"?route={bravo.rows['routing.Route'].pk}").context["form"].initial == {"line": None}
    for bad in ("?route=x", "?line=x", "?like=%00"):
        assert page(client, bad).status_code == 200


def test_lines_of_other_teams_are_neither_offered_nor_explained(client, alpha):
    bravo = team("bravo")
    client.force_login(member(alpha.tenant, "admin"))
    assert "bravo" not in page(client).content.decode()
    answer = explain(client, bravo.line)
    assert answer.context["result"] is None
    assert "bravo" not in answer.content.decode()


@pytest.mark.parametrize(("role", "status"), [("admin", 200), ("viewer", 200), ("finance", 403)])
def test_roles(client, alpha, role, status):
    client.force_login(member(alpha.tenant, role))
    assert page(client).status_code == status
    assert explain(client, alpha.line).status_code == status


def test_pages_lead_to_it(client, alpha):
    record, route, rule = (
        alpha.rows[name] for name in ("billing.RequestRecord", "routing.Route", "routing.RoutingRule")
    )
    address = reverse("admin:billing_requestrecord_change", args=[record.pk])
    client.force_login(member(alpha.tenant, "finance"))
    assert "?like=" not in client.get(address).content.decode()
    client.force_login(member(alpha.tenant, "viewer"))
    assert f"?like={record.request_id}" in client.get(address).content.decode()
    for name, row in (("route", route), ("routingrule", rule)):
        text = client.get(reverse(f"admin:routing_{name}_change", args=[row.pk])).content.decode()
        assert f"{reverse('admin:dry_run')}?route={route.pk}" in text


def test_a_rule_leads_to_a_request_that_it_is_meant_for_and_back(client, alpha):
    client.force_login(member(alpha.tenant, "admin"))
    route, rule = alpha.rows["routing.Route"], alpha.rows["routing.RoutingRule"]
    nightly = factories.LineFactory(tenant=alpha.tenant, slug="nightly-1", name="Nightly")
    batch = route.rules.get(name="batch-only")
    batch.when = {"line": "nightly-*", "model": "alpha-*", "input_tokens": "> 5k", "stream": True}
    batch.save()
    answer = page(client, f"?route={route.pk}&rule={batch.pk}")
    initial = answer.context["form"].initial
    assert initial == {
        "line": nightly.pk, "model": "alpha-model", "input_tokens": 5001, "stream": True,
    }  # fmt: skip
    back = reverse("admin:routing_routingrule_change", args=[batch.pk])
    assert f'<a href="{back}">← Rule batch-only</a>' in answer.content.decode()
    explained = client.post(
        reverse("admin:dry_run") + f"?route={route.pk}&rule={batch.pk}", {**initial, "dialect": "openai"}
    )
    assert [one.name for one in explained.context["result"].rules if one.decided] == ["batch-only"]
    assert back in explained.content.decode()
    text = page(client, f"?route={route.pk}").content.decode()
    assert f'<a href="{reverse("admin:routing_route_change", args=[route.pk])}">← Route alpha-route</a>' in text
    bravo = team("bravo")
    other = bravo.rows["routing.RoutingRule"]
    text = page(client, f"?route={other.route_id}&rule={other.pk}").content.decode()
    assert "bravo" not in text
    assert page(client, f"?route={route.pk}&rule={other.pk}").context["back"][0] == "Route alpha-route"
    assert rule.pk != batch.pk


def test_nothing_is_written(client, alpha):
    client.force_login(member(alpha.tenant, "admin"))

    def everything():
        models = (RequestRecord, LedgerEntry, StoredState, AuditEntry)
        return [*(model.objects.count() for model in models), ConfigVersion.objects.get(pk=1).version]

    before = everything()
    explain(client, alpha.line)
    assert everything() == before


def test_it_costs_the_same_for_few_and_many_keys(client, alpha):
    client.force_login(person("root", is_superuser=True))

    def cost():
        with CaptureQueriesContext(connection) as asked:
            assert explain(client, alpha.line).status_code == 200
        return len(asked)

    cost()
    few = cost()
    factories.UpstreamKeyFactory.create_batch(9, upstream=alpha.rows["keys.Upstream"])
    factories.RuleFactory.create_batch(5, route=alpha.rows["routing.Route"])
    assert cost() == few
