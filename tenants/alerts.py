"""Alerts: opened once per state entry, closed once; their deliveries are rows that a task sends."""

from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction

from tenants.models import Alert, AlertDelivery, AlertKind, Tenant


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


def close_alert(*, tenant: Tenant | None, kind: AlertKind, subject: str, now: datetime) -> bool:
    """Close the open alert about this, if there is one, and queue the notice that it is over."""
    with transaction.atomic():
        row = Alert.objects.filter(tenant=tenant, kind=kind, subject=subject, closed=None).first()
        if row is None or not Alert.objects.filter(pk=row.pk, closed=None).update(closed=max(now, row.opened)):
            return False
        _queue(row, AlertDelivery.Occasion.RESOLVED, now)
        return True


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
