"""Writes on tenants, lines and gateway keys."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import models, transaction
from django.db.models import F

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
    value = secret if secret is not None else PREFIX + secrets.token_urlsafe(30)
    if problem := malformed(value):
        raise BadSecretError(f"gateway key {name!r} {problem}")
    digest = gateway_digest(value)
    if GatewayKey.objects.filter(digest=digest).exists():
        raise BadSecretError(f"gateway key {name!r} has a secret that another gateway key uses already")
    row = GatewayKey.objects.create(line=line, name=name, digest=digest, last4=tail_of(value, 4), expires=expires)
    touch_config()
    return IssuedKey(row=row, secret=value)


@transaction.atomic
def revoke_gateway_key(*, key: GatewayKey, now: datetime) -> bool:
    """Switch a gateway key off for good. False when it was off already."""
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
) -> AuditEntry:
    """Note a write. The caller passes field names and harmless values only."""
    return AuditEntry.objects.create(
        tenant=tenant,
        user_id=user.pk if user is not None else None,
        username=user.get_username()[:150] if user is not None else "",
        action=action,
        model=target._meta.label,
        object_id=str(target.pk),
        object_name=str(target)[:200],
        fields=dict(fields or {}),
    )
