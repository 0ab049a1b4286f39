"""Every address × every kind of person, with another team's ids: nothing of that team is told, nothing is written."""

from typing import Any
from urllib.parse import unquote

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.test import Client

from proxy import live
from tenants.models import Membership
from tests import factories
from tests.config.admin_addresses import (
    NO_TEAM,
    OLD_SECRET,
    UNNAMED,
    asks,
    keep_old_secrets,
    served,
)  # fmt: skip
from tests.config.admin_world import member, person, shared_rows, team

pytestmark = pytest.mark.django_db

SAFE = {302, 400, 403, 404, 405}
PEOPLE = ("admin", "finance", "viewer", "two teams", "removed", "no role", "inactive", "anonymous")
# Kept by Django, counted, or made at first use; the rest of the database is compared row by row.
PASSING = {"sessions.Session", "tenants.LoginThrottle", "tenants.InstallationSecret", "billing.BudgetSpent"}


@pytest.fixture
def teams(monkeypatch):
    alpha, bravo = team("alpha"), team("bravo")
    shared = shared_rows()
    for each in (alpha, bravo):
        each.rows.update(shared)
        each.rows["auth.User"] = each.rows["tenants.Membership"].user
        keep_old_secrets(each)
    glances = tuple(flight(each) for each in (alpha, bravo))
    monkeypatch.setattr(live, "seen", lambda: live.Seen(glances))
    monkeypatch.setattr(live, "order_abort", ordered.append)
    ordered.clear()
    return alpha, bravo


ordered: list[str] = []  # requests that were told to end


def flight(made):
    fields: dict[str, Any] = {
        "id": f"req_{made.mark}_flight", "tenant_id": made.tenant.pk, "line_id": made.line.pk, "line": made.line.slug,
        "key": "prod", "model": "gpt-4o", "stream": True, "upstream": f"{made.mark}-upstream", "upstream_key": "k1",
        "tail": "abcdef", "attempts": 1, "at": 1.0, "sent": 1.0, "phase": "waiting", "first_content_ms": None,
        "silence_s": 300.0,
    }  # fmt: skip
    return live.Glance(**fields)


def come_in(client, alpha, bravo, who):
    """Log somebody in, who then looks at the own pages; roles that go, go after that."""
    if who == "anonymous":
        return
    user = person("somebody")
    if who in {"inactive", "removed", "two teams"}:
        Membership.objects.create(user=user, tenant=alpha.tenant, role="admin")
    elif who != "no role":
        Membership.objects.create(user=user, tenant=alpha.tenant, role=who)
    if who == "two teams":
        Membership.objects.create(user=user, tenant=factories.TenantFactory(slug="charlie"), role="viewer")
    lost = Membership.objects.create(user=user, tenant=bravo.tenant, role="admin")
    client.force_login(user)
    for name in ("admin:index", "admin:start", "admin:pool"):  # bravo is chosen, and remembered
        assert client.get(asks(bravo)[name][0].url).status_code == 200
    lost.delete()
    if who == "removed":
        Membership.objects.filter(user=user).delete()
    if who == "inactive":
        User.objects.filter(pk=user.pk).update(is_active=False)


def rows():
    """The whole database but for what passes."""
    found = {}
    for model in apps.get_models():
        if model._meta.label not in PASSING:
            fields = [field.attname for field in model._meta.concrete_fields if field.attname != "last_login"]
            found[model._meta.label] = list(model._default_manager.order_by("pk").values_list(*fields))
    return found


def told(answer, page):
    """All that an answer says, its headers included, but for the address that was asked."""
    body = b"".join(answer.streaming_content) if answer.streaming else answer.content
    return unquote(body.decode() + str(answer.headers)).replace(page.url, "")


def every(made):
    return [(name, page) for name, pages in asks(made).items() for page in pages]


def both_ways(client, page):
    yield client.get(page.url)
    yield client.post(page.url, page.data)


def test_every_address_has_a_case():
    named = {name for name, _pattern in served() if name}
    walked = set(asks(team_with_shared_rows()))
    assert named - walked - NO_TEAM == set(), "say in admin_addresses.py what is asked of these pages"
    assert (walked | NO_TEAM) - named == set()
    assert {pattern for name, pattern in served() if not name} == UNNAMED


def team_with_shared_rows():
    made = team("alpha")
    made.rows.update(shared_rows())
    made.rows["auth.User"] = made.rows["tenants.Membership"].user
    return made


@pytest.mark.parametrize("who", PEOPLE)
def test_nobody_reaches_another_team_by_any_address(client, teams, who):
    alpha, bravo = teams
    come_in(client, alpha, bravo, who)
    before = rows()
    for name, page in every(bravo):
        for answer in both_ways(client, page):
            assert answer.status_code in SAFE | {200}, (name, page)
            assert "bravo" not in told(answer, page), (name, page)
    assert rows() == before
    assert ordered == []


@pytest.mark.parametrize("who", ["removed", "no role", "inactive", "anonymous"])
def test_who_has_no_role_reaches_nothing_at_all(client, teams, who):
    alpha, bravo = teams
    come_in(client, alpha, bravo, who)
    before = rows()
    for name, page in every(alpha):
        for answer in both_ways(client, page):
            assert "alpha" not in told(answer, page), (name, page)
            if who in {"inactive", "anonymous"}:
                assert answer.url.startswith("/admin/login/?next=/admin/"), (name, page)
    assert rows() == before
    assert ordered == []


@pytest.mark.parametrize(("role", "elsewhere"), [("finance", ""), ("viewer", ""), ("viewer", "admin")])
def test_a_reader_writes_nothing_by_any_address(client, teams, role, elsewhere):
    alpha, bravo = teams
    user = member(alpha.tenant, role)
    if elsewhere:
        Membership.objects.create(user=user, tenant=bravo.tenant, role=elsewhere)
    client.force_login(user)
    before = rows()
    for name, page in every(alpha):
        if (role, name) != ("finance", "admin:statements_close"):  # the one thing that finance may do
            assert client.post(page.url, page.data).status_code in SAFE | {200}, (name, page)
    assert rows() == before
    assert ordered == []


@pytest.mark.parametrize("who", ["operator", "admin"])
def test_looking_changes_nothing_and_shows_no_secret(client, teams, who):
    alpha, bravo = teams
    client.force_login(person("root", is_superuser=True) if who == "operator" else member(alpha.tenant, who))
    before = rows()
    secrets = [*alpha.secrets, OLD_SECRET.format("alpha")]
    if who == "operator":
        secrets += [*bravo.secrets, OLD_SECRET.format("bravo")]
    for name, page in every(alpha):
        answer = client.get(page.url)
        assert answer.status_code in SAFE | {200}, (name, page)
        text = told(answer, page)
        assert [secret for secret in secrets if secret in text] == [], (name, page)
    assert rows() == before
    assert ordered == []


def test_no_address_takes_a_form_of_another_site(teams):
    alpha, _bravo = teams
    client = Client(enforce_csrf_checks=True)
    client.force_login(person("root", is_superuser=True))
    before = rows()
    for name, page in every(alpha):
        assert client.post(page.url, page.data).status_code == 403, (name, page)
    assert rows() == before
    assert ordered == []
