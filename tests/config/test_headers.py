"""What protects a session and a page: content policy, frames, referrer, cookies, transport, other sessions."""

import re
from pathlib import Path

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from config.dashboard.plots import sheet
from tests import factories
from tests.config.admin_world import person, shared_rows, team
from tests.environment import ROOT

PASSWORD, NEW_PASSWORD = "correct horse battery", "a-long-passphrase-7"
LOCKED = (
    "default-src 'self'; img-src 'self' data:; style-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
OWN = ("index", "start", "security", "pool", "pool_paste", "live", "statements", "dry_run", "classifier", "login")
INLINE = re.compile(r"<style|\sstyle=|\son[a-z]+=|javascript:|<script(?![^>]*\ssrc=)(?![^>]*application/json)[^>]*>")


@pytest.fixture
def ann(settings):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    return User.objects.create_superuser("ann", password=PASSWORD)


def log_in(client, **extra):
    return client.post(reverse("admin:login"), {"username": "ann", "password": PASSWORD, "next": "/"}, **extra)


@pytest.mark.django_db
def test_no_page_brings_style_or_script_inside_and_each_says_so(client):
    alpha = team("alpha")
    alpha.rows.update(shared_rows())
    world = factories.serving("http://127.0.0.1:1/v1", "k-1")
    factories.RecordFactory(line=world.line)
    client.force_login(person("root", is_superuser=True))
    pages = [reverse(f"admin:{name}") for name in OWN if name != "login"]
    for model in admin.site._registry:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        pages.append(reverse(f"{name}_changelist"))
        row = alpha.rows.get(model._meta.label)
        pages += [reverse(f"{name}_change", args=[row.pk])] if row is not None else []
    for page in pages:
        answer = client.get(page)
        assert answer.status_code == 200, page
        assert answer["Content-Security-Policy"] == LOCKED, page
        assert answer["X-Frame-Options"] == "DENY", page
        assert answer["Referrer-Policy"] in {"same-origin", "no-referrer"}, page
        assert answer["X-Content-Type-Options"] == "nosniff", page
        assert answer["Cross-Origin-Opener-Policy"] == "same-origin", page
        assert INLINE.findall(answer.content.decode()) == [], page


@pytest.mark.django_db
def test_so_does_the_login(client):
    answer = client.get(reverse("admin:login"))
    assert answer["Content-Security-Policy"] == LOCKED
    assert INLINE.findall(answer.content.decode()) == []


def test_no_template_has_a_style_of_its_own():
    found = [path for path in (ROOT / "templates").rglob("*.html") if INLINE.search(path.read_text())]
    assert found == []


def test_the_style_sheet_of_plots_is_what_pygal_would_bring():
    assert Path(ROOT / "config/static/pointsman/plots.css").read_text() == sheet()


@pytest.mark.django_db
def test_only_the_api_documentation_may_bring_styles(client):
    client.force_login(person("root", is_superuser=True))
    policy = client.get(reverse("docs"))["Content-Security-Policy"]
    assert "style-src 'self' 'unsafe-inline'" in policy
    assert "script-src" not in policy
    assert "default-src 'self';" in policy


@pytest.mark.django_db
@pytest.mark.parametrize("secure", [True, False])
def test_cookies_are_kept_from_scripts_and_over_https_from_the_open_wire(client, ann, secure):
    cookies = {**log_in(client, secure=secure).cookies, **client.get(reverse("admin:index"), secure=secure).cookies}
    session, csrf = cookies["pointsman_session"], cookies["pointsman_csrf"]
    assert (bool(session["httponly"]), session["samesite"], bool(session["secure"])) == (True, "Lax", secure)
    assert (csrf["samesite"], bool(csrf["secure"])) == ("Strict", secure)


@pytest.mark.django_db
@pytest.mark.parametrize(("seconds", "secure", "expected"), [
    (0, True, None), (31536000, True, "max-age=31536000"), (31536000, False, None),
])  # fmt: skip
def test_strict_transport_is_said_over_https_when_configured(settings, seconds, secure, expected):
    settings.SECURE_HSTS_SECONDS = seconds
    answer = Client().get(reverse("admin:login"), secure=secure)
    assert answer.headers.get("Strict-Transport-Security") == expected


@pytest.mark.django_db
def test_a_new_password_ends_the_other_sessions(client, ann):
    here, elsewhere = Client(), Client()
    for each in (here, elsewhere):
        log_in(each)
        assert each.get(reverse("admin:index")).status_code == 200
    data = {"old_password": PASSWORD, "new_password1": NEW_PASSWORD, "new_password2": NEW_PASSWORD}
    here.post(reverse("admin:password_change"), data)
    assert here.get(reverse("admin:index")).status_code == 200
    assert elsewhere.get(reverse("admin:index")).status_code == 302


@pytest.mark.django_db
def test_a_login_gets_a_session_of_its_own(client, ann):
    client.get(reverse("admin:login"))
    session = client.session
    session["planted"] = "x"
    session.save()
    before = session.session_key
    client.cookies["pointsman_session"] = before
    log_in(client)
    assert client.cookies["pointsman_session"].value != before
