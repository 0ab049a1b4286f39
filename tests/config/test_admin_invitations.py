"""Inviting people: to the own team only, with a link that sets a password once."""

import re

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client
from django.urls import reverse

from tenants import invitations
from tenants.models import AuditEntry, Membership
from tests.config.admin_forms import add, change, errors, everything_written
from tests.config.admin_world import member, person, team

pytestmark = pytest.mark.django_db

PASSPHRASE = "a-long-passphrase-7"
PEOPLE = reverse("admin:tenants_membership_changelist")


@pytest.fixture(autouse=True)
def quick(settings):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.POINTSMAN_MAIL_CONFIGURED = False


@pytest.fixture
def alpha():
    return team("alpha")


@pytest.fixture
def boss(client, alpha):
    user = member(alpha.tenant, "admin")
    client.force_login(user)
    return user


def invite(client, alpha, **data):
    given = {"tenant": alpha.tenant.pk, "username": "newbie", "email": "", "password": "", "role": "viewer", **data}
    return add(client, "tenants_membership", **given)


def choose(url, first=PASSPHRASE, second=PASSPHRASE):
    """Open a link as somebody who is not logged in, and set a password."""
    client = Client()
    shown = client.get(url, follow=True)
    place = shown.redirect_chain[-1][0] if shown.redirect_chain else url
    return shown, client.post(place, {"new_password1": first, "new_password2": second})


def test_the_link_is_shown_once_and_sets_the_password(client, alpha, boss):
    answer = invite(client, alpha)
    url = answer.context["url"]
    assert url in answer.content.decode()
    assert "no-store" in answer["Cache-Control"]
    newbie = User.objects.get(username="newbie")
    assert (newbie.has_usable_password(), newbie.is_staff, newbie.is_superuser) == (False, True, False)
    assert url not in everything_written()

    shown, done = choose(url)
    assert "Welcome, newbie." in shown.content.decode()
    assert done.url == reverse("admin:login")
    newbie.refresh_from_db()
    assert newbie.check_password(PASSPHRASE)
    again, _refused = choose(url, "another-passphrase-8", "another-passphrase-8")
    assert "This link has been used" in again.content.decode()
    newbie.refresh_from_db()
    assert newbie.check_password(PASSPHRASE)
    assert AuditEntry.objects.filter(username="newbie", action="changed", fields={"password": "changed"}).exists()


def test_a_weak_password_is_refused(client, alpha, boss):
    _shown, refused = choose(invite(client, alpha).context["url"], "12345", "12345")
    assert refused.status_code == 200
    assert not User.objects.get(username="newbie").has_usable_password()


def test_the_link_is_mailed_where_mail_is_set_up(client, alpha, boss, settings):
    settings.POINTSMAN_MAIL_CONFIGURED = True
    settings.POINTSMAN_PUBLIC_URL = "https://gateway.example.com"
    answer = invite(client, alpha, email="newbie@example.com")
    assert answer.url == PEOPLE
    (sent,) = mail.outbox
    assert sent.to == ["newbie@example.com"]
    url = re.search(r"https://gateway\.example\.com(/admin/welcome/\S+)", sent.body)
    assert url is not None
    choose(url.group(1))
    assert User.objects.get(username="newbie").check_password(PASSPHRASE)


def test_no_mail_leads_where_a_host_header_says(client, alpha, boss, settings):
    settings.POINTSMAN_MAIL_CONFIGURED = True
    settings.POINTSMAN_PUBLIC_URL = ""
    client.defaults["HTTP_HOST"] = "elsewhere.example"
    answer = invite(client, alpha, email="newbie@example.com")
    assert mail.outbox == []
    assert answer.context["url"].startswith("http://elsewhere.example/admin/welcome/")
    assert "The mail could not be sent." not in answer.content.decode()


def test_a_mail_that_is_refused_shows_the_link(client, alpha, boss, settings, monkeypatch):
    settings.POINTSMAN_MAIL_CONFIGURED = True
    settings.POINTSMAN_PUBLIC_URL = "https://gateway.example.com"

    def refused(*_arguments):
        raise OSError("no route")

    monkeypatch.setattr(invitations, "send_mail", refused)
    answer = invite(client, alpha, email="newbie@example.com")
    assert "The mail could not be sent." in answer.content.decode()
    assert "/admin/welcome/" in answer.context["url"]


def test_a_new_link_replaces_a_lost_one(client, alpha, boss):
    old = invite(client, alpha).context["url"]
    row = Membership.objects.get(user__username="newbie")
    new = client.post(PEOPLE, {"action": "invite_selected", "_selected_action": [row.pk]})
    choose(new.context["url"])
    assert User.objects.get(username="newbie").check_password(PASSPHRASE)
    assert "This link has been used" in choose(old)[0].content.decode()
    assert AuditEntry.objects.filter(action="invited", username=boss.username).count() == 1


def test_nobody_gets_a_link_into_an_account_of_another_team_or_of_an_operator(client, alpha, boss):
    bravo = team("bravo")
    both = alpha.rows["tenants.Membership"]
    Membership.objects.create(user=both.user, tenant=bravo.tenant, role="viewer")
    root = person("root", is_superuser=True)
    of_root = Membership.objects.create(user=root, tenant=alpha.tenant, role="viewer")
    for row in (both, of_root, bravo.rows["tenants.Membership"]):
        answer = client.post(PEOPLE, {"action": "invite_selected", "_selected_action": [row.pk]}, follow=True)
        assert "/admin/welcome/" not in answer.content.decode()
    assert not AuditEntry.objects.filter(action="invited").exists()


def test_one_invites_into_the_own_team_only(client, alpha, boss):
    bravo = team("bravo")
    assert list(errors(invite(client, bravo))) == ["tenant"]
    assert not User.objects.filter(username="newbie").exists()


@pytest.mark.parametrize("role", ["finance", "viewer"])
def test_only_a_team_admin_invites(client, alpha, role):
    client.force_login(member(alpha.tenant, role))
    assert invite(client, alpha).status_code == 403
    assert not User.objects.filter(username="newbie").exists()


@pytest.mark.parametrize("role", ["finance", "viewer", "admin"])
def test_nobody_raises_the_own_role(client, alpha, role):
    user = member(alpha.tenant, role)
    client.force_login(user)
    own = Membership.objects.get(user=user)
    assert change(client, "tenants_membership", own, role="admin").status_code == 403
    assert invite(client, alpha, username=user.username, role="admin").status_code in {200, 403}
    assert list(Membership.objects.filter(user=user).values_list("role", flat=True)) == [role]
    user.refresh_from_db()
    assert not user.is_superuser
