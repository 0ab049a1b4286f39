"""Every registered model × role × verb: team A never sees team B, and nobody ever sees a secret."""

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.db.models import ForeignKey
from django.urls import reverse

from tenants.models import AuditEntry, ConfigVersion
from tests.config.admin_world import member, person, shared_rows, team

pytestmark = pytest.mark.django_db

OWN = ("tenants", "keys", "routing", "billing")
# Machinery without a page: installation secrets, counters, the stores' own rows, encrypted answers.
PAGELESS = {
    "tenants.LoginThrottle",  # hashes of names and addresses; unlocked by an action on people
    "tenants.SecondFactor",  # on the person's own page
    "tenants.RecoveryCode",
    "tenants.InstallationSecret",
    "tenants.ConfigVersion",
    "tenants.AlertWatch",
    "keys.StoredState",
    "keys.StateInbox",
    "billing.StoredAnswer",
    # Sums that are shown on the dashboard.
    "billing.BudgetSpent",
    "billing.BudgetReserved",
    "billing.Forecast",
    "billing.LineHour",
    "billing.LineDay",
    "billing.DaySpeed",
    "billing.KeyHour",
    "billing.RollupMark",
    "billing.OutputSize",
    "keys.BalanceWatch",  # on its account's page
    "keys.BalanceReading",
}
OPERATOR_ONLY = {"auth.User", "keys.WordingRule"}
SHARED = {"billing.ExchangeRate"}
FINANCE = {
    "tenants.Tenant",
    "tenants.BusinessLine",
    "tenants.Alert",
    "tenants.AlertDelivery",
    "billing.RequestRecord",
    "billing.Attempt",
    "billing.LedgerEntry",
    "billing.Budget",
    "billing.BudgetAlert",
    "billing.Price",
    "billing.ExchangeRate",
    "billing.Statement",
}
READ_ONLY = {
    "tenants.Alert",
    "tenants.AlertDelivery",
    "tenants.AuditEntry",
    "keys.KeyEvent",
    "billing.RequestRecord",
    "billing.Attempt",
    "billing.LedgerEntry",
    "billing.BudgetAlert",
    "billing.Statement",
}
PERIODS = {"billing.RequestRecord", "billing.LedgerEntry"}
MODELS = sorted(admin.site._registry, key=lambda model: model._meta.label)
OK, MOVED, FORBIDDEN, ABSENT = 200, 302, 403, 404
ROLES = ("admin", "finance", "viewer")


@pytest.fixture
def teams():
    alpha, bravo = team("alpha"), team("bravo")
    shared = shared_rows()
    for each in (alpha, bravo):
        each.rows.update(shared)
        each.rows["auth.User"] = each.rows["tenants.Membership"].user
    return alpha, bravo


def address(model, page, *args):
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=args)


def pages_of(model, row):
    """Every page of a model, asked about `row`: list, filters, search, row, history, deletion, choosers."""
    whole = "?period=all" if model._meta.label in PERIODS else "?"
    yield address(model, "changelist") + whole
    yield address(model, "changelist") + f"{whole}&q={row.pk}"
    for page in ("change", "history", "delete"):
        yield address(model, page, row.pk)
    yield address(model, "add")
    for name in admin.site._registry[model].autocomplete_fields:
        asked = f"app_label={model._meta.app_label}&model_name={model._meta.model_name}&field_name={name}&term="
        yield f"{reverse('admin:autocomplete')}?{asked}"


def test_every_model_has_a_page_or_a_reason():
    labels = {model._meta.label for app in OWN for model in apps.get_app_config(app).get_models()}
    assert labels - {model._meta.label for model in MODELS} - PAGELESS == set()


@pytest.mark.parametrize("role", ROLES)
def test_another_team_is_never_seen(client, teams, role):
    alpha, bravo = teams
    client.force_login(member(alpha.tenant, role))
    for model in MODELS:
        for page in pages_of(model, bravo.rows[model._meta.label]):
            answer = client.get(page)
            assert answer.status_code in {OK, MOVED, FORBIDDEN}, page
            assert "bravo" not in answer.content.decode(), page


@pytest.mark.parametrize("role", ROLES)
def test_a_role_reads_what_it_may_and_nothing_else(client, teams, role):
    alpha, _bravo = teams
    client.force_login(member(alpha.tenant, role))
    for model in MODELS:
        label = model._meta.label
        may = label not in OPERATOR_ONLY and (role != "finance" or label in FINANCE)
        row = alpha.rows[label]
        assert client.get(address(model, "changelist")).status_code == (OK if may else FORBIDDEN), label
        for page in ("change", "history"):
            answer = client.get(address(model, page, row.pk))
            assert answer.status_code in ({OK} if may else {MOVED, FORBIDDEN}), (label, page)


@pytest.mark.parametrize("role", [*ROLES, "nobody"])
def test_only_the_team_admin_writes_and_only_its_own(client, teams, role):
    alpha, bravo = teams
    client.force_login(person("stranger") if role == "nobody" else member(alpha.tenant, role))
    version = ConfigVersion.objects.get(pk=1).version
    for model in MODELS:
        label = model._meta.label
        writes = role == "admin" and label not in READ_ONLY | OPERATOR_ONLY | SHARED
        adds = writes and label != "tenants.Tenant"
        assert client.get(address(model, "add")).status_code == (OK if adds else FORBIDDEN), label
        for row in (bravo.rows[label], *([] if writes else [alpha.rows[label]])):
            for page in ("change", "delete"):
                answer = client.post(address(model, page, row.pk), {"post": "yes"})
                assert answer.status_code in {FORBIDDEN, MOVED}, (label, page)
            assert model._default_manager.filter(pk=row.pk).exists(), label
    assert ConfigVersion.objects.get(pk=1).version == version


def test_staff_without_a_role_see_nothing(client, teams):
    alpha, _bravo = teams
    client.force_login(person("stranger"))
    for model in MODELS:
        for page in pages_of(model, alpha.rows[model._meta.label]):
            answer = client.get(page)
            assert answer.status_code in {MOVED, FORBIDDEN}, page
            assert "alpha" not in answer.content.decode(), page


@pytest.mark.parametrize("who", ["operator", "admin", "viewer"])
def test_no_page_shows_a_secret(client, teams, who):
    alpha, _bravo = teams
    client.force_login(person("root", is_superuser=True) if who == "operator" else member(alpha.tenant, who))
    for model in MODELS:
        for page in pages_of(model, alpha.rows[model._meta.label]):
            text = client.get(page).content.decode()
            for secret in alpha.secrets:
                assert secret not in text, page


def test_the_operator_sees_every_page(client, teams):
    alpha, _bravo = teams
    client.force_login(person("root", is_superuser=True))
    for model in MODELS:
        row = alpha.rows[model._meta.label]
        assert client.get(address(model, "changelist")).status_code == OK, model
        assert client.get(address(model, "change", row.pk)).status_code == OK, model


def test_every_foreign_key_is_chosen_from_the_own_team(rf, teams):
    alpha, bravo = teams
    request = rf.get("/")
    request.user = member(alpha.tenant, "admin")
    looked = 0
    for model in MODELS:
        if model._meta.label in OPERATOR_ONLY:
            continue
        for field in model._meta.get_fields():
            if not isinstance(field, ForeignKey) or field.related_model._meta.label not in bravo.rows:
                continue
            form_field = admin.site._registry[model].formfield_for_foreignkey(field, request)
            looked += 1
            theirs = bravo.rows[field.related_model._meta.label]
            assert not form_field.queryset.filter(pk=theirs.pk).exists(), field
    assert looked > 25


@pytest.mark.parametrize(
    "query",
    [
        "tenant__memberships__user__password__startswith=p",
        "keys__digest__startswith=0",
        "headers__contains=x",
        "tenant__webhook_secret__isnull=1",
    ],
)
def test_lookups_beside_the_filters_are_refused(client, teams, query):
    alpha, _bravo = teams
    client.force_login(member(alpha.tenant, "admin"))
    assert client.get(reverse("admin:keys_upstream_changelist") + f"?{query}").status_code == 400


def test_the_buttons_of_a_key_work_for_its_own_team_only(client, teams):
    alpha, bravo = teams
    client.force_login(member(alpha.tenant, "admin"))
    before = AuditEntry.objects.count()
    theirs = bravo.rows["keys.UpstreamKey"]
    for action in ("test", "revive", "enable", "disable"):
        assert client.post(reverse("admin:keys_upstreamkey_now", args=[theirs.pk, action])).status_code == ABSENT
    assert (AuditEntry.objects.count(), LogEntry.objects.count()) == (before, 0)
    mine = alpha.rows["keys.UpstreamKey"]
    assert client.post(reverse("admin:keys_upstreamkey_now", args=[mine.pk, "disable"])).status_code == MOVED
    assert AuditEntry.objects.count() == before + 1
