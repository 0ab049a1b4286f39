"""Prices, people and the team itself, as the forms of the admin write and refuse them."""

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from billing.models import Price
from tenants.models import AuditEntry, Membership
from tests import factories
from tests.config.admin_forms import add, change, errors, everything_written
from tests.config.admin_world import member, person, team

pytestmark = pytest.mark.django_db


@pytest.fixture
def alpha():
    return team("alpha")


@pytest.fixture
def boss(client, alpha):
    user = member(alpha.tenant, "admin")
    client.force_login(user)
    return user


# --- prices ---


def price_data(**data):
    return {"model": "m", "unit": "per_million_tokens", "currency": "USD", "input": "1", "starts": "2026-01-01"} | data


def test_a_team_admin_prices_only_for_the_own_team(client, alpha, boss):
    assert list(errors(add(client, "billing_price", **price_data()))) == ["tenant"]
    assert add(client, "billing_price", **price_data(tenant=alpha.tenant.pk)).status_code == 302
    assert Price.objects.get(model="m").tenant == alpha.tenant


def test_a_price_that_billed_a_call_is_never_edited(client, alpha, boss):
    row = alpha.rows["billing.Price"]
    factories.RecordFactory(line=alpha.line, price_id=row.pk)
    assert change(client, "billing_price", row, **price_data(input="9")).status_code == 403
    assert client.post(reverse("admin:billing_price_delete", args=[row.pk]), {"post": "yes"}).status_code == 403


@pytest.mark.parametrize("data", [{"unit": "per_call"}, {"unit": "per_call", "call": "1"}, {"input": ""}])
def test_amounts_must_fit_the_unit(client, alpha, boss, data):
    assert errors(add(client, "billing_price", **price_data(tenant=alpha.tenant.pk, **data)))


# --- people ---


def test_a_team_admin_makes_an_account_for_the_own_team(client, alpha, boss):
    data = {"tenant": alpha.tenant.pk, "username": "newbie", "password": "a-long-passphrase-7", "role": "viewer"}
    assert add(client, "tenants_membership", **data).status_code == 302
    made = User.objects.get(username="newbie")
    assert (made.is_staff, made.is_superuser, made.check_password("a-long-passphrase-7")) == (True, False, True)
    assert Membership.objects.get(user=made).tenant == alpha.tenant
    assert "a-long-passphrase-7" not in everything_written()


@pytest.mark.parametrize("who", ["root", "Root", "\uff52oot", "bravo-member", "BRAVO-member"])
def test_a_person_outside_the_team_is_not_drawn_in(client, alpha, boss, who):
    team("bravo")
    person("root", is_superuser=True)
    data = {"tenant": alpha.tenant.pk, "username": who, "password": "", "role": "viewer"}
    before = User.objects.count()
    assert list(errors(add(client, "tenants_membership", **data))) == ["username"]
    assert User.objects.count() == before


def test_nobody_raises_themselves_or_touches_an_operator(client, alpha, boss):
    root = person("root", is_superuser=True)
    of_root = Membership.objects.create(user=root, tenant=alpha.tenant, role="viewer")
    own = Membership.objects.get(user=boss)
    for row in (own, of_root):
        assert (
            change(client, "tenants_membership", row, role="admin", password="another-passphrase-9").status_code == 403
        )
    root.refresh_from_db()
    assert root.password == "!"


def test_a_password_that_opens_another_team_is_not_set(client, alpha, boss):
    shared = Membership.objects.get(user__username="alpha-member")
    assert (
        change(client, "tenants_membership", shared, role="finance", password="another-passphrase-9").status_code == 302
    )
    Membership.objects.create(user=shared.user, tenant=team("bravo").tenant, role="viewer")
    answer = change(client, "tenants_membership", shared, role="finance", password="yet-another-phrase-9")
    assert list(errors(answer)) == ["password"]
    shared.user.refresh_from_db()
    assert shared.user.check_password("another-passphrase-9")


# --- the team itself ---


def test_a_team_admin_changes_the_name_and_the_alerts_only(client, alpha, boss):
    kept = alpha.tenant.alert_webhook
    data = {"slug": "hijack", "currency": "EUR", "name": "New name", "alert_emails": "a@example.com\nb@example.com",
            "alert_webhook": "", "webhook_secret": ""}  # fmt: skip
    assert change(client, "tenants_tenant", alpha.tenant, **data).status_code == 302
    row = alpha.tenant
    row.refresh_from_db()
    assert (row.slug, row.currency, row.name, row.alert_webhook) == ("alpha", "USD", "New name", kept)
    assert row.alert_emails == ["a@example.com", "b@example.com"]


@pytest.mark.parametrize("target", ["http://127.0.0.1/hook", "javascript:alert(1)"])
def test_a_webhook_must_not_lead_inside(client, alpha, boss, target):
    answer = change(client, "tenants_tenant", alpha.tenant, name="x", alert_webhook=target)
    assert list(errors(answer)) == ["alert_webhook"]
    assert target not in everything_written()


# --- deleting ---


@pytest.mark.parametrize("label", ["keys.Upstream", "keys.UpstreamKey", "keys.Account", "tenants.BusinessLine"])
def test_a_deleted_row_takes_its_history_with_it(client, alpha, boss, label):
    row = alpha.rows[label]
    if label == "keys.Upstream":  # not while rules and groups lead to it
        alpha.rows["routing.StrategyGroup"].rules.all().delete()
        alpha.rows["routing.StrategyGroup"].delete()
    if label == "keys.Account":
        row.keys.update(account=None)
    page = reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_delete", args=[row.pk])
    assert "would require deleting" not in client.get(page).content.decode()
    assert client.post(page, {"post": "yes"}).status_code == 302
    assert not type(row).objects.filter(pk=row.pk).exists()
    note = AuditEntry.objects.get(action="removed", object_id=str(row.pk), model=label)
    assert (note.username, note.tenant) == (boss.username, alpha.tenant)
    assert alpha.rows["billing.RequestRecord"].line_name == "alpha line"
    assert type(alpha.rows["billing.RequestRecord"]).objects.filter(line_name="alpha line").exists()


def test_a_row_in_use_is_not_deleted(client, alpha, boss):
    row = alpha.rows["keys.Upstream"]
    client.post(reverse("admin:keys_upstream_delete", args=[row.pk]), {"post": "yes"})
    assert type(row).objects.filter(pk=row.pk).exists()


def test_deleting_several_stays_inside_the_team(client, alpha, boss):
    theirs = team("bravo").rows["billing.Budget"]
    mine = alpha.rows["billing.Budget"]
    chosen = {"action": "delete_selected", "_selected_action": [mine.pk, theirs.pk], "post": "yes"}
    client.post(reverse("admin:billing_budget_changelist"), chosen)
    assert not type(mine).objects.filter(pk=mine.pk).exists()
    assert type(theirs).objects.filter(pk=theirs.pk).exists()


def test_a_reader_of_one_team_and_admin_of_another_deletes_only_there(client, alpha, boss):
    bravo = team("bravo")
    Membership.objects.create(user=boss, tenant=bravo.tenant, role="viewer")
    theirs, mine = bravo.rows["billing.Budget"], alpha.rows["billing.Budget"]
    page = reverse("admin:billing_budget_changelist")
    assert len(client.get(page).context["cl"].result_list) == 2
    chosen = {"action": "delete_selected", "_selected_action": [mine.pk, theirs.pk], "post": "yes"}
    assert client.post(page, chosen).status_code in {200, 403}
    assert type(theirs).objects.filter(pk=theirs.pk).exists()
    key = bravo.rows["keys.UpstreamKey"]
    chosen = {"action": "disable_selected", "_selected_action": [key.pk]}
    client.post(reverse("admin:keys_upstreamkey_changelist"), chosen)
    key.refresh_from_db()
    assert key.enabled
