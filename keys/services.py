"""Writes on upstreams and their keys."""

from django.db import transaction
from django.db.models import F

from keys.models import StateInbox, UpstreamKey
from tenants.core.credentials import digest_of, malformed, tail_of
from tenants.services import BadSecretError, installation_secret, touch_config

UPSTREAM_HASH = "upstream-key-hash"


def secret_digest(secret: str) -> str:
    """Return the keyed hash that finds duplicates of an upstream secret."""
    return digest_of(secret, installation_secret(UPSTREAM_HASH))


def set_secret(key: UpstreamKey, secret: str) -> None:
    """Put a secret into an unsaved or loaded row, with its digest and tail. Raises BadSecretError."""
    if problem := malformed(secret):
        raise BadSecretError(f"upstream key {key.name!r} {problem}")
    key.secret = secret
    key.digest = secret_digest(secret)
    key.tail = tail_of(secret, 6)


@transaction.atomic
def save_key(*, key: UpstreamKey, secret: str | None = None) -> UpstreamKey:
    """Save a key. A new secret starts a new epoch: what was learnt about the old one no longer counts."""
    changed = False
    if secret is not None:
        changed = key.pk is not None and key.digest != secret_digest(secret)
        set_secret(key, secret)
        if changed:
            key.epoch = F("epoch") + 1
    # A revive or a probe at the same moment writes columns of its own; they must not be written back.
    kept = {"probe_due"} if changed else {"probe_due", "epoch"}
    names = [column.name for column in key._meta.concrete_fields if not column.primary_key and column.name not in kept]
    key.save(update_fields=None if key._state.adding else names)
    key.refresh_from_db()
    if changed:
        StateInbox.objects.create(command="set_epoch", payload={"key_id": key.pk, "epoch": key.epoch})
    touch_config()
    return key


@transaction.atomic
def revive(*, key: UpstreamKey) -> UpstreamKey:
    """Make a key usable again by hand: a new epoch, so that late reports about the old one change counters only.

    Its account comes back with it: an empty balance shows on the key, and nothing else would end it by hand.
    """
    UpstreamKey.objects.filter(pk=key.pk).update(epoch=F("epoch") + 1)
    key.refresh_from_db()
    StateInbox.objects.create(command="revive", payload={"key_id": key.pk, "epoch": key.epoch})
    if key.account_id is not None:
        StateInbox.objects.create(command="revive_account", payload={"account_id": key.account_id})
    touch_config()
    return key
