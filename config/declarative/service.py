"""Apply, check and export: the whole way from a document to the database and back."""

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.db import OperationalError, ProgrammingError, transaction
from django.db.models import Q

from billing.models import RequestRecord
from config.declarative.inspection import Inspection
from config.declarative.judging import judge
from config.declarative.kinds import GATEWAY_KEY, TENANT, UPSTREAM_KEY
from config.declarative.planning import Action, Change, Plan, make_plan
from config.declarative.reading import read_document
from config.declarative.resolving import Resolver, judge_hosts, system_lookup
from config.declarative.secrets import sealed
from config.declarative.shapes import Row, Tree
from config.declarative.stored import read_stored
from config.declarative.writing import Writer
from keys.services import UPSTREAM_HASH
from tenants.core.credentials import PREFIX
from tenants.models import ConfigVersion, GatewayKey
from tenants.services import GATEWAY_HASH, installation_secret

KEY_BYTES = 30  # 40 characters


@dataclass(frozen=True, slots=True)
class Applied:
    """What apply did. `issued` holds (line path such as acme/bot/prod, gateway key), known here and never again."""

    changes: tuple[str, ...]
    issued: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    warnings: tuple[str, ...] = ()


def apply_document(
    document: Any,
    *,
    dry_run: bool = False,
    prune: bool = False,
    environ: Mapping[str, str] | None = None,
    inspection: Inspection | None = None,
    resolve: Resolver = system_lookup,
) -> Applied:
    """Make the database equal to a document (plain mappings and lists, as YAML gives them), in one transaction.

    `environ` answers `env:NAME`; None refuses it. `inspection` may carry what was found while the file was read. With
    `dry_run` everything is done and rolled back, and no gateway key is issued. Raises ConfigError, with every problem,
    before anything is touched.
    """
    found = inspection if inspection is not None else Inspection(environ)
    wanted = read_document(document, found)
    judge_hosts(found, resolve)
    with transaction.atomic():
        stored, plan = _planned(wanted, found, prune=prune)
        found.raise_if_refused()
        diff = plan.diff()
        issued = _issue(plan)
        Writer(stored).write(plan)
        if dry_run:
            transaction.set_rollback(True)
    return Applied(diff, () if dry_run else issued, tuple(dict.fromkeys(found.warnings)))


def check_document(document: Any, *, inspection: Inspection, resolve: Resolver = system_lookup) -> None:
    """Put everything that apply_document would refuse or warn of into the inspection. Changes nothing.

    Without a usable database the document is judged by itself.
    """
    wanted = read_document(document, inspection)
    judge_hosts(inspection, resolve)
    try:
        with transaction.atomic():
            _planned(wanted, inspection, prune=False)
            transaction.set_rollback(True)
    except (OperationalError, ProgrammingError):
        inspection.at().warn("the database cannot be read: the file is judged by itself")
        _seal(wanted, lambda _name: secrets.token_bytes())
        _localise(wanted, Tree())
        plan = make_plan(wanted, Tree(), prune=False, inspection=inspection)
        judge(plan.final, {row.name for row in wanted if row.kind is TENANT}, inspection)


def _planned(wanted: list[Row], found: Inspection, *, prune: bool) -> tuple[Tree, Plan]:
    # Two applies at once would both plan against the same rows: the second waits here for the first.
    list(ConfigVersion.objects.select_for_update().filter(pk=1))
    slugs = {row.path[1] for row in wanted if row.kind is TENANT}
    stored = read_stored(slugs, found)
    _seal(wanted)
    _localise(wanted, stored)
    plan = make_plan(wanted, stored, prune=prune, inspection=found)
    judge(plan.final, slugs, found)
    _judge_used_prices(plan)
    _judge_currencies(plan)
    _judge_gateway_keys(plan, stored)
    return stored, plan


def _seal(wanted: Iterable[Row], hash_key: Callable[[str], bytes] = installation_secret) -> None:
    """Put hashes in the place of secrets."""
    hash_keys: dict[str, bytes] = {}
    for row in wanted:
        value = row.get("secret")
        if isinstance(value, str):
            name = UPSTREAM_HASH if row.kind is UPSTREAM_KEY else GATEWAY_HASH
            if name not in hash_keys:
                hash_keys[name] = hash_key(name)
            row.fields["secret"] = sealed(value, hash_keys[name], row.kind.secret_tail)


def _localise(wanted: Iterable[Row], stored: Tree) -> None:
    """Give times without an offset the zone of their tenant."""
    zones: dict[str, str] = {row.name: row.get("timezone") or "UTC" for row in stored.under((), "tenants").values()}
    for row in wanted:
        if row.kind is TENANT and row.get("timezone"):
            zones[row.name] = row.get("timezone")
        expires = row.get("expires")
        if isinstance(expires, datetime) and expires.tzinfo is None:
            zone = ZoneInfo(zones.get(row.path[1], "UTC"))
            row.fields["expires"] = expires.replace(tzinfo=zone).astimezone(UTC)


def _judge_used_prices(plan: Plan) -> None:
    touched: dict[int, Change] = {
        change.row.pk: change
        for change in plan.changes
        if change.row.kind.section == "prices" and change.row.pk is not None
    }
    used = RequestRecord.objects.filter(price_id__in=list(touched)).values_list("price_id", flat=True).distinct()
    for pk in used.order_by("price_id"):
        change = touched[pk or 0]
        if change.action is Action.CHANGE:
            text = "recorded calls were billed by this price: it is never edited; add a row with a later from"
        else:
            text = "recorded calls were billed by this price: it stays; keep it in the file"
        change.row.spot.error(text)


def _judge_currencies(plan: Plan) -> None:
    tenants = [each for each in plan.changes if each.row.kind is TENANT and each.action is Action.CHANGE]
    for change in tenants:
        if "currency" in change.after and RequestRecord.objects.filter(tenant=change.row.pk).exists():
            old = change.before["currency"]
            change.row.spot.key("currency").warn(f"recorded calls keep their amounts in {old}")


def _judge_gateway_keys(plan: Plan, stored: Tree) -> None:
    """Refuse secrets that a key outside this document has, and changes that would bring a revoked key back."""
    changes = [c for c in plan.changes if c.row.kind is GATEWAY_KEY and c.action is not Action.REMOVE]
    secrets_ = {c.after["secret"].digest: c for c in changes if c.after.get("secret") is not None}
    known = [row.pk for row in stored if row.kind is GATEWAY_KEY and row.pk is not None]
    same = Q(digest__in=list(secrets_)) | Q(old_digest__in=list(secrets_))
    for other in GatewayKey.objects.filter(same).exclude(pk__in=known).select_related("line__tenant"):
        for digest in {other.digest, other.old_digest} & set(secrets_):
            spot = secrets_[digest].row.spot.key("secret")
            spot.error(f"is the same secret as that of {other.line}/{other.name}")
    pks: dict[int, Change] = {change.row.pk: change for change in changes if change.row.pk is not None}
    for rotated in GatewayKey.objects.filter(pk__in=list(pks), old_digest__in=list(secrets_)):
        change = secrets_[rotated.old_digest]
        if change.row.pk == rotated.pk:
            text = f"is the secret before the last rotation: it comes back, and …{rotated.last4} ends at once"
            change.row.spot.key("secret").warn(text)
    for revoked in GatewayKey.objects.filter(pk__in=list(pks), revoked__isnull=False):
        change = pks[revoked.pk]
        if change.after.get("enabled") or "secret" in change.after:
            change.row.spot.error("was revoked for good; issue a key under another name")


def _issue(plan: Plan) -> tuple[tuple[str, str], ...]:
    """Make the secrets of new gateway keys that have none."""
    issued = []
    for change in plan.changes:
        row = change.row
        if row.kind is GATEWAY_KEY and change.action is Action.ADD and change.after.get("secret") is None:
            value = PREFIX + secrets.token_urlsafe(KEY_BYTES)
            change.after["secret"] = sealed(value, installation_secret(GATEWAY_HASH), row.kind.secret_tail)
            issued.append(("/".join(row.path[1::2]), value))
    return tuple(issued)
