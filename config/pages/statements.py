"""Statements: months per line, open or closed, as CSV; closing a month; budgets and what binds first."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import chain
from typing import Any
from zoneinfo import ZoneInfo

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.timezone import now
from django.utils.translation import gettext as _

from billing.core.csvtext import BOM
from billing.core.periods import day_of, first_of_month, month_of
from billing.core.pricing import payable
from billing.exports import credits_text, requests_text
from billing.models import Statement
from billing.monthly import following
from billing.months import MonthFigures, figures, unpriced_models
from billing.statements import StatementError, close_month, exported
from config.month_arguments import EARLIEST, LATEST
from config.pages.budget_bars import bars_of, binding
from config.pages.downloads import csv_file
from tenants.models import BusinessLine, Role, Tenant
from tenants.scoping import ADMINS, EVERYONE, Reach, reach_of, scoped
from tenants.services import audit

MONTHS = 6
KINDS = ("bill", "requests", "credits")
CLOSERS = frozenset({Role.ADMIN, Role.FINANCE})


@dataclass(frozen=True, slots=True)
class Line:
    """A line's month. `name` is its present name, or its slug when it is gone."""

    figures: MonthFigures
    name: str
    requests_url: str
    csv_url: str


@dataclass(frozen=True, slots=True)
class Month:
    """`totals` per currency. `statement` None = open; `over`: it may be closed."""

    first: date
    lines: Sequence[Line]
    totals: Sequence[MonthFigures]
    statement: Statement | None
    over: bool
    csv_url: str
    close_url: str

    @property
    def label(self) -> str:
        return f"{self.first:%Y-%m}"


def statements_page(request: HttpRequest, site: AdminSite) -> HttpResponse:
    """Show one team's months, newest first, and its budgets."""
    reach = _reach(request)
    tenants = list(scoped(Tenant.objects.order_by("slug"), reach, EVERYONE))
    tenant = next((row for row in tenants if str(row.pk) == request.GET.get("team")), tenants[0] if tenants else None)
    context = {**site.each_context(request), "title": _("Statements"), "tenants": tenants, "tenant": tenant}
    if tenant is not None:
        moment = now()
        last = _last(request, tenant, moment)
        lines = list(BusinessLine.objects.filter(tenant=tenant).order_by("slug"))
        bars = bars_of(tenant, moment)
        context |= {
            "months": months_of(tenant, lines, last, moment),
            "earlier": f"?team={tenant.pk}&until={_before(last, MONTHS):%Y-%m}",
            "may_close": reach.allows(tenant.pk, CLOSERS),
            "may_write": reach.allows(tenant.pk, ADMINS),
            "bars": bars,
            "bindings": binding(bars, lines, moment),
        }
    return TemplateResponse(request, "admin/statements.html", context)


def csv_page(request: HttpRequest, _site: AdminSite) -> StreamingHttpResponse:
    """Hand out a month as CSV: the bill, its requests, or its credits; of one line when one is named."""
    tenant, first = _asked(request, _reach(request), EVERYONE)
    line, kind = request.GET.get("line") or None, request.GET.get("kind", "bill")
    if kind not in KINDS:
        raise Http404
    parts = _parts(kind, tenant, first, line)
    if request.GET.get("bom"):
        parts = chain([BOM], parts)
    named = "" if kind == "bill" else f"-{kind}"
    # A slug of a line that is gone may be anything; only known ones go into the file's name.
    known = line is not None and BusinessLine.objects.filter(tenant=tenant, slug=line).exists()
    of_line = f"-{line}" if known else ""
    return csv_file(request, parts, f"{tenant.slug}-{first:%Y-%m}{of_line}{named}.csv")


def close_page(request: HttpRequest, site: AdminSite) -> HttpResponse:
    """Say what closing a month means, with its numbers; on POST close it."""
    reach = _reach(request)
    tenant, first = _asked(request, reach, EVERYONE)
    if not reach.allows(tenant.pk, CLOSERS):
        raise PermissionDenied
    back = reverse("admin:statements") + f"?team={tenant.pk}"
    if request.method == "POST":
        _close(request, tenant, first)
        return HttpResponseRedirect(back)
    known = Statement.objects.filter(tenant=tenant, month=first).defer("csv").first()
    if known is not None:
        return HttpResponseRedirect(reverse("admin:billing_statement_change", args=[known.pk]))
    month = months_of(tenant, list(tenant.lines.all()), first, now(), 1)[0]
    own = next((row for row in month.totals if row.currency == tenant.currency), None)
    context = {
        **site.each_context(request),
        "title": _("Close %(month)s") % {"month": month.label},
        "tenant": tenant,
        "month": month,
        "payable": payable(own.charge, tenant.currency) if own is not None else None,
        "foreign": [row for row in month.totals if row.currency != tenant.currency],
        "unpriced": unpriced_models(tenant, first, following(first)),
        "estimated": sum(row.estimated for row in month.totals),
        "ends": _end(tenant, first),
        "back": back,
        "may_write": reach.allows(tenant.pk, ADMINS),
    }
    return TemplateResponse(request, "admin/close_month.html", context)


def months_of(
    tenant: Tenant, lines: Sequence[BusinessLine], last: date, moment: datetime, count: int = MONTHS
) -> list[Month]:
    """Return the months up to `last` that have calls or a statement, newest first, and `last` in any case."""
    since = _before(last, count - 1)
    names = {line.pk: line.name for line in lines}
    found = figures(tenant, since, following(last))
    closed = Statement.objects.filter(tenant=tenant, month__gte=since, month__lte=last).defer("csv")
    statements = {row.month: row for row in closed}
    firsts = {row.first for row in found} | set(statements) | {last}
    return [
        _month(tenant, first, [row for row in found if row.first == first], names, statements.get(first), moment)
        for first in sorted(firsts, reverse=True)
    ]


def _month(
    tenant: Tenant,
    first: date,
    rows: Sequence[MonthFigures],
    names: dict[int, str],
    statement: Statement | None,
    moment: datetime,
) -> Month:
    return Month(
        first=first,
        lines=[_line(tenant, row, names.get(row.line_id, row.line)) for row in rows],
        totals=_totals(rows),
        statement=statement,
        over=_end(tenant, first) <= moment,
        csv_url=_url("statements_csv", tenant, first),
        close_url=_url("statements_close", tenant, first),
    )


def _line(tenant: Tenant, row: MonthFigures, name: str) -> Line:
    last = following(row.first) - timedelta(days=1)
    requests = reverse("admin:billing_requestrecord_changelist")
    return Line(
        figures=row,
        name=name,
        requests_url=f"{requests}?period=all&line_id={row.line_id}&day__gte={row.first}&day__lte={last}",
        csv_url=_url("statements_csv", tenant, row.first) + f"&line={row.line}",
    )


def _totals(rows: Sequence[MonthFigures]) -> list[MonthFigures]:
    found = []
    for currency in dict.fromkeys(row.currency for row in rows):
        own = [row for row in rows if row.currency == currency]
        sums: dict[str, Any] = {
            name: sum(getattr(row, name) for row in own)
            for name in ("calls", "failed", "unpriced", "estimated", "input_tokens", "output_tokens", "cost", "charge")
        }
        found.append(MonthFigures(own[0].first, 0, "", currency, **sums))
    return found


def _close(request: HttpRequest, tenant: Tenant, first: date) -> None:
    was_closed = Statement.objects.filter(tenant=tenant, month=first).exists()
    user: Any = request.user
    try:
        row = close_month(tenant=tenant, first=first, by=user.get_username(), now=now())
    except StatementError as problem:
        messages.error(request, str(problem))
        return
    if was_closed:
        messages.info(request, _("%(month)s was closed already.") % {"month": f"{first:%Y-%m}"})
        return
    audit(user=user, action="close_month", target=row, tenant=tenant, fields={"digest": row.digest})
    text = _("%(month)s is closed: %(payable)s %(currency)s are payable.")
    words = {"month": f"{first:%Y-%m}", "payable": f"{row.payable:f}", "currency": row.currency}
    messages.success(request, text % words)


def _parts(kind: str, tenant: Tenant, first: date, line: str | None) -> Iterator[str]:
    match kind:
        case "requests":
            return requests_text(tenant, first, line)
        case "credits":
            return credits_text(tenant, first, line)
        case _:
            return exported(tenant, first, line)


def _reach(request: HttpRequest) -> Reach:
    reach = reach_of(request.user)
    if not (reach.operator or reach.tenants(EVERYONE)):
        raise PermissionDenied
    return reach


def _asked(request: HttpRequest, reach: Reach, roles: frozenset[Role]) -> tuple[Tenant, date]:
    """Return the team and month of the query string; 404 for what is not within reach or no month."""
    team = request.GET.get("team", "")
    if not (team.isascii() and team.isdigit()):
        raise Http404
    first = _month_asked(request.GET.get("month", ""))
    if first is None:
        raise Http404
    return get_object_or_404(scoped(Tenant.objects.all(), reach, roles), pk=int(team)), first


def _last(request: HttpRequest, tenant: Tenant, moment: datetime) -> date:
    """Return the newest month shown: the present one unless an earlier one is asked for."""
    present = day_of(moment, ZoneInfo(tenant.timezone)).replace(day=1)
    asked = _month_asked(request.GET.get("until", ""))
    return present if asked is None else min(present, asked)


def _month_asked(text: str) -> date | None:
    try:
        first = first_of_month(text)
    except ValueError:
        return None
    return first if EARLIEST <= first.year <= LATEST else None


def _before(first: date, months: int) -> date:
    """Return the first day of the month so many months earlier."""
    at = first.year * 12 + first.month - 1 - months
    return date(at // 12, at % 12 + 1, 1)


def _end(tenant: Tenant, first: date) -> datetime:
    end = month_of(first, ZoneInfo(tenant.timezone)).end
    return end if end is not None else datetime.max.replace(tzinfo=ZoneInfo("UTC"))


def _url(name: str, tenant: Tenant, first: date) -> str:
    return reverse(f"admin:{name}") + f"?team={tenant.pk}&month={first:%Y-%m}"
