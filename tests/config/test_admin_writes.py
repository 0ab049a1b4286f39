"""What the forms of the admin write, refuse, note and never show."""

import re
from decimal import Decimal

import pytest
from django.urls import reverse

from billing.core.totals import USAGE_SEMANTICS
from billing.models import Budget
from keys import adminfields
from keys.models import StateInbox, Upstream, UpstreamKey
from routing.models import GroupMember, LineRoute
from tenants.models import AuditEntry, BusinessLine, GatewayKey
from tenants.services import gateway_digest
from tests import factories
from tests.config.admin_forms import add, change, empty_formsets, errors, everything_written, version
from tests.config.admin_world import HEADER, UPSTREAM_SECRET, member, person, team

pytestmark = pytest.mark.django_db

NEW_SECRET = "sk-brand-new-secret-000111222333"


@pytest.fixture
def alpha():
    return team("alpha")


@pytest.fixture
def boss(client, alpha):
    user = member(alpha.tenant, "admin")
    client.force_login(user)
    return user


# --- gateway keys ---


def test_a_gateway_key_is_shown_once_and_kept_as_a_hash(client, alpha, boss):
    before = version()
    answer = add(client, "tenants_gatewaykey", line=alpha.line.pk, name="fresh", rpm="60")
    secret = answer.context["secret"]
    row = GatewayKey.objects.get(name="fresh")
    assert (row.digest, row.last4, row.rpm) == (gateway_digest(secret), secret[-4:], 60)
    assert "no-store" in answer["Cache-Control"]
    assert answer.content.decode().count(secret) >= 7  # itself and six snippets
    assert {snippet.name for snippet in answer.context["snippets"]} == {
        "curl", "OpenAI SDK", "Anthropic SDK", "Gemini SDK", "Claude Code", "Codex",
    }  # fmt: skip
    assert version() > before
    assert secret not in everything_written()
    assert secret not in client.get(reverse("admin:tenants_gatewaykey_change", args=[row.pk])).content.decode()
    note = AuditEntry.objects.get(object_name=str(row))
    assert (note.action, note.username, note.tenant) == ("added", boss.username, alpha.tenant)


def test_a_second_key_of_the_same_name_is_refused(client, alpha, boss):
    answer = add(client, "tenants_gatewaykey", line=alpha.line.pk, name=alpha.gateway_key.name)
    assert answer.status_code == 200
    assert "__all__" in errors(answer)
    assert GatewayKey.objects.filter(line=alpha.line).count() == 1


def test_revoking_names_the_consequences_first(client, alpha, boss):
    key = alpha.gateway_key
    factories.RecordFactory(line=alpha.line, gateway_key_id=key.pk)
    chosen = {"action": "revoke_selected", "_selected_action": [key.pk]}
    page = client.post(reverse("admin:tenants_gatewaykey_changelist"), chosen, follow=True)
    text = page.content.decode()
    assert "1 gateway key stops working within 2 seconds" in text
    assert "latest 1,000 calls" in text
    key.refresh_from_db()
    assert key.revoked is None
    client.post(page.redirect_chain[-1][0])
    key.refresh_from_db()
    assert key.revoked is not None
    assert not key.enabled
    assert AuditEntry.objects.filter(action="revoked", object_id=str(key.pk)).count() == 1
    assert change(client, "tenants_gatewaykey", key, name="back", enabled="on").status_code == 403


# --- upstream keys ---


def key_data(upstream=None, **data):
    base = {"name": "new-key", "weight": "1", "enabled": "on", "policy_0": "", "policy_1": ""}
    return base | ({"upstream": upstream.pk} if upstream is not None else {}) | data


def test_an_upstream_secret_goes_in_and_never_comes_out(client, alpha, boss):
    upstream = alpha.rows["keys.Upstream"]
    before = version()
    answer = add(client, "keys_upstreamkey", **key_data(upstream, new_secret=NEW_SECRET))
    assert answer.status_code == 302
    row = UpstreamKey.objects.get(name="new-key")
    assert (row.secret, row.tail) == (NEW_SECRET, NEW_SECRET[-6:])
    assert version() > before
    page = client.get(reverse("admin:keys_upstreamkey_change", args=[row.pk])).content.decode()
    assert NEW_SECRET not in page
    assert NEW_SECRET[-6:] in page
    assert NEW_SECRET not in everything_written()
    assert AuditEntry.objects.get(object_id=str(row.pk), action="added").fields["new_secret"] == "changed"


def test_the_page_after_an_error_does_not_repeat_the_secret(client, alpha, boss):
    answer = add(client, "keys_upstreamkey", **key_data(alpha.rows["keys.Upstream"], new_secret=NEW_SECRET, name=""))
    assert list(errors(answer)) == ["name"]
    assert NEW_SECRET not in answer.content.decode()


@pytest.mark.parametrize(
    ("secret", "complaint"),
    [
        ("", "This field is required."),
        ("two words", "The secret contains a space or line break."),
        ("schlüssel-000000", "The secret contains a character outside ASCII."),
        (UPSTREAM_SECRET.format("alpha"), "alpha-key has the same secret."),
    ],
)
def test_a_secret_that_cannot_be_used_is_refused_in_words(client, alpha, boss, secret, complaint):
    answer = add(client, "keys_upstreamkey", **key_data(alpha.rows["keys.Upstream"], new_secret=secret))
    assert errors(answer) == {"new_secret": [complaint]}
    assert not UpstreamKey.objects.filter(name="new-key").exists()


def test_the_same_secret_at_another_upstream_is_a_warning(client, alpha, boss):
    other = factories.UpstreamFactory(tenant=alpha.tenant)
    data = key_data(other, new_secret=UPSTREAM_SECRET.format("alpha"))
    answer = client.post(reverse("admin:keys_upstreamkey_add"), data, follow=True)
    assert "lpha-upstream/alpha-key has the same secret." in answer.content.decode()
    assert UpstreamKey.objects.filter(name="new-key", upstream=other).exists()


def test_the_form_of_a_key_does_not_touch_its_secret(client, alpha, boss):
    row = alpha.rows["keys.UpstreamKey"]
    change(client, "keys_upstreamkey", row, **key_data(name=row.name, rpm="5", new_secret=NEW_SECRET))
    row.refresh_from_db()
    assert (row.secret, row.rpm, row.epoch) == (UPSTREAM_SECRET.format("alpha"), 5, 1)
    page = client.get(reverse("admin:keys_upstreamkey_change", args=[row.pk])).content.decode()
    assert "new_secret" not in page
    assert reverse("admin:keys_upstreamkey_rotate", args=[row.pk]) in page


def test_reviving_asks_the_store_and_is_noted(client, alpha, boss):
    row = alpha.rows["keys.UpstreamKey"]
    answer = client.post(reverse("admin:keys_upstreamkey_now", args=[row.pk, "revive"]), {"next": "/admin/"})
    assert answer["Location"] == "/admin/"
    assert StateInbox.objects.get(command="revive").payload == {"key_id": row.pk, "epoch": 2}
    assert AuditEntry.objects.filter(action="revived", object_id=str(row.pk)).count() == 1


def test_a_button_leads_back_inside_only(client, alpha, boss):
    row = alpha.rows["keys.UpstreamKey"]
    answer = client.post(reverse("admin:keys_upstreamkey_now", args=[row.pk, "revive"]), {"next": "//evil.example/"})
    assert answer["Location"] == reverse("admin:keys_upstreamkey_change", args=[row.pk])


@pytest.mark.parametrize(
    ("preset", "lines", "stored"),
    [
        ("", "", {}),
        ("relay", "", {"preset": "relay"}),
        ("", "cool_429_s = 30\ntimeouts_cool = false", {"cool_429_s": 30, "timeouts_cool": False}),
    ],
)
def test_a_policy_is_written_as_lines(client, alpha, boss, preset, lines, stored):
    row = alpha.rows["keys.UpstreamKey"]
    change(client, "keys_upstreamkey", row, **key_data(name=row.name, policy_0=preset, policy_1=lines))
    row.refresh_from_db()
    assert row.policy == stored


@pytest.mark.parametrize("lines", ["cool_429 = 30", "strikes = many", "strikes", "on_auth = maybe"])
def test_a_policy_that_cannot_be_is_refused(client, alpha, boss, lines):
    row = alpha.rows["keys.UpstreamKey"]
    answer = change(client, "keys_upstreamkey", row, **key_data(name=row.name, policy_1=lines))
    assert list(errors(answer)) == ["policy"]


# --- upstreams ---


def upstream_data(**data):
    base = {"name": "u-new", "dialect": "openai", "base_url": "http://203.0.113.7/v1", "rotation": "round_robin"}
    return base | {"cost_multiplier": "1", "enabled": "on", **empty_formsets("keys")} | data


def test_an_upstream_is_written_in_lines(client, alpha, boss):
    data = upstream_data(tenant=alpha.tenant.pk, model_list="gpt-4o\ngpt-4o-mini\n", aliases="gpt-4o = openai/gpt-4o",
                         headers="X-Org: secret-org", timeouts="silence_s = 60")  # fmt: skip
    assert add(client, "keys_upstream", **data | {"base_url": "https://1.1.1.1/v1"}).status_code == 302
    row = Upstream.objects.get(name="u-new")
    assert (row.model_list, row.aliases) == (["gpt-4o", "gpt-4o-mini"], {"gpt-4o": "openai/gpt-4o"})
    assert (row.headers, row.timeouts) == ({"X-Org": "secret-org"}, {"silence_s": 60})
    assert "secret-org" not in everything_written()


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("base_url", "ftp://1.1.1.1/"),
        ("base_url", "http://127.0.0.1:8000/v1"),
        ("base_url", "http://169.254.169.254/v1"),
        ("headers", "Host: evil"),
        ("timeouts", "silence_s = 9999999"),
        ("aliases", "no equals sign"),
        ("model_list", "auto\ngpt-4o"),
    ],
)
def test_an_upstream_that_cannot_be_is_refused_at_the_field(client, alpha, boss, field, text):
    answer = add(
        client,
        "keys_upstream",
        **upstream_data(tenant=alpha.tenant.pk) | {"base_url": "http://1.1.1.1"} | {field: text},
    )
    assert list(errors(answer)) == [field]


def test_header_values_are_kept_by_their_stand_in(client, alpha, boss):
    row = alpha.rows["keys.Upstream"]
    data = upstream_data(name=row.name, base_url="https://1.1.1.1/v1", headers="X-Team: …\nX-More: 1")
    assert change(client, "keys_upstream", row, **data).status_code == 302
    row.refresh_from_db()
    assert row.headers == {"X-Team": HEADER.format("alpha"), "X-More": "1"}


def test_the_choices_of_usage_semantics_are_those_that_billing_reads():
    assert adminfields.USAGE_SEMANTICS == USAGE_SEMANTICS


# --- references ---


def test_even_the_operator_cannot_mix_teams(client, alpha):
    bravo = team("bravo")
    client.force_login(person("root", is_superuser=True))
    answer = add(client, "routing_groupmember", group=alpha.rows["routing.StrategyGroup"].pk,
                 upstream=bravo.rows["keys.Upstream"].pk, position=0, weight=1)  # fmt: skip
    assert errors(answer) == {"upstream": ["This belongs to another team."]}
    data = {"name": "alpha-group", "strategy": "priority", "basis": "share", "stream_hold": "first_content"}
    rows = {"members-TOTAL_FORMS": 1, "members-INITIAL_FORMS": 0, "members-0-upstream": bravo.rows["keys.Upstream"].pk,
            "members-0-position": 1, "members-0-weight": 1}  # fmt: skip
    answer = change(client, "routing_strategygroup", alpha.rows["routing.StrategyGroup"], **data, **rows)
    assert answer.status_code == 200
    assert GroupMember.objects.filter(group__tenant=alpha.tenant, upstream__tenant=bravo.tenant).count() == 0


def test_a_line_with_budget_and_route_is_one_page(client, alpha, boss):
    data = {"tenant": alpha.tenant.pk, "slug": "bot", "name": "Bot", "enabled": "on", "line_class": "interactive",
            "model_globs": "gpt-*\n\ngpt-*\nclaude-*", "charge_multiplier": "1", "on_unpriced": "",
            **empty_formsets("gateway_keys"), "line_route-TOTAL_FORMS": 1, "line_route-INITIAL_FORMS": 0,
            "line_route-0-route": alpha.rows["routing.Route"].pk, "budgets-TOTAL_FORMS": 1,
            "budgets-INITIAL_FORMS": 0, "budgets-0-amount": "12.50", "budgets-0-currency": "USD",
            "budgets-0-period": "month", "budgets-0-alert_at": "100, 80"}  # fmt: skip
    answer = add(client, "tenants_businessline", **data)
    assert answer.status_code == 302
    line = BusinessLine.objects.get(slug="bot")
    assert line.model_globs == ["gpt-*", "claude-*"]
    assert LineRoute.objects.get(line=line).route == alpha.rows["routing.Route"]
    budget = Budget.objects.get(line=line)
    assert (budget.tenant, budget.alert_at) == (alpha.tenant, [80, 100])
    noted = set(AuditEntry.objects.filter(username=boss.username).values_list("model", flat=True))
    assert noted == {"tenants.BusinessLine", "routing.LineRoute", "billing.Budget"}


def test_numbers_stand_in_a_form_and_in_the_list_as_people_write_them(client, alpha):
    BusinessLine.objects.filter(pk=alpha.line.pk).update(charge_multiplier=Decimal("1.2"))
    client.force_login(member(alpha.tenant, "admin"))
    form = client.get(reverse("admin:tenants_businessline_change", args=[alpha.line.pk])).content.decode()
    assert re.search(r'name="charge_multiplier" value="1\.2"', form)
    rows = client.get(reverse("admin:tenants_businessline_changelist")).content.decode()
    assert '<td class="field-multiplier">1.2</td>' in rows
