import threading
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction

from tenants.core.credentials import digest_of
from tenants.models import AuditEntry, ConfigVersion, GatewayKey, InstallationSecret
from tenants.services import (
    GATEWAY_HASH,
    BadSecretError,
    audit,
    gateway_digest,
    installation_secret,
    issue_gateway_key,
    revoke_gateway_key,
    touch_config,
)
from tests.factories import NOON, LineFactory, TenantFactory

pytestmark = pytest.mark.django_db


def version():
    return ConfigVersion.objects.get().version


class TestIssuing:
    def test_a_key_is_shown_once_and_stored_as_a_hash(self):
        before = version()
        issued = issue_gateway_key(line=LineFactory(), name="prod")
        assert issued.secret.startswith("sk-pm-")
        assert len(issued.secret) == len("sk-pm-") + 40
        row = GatewayKey.objects.get()
        assert (row.digest, row.last4) == (gateway_digest(issued.secret), issued.secret[-4:])
        assert all(issued.secret not in str(value) for value in vars(row).values())
        assert issued.secret not in repr(issued)
        assert version() == before + 1

    def test_each_is_another(self):
        line = LineFactory()
        assert len({issue_gateway_key(line=line, name=f"k{n}").secret for n in range(20)}) == 20

    def test_a_given_secret_and_an_end(self):
        issued = issue_gateway_key(line=LineFactory(), name="prod", secret="my-own-secret-123", expires=NOON)
        assert (issued.secret, issued.row.expires, issued.row.last4) == ("my-own-secret-123", NOON, "-123")

    @pytest.mark.parametrize("secret", ["", "secret b", " secret", "secret\n", "ключ", "secret\x00"])
    def test_a_malformed_one_is_refused_and_not_shown(self, secret):
        before = version()
        with pytest.raises(BadSecretError, match="prod") as caught:
            issue_gateway_key(line=LineFactory(), name="prod", secret=secret)
        assert "secret" not in str(caught.value)
        assert "ключ" not in str(caught.value)
        assert (GatewayKey.objects.count(), version()) == (0, before)

    def test_one_that_is_used_already_is_refused(self):
        issue_gateway_key(line=LineFactory(), name="a", secret="my-own-secret-123")
        with pytest.raises(BadSecretError, match="already") as caught:
            issue_gateway_key(line=LineFactory(), name="b", secret="my-own-secret-123")
        assert "my-own-secret" not in str(caught.value)
        assert GatewayKey.objects.count() == 1


def test_revoking_is_for_good_and_told_once():
    key = issue_gateway_key(line=LineFactory(), name="prod").row
    before = version()
    assert revoke_gateway_key(key=key, now=NOON) is True
    assert revoke_gateway_key(key=key, now=NOON + timedelta(days=1)) is False
    key.refresh_from_db()
    assert (key.enabled, key.revoked) == (False, NOON)
    assert version() == before + 2


class TestVersion:
    def test_it_moves_with_each_change(self):
        before = version()
        touch_config()
        touch_config()
        assert version() == before + 2

    def test_a_change_that_is_rolled_back_moves_nothing(self):
        before = version()
        with transaction.atomic():
            touch_config()
            transaction.set_rollback(True)
        assert version() == before

    def test_a_missing_row_is_made(self):
        ConfigVersion.objects.all().delete()
        touch_config()
        assert version() == 1


class TestInstallationSecret:
    def test_it_is_made_once_and_stored_encrypted(self):
        made = installation_secret("a")
        assert (len(made), installation_secret("a"), installation_secret("b") != made) == (32, made, True)
        with connection.cursor() as cursor:
            cursor.execute("SELECT value FROM tenants_installationsecret")
            assert made.hex() not in str(cursor.fetchall())

    def test_gateway_keys_are_hashed_under_it(self):
        assert gateway_digest("sk-pm-x") == digest_of("sk-pm-x", installation_secret(GATEWAY_HASH))
        InstallationSecret.objects.all().delete()
        assert gateway_digest("sk-pm-x") == digest_of("sk-pm-x", installation_secret(GATEWAY_HASH))


@pytest.mark.django_db(transaction=True)
def test_two_that_ask_at_once_get_the_same():
    found, start = [], threading.Barrier(4)

    def ask():
        start.wait(5)
        found.append(installation_secret("contended"))
        connection.close()

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1


class TestAudit:
    def test_who_what_when(self):
        tenant = TenantFactory(slug="acme")
        user = User.objects.create(username="kim")
        entry = audit(user=user, action="change", target=tenant, tenant=tenant, fields={"name": ["a", "b"]})
        entry.refresh_from_db()
        assert (entry.user, entry.username, entry.action) == (user, "kim", "change")
        assert (entry.model, entry.object_id, entry.object_name) == ("tenants.Tenant", str(tenant.pk), "acme")
        assert (entry.tenant, entry.fields) == (tenant, {"name": ["a", "b"]})

    def test_the_system_and_things_of_no_team(self):
        entry = audit(user=None, action="rotate", target=TenantFactory(), tenant=None)
        assert (entry.user, entry.username, entry.tenant, entry.fields) == (None, "", None, {})

    def test_it_outlives_the_person(self):
        tenant = TenantFactory()
        user = User.objects.create(username="kim")
        audit(user=user, action="change", target=tenant, tenant=tenant)
        user.delete()
        assert AuditEntry.objects.get().username == "kim"
