"""What about money must be told: calls without a price, requests that the database did not take."""

import time
from datetime import date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db.models import Count, Min

from billing.models import RequestRecord, Statement
from billing.spool import SUFFIX
from tenants.alerts import close_alert, open_alert
from tenants.models import Alert, AlertKind, Tenant

SPOOLED_FOR_S = 60.0  # a file that is replayed at once is no news


def watch_unpriced(*, now: datetime) -> None:
    """Open an alert per tenant and model with unpriced calls in an open month; close it when they are billed."""
    for tenant in Tenant.objects.all():
        found = _unpriced(tenant, now)
        for model, (calls, day) in found.items():
            text = f"The model {model} has no price: {calls} calls since {day} are in no amount."
            open_alert(
                tenant=tenant, kind=AlertKind.UNPRICED, subject=_subject(model), text=text, now=now,
                model=model, calls=calls, month=f"{day:%Y-%m}",
            )  # fmt: skip
        subjects = {_subject(model) for model in found}
        for alert in Alert.objects.filter(tenant=tenant, kind=AlertKind.UNPRICED, closed=None):
            if alert.subject not in subjects:
                close_alert(tenant=tenant, kind=AlertKind.UNPRICED, subject=alert.subject, now=now)


def watch_spool(*, now: datetime, machine: str) -> None:
    """Open a platform alert while finished requests wait in this machine's spool; close it once they are written."""
    folder = Path(settings.POINTSMAN_DATA) / "spool"
    waiting = [path for path in folder.glob(f"*{SUFFIX}") if _age_s(path) > SPOOLED_FOR_S] if folder.is_dir() else []
    subject = f"spool:{machine}"
    if waiting:
        text = f"{len(waiting)} spool files on {machine} hold requests that the database did not take."
        open_alert(tenant=None, kind=AlertKind.RECORDING, subject=subject, text=text, now=now, machine=machine)
    else:
        close_alert(tenant=None, kind=AlertKind.RECORDING, subject=subject, now=now)


def _unpriced(tenant: Tenant, now: datetime) -> dict[str, tuple[int, date]]:
    this = now.astimezone(ZoneInfo(tenant.timezone)).date().replace(day=1)
    last = (this - timedelta(days=1)).replace(day=1)
    first = this if Statement.objects.filter(tenant=tenant, month=last).exists() else last
    rows = RequestRecord.objects.filter(
        tenant=tenant, day__gte=first, priced=False, status=RequestRecord.Status.FINISHED, replay_of=""
    )
    counted = rows.values_list("model_served").annotate(calls=Count("pk"), since=Min("day")).order_by("model_served")
    return {model: (calls, since) for model, calls, since in counted}


def _subject(model: str) -> str:
    return f"model:{model}"[:200]


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:  # replayed in the meantime
        return 0.0
