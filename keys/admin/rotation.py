"""The page that gives an upstream key a new secret, and what may be done with the one before."""

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from keys.core.state import Status
from keys.models import Upstream, UpstreamKey
from keys.probe_words import result_words
from keys.prober import ProbeResult, probe
from keys.probing import note as note_probe
from keys.services import save_key, secret_digest
from keys.standing import pool_of
from tenants.adminbase import TenantScopedAdmin
from tenants.core.credentials import malformed
from tenants.corewords import core_words
from tenants.formfields import SecretField

FORGET, DAY, WEEK = "0", "24", "168"


class RotateForm(forms.Form):
    """The new secret and what becomes of the old one. `warning` is set by clean()."""

    new_secret = SecretField(label=gettext_lazy("new secret"), required=True)
    test_first = forms.BooleanField(
        label=gettext_lazy("test it first"),
        required=False,
        initial=True,
        help_text=gettext_lazy("Lists the upstream's models with it, which costs nothing. Refused = nothing changes."),
    )
    keep = forms.ChoiceField(label=gettext_lazy("the old secret"), widget=forms.RadioSelect)

    def __init__(self, key: UpstreamKey, moment: datetime, data: Any = None, *, usable: bool = True) -> None:
        super().__init__(data, initial={"keep": DAY if usable else FORGET})
        self.key, self.moment, self.warning = key, moment, ""
        choice: Any = self.fields["keep"]
        choice.choices = [
            (DAY, _("is kept for 24 hours, until %(end)s") % {"end": self._end(DAY)}),
            (WEEK, _("is kept for 7 days, until %(end)s") % {"end": self._end(WEEK)}),
            (FORGET, _("is forgotten at once")),
        ]

    def clean_new_secret(self) -> str:
        """Refuse what cannot be sent or is there already; the complaint never shows it."""
        secret: str = self.cleaned_data["new_secret"]
        if secret_digest(secret) == self.key.digest:
            raise ValidationError(_("This is the present secret."))
        self.warning = judge_secret(secret, self.key.upstream, self.key.pk)
        return secret

    @property
    def keep_until(self) -> datetime | None:
        """Until when the old secret is kept; None = not at all."""
        hours = int(self.cleaned_data["keep"])
        return self.moment + timedelta(hours=hours) if hours else None

    def _end(self, hours: str) -> str:
        zone = ZoneInfo(self.key.upstream.tenant.timezone)
        return f"{timezone.localtime(self.moment + timedelta(hours=int(hours)), zone):%Y-%m-%d %H:%M}"


def judge_secret(secret: str, upstream: Upstream | None, own: int | None) -> str:
    """Return a warning, or "". Raises ValidationError for a secret that the upstream cannot have."""
    if problem := malformed(secret):
        raise ValidationError(_("The secret %(problem)s."), params={"problem": core_words(problem)})
    if upstream is None:
        return ""
    others = UpstreamKey.objects.filter(digest=secret_digest(secret))
    others = others.exclude(pk=own) if own is not None else others
    twin = others.filter(upstream=upstream).first()
    if twin is not None:
        raise ValidationError(_("%(name)s has the same secret."), params={"name": twin.name})
    elsewhere = others.for_tenant(upstream.tenant_id).select_related("upstream").first()
    if elsewhere is None:
        return ""
    return _("%(where)s has the same secret.") % {"where": f"{elsewhere.upstream.name}/{elsewhere.name}"}


def rotate_view(page: TenantScopedAdmin, request: HttpRequest, key_id: int) -> HttpResponse:
    """Say what a new secret changes; on POST test it, if wanted, and put it in its place."""
    key = get_object_or_404(page.writable(request, page.get_queryset(request)), pk=key_id)
    moment = timezone.now()
    sheet = pool_of([key], moment).sheet(key.pk, key.account_id)
    form = RotateForm(
        key, moment, request.POST if request.method == "POST" else None, usable=sheet.status is not Status.DEAD
    )
    if request.method == "POST" and form.is_valid():
        secret = form.cleaned_data["new_secret"]
        result = _tested(key, secret, moment) if form.cleaned_data["test_first"] else None
        if result is None or result.alive or result.outcome is None:
            _rotate(page, request, form, result)
            return HttpResponseRedirect(reverse("admin:keys_upstreamkey_change", args=[key.pk]))
        found = result_words(result, key.upstream)[1]
        text = _(
            "Nothing was changed. The test says: %(found)s. Paste it again without the test to use it all the same."
        )
        form.add_error("new_secret", text % {"found": found.rstrip(".")})
    context = {
        **page.admin_site.each_context(request),
        "title": _("Replace the secret of %(key)s") % {"key": f"{key.upstream.name} · {key.name}"},
        "opts": page.opts,
        "key": key,
        "form": form,
        "sheet": sheet,
        "kept": key.keeps_old(moment),
    }
    return TemplateResponse(request, "admin/keys/upstreamkey/rotate.html", context)


def _tested(key: UpstreamKey, secret: str, moment: datetime) -> ProbeResult:
    """Test a secret that nobody stored."""
    return probe(UpstreamKey(pk=key.pk, upstream=key.upstream, name=key.name, secret=secret), moment)


@transaction.atomic
def _rotate(page: TenantScopedAdmin, request: HttpRequest, form: RotateForm, result: ProbeResult | None) -> None:
    key, old_tail, until = form.key, form.key.tail, form.keep_until
    row = UpstreamKey.objects.select_related("upstream__tenant").get(pk=key.pk)
    save_key(key=row, secret=form.cleaned_data["new_secret"], keep_old_until=until)
    page.note(request, "rotated", row, {"secret": "changed", "old_until": until.isoformat() if until else None})
    page.log_change(request, row, [{"changed": {"fields": ["secret"]}}])
    words = _("%(key)s: the new secret is used within 2 seconds.") % {"key": f"{row.upstream.name} · …{row.tail}"}
    level = messages.SUCCESS
    if result is not None:
        note_probe(key=row, result=result, now=form.moment)
        level, found = result_words(result, row.upstream)
        words += " " + _("The test says: %(found)s.") % {"found": found}
    if until is not None:
        words += " " + _("The old one, …%(tail)s, is kept.") % {"tail": old_tail}
    messages.add_message(request, level, words)
    if form.warning:
        messages.warning(request, form.warning)
