"""What state changes leave in the database: events for the history, alerts for people."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import DatabaseError, InterfaceError, close_old_connections, connection, transaction
from django.urls import reverse
from django.utils.dateparse import parse_datetime
from django.utils.timezone import now

from keys.core.outcome import Cause, Outcome, Scope, Verdict
from keys.core.policy import Policy, overridden
from keys.core.report import Change, Report
from keys.core.state import Status
from keys.models import Account, KeyEvent, UpstreamKey
from keys.services import use_old_secret
from tenants.alerts import close_alert, open_alert
from tenants.models import AlertKind, Tenant
from tenants.services import BadSecretError, audit

logger = logging.getLogger(__name__)

_SAID_MAX = 300


def note_changes(changes: Sequence[Change], request_id: str = "") -> None:
    """Write an event per change, and open or close the alert of the state. Runs in a thread; never raises."""
    try:
        with transaction.atomic():
            for change in changes:
                _note(change, request_id)
    except (DatabaseError, InterfaceError) as problem:
        logger.error("a key event could not be written: %s", type(problem).__name__)
        connection.close()
    finally:
        close_old_connections()


def probe_soon(key_ids: Sequence[int]) -> None:
    """Have the next sweep probe these keys. Runs in a thread; never raises."""
    try:
        UpstreamKey.objects.filter(pk__in=key_ids).update(probe_due=now())
    except (DatabaseError, InterfaceError) as problem:
        logger.error("keys could not be marked for a probe: %s", type(problem).__name__)
        connection.close()
    finally:
        close_old_connections()


def _note(change: Change, request_id: str) -> None:
    kind, _, number = change.target.partition(":")
    if kind == "key":
        key = UpstreamKey.objects.select_related("upstream__tenant").filter(pk=int(number)).first()
        if key is None:
            return
        tenant, name = key.upstream.tenant, f"{key.upstream.name} · …{key.tail}"
        owner: dict[str, Any] = {"upstream_key": key}
    else:
        account = Account.objects.select_related("tenant").filter(pk=int(number)).first()
        if account is None:
            return
        tenant, name = account.tenant, account.name
        owner = {"account": account}
    if change.old.status is not change.new.status or change.entered:
        KeyEvent.objects.create(
            tenant=tenant,
            at=change.now,
            before=change.old.status.value,
            after=change.new.status.value,
            reason=(change.new.cause.value if change.new.cause is not None else "")[:40],
            message=change.new.message[:500],
            until=change.new.until,
            request_id=request_id,
            **owner,
        )
    if kind == "key" and _fell_back(change, owner["upstream_key"]):
        return
    _alert(change, tenant, name)


def _fell_back(change: Change, key: UpstreamKey) -> bool:
    """Where a new secret is refused while the one before is kept: put that one back, tell people, forget the new one.

    Tried once: the refused secret is gone, so an old one that is refused too leaves the key dead.
    """
    refused = change.entered and change.new.status is Status.DEAD and change.new.cause is Cause.AUTH_INVALID
    if not refused or not key.keeps_old(change.now):
        return False
    try:
        back = use_old_secret(key=key, now=change.now, epoch=change.new.epoch, forget=True)
    except BadSecretError:
        return False
    if back is None:
        return False
    tenant = key.upstream.tenant
    said = (change.new.message or str(change.new.cause))[:_SAID_MAX]
    name, page = f"{key.upstream.name} · {key.name}", reverse("admin:keys_upstreamkey_change", args=[key.pk])
    text = f"{name}: the new secret …{key.tail} was refused, so the old one …{back.tail} is used again ({said})"
    open_alert(tenant=tenant, kind=AlertKind.NEW_SECRET, subject=change.target, text=text, now=change.now, page=page)
    audit(user=None, action="rotated back", target=back, tenant=tenant, fields={"refused": f"…{key.tail}"})
    return True


_ALERTS: Mapping[Cause, AlertKind] = {
    Cause.INSUFFICIENT_BALANCE: AlertKind.NO_BALANCE,
    Cause.QUOTA_EXHAUSTED: AlertKind.QUOTA,
}


def _alert(change: Change, tenant: Tenant, name: str) -> None:
    if change.ended:
        for kind in (AlertKind.KEY_DEAD, *_ALERTS.values()):
            close_alert(tenant=tenant, kind=kind, subject=change.target, now=change.now)
        return
    if not change.entered:
        return
    dead = change.new.status is Status.DEAD
    found = AlertKind.KEY_DEAD if dead else _ALERTS.get(change.new.cause or Cause.SERVED)
    if found is not None:
        until = f" until {change.new.until:%Y-%m-%d %H:%M} UTC" if change.new.until is not None and not dead else ""
        text = f"{name} is {change.new.status}{until}: {change.new.message or change.new.cause}"
        details = {"name": name, "until": change.new.until.isoformat() if until and change.new.until else None}
        open_alert(tenant=tenant, kind=found, subject=change.target, text=text, now=change.now, **details)


def payload_of(report: Report, policy: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report as JSON, for the inbox of an embedded store. `policy` are the overrides."""
    outcome = report.outcome
    return {
        "key_id": report.key_id,
        "account_id": report.account_id,
        "model": report.model,
        "cause": outcome.cause.value,
        "verdict": outcome.verdict.value,
        "scope": outcome.scope.value,
        "wait_s": outcome.wait_s,
        "reason": outcome.reason,
        "message": outcome.message,
        "status": outcome.status,
        "began": report.began.isoformat(),
        "epoch": report.epoch,
        "probe": report.probe,
        "policy": dict(policy),
    }


def report_of(payload: Mapping[str, Any]) -> tuple[Report, Policy]:
    """Read a report back."""
    began = parse_datetime(str(payload["began"]))
    if began is None:
        raise ValueError("a report without a time")
    outcome = Outcome(
        cause=Cause(payload["cause"]),
        verdict=Verdict(payload["verdict"]),
        scope=Scope(payload["scope"]),
        wait_s=payload["wait_s"],
        reason=payload["reason"],
        message=payload["message"],
        status=payload["status"],
    )
    report = Report(
        key_id=payload["key_id"],
        account_id=payload["account_id"],
        model=payload["model"],
        outcome=outcome,
        began=began,
        epoch=payload["epoch"],
        probe=payload["probe"],
    )
    return report, overridden(Policy(), payload["policy"])
