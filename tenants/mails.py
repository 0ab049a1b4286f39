"""The words of alert mails: templates/mail/alert.LANGUAGE.txt, the first line of which is the subject.

The language is the installation's (POINTSMAN_LANGUAGE); times are shown in the tenant's zone.
"""

import socket
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.template.loader import render_to_string
from django.utils import timezone, translation
from django.utils.dateparse import parse_datetime

from tenants.models import Alert, AlertDelivery

_LANGUAGES = frozenset({"en", "zh-hans"})


def compose(row: AlertDelivery) -> tuple[str, str]:
    """Return subject and body."""
    alert, tenant = row.alert, row.alert.tenant
    language = settings.LANGUAGE_CODE if settings.LANGUAGE_CODE in _LANGUAGES else "en"
    zone = ZoneInfo(tenant.timezone if tenant is not None else "UTC")
    context = {
        "alert": alert,
        "tenant": tenant,
        "resolved": row.occasion == AlertDelivery.Occasion.RESOLVED,
        "details": _readable(alert.details),
        "zone": zone.key,
        "link": link_of(alert),
    }
    with translation.override(language), timezone.override(zone):
        text = render_to_string(f"mail/alert.{language}.txt", context).strip()
    subject, _, body = text.partition("\n")
    return " ".join(subject.split()), body.strip() + "\n"


def link_of(alert: Alert) -> str:
    """Return where in the admin this is looked at: the page that the alert names, else its own."""
    page = alert.details.get("page") or f"/admin/tenants/alert/{alert.pk}/change/"
    host = settings.POINTSMAN_HOST
    here = socket.gethostname() if host in {"0.0.0.0", "::", ""} else f"[{host}]" if ":" in host else host  # noqa: S104  # compared, not bound
    return f"{settings.POINTSMAN_PUBLIC_URL or f'http://{here}:{settings.POINTSMAN_PORT}'}{page}"


def _readable(value: Any) -> Any:
    """Times travel as text in the alert's details; the template wants them as times."""
    if isinstance(value, dict):
        return {name: _readable(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_readable(one) for one in value]
    moment: datetime | None = None
    if isinstance(value, str) and "T" in value:
        try:
            moment = parse_datetime(value)
        except ValueError:
            moment = None
    return value if moment is None else moment
