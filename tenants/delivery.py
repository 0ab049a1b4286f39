"""Sending alerts: the row is the queue, claimed by compare-and-set before anything leaves.

Sent again only after a definite refusal, with growing pauses. Where it is not known whether a message arrived (the
line broke in the middle, the sender was killed) it is not sent twice: the row says so and is done.
"""

import hashlib
import hmac
import json
import logging
import secrets
import smtplib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.db import transaction
from django.db.models import F

from tenants.alerts import close_alert, open_alert
from tenants.mails import compose, link_of
from tenants.models import AlertDelivery, AlertKind, Tenant

logger = logging.getLogger(__name__)

MAX_TRIES = 8
FIRST_PAUSE, LONGEST_PAUSE = timedelta(minutes=1), timedelta(hours=1)
LOST_AFTER = timedelta(minutes=10)
NOT_SET_UP = "EMAIL_URL is not set: written to the log only"
MAIL_SUBJECT = "mail"
_ERROR_MAX = 500


@dataclass(frozen=True, slots=True)
class Sent:
    """`refused`: it certainly did not arrive. With neither flag nobody knows."""

    ok: bool = False
    refused: bool = False
    error: str = ""
    hopeless: bool = False  # no use in trying again


Post = Callable[[str, Mapping[str, str], bytes], Sent]  # address, headers, body


def due_deliveries(*, now: datetime, limit: int = 200) -> list[int]:
    """Return the ids of what is due, oldest first; end the rows whose sender vanished."""
    lost = AlertDelivery.objects.filter(status=AlertDelivery.Status.CLAIMED, due__lte=now - LOST_AFTER)
    lost.update(status=AlertDelivery.Status.FAILED, error="the sender ended before it knew whether this arrived")
    due = AlertDelivery.objects.filter(status=AlertDelivery.Status.PENDING, due__lte=now)
    return list(due.order_by("due", "pk").values_list("pk", flat=True)[:limit])


def send_delivery(*, delivery_id: int, now: datetime, post: Post) -> bool:
    """Claim and send one; False when somebody else has it or it is done. `post` calls webhooks, guarded."""
    claim = AlertDelivery.objects.filter(pk=delivery_id, status=AlertDelivery.Status.PENDING, due__lte=now)
    if not claim.update(status=AlertDelivery.Status.CLAIMED, tries=F("tries") + 1, due=now):
        return False
    row = AlertDelivery.objects.select_related("alert__tenant").get(pk=delivery_id)
    if row.channel == AlertDelivery.Channel.MAIL:
        result = _mail(row, now)
        if row.alert.kind != AlertKind.MAIL:
            _note_mail(result, now)
    else:
        result = _call(row, now, post)
    _settle(row, result, now)
    return True


def watch_mail(*, now: datetime) -> None:
    """Open an alert for each tenant that expects mails while none can be sent; close it once they can.

    The webhook still tells, and the admin shows it.
    """
    configured = bool(settings.POINTSMAN_MAIL_CONFIGURED)
    text = "EMAIL_URL is not set: alerts to mail addresses are written to the log only."
    owners: list[tuple[Tenant | None, bool]] = [(row, bool(row.alert_emails)) for row in Tenant.objects.all()]
    owners.append((None, bool(settings.OPS_EMAILS)))
    for tenant, expects in owners:
        if expects and not configured:
            open_alert(tenant=tenant, kind=AlertKind.MAIL, subject="EMAIL_URL", text=text, now=now)
        else:
            close_alert(tenant=tenant, kind=AlertKind.MAIL, subject="EMAIL_URL", now=now)


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Return what `x-pointsman-signature` carries: HMAC-SHA256 over `timestamp.body`, in hex."""
    return "sha256=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


@transaction.atomic
def webhook_secret(tenant_id: int) -> str:
    """Return a tenant's signing secret, made at first use. Safe when two senders ask at once."""
    row = Tenant.objects.select_for_update().get(pk=tenant_id)
    if not row.webhook_secret:
        row.webhook_secret = "whsec_" + secrets.token_urlsafe(32)
        row.save(update_fields=["webhook_secret"])
    return str(row.webhook_secret)


def payload_of(row: AlertDelivery) -> dict[str, Any]:
    """Return what a webhook is told. Times are ISO 8601 in UTC; amounts are decimal text.

    `text` is for people; one of what is over begins with "Over: ".
    """
    alert = row.alert
    over = "Over: " if row.occasion == AlertDelivery.Occasion.RESOLVED else ""
    return {
        "delivery": row.pk,
        "alert": alert.pk,
        "occasion": row.occasion,
        "kind": alert.kind,
        "subject": alert.subject,
        "text": over + alert.text,
        "details": alert.details,
        "tenant": alert.tenant.slug if alert.tenant is not None else None,
        "opened": alert.opened.isoformat(),
        "closed": alert.closed.isoformat() if alert.closed is not None else None,
        "link": link_of(alert),
    }


def _mail(row: AlertDelivery, now: datetime) -> Sent:
    subject, body = compose(row)
    if not settings.POINTSMAN_MAIL_CONFIGURED:
        logger.warning("%s\n%s", subject, body)
        return Sent(refused=True, error=NOT_SET_UP, hopeless=True)
    message = EmailMessage(subject, body, to=[row.target], headers={"Message-ID": f"<alert-{row.pk}@pointsman>"})
    connection = get_connection()
    try:
        connection.open()
    except (smtplib.SMTPException, OSError) as problem:
        return Sent(refused=True, error=_said(problem))
    try:
        connection.send_messages([message])
    except (smtplib.SMTPResponseException, smtplib.SMTPRecipientsRefused) as problem:
        return Sent(refused=True, error=_said(problem))
    except (smtplib.SMTPException, OSError) as problem:
        return Sent(error=f"not known whether it arrived: {_said(problem)}")
    finally:
        with suppress(smtplib.SMTPException, OSError):
            connection.close()
    return Sent(ok=True)


def _call(row: AlertDelivery, now: datetime, post: Post) -> Sent:
    tenant = row.alert.tenant
    if tenant is None or tenant.alert_webhook != row.target:
        return Sent(refused=True, error="the tenant's webhook is another one now", hopeless=True)
    body = json.dumps(payload_of(row), ensure_ascii=False, default=str).encode()
    timestamp = str(int(now.timestamp()))
    headers = {
        "content-type": "application/json",
        "user-agent": "Pointsman",
        "x-pointsman-delivery": str(row.pk),
        "x-pointsman-timestamp": timestamp,
        "x-pointsman-signature": signature(webhook_secret(tenant.pk), timestamp, body),
    }
    return post(row.target, headers, body)


def _settle(row: AlertDelivery, result: Sent, now: datetime) -> None:
    status, due = AlertDelivery.Status.FAILED, now
    if result.ok:
        status = AlertDelivery.Status.SENT
    elif result.refused and not result.hopeless and row.tries < MAX_TRIES:
        status, due = AlertDelivery.Status.PENDING, now + min(FIRST_PAUSE * 2 ** (row.tries - 1), LONGEST_PAUSE)
    AlertDelivery.objects.filter(pk=row.pk, status=AlertDelivery.Status.CLAIMED).update(
        status=status, due=due, error=result.error[:_ERROR_MAX], sent=now if result.ok else None
    )
    if not result.ok:
        logger.warning("alert delivery %s (%s) failed: %s", row.pk, row.channel, result.error)


def _note_mail(result: Sent, now: datetime) -> None:
    """A mail server that takes nothing is an alert of the platform, shown in the admin."""
    if result.ok:
        close_alert(tenant=None, kind=AlertKind.MAIL, subject=MAIL_SUBJECT, now=now)
    elif result.error != NOT_SET_UP:
        text = f"Mail could not be sent: {result.error}"
        open_alert(tenant=None, kind=AlertKind.MAIL, subject=MAIL_SUBJECT, text=text, now=now, error=result.error)


def _said(problem: Exception) -> str:
    if isinstance(problem, smtplib.SMTPResponseException):
        reply = problem.smtp_error
        return f"{problem.smtp_code} {reply.decode('utf-8', 'replace') if isinstance(reply, bytes) else reply}"
    if isinstance(problem, smtplib.SMTPRecipientsRefused):
        code, reply = next(iter(problem.recipients.values()))
        return f"{code} {reply.decode('utf-8', 'replace') if isinstance(reply, bytes) else reply}"
    return f"{type(problem).__name__}: {problem}"
