"""Pages that give a gateway key a new secret while the old one goes on, and that end the old one."""

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tenants.adminbase import TenantScopedAdmin
from tenants.adminsecrets import secret_page
from tenants.models import GatewayKey
from tenants.services import IssuedKey, end_old_secret, rotate_gateway_key

RECENT_CALLS = 1000
LONGEST = timedelta(days=366)
DAY, WEEK = "24", "168"
NONE, DATE = "0", "date"


class RotateForm(forms.Form):
    """How long the old secret goes on. `seen` is the tail of the secret to be replaced: a form sent twice is noticed.

    To be read and shown under the team's time zone.
    """

    overlap = forms.ChoiceField(label=gettext_lazy("the old secret works"), widget=forms.RadioSelect, initial=DAY)
    until = forms.DateTimeField(
        label=gettext_lazy("date and time"),
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )
    seen = forms.CharField(widget=forms.HiddenInput, max_length=4)

    def __init__(self, key: GatewayKey, moment: datetime, data: Any = None) -> None:
        super().__init__(data, initial={"seen": key.last4})
        self.moment = moment
        choice: Any = self.fields["overlap"]
        choice.choices = [
            (NONE, _("no longer: it stops within 2 seconds")),
            (DAY, _("24 hours more, until %(end)s") % {"end": _minute(moment + timedelta(hours=int(DAY)))}),
            (WEEK, _("7 days more, until %(end)s") % {"end": _minute(moment + timedelta(hours=int(WEEK)))}),
            (DATE, _("until the date and time below")),
        ]

    def clean(self) -> dict[str, Any]:
        """Work out `keep_until`."""
        super().clean()
        overlap, until = self.cleaned_data.get("overlap"), self.cleaned_data.get("until")
        if overlap is None:
            return self.cleaned_data
        if overlap != DATE:
            until = self.moment + timedelta(hours=int(overlap))
        elif until is None and "until" not in self.errors:
            self.add_error("until", _("Say until when the old secret works."))
        elif until is not None and not self.moment < until <= self.moment + LONGEST:
            self.add_error("until", _("Choose a moment within the next 366 days."))
        self.cleaned_data["keep_until"] = until
        return self.cleaned_data


def rotate_view(page: TenantScopedAdmin, request: HttpRequest, key_id: int) -> HttpResponse:
    """Name the consequences; on POST make the new secret and show it, once."""
    key = _key(page, request, key_id)
    moment = timezone.now()
    with timezone.override(ZoneInfo(key.line.tenant.timezone)):
        form = RotateForm(key, moment, request.POST if request.method == "POST" else None)
        ready = request.method == "POST" and form.is_valid()
    if ready:
        issued = None
        if form.cleaned_data["seen"] == key.last4:
            issued = _rotate(page, request, key, form.cleaned_data["keep_until"])
        if issued is not None:
            return _shown(page, request, issued)
        text = _("“%(name)s” has a new secret already, so nothing was changed. It ends in …%(tail)s.")
        messages.warning(request, text % {"name": key.name, "tail": GatewayKey.objects.get(pk=key.pk).last4})
        return HttpResponseRedirect(reverse("admin:tenants_gatewaykey_change", args=[key.pk]))
    context = {
        **page.admin_site.each_context(request),
        "title": _("Rotate “%(name)s”") % {"name": key.name},
        "opts": page.opts,
        "key": key,
        "form": form,
        "use": use_of_secret(key, key.last4),
        "older": use_of_secret(key, key.old_last4) if key.old_works(moment) else None,
        "idle": not key.enabled or (key.expires is not None and key.expires <= moment),
    }
    return TemplateResponse(request, "admin/tenants/gatewaykey/rotate.html", context)


def end_old_view(page: TenantScopedAdmin, request: HttpRequest, key_id: int) -> HttpResponse:
    """Name who still uses the old secret; on POST end it."""
    key = _key(page, request, key_id)
    moment = timezone.now()
    if not key.old_works(moment):
        get_object_or_404(GatewayKey.objects.none())
    if request.method == "POST":
        if request.POST.get("seen") == key.old_last4 and _end_old(page, request, key, moment):
            text = _("The old secret …%(tail)s of “%(name)s” works no longer.")
            messages.success(request, text % {"tail": key.old_last4, "name": key.name})
        return HttpResponseRedirect(reverse("admin:tenants_gatewaykey_change", args=[key.pk]))
    context = {
        **page.admin_site.each_context(request),
        "title": _("End the old secret of “%(name)s”?") % {"name": key.name},
        "opts": page.opts,
        "key": key,
        "use": use_of_secret(key, key.old_last4),
    }
    return TemplateResponse(request, "admin/tenants/gatewaykey/end_old.html", context)


def use_of_secret(key: GatewayKey, last4: str) -> dict[str, Any]:
    """Return how many of the line's latest RECENT_CALLS calls came with this secret of the key, and the last one."""
    latest = key.line.records.order_by("-pk").values_list("gateway_key_id", "key_last4", "created")[:RECENT_CALLS]
    used = [created for key_id, tail, created in latest if (key_id, tail) == (key.pk, last4)]
    return {"calls": len(used), "of": RECENT_CALLS, "last": used[0] if used else None}


def _key(page: TenantScopedAdmin, request: HttpRequest, key_id: int) -> GatewayKey:
    """Return a key that the person may write and that was not revoked; else 404."""
    rows = page.writable(request, page.get_queryset(request))
    found: GatewayKey = get_object_or_404(rows, pk=key_id, revoked=None)
    return found


@transaction.atomic
def _rotate(page: TenantScopedAdmin, request: HttpRequest, key: GatewayKey, keep_until: datetime) -> IssuedKey | None:
    issued = rotate_gateway_key(key=key, keep_until=keep_until, now=timezone.now())
    if issued is not None:
        until = issued.row.old_until
        fields = {"secret": "changed", "old_until": until.isoformat() if until is not None else None}
        page.note(request, "rotated", issued.row, fields)
        page.log_change(request, issued.row, [{"changed": {"fields": ["secret"]}}])
    return issued


@transaction.atomic
def _end_old(page: TenantScopedAdmin, request: HttpRequest, key: GatewayKey, moment: datetime) -> bool:
    ended = end_old_secret(key=key, now=moment)
    if ended:
        page.note(request, "changed", key, {"old_until": moment.isoformat()})
        page.log_change(request, key, [{"changed": {"fields": ["old_until"]}}])
    return ended


def _shown(page: TenantScopedAdmin, request: HttpRequest, issued: IssuedKey) -> HttpResponse:
    key = issued.row
    return secret_page(
        page, request, "admin/tenants/gatewaykey/rotated.html", issued,
        title=_("New secret of “%(name)s”") % {"name": key.name}, old_works=key.old_works(timezone.now()),
    )  # fmt: skip


def _minute(moment: datetime) -> str:
    return f"{timezone.localtime(moment):%Y-%m-%d %H:%M}"
