"""add_member and rotate_secrets as a person types them."""

import io
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.apps import apps
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection

from keys.models import UpstreamKey
from tenants import encryption
from tenants.models import AuditEntry, Membership
from tests.factories import TenantFactory, UpstreamKeyFactory

pytestmark = pytest.mark.django_db

PASSWORD = "correct-horse-battery"


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POINTSMAN_PASSWORD", PASSWORD)
    TenantFactory(slug="acme")


def run(command: str, *arguments: str) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command(command, *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def add(name: str, role: str, tenant: str = "acme") -> str:
    return run("add_member", name, "--tenant", tenant, "--role", role)[0]


def test_a_new_person_can_log_in_to_the_admin() -> None:
    assert add("ann", "finance") == "ann was created.\nann now has the role finance in acme.\n"
    person = User.objects.get()
    assert (person.is_staff, person.is_active, person.is_superuser) == (True, True, False)
    assert person.check_password(PASSWORD)
    entry = AuditEntry.objects.get(model="tenants.Membership")
    assert (entry.username, entry.action, entry.fields) == ("add_member", "added", {"role": "finance"})


def test_a_role_changes_and_nothing_else() -> None:
    add("ann", "finance")
    assert add("ann", "finance") == "No changes.\n"
    assert add("ann", "admin") == "ann now has the role admin in acme.\n"
    assert [row.role for row in Membership.objects.all()] == ["admin"]
    TenantFactory(slug="other")
    add("ann", "viewer", "other")
    assert set(Membership.objects.values_list("tenant__slug", "role")) == {("acme", "admin"), ("other", "viewer")}


def test_a_known_person_keeps_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    User.objects.create_user("bob", password="her-own-password")
    monkeypatch.delenv("POINTSMAN_PASSWORD")
    assert add("bob", "viewer") == "bob may now use the admin.\nbob now has the role viewer in acme.\n"
    person = User.objects.get()
    assert person.check_password("her-own-password")
    assert person.is_staff


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("ann", "--tenant", "nobody", "--role", "admin"), 'unknown tenant "nobody"'),
        (("a b!", "--tenant", "acme", "--role", "admin"), "a b!: Enter a valid username."),
        (("ann", "--tenant", "acme", "--role", "owner"), "invalid choice: 'owner'"),
    ],
)
def test_what_cannot_be_is_refused(arguments: tuple[str, ...], text: str) -> None:
    with pytest.raises(CommandError) as caught:
        run("add_member", *arguments)
    assert text in str(caught.value)
    assert not User.objects.exists()


def test_without_a_terminal_a_new_person_needs_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POINTSMAN_PASSWORD")
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(CommandError, match="ann is new: set POINTSMAN_PASSWORD or run this in a terminal"):
        add("ann", "viewer")


def test_in_a_terminal_the_password_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POINTSMAN_PASSWORD")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("getpass.getpass", lambda _prompt: PASSWORD)
    add("ann", "viewer")
    assert User.objects.get().check_password(PASSWORD)


def test_a_weak_password_is_said_to_be_weak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POINTSMAN_PASSWORD", "12345")
    _out, err = run("add_member", "ann", "--tenant", "acme", "--role", "viewer")
    assert err.startswith("Warning: weak password. ")
    assert "12345" not in err


def test_somebody_who_exists_keeps_the_password_and_is_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    add("ann", "viewer")
    monkeypatch.setenv("POINTSMAN_PASSWORD", "another-one-0815")
    _out, err = run("add_member", "ann", "--tenant", "acme", "--role", "finance")
    assert "ann exists and keeps the password" in err
    assert "another-one-0815" not in err
    assert User.objects.get().check_password(PASSWORD)


def token(pk: int) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT secret FROM keys_upstreamkey WHERE id = %s", [pk])
        return str(cursor.fetchone()[0])


def test_rotate_secrets_uses_the_newest_key(settings: Any) -> None:
    rows = [UpstreamKeyFactory(secret=f"sk-0000000000{n}") for n in range(3)]
    old = settings.POINTSMAN_ENCRYPTION_KEYS
    before = {row.pk: token(row.pk) for row in rows}
    new = Fernet.generate_key().decode()
    settings.POINTSMAN_ENCRYPTION_KEYS = (new, *old)
    out, _err = run("rotate_secrets")
    assert "keys_upstreamkey.secret: 3 re-encrypted\n" in out
    assert "tenants_installationsecret.value: 1 re-encrypted\n" in out
    assert "tenants_tenant.webhook_secret: 0 re-encrypted\n" in out
    assert "sk-0" not in out
    settings.POINTSMAN_ENCRYPTION_KEYS = (new,)  # the old key may go
    assert sorted(key.secret for key in UpstreamKey.objects.all()) == [f"sk-0000000000{n}" for n in range(3)]
    assert all(token(pk) != text for pk, text in before.items())


def test_every_encrypted_column_is_named(settings: Any) -> None:
    columns = [
        f"{model._meta.db_table}.{column.column}: "
        for model in apps.get_models()
        for column in encryption.encrypted_columns(model)
    ]
    out, _err = run("rotate_secrets")
    assert len(columns) == len(out.splitlines())
    assert all(column in out for column in columns)


def test_a_secret_that_no_key_opens_is_named_and_the_rest_goes_on(settings: Any) -> None:
    UpstreamKeyFactory(secret="sk-00000000001")
    settings.POINTSMAN_ENCRYPTION_KEYS = (Fernet.generate_key().decode(),)
    out = io.StringIO()
    with pytest.raises(CommandError) as caught:
        call_command("rotate_secrets", stdout=out)
    lines = str(caught.value).splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["keys_upstreamkey.secret", "tenants_installationsecret.value"]
    assert "tenants_tenant.webhook_secret: 0 re-encrypted\n" in out.getvalue()
