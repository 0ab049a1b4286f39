"""First steps: from an empty installation to the first answered request, one step at a time.

What is done is read from the rows (start_steps), so that it does not matter where they were made. Operators begin with
a team, a team's admin with its first upstream.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters

from billing.admin.records import charge_mark, status_chip
from billing.models import RequestRecord
from config.pages import start_writes as writes
from config.pages.start_forms import LineForm, SecretForm, TeamForm, UpstreamForm, advice
from config.pages.start_steps import Progress, mark_of, progress_of, steps_of
from keys.models import Upstream, UpstreamKey
from keys.probe_words import result_words
from tenants.adminsecrets import shown_once
from tenants.models import BusinessLine, Tenant
from tenants.scoping import ADMINS, Reach, reach_of, scoped
from tenants.services import IssuedKey
from tenants.snippets import snippets

TESTED = "start_tested"  # in the session: marks of keys that a test found good, or that were let pass
NEW = "new"
PLACEHOLDER = "YOUR-GATEWAY-KEY"


@dataclass(slots=True)
class Visit:
    """One look at the page: who, which team, how far it has come, and what the answer will show."""

    request: HttpRequest
    reach: Reach
    tenants: list[Tenant]
    tenant: Tenant | None
    progress: Progress
    form: forms.BaseForm | None = None
    issued: IssuedKey | None = None

    @property
    def url(self) -> str:
        """The page of this team."""
        return reverse("admin:start") + (f"?team={self.tenant.pk}" if self.tenant is not None else "")


@sensitive_post_parameters("secret")
def start_page(request: HttpRequest, site: AdminSite) -> HttpResponse:
    """Show the steps; on POST take one. With `?fragment=1` only what waits for the first request."""
    visit = _visit(request)
    if "fragment" in request.GET:
        return TemplateResponse(request, "admin/start_first.html", _first(visit))
    if request.method == "POST":
        done = _take(visit)
        if done is not None:
            return done
    context = {
        **site.each_context(request),
        "title": _("First steps"),
        "steps": steps_of(visit.progress, operator=visit.reach.operator),
        "step": visit.progress.next,
        "progress": visit.progress,
        "tenants": visit.tenants,
        "tenant": visit.tenant,
        "operator": visit.reach.operator,
        "here": visit.url if visit.tenant is not None else request.get_full_path(),
        "form": visit.form or _form(visit),
        "upstreams": list(Upstream.objects.for_tenant(visit.tenant).filter(enabled=True)) if visit.tenant else [],
        **_calling(visit),
        **_first(visit),
    }
    response = TemplateResponse(request, "admin/start.html", context)
    return response if visit.issued is None else shown_once(response)


def _visit(request: HttpRequest) -> Visit:
    reach = reach_of(request.user)
    if not (reach.operator or reach.tenants(ADMINS)):
        raise PermissionDenied
    tenants = list(scoped(Tenant.objects.filter(enabled=True).order_by("-pk"), reach, ADMINS))
    asked = request.GET.get("team", "")
    tenant = next((row for row in tenants if str(row.pk) == asked), None)
    if tenant is None and not (asked == NEW and reach.operator):
        if asked and request.method == "POST":
            raise Http404  # what was typed for one team goes into no other
        tenant = tenants[0] if tenants else None
    return Visit(request, reach, tenants, tenant, progress_of(tenant, request.session.get(TESTED, [])))


def _form(visit: Visit, data: Mapping[str, Any] | None = None) -> forms.BaseForm | None:
    """Return the form of the next step; None where a button does, and for whom the step is not."""
    match visit.progress.next:
        case "tenant":
            return TeamForm(data) if visit.reach.operator else None
        case "upstream" if visit.tenant is not None and visit.progress.upstream is None:
            return UpstreamForm(visit.tenant, data)
        case "upstream" | "test":
            return SecretForm(data)
        case "line" if visit.tenant is not None:
            return LineForm(visit.tenant, data)
    return None


def _take(visit: Visit) -> HttpResponse | None:
    """Take the step that was posted; None = show the page, with the form's complaints or with a new gateway key.

    A step that is not the next one any more (a form sent twice, a second tab) is not taken again.
    """
    deeds: dict[str, Callable[[Visit], HttpResponse | None]] = {
        "tenant": _team,
        "upstream": _upstream,
        "test": _test,
        "replace": _replace,
        "skip": _skip,
        "group": _group,
        "line": _line,
        "key": _key,
    }
    name = visit.request.POST.get("step", "")
    expected = {"replace": "test", "skip": "test"}.get(name, name)
    # Another gateway key may be had at any time.
    if name not in deeds or (expected != visit.progress.next and (name != "key" or visit.progress.line is None)):
        return HttpResponseRedirect(visit.url)
    return deeds[name](visit)


def _valid(visit: Visit) -> Any:
    """Return the next step's form when it is right; else keep it for the page, with its complaints."""
    form: Any = _form(visit, visit.request.POST)
    if form is not None and form.is_valid():
        return form
    visit.form = form
    return None


def _team(visit: Visit) -> HttpResponse | None:
    if not visit.reach.operator:
        raise PermissionDenied
    form = _valid(visit)
    if form is None:
        return None
    visit.tenant = writes.make_team(visit.request.user, form.save(commit=False))
    return HttpResponseRedirect(visit.url)


def _upstream(visit: Visit) -> HttpResponse | None:
    form = _valid(visit)
    if form is None or visit.tenant is None:
        return None
    user = visit.request.user
    if isinstance(form, UpstreamForm):
        key = writes.connect(user, visit.tenant, form.cleaned_data)
        if form.warning:
            messages.warning(visit.request, form.warning)
    else:
        key = writes.add_key(user, _own(visit.progress.upstream), form.cleaned_data["secret"])
    return _tested(visit, key)


def _test(visit: Visit) -> HttpResponse:
    return _tested(visit, _own(visit.progress.key))


def _replace(visit: Visit) -> HttpResponse | None:
    form = _valid(visit)
    if form is None:
        return None
    key = UpstreamKey.objects.select_related("upstream__tenant").get(pk=_own(visit.progress.key).pk)
    return _tested(visit, writes.replace_secret(visit.request.user, key, form.cleaned_data["secret"]))


def _skip(visit: Visit) -> HttpResponse:
    _remember(visit, _own(visit.progress.key))
    return HttpResponseRedirect(visit.url)


def _tested(visit: Visit, key: UpstreamKey) -> HttpResponse:
    """Test a key, say how it went, and let it pass where nothing speaks against it."""
    whole, result = writes.test_key(key.pk)
    level, words = result_words(result)
    hint = advice(result.outcome.cause) if result.outcome is not None else ""
    messages.add_message(visit.request, level, " ".join(filter(None, (f"…{whole.tail}: {words}.", hint))))
    if result.alive or result.outcome is None:
        _remember(visit, whole)
    return HttpResponseRedirect(visit.url)


def _remember(visit: Visit, key: UpstreamKey) -> None:
    session = visit.request.session
    session[TESTED] = [*session.get(TESTED, []), mark_of(key)][-20:]


def _group(visit: Visit) -> HttpResponse:
    writes.lead_everything(visit.request.user, _own(visit.tenant))
    return HttpResponseRedirect(visit.url)


def _line(visit: Visit) -> HttpResponse | None:
    form = _valid(visit)
    if form is not None:
        asked = form.cleaned_data
        visit.issued = writes.make_line(visit.request.user, _own(visit.tenant), asked["name"], asked["slug"])
        visit.progress = progress_of(visit.tenant, visit.request.session.get(TESTED, []))
    return None


def _key(visit: Visit) -> None:
    line = BusinessLine.objects.select_related("tenant").get(pk=_own(visit.progress.line).pk)
    visit.issued = writes.issue(visit.request.user, line)
    visit.progress = progress_of(visit.tenant, visit.request.session.get(TESTED, []))


def _own(found: Any) -> Any:
    """Return what the step before has made; without it there is nothing to do here."""
    if found is None:
        raise PermissionDenied
    return found


def _calling(visit: Visit) -> dict[str, Any]:
    """Return what the last step shows: the new key, once, and how to call with it."""
    row = visit.issued.row if visit.issued is not None else visit.progress.gateway_key
    if row is None:
        return {"snippets": []}
    base = visit.request.build_absolute_uri("/").rstrip("/")
    secret = visit.issued.secret if visit.issued is not None else PLACEHOLDER
    shown = visit.issued.secret if visit.issued is not None else ""
    return {"gateway_key": row, "secret": shown, "snippets": snippets(base, secret, row.line)}


def _first(visit: Visit) -> dict[str, Any]:
    """Return what is known about the first request: the one that was answered, else the latest that was not."""
    served = visit.progress.record
    failed = None
    if served is None and visit.tenant is not None:
        failed = RequestRecord.objects.filter(tenant=visit.tenant).order_by("-pk").first()
    row = served or failed
    state: SafeString | str = status_chip(row) if row is not None else ""
    mark = charge_mark(row) if row is not None else ""
    return {"served": served, "failed": failed, "state": state, "mark": mark, "waiting_url": _waiting(visit)}


def _waiting(visit: Visit) -> str:
    return reverse("admin:start") + f"?fragment=1&team={visit.tenant.pk if visit.tenant is not None else ''}"
