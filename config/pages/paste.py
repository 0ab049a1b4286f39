"""Many upstream keys at once: one a line, each checked by itself, none of them shown again."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.debug import sensitive_post_parameters

from keys.models import Account, Upstream, UpstreamKey
from keys.services import save_key, secret_digest
from tenants.core.credentials import malformed
from tenants.corewords import core_words
from tenants.models import slug_validator
from tenants.scoping import ADMINS, reach_of, scoped
from tenants.services import audit

LINES_MAX = 500


class PasteForm(forms.Form):
    """The secrets are read from the request alone; the field never renders them."""

    upstream = forms.ModelChoiceField(Upstream.objects.none(), label=gettext_lazy("upstream"))
    account = forms.ModelChoiceField(
        Account.objects.none(),
        label=gettext_lazy("account"),
        required=False,
        empty_label=gettext_lazy("each key has a balance of its own"),
    )
    name_prefix = forms.CharField(
        label=gettext_lazy("names begin with"), max_length=40, initial="k", validators=[slug_validator]
    )
    secrets = forms.CharField(
        label=gettext_lazy("keys, one a line"),
        strip=False,
        widget=forms.Textarea(attrs={"rows": 12, "spellcheck": "false", "autocomplete": "off", "data-paste": "1"}),
    )

    def __init__(self, request: HttpRequest, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        reach = reach_of(request.user)
        upstreams = scoped(Upstream.objects.select_related("tenant").order_by("tenant__slug", "name"), reach, ADMINS)
        accounts = scoped(Account.objects.select_related("tenant").order_by("tenant__slug", "name"), reach, ADMINS)
        for name, rows in (("upstream", upstreams), ("account", accounts)):
            field: Any = self.fields[name]
            field.queryset = rows
            field.label_from_instance = lambda row: f"{row.tenant.slug} · {row.name}"
        if not self.initial.get("upstream") and len(only := upstreams[:2]) == 1:
            self.initial["upstream"] = only[0]

    def clean(self) -> dict[str, Any]:
        super().clean()
        upstream, account = self.cleaned_data.get("upstream"), self.cleaned_data.get("account")
        if upstream is not None and account is not None and upstream.tenant_id != account.tenant_id:
            self.add_error("account", _("This belongs to another team."))
        return self.cleaned_data


@dataclass(frozen=True, slots=True)
class Line:
    """A pasted line. `problem` is empty when the key may be stored; it never holds the key."""

    number: int
    secret: str
    problem: str


def judged(upstream: Upstream, text: str) -> list[Line]:
    """Judge each line that is not blank: malformed, twice in the paste, or at this upstream already."""
    known = set(UpstreamKey.objects.filter(upstream=upstream).values_list("digest", flat=True))
    seen: dict[str, int] = {}
    found = []
    for number, raw in enumerate(text.splitlines(), start=1):
        secret = raw.strip()
        if not secret:
            continue
        digest = secret_digest(secret)
        problem = ""
        if bad := malformed(secret):
            problem = _("this %(problem)s") % {"problem": core_words(bad)}
        elif digest in seen:
            problem = _("the same as line %(line)s") % {"line": seen[digest]}
        elif digest in known:
            problem = _("the upstream has this key already")
        seen.setdefault(digest, number)
        found.append(Line(number, secret, problem))
    return found


@sensitive_post_parameters("secrets")
def paste_page(request: HttpRequest, site: AdminSite) -> HttpResponse:
    """Show the form; on POST store the good lines and name the others by their number."""
    reach = reach_of(request.user)
    if not (reach.operator or reach.tenants(ADMINS)):
        raise PermissionDenied
    form = PasteForm(request, request.POST or None, initial={"upstream": request.GET.get("upstream")})
    refused: Sequence[Line] = ()
    if request.method == "POST" and form.is_valid():
        upstream = form.cleaned_data["upstream"]
        lines = judged(upstream, form.cleaned_data["secrets"])[:LINES_MAX]
        refused = [line for line in lines if line.problem]
        saved = _save(request, form, [line.secret for line in lines if not line.problem])
        text = ngettext("%(n)s key was stored.", "%(n)s keys were stored.", saved) % {"n": saved}
        messages.success(request, f"{upstream.name}: {text}") if saved else None
        if not refused:
            return HttpResponseRedirect(reverse("admin:pool"))
    form.data = {name: value for name, value in form.data.items() if name != "secrets"}
    context = {
        **site.each_context(request),
        "title": _("Paste many keys"),
        "form": form,
        "refused": refused,
    }
    return TemplateResponse(request, "admin/paste.html", context)


@transaction.atomic
def _save(request: HttpRequest, form: PasteForm, secrets: Sequence[str]) -> int:
    upstream, account, prefix = (form.cleaned_data[name] for name in ("upstream", "account", "name_prefix"))
    taken = set(UpstreamKey.objects.filter(upstream=upstream).values_list("name", flat=True))
    number = 0
    for secret in secrets:
        number = next(n for n in range(number + 1, number + len(taken) + 2) if f"{prefix}{n}" not in taken)
        key = save_key(key=UpstreamKey(upstream=upstream, account=account, name=f"{prefix}{number}"), secret=secret)
        user: Any = request.user
        audit(user=user, action="added", target=key, tenant=upstream.tenant, fields={"secret": "changed"})
    return len(secrets)
