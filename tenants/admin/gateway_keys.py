"""Gateway keys: issued here, shown once, revoked for good."""

from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.contrib import admin, messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.cache import never_cache

from tenants.admin.rotation import RECENT_CALLS, end_old_view, rotate_view
from tenants.adminbase import ScopedRelatedFilter, TenantScopedAdmin
from tenants.adminchips import ago, chip, tail
from tenants.adminforms import ScopedForm
from tenants.adminsecrets import secret_page
from tenants.models import GatewayKey
from tenants.scoping import OPERATIONS
from tenants.services import IssuedKey, issue_gateway_key, revoke_gateway_key


class GatewayKeyForm(ScopedForm):
    class Meta:
        model = GatewayKey
        fields = ("line", "name", "expires", "enabled", "rpm", "tpm", "per_day", "tokens_per_day", "concurrency")

    def clean_expires(self) -> Any:
        """A new key must be usable at all."""
        expires = self.cleaned_data["expires"]
        if expires is not None and self.instance.pk is None and expires <= timezone.now():
            raise forms.ValidationError(_("This moment has passed."))
        return expires


@admin.register(GatewayKey)
class GatewayKeyAdmin(TenantScopedAdmin):
    form = GatewayKeyForm
    readers = OPERATIONS
    list_display = ("name", "shown_tail", "line", "state", "expiry", "made")
    list_filter = (("line__tenant", ScopedRelatedFilter), "enabled")
    list_select_related = ("line__tenant",)
    extra_lookups = frozenset({"line__id__exact"})
    search_fields = ("name", "line__slug", "line__name")
    autocomplete_fields = ("line",)
    actions = ("revoke_selected",)
    change_form_template = "admin/tenants/gatewaykey/change_form.html"

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        head: tuple[str, ...] = ("line", "name", "expires")
        if obj is not None:
            old = ("old_secret",) if obj.old_digest else ()
            head = ("line", "name", "shown_tail", *old, "state", "expires", "enabled", "created")
        limits = {
            "fields": (("rpm", "tpm"), ("per_day", "tokens_per_day"), "concurrency"),
            "description": _("Empty = no limit beside those of the line."),
            "classes": ("collapse",),
        }
        return ((None, {"fields": head}), (_("Limits"), limits))

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return (*super().get_readonly_fields(request, obj), "shown_tail", "old_secret", "state", "created")

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).select_related("line__tenant")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """What was revoked stays so."""
        return (obj is None or obj.revoked is None) and super().has_change_permission(request, obj)

    @admin.display(description=gettext_lazy("key"))
    def shown_tail(self, row: GatewayKey) -> SafeString:
        return tail(row.last4)

    @admin.display(description=gettext_lazy("old secret"))
    def old_secret(self, row: GatewayKey) -> SafeString:
        if row.old_works(timezone.now()):
            return format_html("{} {}", tail(row.old_last4), _("works until %(end)s") % {"end": _end_of_old(row)})
        return format_html("{} {} {}", tail(row.old_last4), _("has ended"), ago(row.old_until))

    @admin.display(description=gettext_lazy("state"))
    def state(self, row: GatewayKey) -> SafeString:
        if not row.old_works(timezone.now()):
            return self._state(row)
        old = _("old secret …%(tail)s works until %(end)s") % {"tail": row.old_last4, "end": _end_of_old(row)}
        return format_html('{} <small class="quiet">{}</small>', self._state(row), old)

    def _state(self, row: GatewayKey) -> SafeString:
        if row.revoked is not None:
            return chip("bad", _("revoked"), title=f"{timezone.localtime(row.revoked):%Y-%m-%d %H:%M %Z}")
        if not row.enabled:
            return chip("off", _("off"))
        if row.expires is not None and row.expires <= timezone.now():
            return chip("bad", _("expired"))
        return chip("good", _("in use"))

    @admin.display(description=gettext_lazy("expires"), ordering="expires")
    def expiry(self, row: GatewayKey) -> Any:
        return ago(row.expires) if row.expires is not None else _("never")

    @admin.display(description=gettext_lazy("created"), ordering="created")
    def made(self, row: GatewayKey) -> SafeString:
        return ago(row.created)

    # --- issuing ---

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Issue a new key through the service; its secret lives in this request alone."""
        if not change:
            issued = issue_gateway_key(line=obj.line, name=obj.name, expires=obj.expires)
            obj.pk, obj.digest, obj.last4 = issued.row.pk, issued.row.digest, issued.row.last4
            obj.created = issued.row.created
            obj._state.adding = False
            request.issued_secret = issued.secret  # type: ignore[attr-defined]  # read by response_add
        super().save_model(request, obj, form, change)

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: str | None = None) -> HttpResponse:
        """Show the secret in the answer itself: a redirect would have to keep it somewhere."""
        issued = IssuedKey(obj, request.issued_secret)  # type: ignore[attr-defined]  # set by save_model
        title = _("Gateway key for %(line)s") % {"line": obj.line.name}
        return secret_page(self, request, "admin/tenants/gatewaykey/issued.html", issued, title=title)

    # --- rotating, revoking ---

    def get_urls(self) -> list[Any]:
        def page(view: Any) -> Any:
            return never_cache(self.admin_site.admin_view(view))

        rotate, end_old = partial(rotate_view, self), partial(end_old_view, self)
        return [
            path("revoke/", page(self.revoke_view), name="tenants_gatewaykey_revoke"),
            path("<int:key_id>/rotate/", page(rotate), name="tenants_gatewaykey_rotate"),
            path("<int:key_id>/end-old/", page(end_old), name="tenants_gatewaykey_end_old"),
            *super().get_urls(),
        ]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> Any:
        """Offer to end the old secret while it works."""
        row = self.get_object(request, object_id)
        extra = {**(extra_context or {}), "old_works": row is not None and row.old_works(timezone.now())}
        return super().change_view(request, object_id, form_url, extra)

    @admin.action(description=gettext_lazy("Revoke the selected gateway keys …"), permissions=["change"])
    def revoke_selected(self, request: HttpRequest, rows: Any) -> HttpResponse | None:
        """Lead to the page that names the consequences."""
        ids = [str(pk) for pk in self.writable(request, rows).filter(revoked=None).values_list("pk", flat=True)]
        if not ids:
            self.message_user(request, _("None of these keys can be revoked."), messages.WARNING)
            return None
        return HttpResponseRedirect(f"{reverse('admin:tenants_gatewaykey_revoke')}?ids={','.join(ids)}")

    def revoke_view(self, request: HttpRequest) -> HttpResponse:
        """Name what stops working, then do it on POST."""
        ids = [int(part) for part in request.GET.get("ids", "").split(",") if part.isascii() and part.isdigit()]
        rows = list(self.writable(request, self.get_queryset(request)).filter(pk__in=ids, revoked=None))
        if not rows:
            get_object_or_404(GatewayKey.objects.none())
        if request.method == "POST":
            done = self._revoke(request, rows)
            text = ngettext("%(n)s gateway key was revoked.", "%(n)s gateway keys were revoked.", done)
            self.message_user(request, text % {"n": done}, messages.SUCCESS)
            return HttpResponseRedirect(reverse("admin:tenants_gatewaykey_changelist"))
        context = {
            **self.admin_site.each_context(request),
            "title": ngettext("Revoke a gateway key?", "Revoke gateway keys?", len(rows)),
            "opts": self.opts,
            "keys": [{"row": row, "old": row.old_works(timezone.now()), **recent_use(row)} for row in rows],
            "count": len(rows),
        }
        return TemplateResponse(request, "admin/tenants/gatewaykey/revoke.html", context)

    @transaction.atomic
    def _revoke(self, request: HttpRequest, rows: list[GatewayKey]) -> int:
        moment = timezone.now()
        done = [row for row in rows if revoke_gateway_key(key=row, now=moment)]
        for row in done:
            self.note(request, "revoked", row, {})
            self.log_change(request, row, [{"changed": {"fields": ["revoked"]}}])
        return len(done)


def _end_of_old(row: GatewayKey) -> str:
    """Return when the old secret ends, in the team's zone."""
    return f"{timezone.localtime(row.old_until, ZoneInfo(row.line.tenant.timezone)):%Y-%m-%d %H:%M %Z}"


def recent_use(key: GatewayKey) -> dict[str, Any]:
    """Return how many of the line's latest RECENT_CALLS calls used this key, and the last one. Bounded by the index."""
    latest = key.line.records.order_by("-pk").values_list("gateway_key_id", "created")[:RECENT_CALLS]
    used = [created for key_id, created in latest if key_id == key.pk]
    return {"calls": len(used), "of": RECENT_CALLS, "last": used[0] if used else None}
