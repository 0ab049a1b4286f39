"""What records tell of: calls without a price, calls that were not served, requests that the database did not take."""

import time
from datetime import date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db.models import Count, Min, Q, Sum

from billing.kinds import ADMITTED
from billing.models import LineHour, RequestRecord, Statement
from billing.spool import REFUSED, SUFFIX
from keys.watching import Named, Rate, watch_rate
from tenants.alerts import close_alert, forget_others, open_alert
from tenants.models import Alert, AlertKind, Tenant

SPOOLED_FOR_S = 60.0  # a file that is replayed at once is no news
FAILURES_OF = timedelta(minutes=10)
_CALLS = "calls"  # subject of the alert about a team's calls
# Not served, and not for what the client sent or a person's order.
_UNSERVED = Q(status=RequestRecord.Status.FAILED) & ~Q(error_code="aborted")
_CLIENTS_FAULT = Q(status=RequestRecord.Status.FAILED, http_status__gte=400, http_status__lt=500) & ~Q(http_status=429)


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


def watch_failures(*, now: datetime) -> None:
    """Take in one look at how many calls of each team were not served in the last ten minutes.

    Calls that the client got wrong, that a limit refused or that a person aborted say nothing and are left out.
    """
    rows = RequestRecord.objects.filter(ADMITTED, created__gt=now - FAILURES_OF, created__lte=now)
    counted = (
        rows.exclude(_CLIENTS_FAULT)
        .order_by()
        .values_list("tenant_id")
        .annotate(calls=Count("pk"), failed=Count("pk", filter=_UNSERVED))
    )
    found = {tenant_id: (calls, failed) for tenant_id, calls, failed in counted}
    for tenant in Tenant.objects.order_by("pk"):
        if tenant.enabled:
            _watch_calls(tenant, *found.get(tenant.pk, (0, 0)), now)
        else:
            forget_others(tenant=tenant, kind=AlertKind.ERROR_RATE, subjects=(), now=now, within=_CALLS)


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


def watch_refused(*, now: datetime, machine: str) -> None:
    """Open a platform alert while records that the database refused for good lie on this machine."""
    path = Path(settings.POINTSMAN_DATA) / "spool" / REFUSED
    subject = f"refused:{machine}"
    count = _lines(path)
    if not count:
        close_alert(tenant=None, kind=AlertKind.RECORDING, subject=subject, now=now)
        return
    what = "1 finished request was" if count == 1 else f"{count} finished requests were"
    text = f"{what} refused by the database for good; on no bill until written: {path} on {machine}."
    open_alert(
        tenant=None, kind=AlertKind.RECORDING, subject=subject, text=text, now=now, machine=machine, refused=count,
        file=str(path), again=str(path.with_name(f"again{SUFFIX}")),
    )  # fmt: skip


def _watch_calls(tenant: Tenant, calls: int, failed: int, now: datetime) -> None:
    minutes = FAILURES_OF // timedelta(minutes=1)
    said = f"{failed} of {calls} calls of the last {minutes} minutes were not served"
    names = Named(_CALLS, f"team {tenant.name}", f"团队 {tenant.name}", "calls")
    page = f"/admin/billing/requestrecord/?tenant__id__exact={tenant.pk}&status__exact=failed"
    watch_rate(tenant, Rate(names, calls, failed, minutes, said, page), now=now)


def _lines(path: Path) -> int:
    try:
        with path.open("rb") as file:
            return sum(1 for line in file if line.strip())
    except FileNotFoundError:
        return 0


def _unpriced(tenant: Tenant, now: datetime) -> dict[str, tuple[int, date]]:
    this = now.astimezone(ZoneInfo(tenant.timezone)).date().replace(day=1)
    last = (this - timedelta(days=1)).replace(day=1)
    first = this if Statement.objects.filter(tenant=tenant, month=last).exists() else last
    rows = RequestRecord.objects.filter(
        tenant=tenant, day__gte=first, priced=False, status=RequestRecord.Status.FINISHED, replay_of=""
    )
    counted = rows.values_list("model_served").annotate(calls=Count("pk"), since=Min("day")).order_by("model_served")
    found = {model: (calls, since) for model, calls, since in counted}
    # Calls whose client left are billed as well; they have no index of their own, the hours know them.
    hours = LineHour.objects.filter(tenant=tenant, day__gte=first, unpriced__gt=0).order_by("model")
    for model, calls, since in hours.values_list("model").annotate(calls=Sum("unpriced"), since=Min("day")):
        found.setdefault(model, (calls, since))
    return found


def _subject(model: str) -> str:
    return f"model:{model}"[:200]


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:  # replayed in the meantime
        return 0.0
