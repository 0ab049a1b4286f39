"""An upstream key's secret is replaced: the one before is kept, comes back, or is erased."""

from datetime import timedelta

import pytest
from django.db import connection
from django.utils.timezone import now

from keys.models import StateInbox, UpstreamKey
from keys.services import erase_old_secrets, forget_old_secret, save_key, secret_digest, use_old_secret
from keys.tasks import erase_old_secrets as erase_task
from tenants.alerts import open_alert
from tenants.models import Alert, AlertKind, ConfigVersion
from tenants.services import BadSecretError
from tests.factories import NOON, UpstreamKeyFactory

pytestmark = pytest.mark.django_db

OLD, NEW = "sk-old-0123456789-aaaaaa-bbbbbb", "sk-new-0123456789-cccccc-dddddd"
LATER = NOON + timedelta(days=1)
BARE = ("", "", "", None)


@pytest.fixture
def key():
    return UpstreamKeyFactory(secret=OLD, rpm=5)


def version():
    return ConfigVersion.objects.get().version


def kept(key):
    key.refresh_from_db()
    return key.old_secret, key.old_digest, key.old_tail, key.old_until


def test_the_old_secret_is_kept_encrypted(key):
    save_key(key=key, secret=NEW, keep_old_until=LATER)
    assert kept(key) == (OLD, secret_digest(OLD), "bbbbbb", LATER)
    assert (key.secret, key.tail, key.epoch, key.rpm) == (NEW, "dddddd", 2, 5)
    assert (key.keeps_old(NOON), key.keeps_old(LATER)) == (True, False)
    with connection.cursor() as cursor:
        cursor.execute("SELECT old_secret, secret FROM keys_upstreamkey")
        assert not any(secret in str(cursor.fetchall()) for secret in (OLD, NEW))


def test_without_a_time_nothing_is_kept(key):
    save_key(key=key, secret=NEW, keep_old_until=LATER)
    save_key(key=key, secret=f"{NEW}-2")
    assert kept(key) == BARE


def test_the_same_secret_again_replaces_nothing(key):
    save_key(key=key, secret=OLD, keep_old_until=LATER)
    assert kept(key) == BARE
    assert key.epoch == 1


def test_an_edit_that_was_read_before_a_rotation_does_not_undo_it(key):
    stale = UpstreamKey.objects.get(pk=key.pk)
    save_key(key=key, secret=NEW, keep_old_until=LATER)
    stale.weight = 9
    save_key(key=stale)
    assert kept(key)[0] == OLD
    assert (key.secret, key.weight, key.epoch) == (NEW, 9, 2)


def test_back_and_forth(key):
    save_key(key=key, secret=NEW, keep_old_until=LATER)
    before = version()
    back = use_old_secret(key=key, now=NOON)
    assert (back.secret, back.digest, back.tail, back.epoch) == (OLD, secret_digest(OLD), "bbbbbb", 3)
    assert kept(key) == (NEW, secret_digest(NEW), "dddddd", LATER)
    assert StateInbox.objects.filter(command="set_epoch").last().payload == {"key_id": key.pk, "epoch": 3}
    assert version() == before + 1
    assert use_old_secret(key=key, now=NOON).secret == NEW


def test_back_for_good(key):
    save_key(key=key, secret=NEW, keep_old_until=LATER)
    assert use_old_secret(key=key, now=NOON, epoch=2, forget=True).secret == OLD
    assert kept(key) == BARE


@pytest.mark.parametrize(("now", "epoch"), [(LATER, None), (NOON, 1), (NOON, 3)])
def test_neither_after_its_time_nor_in_another_epoch(key, now, epoch):
    save_key(key=key, secret=NEW, keep_old_until=LATER)
    assert use_old_secret(key=key, now=now, epoch=epoch) is None
    key.refresh_from_db()
    assert (key.secret, key.epoch) == (NEW, 2)


def test_nothing_comes_back_to_a_key_that_was_never_rotated(key):
    assert use_old_secret(key=key, now=NOON) is None


def test_an_old_secret_that_another_key_has_by_now_stays_out(key):
    save_key(key=key, secret=NEW, keep_old_until=LATER)
    UpstreamKeyFactory(upstream=key.upstream, secret=OLD)
    with pytest.raises(BadSecretError, match="…bbbbbb") as caught:
        use_old_secret(key=key, now=NOON)
    assert OLD not in str(caught.value)
    key.refresh_from_db()
    assert key.secret == NEW


def test_forgetting_by_hand(key):
    assert forget_old_secret(key=key) is False
    save_key(key=key, secret=NEW, keep_old_until=LATER)
    assert forget_old_secret(key=key) is True
    assert kept(key) == BARE


def test_what_is_over_is_erased_and_the_rest_stays(key):
    other = UpstreamKeyFactory(secret="sk-another-one-0123456789")
    save_key(key=key, secret=NEW, keep_old_until=NOON)
    save_key(key=other, secret=f"{NEW}-3", keep_old_until=LATER)
    assert erase_old_secrets(now=NOON) == 1
    assert erase_old_secrets(now=NOON) == 0
    assert kept(key) == BARE
    assert kept(other)[0] == "sk-another-one-0123456789"


def test_the_task_erases_by_the_clock(key):
    save_key(key=key, secret=NEW, keep_old_until=now() - timedelta(seconds=1))
    erase_task()
    assert kept(key) == BARE


def test_a_next_secret_ends_the_alert_about_the_refused_one(key):
    about = {"tenant": key.upstream.tenant, "kind": AlertKind.NEW_SECRET, "subject": f"key:{key.pk}"}
    open_alert(**about, text="refused", now=NOON)
    key.weight = 2
    save_key(key=key)
    assert Alert.objects.get().closed is None
    save_key(key=key, secret=NEW)
    assert Alert.objects.get().closed is not None
