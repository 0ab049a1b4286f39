"""A gateway key's secret is replaced: two work for a while, both the same key."""

from datetime import timedelta

import pytest

from routing.snapshot import read_table
from tenants.models import ConfigVersion, GatewayKey
from tenants.services import (
    BadSecretError,
    end_old_secret,
    gateway_digest,
    issue_gateway_key,
    revoke_gateway_key,
    rotate_gateway_key,
)
from tests.factories import NOON, GatewayKeyFactory, LineFactory

pytestmark = pytest.mark.django_db

FIRST = "sk-pm-the-first-0001"
LATER = NOON + timedelta(hours=24)


def version():
    return ConfigVersion.objects.get().version


@pytest.fixture
def key():
    return GatewayKeyFactory(name="prod", secret=FIRST, rpm=7)


def rotated(key, keep_until=LATER, now=NOON):
    issued = rotate_gateway_key(key=GatewayKey.objects.get(pk=key.pk), keep_until=keep_until, now=now)
    assert issued is not None
    return issued


def test_the_new_secret_is_told_once_and_the_old_one_kept_as_a_hash(key):
    before = version()
    issued = rotated(key)
    row = GatewayKey.objects.get()
    assert (row.pk, row.name, row.digest, row.last4) == (
        key.pk, "prod", gateway_digest(issued.secret), issued.secret[-4:],
    )  # fmt: skip
    assert (row.old_digest, row.old_last4, row.old_until) == (gateway_digest(FIRST), FIRST[-4:], LATER)
    assert version() == before + 1
    assert issued.secret.startswith("sk-pm-")
    assert len(issued.secret) == len("sk-pm-") + 40
    assert issued.secret not in repr(issued)


def test_both_are_one_key_with_its_limits_and_the_old_one_has_an_end(key):
    issued = rotated(key)
    table = read_table().gateway_keys
    new, old = table[gateway_digest(issued.secret)], table[gateway_digest(FIRST)]
    assert (new.id, new.name, new.limits.rpm, new.enabled) == (old.id, old.name, old.limits.rpm, old.enabled)
    assert (new.id, new.expires, old.expires) == (key.pk, None, LATER)
    assert (new.last4, old.last4) == (issued.secret[-4:], FIRST[-4:])


@pytest.mark.parametrize(("hours", "ends"), [(1, 1), (48, 24)])
def test_a_key_that_expires_takes_its_old_secret_along(key, hours, ends):
    GatewayKey.objects.update(expires=NOON + timedelta(hours=hours))
    rotated(key)
    assert read_table().gateway_keys[gateway_digest(FIRST)].expires == NOON + timedelta(hours=ends)


@pytest.mark.parametrize("keep_until", [NOON, NOON - timedelta(days=1)])
def test_without_overlap_the_old_one_ends_now(key, keep_until):
    rotated(key, keep_until)
    assert read_table().gateway_keys[gateway_digest(FIRST)].expires == NOON
    assert not GatewayKey.objects.get().old_works(NOON)


def test_of_two_old_ones_the_older_is_unknown_at_once(key):
    second = rotated(key)
    third = rotated(key)
    assert set(read_table().gateway_keys) == {gateway_digest(second.secret), gateway_digest(third.secret)}


def test_a_form_that_is_sent_twice_rotates_once(key):
    issued = rotated(key)
    assert rotate_gateway_key(key=key, keep_until=LATER, now=NOON) is None
    row = GatewayKey.objects.get()
    assert (row.digest, row.old_digest) == (gateway_digest(issued.secret), gateway_digest(FIRST))


def test_a_revoked_key_stays_so_with_both_secrets(key):
    issued = rotated(key)
    assert revoke_gateway_key(key=key, now=NOON)
    row = GatewayKey.objects.get()
    assert rotate_gateway_key(key=row, keep_until=LATER, now=NOON) is None
    assert not row.old_works(NOON)
    table = read_table().gateway_keys
    assert [table[gateway_digest(secret)].enabled for secret in (FIRST, issued.secret)] == [False, False]


def test_the_old_one_is_ended_at_once_and_told_once(key):
    rotated(key)
    row = GatewayKey.objects.get()
    soon = NOON + timedelta(minutes=5)
    assert row.old_works(soon)
    before = version()
    assert end_old_secret(key=row, now=soon) is True
    assert end_old_secret(key=row, now=soon) is False
    row.refresh_from_db()
    assert (row.old_until, row.old_works(soon), version()) == (soon, False, before + 1)


def test_an_order_about_another_old_secret_ends_nothing(key):
    rotated(key)
    stale = GatewayKey.objects.get()
    rotated(key)
    assert end_old_secret(key=stale, now=NOON) is False
    assert GatewayKey.objects.get().old_works(NOON)


def test_a_key_that_was_never_rotated_has_no_old_secret(key):
    assert not key.old_works(NOON)
    assert end_old_secret(key=key, now=NOON) is False
    assert set(read_table().gateway_keys) == {gateway_digest(FIRST)}


def test_an_old_secret_is_given_to_no_other_key(key):
    rotated(key)
    with pytest.raises(BadSecretError, match="already"):
        issue_gateway_key(line=LineFactory(), name="other", secret=FIRST)
