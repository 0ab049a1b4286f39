"""Writes on upstreams and their keys."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils.timezone import now

from keys.core.report import key_target
from keys.models import StateInbox, UpstreamKey
from tenants.alerts import close_alert
from tenants.core.credentials import digest_of, malformed, tail_of
from tenants.models import AlertKind
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


_SECRET = frozenset({"secret", "digest", "tail", "old_secret", "old_digest", "old_tail", "old_until"})
_OWN_WRITERS = frozenset({"probe_due", "probed", "epoch"})  # columns that probes and people move beside a form
_NO_OLD: Mapping[str, Any] = {"old_secret": "", "old_digest": "", "old_tail": "", "old_until": None}


@transaction.atomic
def save_key(*, key: UpstreamKey, secret: str | None = None, keep_old_until: datetime | None = None) -> UpstreamKey:
    """Save a key. A new secret starts a new epoch: what was learnt about the old one no longer counts.

    The secret before is kept until `keep_old_until`, so that it can come back; None forgets it. Calls under way finish
    with it. Counters, caps, pins and the account stay with the key. Raises BadSecretError.
    """
    changed = False
    if secret is not None:
        changed = key.pk is not None and key.digest != secret_digest(secret)
        old = (key.secret, key.digest, key.tail) if changed else ("", "", "")
        set_secret(key, secret)
        if changed:
            keep = keep_old_until is not None
            key.old_secret, key.old_digest, key.old_tail = old if keep else ("", "", "")
            key.old_until = keep_old_until
            key.epoch = F("epoch") + 1
    # A rotation, a revive or a probe at the same moment writes columns of its own; they must not be written back.
    kept = _OWN_WRITERS - {"epoch"} if changed else _OWN_WRITERS | _SECRET
    names = [column.name for column in key._meta.concrete_fields if not column.primary_key and column.name not in kept]
    key.save(update_fields=None if key._state.adding else names)
    key.refresh_from_db()
    if changed:
        _start_epoch(key)
        close_alert(tenant=key.upstream.tenant, kind=AlertKind.NEW_SECRET, subject=key_target(key.pk), now=now())
    touch_config()
    return key


@transaction.atomic
def use_old_secret(
    *, key: UpstreamKey, now: datetime, epoch: int | None = None, forget: bool = False
) -> UpstreamKey | None:
    """Put the secret before the last rotation back in its place, in a new epoch.

    The one that goes is kept as long as the other would have been, or forgotten. None when no old secret is kept, or
    when the key has left `epoch`. Raises BadSecretError when another key of the upstream has it by now.
    """
    row = UpstreamKey.objects.select_related("upstream__tenant").get(pk=key.pk)
    if not row.keeps_old(now) or epoch not in {None, row.epoch}:
        return None
    if UpstreamKey.objects.filter(upstream=row.upstream_id, digest=row.old_digest).exclude(pk=row.pk).exists():
        raise BadSecretError(f"another key of this upstream has the secret …{row.old_tail} by now")
    going = {"old_secret": row.secret, "old_digest": row.digest, "old_tail": row.tail, "old_until": row.old_until}
    changed = UpstreamKey.objects.filter(pk=row.pk, epoch=row.epoch, digest=row.digest).update(
        secret=row.old_secret,
        digest=row.old_digest,
        tail=row.old_tail,
        epoch=row.epoch + 1,
        **(_NO_OLD if forget else going),
    )
    if not changed:
        return None
    row.refresh_from_db()
    _start_epoch(row)
    touch_config()
    return row


def forget_old_secret(*, key: UpstreamKey) -> bool:
    """Erase the secret before the last rotation. False when none was kept."""
    return bool(UpstreamKey.objects.filter(pk=key.pk).exclude(old_digest="").update(**_NO_OLD))


def erase_old_secrets(*, now: datetime) -> int:
    """Erase the old secrets whose time is over; return how many."""
    return UpstreamKey.objects.filter(old_until__lte=now).exclude(old_digest="").update(**_NO_OLD)


def _start_epoch(key: UpstreamKey) -> None:
    StateInbox.objects.create(command="set_epoch", payload={"key_id": key.pk, "epoch": key.epoch})


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
