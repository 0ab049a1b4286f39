"""Stored secrets: unreadable in the database, readable with any configured key, never searched or dumped."""

import pytest
from cryptography.fernet import Fernet
from django.core import serializers
from django.core.exceptions import FieldError
from django.db import connection

from keys.models import UpstreamKey
from tenants.encryption import UndecryptableError, box, encrypted_columns, reencrypt
from tenants.models import InstallationSecret, Tenant
from tests.factories import TenantFactory, UpstreamKeyFactory

pytestmark = pytest.mark.django_db
OLD, NEW = Fernet.generate_key().decode(), Fernet.generate_key().decode()
COLUMN = UpstreamKey._meta.get_field("secret")


@pytest.fixture(autouse=True)
def keys(settings):
    def use(*configured):
        settings.POINTSMAN_ENCRYPTION_KEYS = configured

    use(OLD)
    return use


def token(row):
    with connection.cursor() as cursor:
        cursor.execute("SELECT secret FROM keys_upstreamkey WHERE id = %s", [row.pk])
        return cursor.fetchone()[0]


def test_the_column_holds_a_token():
    row = UpstreamKeyFactory(secret="sk-plain-secret")
    assert "plain" not in token(row)
    assert box().decrypt(token(row).encode()) == b"sk-plain-secret"
    row.refresh_from_db()
    assert row.secret == "sk-plain-secret"


def test_the_same_text_is_stored_differently_each_time():
    rows = [UpstreamKeyFactory(secret="sk-plain-secret") for _ in range(2)]
    assert token(rows[0]) != token(rows[1])
    assert rows[0].digest == rows[1].digest


@pytest.mark.parametrize("text", ["", "ünïcödé 🚂", "x" * 10_000])
def test_any_text(text):
    row = TenantFactory(webhook_secret=text)
    row.refresh_from_db()
    assert row.webhook_secret == text


def test_empty_stays_empty():
    row = TenantFactory(webhook_secret="")
    assert Tenant.objects.filter(pk=row.pk).extra(where=["webhook_secret = ''"]).exists()


def test_an_older_key_still_opens(keys):
    row = UpstreamKeyFactory(secret="sk-plain-secret")
    keys(NEW, OLD)
    row.refresh_from_db()
    assert row.secret == "sk-plain-secret"
    row.save()
    keys(NEW)
    row.refresh_from_db()
    assert row.secret == "sk-plain-secret"


def test_a_wrong_key_names_the_column_and_no_value(keys):
    row = UpstreamKeyFactory(secret="sk-plain-secret")
    stored = token(row)
    keys(NEW)
    with pytest.raises(UndecryptableError) as caught:
        row.refresh_from_db()
    assert "keys_upstreamkey.secret" in str(caught.value)
    assert stored not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("lookup", ["secret", "secret__contains", "secret__startswith", "secret__in"])
def test_it_cannot_be_searched(lookup):
    with pytest.raises(FieldError, match="encrypted"):
        UpstreamKey.objects.filter(**{lookup: "sk"}).exists()


def test_but_absence_can():
    UpstreamKeyFactory()
    assert UpstreamKey.objects.filter(secret__isnull=False).count() == 1


def test_it_is_not_dumped():
    row = UpstreamKeyFactory(secret="sk-plain-secret")
    with pytest.raises(FieldError, match="secret"):
        serializers.serialize("json", [row])


class TestRotation:
    def test_every_row_moves_to_the_newest_key(self, keys):
        rows = [UpstreamKeyFactory(secret=f"sk-plain-secret-{n}") for n in range(3)]
        keys(NEW, OLD)
        assert reencrypt(UpstreamKey, COLUMN) == (3, 0)
        keys(NEW)
        for number, row in enumerate(rows):
            row.refresh_from_db()
            assert row.secret == f"sk-plain-secret-{number}"

    def test_empty_ones_are_left(self):
        TenantFactory(webhook_secret="")
        assert reencrypt(Tenant, Tenant._meta.get_field("webhook_secret")) == (0, 0)

    def test_a_row_that_changed_meanwhile_is_left_alone(self, keys, monkeypatch):
        row = UpstreamKeyFactory(secret="sk-old-secret-1")
        real = type(COLUMN).from_db_value

        def meanwhile(self, value, expression, db):
            UpstreamKey.objects.filter(pk=row.pk).update(secret="sk-new-secret-2")
            return real(self, value, expression, db)

        monkeypatch.setattr(type(COLUMN), "from_db_value", meanwhile)
        assert reencrypt(UpstreamKey, COLUMN) == (0, 1)
        monkeypatch.undo()
        row.refresh_from_db()
        assert row.secret == "sk-new-secret-2"

    def test_a_secret_that_does_not_open_stops_it(self, keys):
        UpstreamKeyFactory()
        keys(NEW)
        with pytest.raises(UndecryptableError):
            reencrypt(UpstreamKey, COLUMN)


def test_which_columns_are_secret():
    assert [column.name for column in encrypted_columns(Tenant)] == ["webhook_secret"]
    assert [column.name for column in encrypted_columns(UpstreamKey)] == ["secret", "old_secret"]
    assert [column.name for column in encrypted_columns(InstallationSecret)] == ["value"]
