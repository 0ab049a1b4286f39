"""The words of alert mails: templates/mail/alert.LANGUAGE.txt, the first line of which is the subject.

The language is the installation's (POINTSMAN_LANGUAGE); times are shown in the tenant's zone.
"""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.template.loader import render_to_string
from django.utils import timezone, translation
from django.utils.dateparse import parse_datetime

from tenants.models import AlertDelivery

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
        "details": {name: _readable(value) for name, value in alert.details.items()},
        "zone": zone.key,
    }
    with translation.override(language), timezone.override(zone):
        text = render_to_string(f"mail/alert.{language}.txt", context).strip()
    subject, _, body = text.partition("\n")
    return " ".join(subject.split()), body.strip() + "\n"


def _readable(value: Any) -> Any:
    """Times travel as text in the alert's details; the template wants them as times."""
    moment: datetime | None = None
    if isinstance(value, str) and "T" in value:
        try:
            moment = parse_datetime(value)
        except ValueError:
            moment = None
    return value if moment is None else moment
