"""The dry run: what the gateway would do with a request, by the code that decides. Sends and changes nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django import forms
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.timezone import now
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from billing.models import RequestRecord
from config.pages.dryrun_words import Shown, shown_of
from keys.core.dialect import Dialect
from keys.models import Upstream
from proxy.core.explain import BadDryRunError, DryRun, explain
from proxy.core.sample import Sample, body_of
from proxy.core.wire.jsontext import MalformedBody, parse_json
from routing.examples import matches_line, request_like
from routing.models import Route
from routing.snapshot import read_table
from routing.standings import read_present
from tenants.formfields import PairsField
from tenants.models import BusinessLine
from tenants.scoping import ADMINS, OPERATIONS, Reach, reach_of, scoped

INPUT_MAX = 2_000_000  # tokens
TOOLS_MAX = 200
LINES_MAX = 200  # looked at for one that a rule may hold for
BODY_MAX = 8 * 1024 * 1024  # characters of a pasted body
DIALECTS = (
    (Dialect.OPENAI.value, gettext_lazy("OpenAI chat")),
    (Dialect.RESPONSES.value, gettext_lazy("OpenAI responses")),
    (Dialect.ANTHROPIC.value, gettext_lazy("Anthropic")),
    (Dialect.GEMINI.value, gettext_lazy("Gemini")),
)


class DryRunForm(forms.Form):
    """What the request is like. A pasted body takes the place of all that describes one."""

    line = forms.ModelChoiceField(BusinessLine.objects.none(), label=gettext_lazy("line"))
    key = forms.CharField(label=gettext_lazy("gateway key's name"), required=False, max_length=100)
    dialect = forms.ChoiceField(label=gettext_lazy("dialect"), choices=DIALECTS)
    model = forms.CharField(label=gettext_lazy("model"), required=False, max_length=200)
    stream = forms.BooleanField(label=gettext_lazy("streamed"), required=False)
    image = forms.BooleanField(label=gettext_lazy("with an image"), required=False)
    thinking = forms.BooleanField(label=gettext_lazy("thinking on"), required=False)
    tools = forms.IntegerField(label=gettext_lazy("tools"), required=False, min_value=0, max_value=TOOLS_MAX)
    input_tokens = forms.IntegerField(
        label=gettext_lazy("input tokens"), required=False, min_value=0, max_value=INPUT_MAX
    )
    max_tokens = forms.IntegerField(label=gettext_lazy("max tokens"), required=False, min_value=0, max_value=10**9)
    session = forms.CharField(label=gettext_lazy("session id"), required=False, max_length=200)
    headers = PairsField(label=gettext_lazy("headers, one a line"), separator=":")
    body = forms.CharField(
        label=gettext_lazy("or the body itself, as JSON"),
        required=False,
        max_length=BODY_MAX,
        widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false", "class": "lines"}),
    )

    def __init__(self, reach: Reach, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **options})
        lines: Any = self.fields["line"]
        lines.queryset = scoped(
            BusinessLine.objects.select_related("tenant").order_by("tenant__slug", "slug"), reach, OPERATIONS
        )
        lines.label_from_instance = lambda row: f"{row.tenant.slug} · {row.name}"
        self.fields["headers"].widget = forms.Textarea(attrs={"rows": 2, "spellcheck": "false", "class": "lines"})
        self.pasted: Mapping[str, Any] | None = None

    def clean_body(self) -> str:
        """Read a pasted body; the complaint names the place."""
        text: str = self.cleaned_data["body"]
        if not text.strip():
            return ""
        try:
            value = parse_json(text.encode(errors="replace"))
        except MalformedBody as problem:
            raise forms.ValidationError(_("Not valid JSON: %(why)s"), params={"why": str(problem)}) from None
        if not isinstance(value, dict):
            raise forms.ValidationError(_("A body is a JSON object."))
        self.pasted = value
        return text

    def clean(self) -> dict[str, Any]:
        super().clean()
        if self.pasted is None and "body" not in self.errors and not self.cleaned_data.get("model"):
            self.add_error("model", _("Name the model, or paste a body."))
        return self.cleaned_data

    def dry_run(self) -> DryRun:
        """Return the request to explain; the form is valid."""
        data = self.cleaned_data
        line: BusinessLine = data["line"]
        headers = {name.lower(): str(text) for name, text in data["headers"].items()}
        if data["session"]:
            headers["x-session-id"] = data["session"]
        dialect = Dialect(data["dialect"])
        made = Sample(
            dialect=dialect,
            model=data["model"],
            stream=data["stream"],
            tools=data["tools"] or 0,
            image=data["image"],
            thinking=data["thinking"],
            input_tokens=data["input_tokens"] or 0,
            max_tokens=data["max_tokens"],
        )
        body = self.pasted if self.pasted is not None else body_of(made)
        return DryRun(f"{line.tenant.slug}/{line.slug}", dialect, headers, body, data["key"])


@dataclass(frozen=True, slots=True)
class Start:
    """What the form begins with. `note` says where that came from."""

    initial: Mapping[str, Any]
    note: str = ""
    back: tuple[str, str] = ("", "")  # the page that sent the person here: words, address


def dry_run_page(request: HttpRequest, site: AdminSite) -> HttpResponse:
    """Show the form; on POST explain the request beside it, or hand the explanation out as JSON."""
    reach = reach_of(request.user)
    if not (reach.operator or reach.tenants(OPERATIONS)):
        raise PermissionDenied
    start = _start(request, reach)
    form = DryRunForm(reach, request.POST or None, initial=start.initial)
    result: Shown | None = None
    if request.method == "POST" and form.is_valid():
        moment = now()
        try:
            told = explained(form.dry_run(), moment)
        except BadDryRunError as problem:
            form.add_error(None, str(problem))
        else:
            if "download" in request.POST:
                return _download(told)
            result = shown_of(told, form.cleaned_data["line"], moment)
    context = {
        **site.each_context(request),
        "title": _("Dry run"),
        "form": form,
        "result": result,
        "note": start.note,
        "back": start.back,
        "may_write": reach.operator or bool(reach.tenants(ADMINS)),
        "has_lines": form.fields["line"].queryset.exists(),  # type: ignore[attr-defined]  # a ModelChoiceField
    }
    return TemplateResponse(request, "admin/dry_run.html", context)


def explained(asked: DryRun, moment: datetime) -> dict[str, Any]:
    """Explain a request by the configuration and the present as they are stored. Raises BadDryRunError."""
    return explain(asked, read_table(), read_present(moment))


def _download(told: Mapping[str, Any]) -> JsonResponse:
    answer = JsonResponse(told, json_dumps_params={"indent": 2, "ensure_ascii": False})
    answer.headers["Content-Disposition"] = 'attachment; filename="dry-run.json"'
    return answer


def _start(request: HttpRequest, reach: Reach) -> Start:
    """Begin like a request of the person's tenants (`like`), or with a line that takes a route (`route`)."""
    like, route = request.GET.get("like", "").strip(), request.GET.get("route", "")
    lines = scoped(BusinessLine.objects.order_by("tenant__slug", "slug"), reach, OPERATIONS)
    if like:
        record = scoped(RequestRecord.objects.filter(request_id=like[:60]), reach, OPERATIONS).first()
        return _like(record) if record is not None else Start({}, _("There is no such request."))
    if route.isascii() and route.isdigit():
        row = scoped(Route.objects.filter(pk=int(route)), reach, OPERATIONS).first()
        none = Start({"line": None}, _("No line takes this route yet."))
        return _on_route(row, lines, request.GET.get("rule", "")) if row is not None else none
    if request.GET.get("line", "").isdigit():
        return Start({"line": request.GET["line"]})
    only = list(lines.values_list("pk", flat=True)[:2])
    return Start({"line": only[0]} if len(only) == 1 else {})


def _on_route(row: Route, lines: QuerySet[BusinessLine], rule: str) -> Start:
    """Begin with a line that takes the route and, for a rule, with what the rule asks for in so many words."""
    own = lines.filter(line_route__route_id=row.pk)
    plain = lines.filter(tenant_id=row.tenant_id, line_route=None) if row.is_default else lines.none()
    asked = row.rules.filter(pk=int(rule)).first() if rule.isascii() and rule.isdigit() else None
    taking = [*own[:LINES_MAX], *plain[:LINES_MAX]]
    wanted = [line for line in taking if asked is not None and matches_line(asked.when, line.slug)]
    first = next(iter([*wanted, *taking]), None)
    note = "" if first is not None else _("No line takes this route yet.")
    back = (_("Route %(name)s") % {"name": row.name}, reverse("admin:routing_route_change", args=[row.pk]))
    if asked is None:
        return Start({"line": first.pk if first is not None else None}, note, back)
    back = (_("Rule %(name)s") % {"name": asked.name}, reverse("admin:routing_routingrule_change", args=[asked.pk]))
    like = request_like(asked.when, _models_of(row.tenant_id))
    return Start({**like, "line": first.pk if first is not None else None}, note, back)


def _models_of(tenant_id: int) -> list[str]:
    """Return the names that the tenant's upstreams are known to serve."""
    rows = Upstream.objects.for_tenants([tenant_id]).filter(enabled=True).order_by("name")
    found: dict[str, None] = {}
    for aliases, listed, read in rows.values_list("aliases", "model_list", "read_models"):
        names = listed if isinstance(listed, list) else read
        found |= dict.fromkeys(str(name) for name in (*aliases, *names) if "*" not in str(name))
    return list(found)


def _like(record: RequestRecord) -> Start:
    note = _(
        "Filled in from request %(id)s. What a record does not keep is left empty: tools, images, thinking,"
        " max tokens, session."
    )
    return Start(
        {
            "line": record.line_id,
            "key": record.key_name,
            "dialect": record.dialect,
            "model": record.model_requested,
            "stream": record.stream,
            "input_tokens": record.input_tokens,
        },
        note % {"id": record.request_id},
    )
