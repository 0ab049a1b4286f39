"""Writes on tenants, lines and gateway keys."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import models, transaction
from django.db.models import F, Q

from tenants.core.credentials import PREFIX, digest_of, malformed, tail_of
from tenants.models import AuditEntry, BusinessLine, ConfigVersion, GatewayKey, InstallationSecret, Tenant

GATEWAY_HASH = "gateway-key-hash"


class BadSecretError(ValueError):
    """A credential that cannot be used; the text says why and never shows it."""


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new gateway key. `secret` is known here and never again."""

    row: GatewayKey
    secret: str = field(repr=False)


def touch_config() -> None:
    """Tell every gateway process to read the configuration again; call it in the transaction of the change."""
    if not ConfigVersion.objects.filter(pk=1).update(version=F("version") + 1):
        ConfigVersion.objects.get_or_create(pk=1)


def installation_secret(name: str) -> bytes:
    """Return a random key of this installation, made at first use. Safe when two processes ask at once."""
    row, _created = InstallationSecret.objects.get_or_create(name=name, defaults={"value": secrets.token_hex(32)})
    return bytes.fromhex(row.value)


def gateway_digest(secret: str) -> str:
    """Return the hash under which a gateway key is stored."""
    return digest_of(secret, installation_secret(GATEWAY_HASH))


@transaction.atomic
def issue_gateway_key(
    *, line: BusinessLine, name: str, secret: str | None = None, expires: datetime | None = None
) -> IssuedKey:
    """Create a gateway key; a secret is made when none is given. Raises BadSecretError."""
    value = secret if secret is not None else _new_secret()
    if problem := malformed(value):
        raise BadSecretError(f"gateway key {name!r} {problem}")
    digest = gateway_digest(value)
    if GatewayKey.objects.filter(Q(digest=digest) | Q(old_digest=digest)).exists():
        raise BadSecretError(f"gateway key {name!r} has a secret that another gateway key uses already")
    row = GatewayKey.objects.create(line=line, name=name, digest=digest, last4=tail_of(value, 4), expires=expires)
    touch_config()
    return IssuedKey(row=row, secret=value)


def _new_secret() -> str:
    return PREFIX + secrets.token_urlsafe(30)


@transaction.atomic
def rotate_gateway_key(*, key: GatewayKey, keep_until: datetime, now: datetime) -> IssuedKey | None:
    """Give a gateway key a new secret; the one before works until `keep_until` (now = no longer).

    A secret that was already on its way out ends at once: at most two work. None when the key was rotated or revoked
    since the row was read, so that a form sent twice does not put an unused secret in the place of a used one.
    """
    value = _new_secret()
    changed = GatewayKey.objects.filter(pk=key.pk, digest=key.digest, revoked=None).update(
        digest=gateway_digest(value),
        last4=tail_of(value, 4),
        old_digest=key.digest,
        old_last4=key.last4,
        old_until=max(keep_until, now),
    )
    if not changed:
        return None
    touch_config()
    return IssuedKey(row=GatewayKey.objects.get(pk=key.pk), secret=value)


@transaction.atomic
def end_old_secret(*, key: GatewayKey, now: datetime) -> bool:
    """End the secret before the last rotation at once. False when it had ended, or the key was rotated meanwhile."""
    working = GatewayKey.objects.filter(pk=key.pk, old_digest=key.old_digest, old_until__gt=now)
    changed = working.exclude(old_digest="").update(old_until=now)
    if changed:
        touch_config()
    return bool(changed)


@transaction.atomic
def revoke_gateway_key(*, key: GatewayKey, now: datetime) -> bool:
    """Switch a gateway key off for good, its old secret included. False when it was off already."""
    changed = GatewayKey.objects.filter(pk=key.pk, revoked=None).update(enabled=False, revoked=now)
    touch_config()
    return bool(changed)


def audit(
    *,
    user: AbstractBaseUser | None,
    action: str,
    target: models.Model,
    tenant: Tenant | None,
    fields: Mapping[str, Any] | None = None,
    by: str = "",
) -> AuditEntry:
    """Note a write. The caller passes field names and harmless values only. `by`: the command, where no user acts."""
    return AuditEntry.objects.create(
        tenant=tenant,
        user_id=user.pk if user is not None else None,
        username=user.get_username()[:150] if user is not None else by,
        action=action,
        model=target._meta.label,
        object_id=str(target.pk),
        object_name=str(target)[:200],
        fields=dict(fields or {}),
    )
