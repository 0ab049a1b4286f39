"""Live traffic: one line per request in flight, oldest first, and the order to abort one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.timezone import localtime, now
from django.utils.translation import gettext as _

from proxy import live
from proxy.live import Glance
from tenants.adminchips import chip, duration
from tenants.models import BusinessLine, Tenant
from tenants.scoping import ADMINS, OPERATIONS, Reach, reach_of, scoped
from tenants.services import audit

SHOWN_MAX = 200
FRAGMENT = "admin/live_calls.html"
_FULL = Decimal(100)
_NEAR = Decimal(50)


@dataclass(frozen=True, slots=True)
class Row:
    """A request as the page shows it. `bar` is its wait's share of the silence limit, in per cent; `tone` its colour.

    While content flows there is no silence, so the bar is empty.
    """

    glance: Glance
    team: str
    phase: SafeString
    age: str
    came: str
    bar: Decimal
    tone: str
    silence: str
    may_abort: bool


@dataclass(frozen=True, slots=True)
class Traffic:
    """`here` False = no gateway runs in this process, so nothing is known. `more` counts rows that are not shown."""

    rows: Sequence[Row]
    here: bool = True
    more: int = 0
    whole: bool = True


def live_page(request: HttpRequest, site: AdminSite) -> HttpResponse:
    """Show what is under way; with `?fragment=1` only the moving part, for the refreshing script."""
    reach = _reach(request)
    tenants = list(scoped(Tenant.objects.order_by("slug"), reach, OPERATIONS))
    chosen = [tenant for tenant in tenants if str(tenant.pk) == request.GET.get("team")] or tenants
    context = {
        **site.each_context(request),
        "title": _("Live traffic"),
        "tenants": tenants,
        "chosen": chosen[0] if len(chosen) == 1 and len(tenants) > 1 else None,
        "traffic": traffic(chosen, reach, now()),
    }
    return TemplateResponse(request, FRAGMENT if "fragment" in request.GET else "admin/live.html", context)


def abort_page(request: HttpRequest, _site: AdminSite) -> HttpResponse:
    """End one request of the person's own teams (POST)."""
    reach = _reach(request)
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    asked = request.POST.get("request", "")
    glance = next((one for one in _glances() if one.id == asked), None)
    if glance is not None and not reach.allows(glance.tenant_id, ADMINS):
        raise PermissionDenied
    if glance is None:
        messages.info(request, _("That request has ended already."))
    else:
        _abort(request, glance)
    return HttpResponseRedirect(reverse("admin:live"))


def traffic(tenants: Iterable[Tenant], reach: Reach, moment: datetime) -> Traffic:
    """Return the requests of these tenants, oldest first."""
    teams = {tenant.pk: tenant.slug for tenant in tenants}
    try:
        seen = live.seen()
    except (RuntimeError, TimeoutError):
        return Traffic((), here=False)
    mine = [glance for glance in seen.glances if glance.tenant_id in teams]
    rows = [_row(glance, teams[glance.tenant_id], reach, moment) for glance in mine[:SHOWN_MAX]]
    return Traffic(rows, more=max(0, len(mine) - SHOWN_MAX), whole=seen.whole)


def _reach(request: HttpRequest) -> Reach:
    reach = reach_of(request.user)
    if not (reach.operator or reach.tenants(OPERATIONS)):
        raise PermissionDenied
    return reach


def _glances() -> Sequence[Glance]:
    try:
        return live.seen().glances
    except (RuntimeError, TimeoutError):
        return ()


def _abort(request: HttpRequest, glance: Glance) -> None:
    live.order_abort(glance.id)
    line = BusinessLine.objects.select_related("tenant").filter(pk=glance.line_id).first()
    if line is not None:
        user: Any = request.user
        audit(user=user, action="aborted", target=line, tenant=line.tenant, fields={"request": glance.id})
    text = _("Request %(id)s is being aborted: its client gets an error, its key is not blamed.") % {"id": glance.id}
    messages.success(request, text)


def _row(glance: Glance, team: str, reach: Reach, moment: datetime) -> Row:
    age_s = max(0.0, moment.timestamp() - glance.at)
    waits_since = glance.sent if glance.phase == "waiting" and glance.sent is not None else None
    wait_s = max(0.0, moment.timestamp() - waits_since) if waits_since is not None else 0.0
    bar = min(_FULL, Decimal(wait_s) * 100 / Decimal(max(glance.silence_s, 1)))
    return Row(
        glance=glance,
        team=team,
        phase=phase_chip(glance.phase),
        age=duration(age_s),
        came=f"{localtime(datetime.fromtimestamp(glance.at, UTC)):%Y-%m-%d %H:%M:%S %Z}",
        bar=bar.quantize(Decimal("0.1")),
        tone="bad" if bar >= _FULL * 4 / 5 else "wait" if bar >= _NEAR else "good",
        silence=duration(glance.silence_s),
        may_abort=glance.phase in {"queued", "waiting", "streaming"} and reach.allows(glance.tenant_id, ADMINS),
    )


def phase_chip(phase: str) -> SafeString:
    """Return how far a request has come."""
    tones = {
        "queued": ("off", _("queued")),
        "waiting": ("wait", _("waiting")),
        "streaming": ("good", _("streaming")),
        "left": ("off", _("client left")),
        "stopping": ("bad", _("aborting")),
    }
    tone, word = tones.get(phase, ("off", phase))
    return chip(tone, word)
