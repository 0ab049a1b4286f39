"""Alerts: opened once per state entry, closed once; their deliveries are rows that a task sends.

A state that is read off figures now and then is watched: it must have been so for `HOLD` at every look before it is
told, and have been over as long before that is told.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction

from tenants.models import Alert, AlertDelivery, AlertKind, AlertWatch, Tenant

HOLD = timedelta(minutes=2)
BLIND = timedelta(minutes=5)  # nobody looked for so long: what was seen before counts no more


@dataclass(frozen=True, slots=True)
class Words:
    """What an alert says."""

    text: str
    details: dict[str, Any] = field(default_factory=dict)


def open_alert(
    *, tenant: Tenant | None, kind: AlertKind, subject: str, text: str, now: datetime, **details: Any
) -> Alert | None:
    """Open an alert unless one about the same is open already (then None). Deliveries are queued with it."""
    try:
        with transaction.atomic():
            alert = Alert.objects.create(
                tenant=tenant, kind=kind, subject=subject, text=text, details=details, opened=now
            )
            _queue(alert, AlertDelivery.Occasion.OPENED, now)
            return alert
    except IntegrityError:
        return None


def close_alert(*, tenant: Tenant | None, kind: AlertKind, subject: str, now: datetime, **details: Any) -> bool:
    """Close the open alert about this, if there is one, and queue the notice that it is over.

    `details` are added to the alert's own, for the words of the notice.
    """
    with transaction.atomic():
        row = Alert.objects.filter(tenant=tenant, kind=kind, subject=subject, closed=None).first()
        if row is None:
            return False
        change = {"closed": max(now, row.opened), "details": {**row.details, **details}}
        if not Alert.objects.filter(pk=row.pk, closed=None).update(**change):
            return False
        _queue(row, AlertDelivery.Occasion.RESOLVED, now)
        return True


@transaction.atomic
def watch_alert(
    *,
    tenant: Tenant,
    kind: AlertKind,
    subject: str,
    wrong: bool | None,
    now: datetime,
    words: Callable[[datetime], Words],
) -> None:
    """Take in one look at a state; open or close its alert once it has held. None = it is as it was before.

    `words` is called with the moment since when it has been so. Safe to run twice, late and in parallel.
    """
    row = _watched(tenant, kind, subject, wrong=wrong, now=now)
    if row is None:
        return
    now_wrong = row.wrong if wrong is None else wrong
    if now_wrong is not row.wrong or now - row.seen > BLIND:
        row.wrong, row.since = now_wrong, now
    row.seen = now
    row.save(update_fields=["wrong", "since", "seen"])
    if now - row.since < HOLD:
        return
    if row.wrong:
        said = words(row.since)
        open_alert(tenant=tenant, kind=kind, subject=subject, text=said.text, now=now, **said.details)
    else:
        close_alert(tenant=tenant, kind=kind, subject=subject, now=now)
        row.delete()


def forget_others(
    *, tenant: Tenant, kind: AlertKind, subjects: Collection[str], now: datetime, within: str = ""
) -> None:
    """Close the watched alerts about what is not there any more; `subjects` are those that still are.

    `within`: only subjects that begin so.
    """
    AlertWatch.objects.filter(tenant=tenant, kind=kind, subject__startswith=within).exclude(
        subject__in=subjects
    ).delete()
    still_open = Alert.objects.filter(tenant=tenant, kind=kind, subject__startswith=within, closed=None)
    for subject in still_open.values_list("subject", flat=True):
        if subject not in subjects:
            close_alert(tenant=tenant, kind=kind, subject=subject, now=now)


def _watched(tenant: Tenant, kind: AlertKind, subject: str, *, wrong: bool | None, now: datetime) -> AlertWatch | None:
    """Return the watch, locked; a new one where something is wrong or an alert waits for its end; else None."""
    watches = AlertWatch.objects.select_for_update().filter(tenant=tenant, kind=kind, subject=subject)
    row = watches.first()
    is_open = Alert.objects.filter(tenant=tenant, kind=kind, subject=subject, closed=None).exists()
    if row is not None and row.seen > now:
        return None  # a late look
    if row is not None and row.wrong and wrong is False and not is_open:
        row.delete()  # it went by before it was told
        return None
    if row is None and (wrong or (is_open and wrong is False)):
        fresh = AlertWatch(tenant=tenant, kind=kind, subject=subject, wrong=bool(wrong), since=now, seen=now)
        AlertWatch.objects.bulk_create([fresh], ignore_conflicts=True)
        row = watches.first()
    return row


def _queue(alert: Alert, occasion: AlertDelivery.Occasion, now: datetime) -> None:
    tenant = alert.tenant
    mails = dict.fromkeys([*(tenant.alert_emails if tenant is not None else []), *settings.OPS_EMAILS])
    rows = [
        AlertDelivery(
            alert=alert, channel=AlertDelivery.Channel.MAIL, occasion=occasion, target=mail, created=now, due=now
        )
        for mail in mails
    ]
    if tenant is not None and tenant.alert_webhook:
        rows.append(
            AlertDelivery(
                alert=alert,
                channel=AlertDelivery.Channel.WEBHOOK,
                occasion=occasion,
                target=tenant.alert_webhook,
                created=now,
                due=now,
            )
        )
    AlertDelivery.objects.bulk_create(rows)
