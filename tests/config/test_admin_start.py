"""First steps: who may take them, what each writes, and that it does not matter where the rows were made."""

import pytest
from django.test import override_settings
from django.urls import reverse

from config import private_upstreams
from config.pages.start_forms import PRESETS, advice, free_slug
from config.pages.start_steps import ORDER, progress_of
from keys.core.outcome import Cause
from keys.hosts import HostVerdict
from keys.models import Upstream, UpstreamKey
from keys.prober import ProbeResult
from routing.models import GroupMember, Route, RoutingRule
from tenants.models import AuditEntry, BusinessLine, GatewayKey, Tenant
from tests import factories
from tests.config.admin_world import member, person, team
from tests.fake_upstream import FakeUpstream, status

pytestmark = pytest.mark.django_db

SECRET = "sk-onboarding-never-shown-0001"


@pytest.fixture
def upstream():
    with FakeUpstream() as server, override_settings(POINTSMAN_ALLOW_PRIVATE_UPSTREAMS=private_upstreams.parse("on")):
        yield server


@pytest.fixture
def root(client):
    client.force_login(person("root", is_superuser=True))
    return client


def page(client, **query):
    return client.get(reverse("admin:start"), query)


def post(client, step, team_id=None, **data):
    address = reverse("admin:start") + (f"?team={team_id}" if team_id else "")
    return client.post(address, {"step": step, **data}, follow=True)


def states(answer):
    return {step.name: step.state for step in answer.context["steps"]}


def said(answer):
    return [str(message) for message in answer.context["messages"]]


def connected(client, upstream, tenant, secret=SECRET, **data):
    given = {"preset": "other", "dialect": "openai", "base_url": upstream.base_url, "secret": secret, **data}
    return post(client, "upstream", tenant.pk, **given)


def test_what_was_typed_for_one_team_goes_into_no_other(client):
    mine, lost = team("alpha"), team("bravo")
    client.force_login(member(mine.tenant, "admin"))
    before = GatewayKey.objects.count()
    for asked in (lost.tenant.pk, "new", "x"):
        assert client.post(reverse("admin:start") + f"?team={asked}", {"step": "key"}).status_code == 404
    assert GatewayKey.objects.count() == before
    new = factories.TenantFactory()
    client.force_login(member(new, "admin"))
    assert f'action="/admin/start/?team={new.pk}"' in page(client).content.decode()  # also without being asked


def test_an_empty_installation_is_led_to_its_first_request(root, upstream):
    assert states(page(root)) == {"tenant": "next", **dict.fromkeys(ORDER[1:], "later")}
    made = post(root, "tenant", name="Search Team", timezone="Asia/Shanghai", currency="CNY")
    tenant = Tenant.objects.get()
    assert (tenant.slug, tenant.timezone, tenant.currency) == ("search-team", "Asia/Shanghai", "CNY")
    assert states(made)["upstream"] == "next"

    tested = connected(root, upstream, tenant)
    key = UpstreamKey.objects.get()
    assert (key.upstream.name, key.upstream.dialect, key.upstream.model_list) == ("other", "openai", "auto")
    assert key.upstream.read_models != []
    assert states(tested)["test"] == "done"
    assert said(tested)[0].startswith(f"…{SECRET[-6:]}: accepted: ")

    led = post(root, "group", tenant.pk)
    rule = RoutingRule.objects.get()
    assert (rule.name, rule.group.name, rule.group.strategy, rule.when) == ("everything", "main", "priority", {})
    assert (rule.route.name, rule.route.is_default) == ("default", True)
    assert [row.upstream for row in GroupMember.objects.all()] == [key.upstream]
    assert states(led)["line"] == "next"

    issued = post(root, "line", tenant.pk, name="Support bot")
    secret = issued.context["secret"]
    assert BusinessLine.objects.get().slug == "support-bot"
    assert GatewayKey.objects.get().last4 == secret[-4:]
    assert "no-store" in issued["Cache-Control"]
    assert [snippet.name for snippet in issued.context["snippets"]] == [
        "curl", "OpenAI SDK", "Anthropic SDK", "Gemini SDK", "Claude Code", "Codex",
    ]  # fmt: skip
    assert secret in issued.content.decode()
    again = page(root, team=tenant.pk)
    assert secret not in again.content.decode()
    assert "Waiting for the first request" in again.content.decode()
    assert set(states(again).values()) == {"done", "next"}


def test_each_step_is_in_the_audit_log_and_no_secret_is(root, upstream):
    post(root, "tenant", name="Alpha", timezone="UTC", currency="USD")
    tenant = Tenant.objects.get()
    connected(root, upstream, tenant)
    post(root, "group", tenant.pk)
    post(root, "line", tenant.pk, name="Bot")
    rows = AuditEntry.objects.filter(tenant=tenant, username="root", action="added").order_by("pk")
    assert [row.model.partition(".")[2] for row in rows] == [
        "Tenant", "Upstream", "UpstreamKey", "StrategyGroup", "GroupMember", "Route", "RoutingRule", "BusinessLine",
        "GatewayKey",
    ]  # fmt: skip
    assert SECRET not in str(list(rows.values()))


@pytest.mark.parametrize("name", PRESETS)
def test_a_provider_fills_in_dialect_and_address(root, name, monkeypatch):
    monkeypatch.setattr("config.pages.start_forms.judge_address", lambda _url: HostVerdict())
    monkeypatch.setattr("config.pages.start.writes.test_key", no_network)
    tenant = factories.TenantFactory()
    post(root, "upstream", tenant.pk, preset=name, secret=SECRET)
    made = Upstream.objects.get()
    assert (made.name, made.dialect, made.base_url) == (name, PRESETS[name].dialect, PRESETS[name].base_url)


def no_network(key_id):
    return UpstreamKey.objects.select_related("upstream__tenant").get(pk=key_id), ProbeResult(None)


def test_a_refused_key_says_so_and_another_one_is_taken(root, upstream):
    tenant = factories.TenantFactory()
    upstream.script(SECRET, status(401), path="/v1/models")
    refused = connected(root, upstream, tenant)
    assert states(refused)["test"] == "next"
    assert "The provider does not know this key" in said(refused)[0]
    assert SECRET not in refused.content.decode()
    other = "sk-onboarding-second-00000002"
    taken = post(root, "replace", tenant.pk, secret=other)
    assert states(taken)["test"] == "done"
    key = UpstreamKey.objects.get()
    assert (key.tail, key.epoch) == (other[-6:], 2)


def test_a_key_that_was_not_accepted_may_be_let_pass(root, upstream):
    tenant = factories.TenantFactory()
    upstream.script(SECRET, status(500), path="/v1/models")
    assert states(connected(root, upstream, tenant))["test"] == "next"
    assert states(post(root, "skip", tenant.pk))["group"] == "next"


def test_what_is_wrong_with_an_upstream_is_said_at_its_field(root):
    tenant = factories.TenantFactory()
    form = post(root, "upstream", tenant.pk, preset="other", base_url="", secret="").context["form"]
    assert form.errors == {"secret": ["This field is required."], "base_url": ["Another relay needs its address."]}
    form = post(root, "upstream", tenant.pk, preset="other", base_url="http://127.0.0.1:1/v1", secret=SECRET)
    assert "base_url" in form.context["form"].errors
    assert not Upstream.objects.exists()


def test_rows_made_elsewhere_count(root):
    alpha = team("alpha")
    shown = page(root, team=alpha.tenant.pk)
    assert set(states(shown).values()) == {"done"}
    assert "It works." in shown.content.decode()


def test_a_served_request_is_noticed_with_its_cost(root):
    alpha = team("alpha")
    record = alpha.rows["billing.RequestRecord"]
    text = page(root, fragment=1, team=alpha.tenant.pk).content.decode()
    assert "<html" not in text
    assert "It works." in text
    assert reverse("admin:billing_requestrecord_change", args=[record.pk]) in text


def test_a_failed_request_is_shown_while_waiting(root):
    world = factories.serving("http://127.0.0.1:1/v1", "k-1")
    factories.RecordFactory(line=world.line, status="failed", http_status=502, message="nothing served", charge=0)
    text = page(root, fragment=1, team=world.tenant.pk).content.decode()
    assert "nothing served" in text
    assert "It works" not in text


def test_a_team_admin_begins_with_the_upstream(client):
    tenant = factories.TenantFactory()
    client.force_login(member(tenant, "admin"))
    shown = page(client)
    assert list(states(shown)) == list(ORDER[1:])
    assert states(shown)["upstream"] == "next"
    assert post(client, "tenant", name="Mine").redirect_chain != []
    assert Tenant.objects.count() == 1


@pytest.mark.parametrize("role", ["finance", "viewer"])
def test_others_may_not(client, role):
    tenant = factories.TenantFactory()
    client.force_login(member(tenant, role))
    assert page(client).status_code == 403
    assert post(client, "group", tenant.pk).status_code == 403
    assert not Route.objects.exists()


def test_another_team_is_out_of_reach(client):
    own, other = factories.TenantFactory(), team("other")
    client.force_login(member(own, "admin"))
    shown = page(client, team=other.tenant.pk)
    assert shown.context["tenant"] == own
    assert "other" not in [step.detail for step in shown.context["steps"]]
    post(client, "key", other.tenant.pk)
    assert GatewayKey.objects.for_tenant(other.tenant).count() == 1


def test_a_form_sent_twice_makes_nothing_twice(root, upstream):
    tenant = factories.TenantFactory()
    connected(root, upstream, tenant)
    connected(root, upstream, tenant)
    post(root, "group", tenant.pk)
    post(root, "group", tenant.pk)
    assert (UpstreamKey.objects.count(), RoutingRule.objects.count()) == (1, 1)


def test_another_gateway_key_may_be_had(root):
    alpha = team("alpha")
    issued = post(root, "key", alpha.tenant.pk)
    assert issued.context["secret"].startswith("sk-pm-")
    assert list(alpha.line.gateway_keys.order_by("pk").values_list("name", flat=True)) == ["alpha-gw", "first"]


def test_a_route_that_stands_is_used(root):
    world = factories.serving("http://127.0.0.1:1/v1", "k-1")
    RoutingRule.objects.all().delete()
    post(root, "skip", world.tenant.pk)
    post(root, "group", world.tenant.pk)
    assert Route.objects.filter(tenant=world.tenant).count() == 1
    assert progress_of(world.tenant).rule is not None


def test_the_home_of_an_empty_installation_leads_here(root, client):
    first = root.get(reverse("admin:index")).content.decode()
    assert first.index(reverse("admin:start")) > 0
    assert "No calls yet" in first
    team("alpha")
    assert "No calls yet" not in root.get(reverse("admin:index")).content.decode()


@pytest.mark.parametrize("cause", Cause)
def test_every_failure_of_a_test_has_advice(cause):
    assert bool(advice(cause)) == (cause is not Cause.SERVED)


@pytest.mark.parametrize(
    ("name", "taken", "slug"),
    [("Search Team", [], "search-team"), ("Search Team", ["search-team"], "search-team-2"), ("搜索", [], "team"),
     ("搜索", ["team", "team-2"], "team-3"), ("-", [], "team")],
)  # fmt: skip
def test_free_slug(name, taken, slug):
    assert free_slug(name, taken, "team") == slug
