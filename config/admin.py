"""Pages that need more than one app: a tenant, whose webhook address is judged like an upstream's."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from keys.core.addresses import url_problem
from keys.hosts import HostVerdict, judge_address
from tenants.adminbase import TenantScopedAdmin, shown_address
from tenants.adminchips import chip
from tenants.adminforms import ScopedForm
from tenants.corewords import core_words
from tenants.formfields import LinesField, SecretField
from tenants.models import Tenant


class TenantForm(ScopedForm):
    """The webhook's address and secret are typed once and never shown again."""

    verdict: HostVerdict | None = None  # judged before the transaction began

    alert_emails = LinesField(
        label=gettext_lazy("alert e-mail addresses"), check=validate_email, help_text=gettext_lazy("One a line.")
    )
    alert_webhook = SecretField(label=gettext_lazy("alert webhook"), max_length=500)
    remove_webhook = forms.BooleanField(label=gettext_lazy("remove the webhook"), required=False)
    webhook_secret = SecretField(label=gettext_lazy("webhook signing secret"))

    class Meta:
        model = Tenant
        fields = (
            "slug", "name", "timezone", "currency", "alert_emails", "alert_webhook", "webhook_secret", "enabled",
        )  # fmt: skip

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        kept = _("Empty = leave it as it is.")
        if "alert_webhook" in self.fields:
            now = shown_address(self.instance.alert_webhook)
            self.fields["alert_webhook"].help_text = _("Now: %(address)s.") % {"address": now or _("none")} + " " + kept
            self.fields["webhook_secret"].help_text = kept

    def clean_alert_webhook(self) -> str:
        """Keep the stored address where nothing was typed."""
        typed: str = self.cleaned_data["alert_webhook"]
        if not typed:
            return str(self.instance.alert_webhook)
        if problem := url_problem(typed):
            raise ValidationError(_("The address %(problem)s."), params={"problem": core_words(problem)})
        if self.verdict is not None and self.verdict.problem:
            raise ValidationError(core_words(self.verdict.problem))
        return typed

    def clean_webhook_secret(self) -> str:
        """Keep the stored secret where nothing was typed."""
        typed: str = self.cleaned_data["webhook_secret"]
        return typed or self.instance.webhook_secret

    def clean(self) -> dict[str, Any] | None:
        super().clean()
        if self.cleaned_data.get("remove_webhook"):
            self.cleaned_data["alert_webhook"] = ""
        return self.cleaned_data


@admin.register(Tenant)
class TenantAdmin(TenantScopedAdmin):
    form = TenantForm
    list_display = ("slug", "name", "state", "timezone", "currency")
    list_filter = ("enabled",)
    search_fields = ("slug", "name")
    operator_fields = ("slug", "timezone", "currency", "enabled")
    hidden_values = frozenset({"alert_webhook", "webhook_secret"})
    fieldsets = (
        (None, {"fields": ("slug", "name", "timezone", "currency", "enabled")}),
        (
            gettext_lazy("Alerts"),
            {"fields": ("alert_emails", "alert_webhook", "remove_webhook", "webhook_secret")},
        ),
    )
    viewer_fieldsets = (
        (None, {"fields": ("slug", "name", "timezone", "currency", "enabled")}),
        (gettext_lazy("Alerts"), {"fields": ("alert_emails", "webhook_shown")}),
    )

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """A reader without write rights gets no secret column at all."""
        may = self.has_change_permission(request, obj) if obj is not None else self.has_add_permission(request)
        return self.fieldsets if may else self.viewer_fieldsets

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return (*super().get_readonly_fields(request, obj), "webhook_shown")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.reach(request).operator

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.reach(request).operator

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Look the webhook's host up before the transaction begins."""
        typed = request.POST.get("alert_webhook", "").strip()
        verdict = judge_address(typed) if typed and not url_problem(typed) else None
        request.webhook_verdict = verdict  # type: ignore[attr-defined]  # read by get_form
        if verdict is not None and verdict.warning:
            self.message_user(request, core_words(verdict.warning), messages.WARNING)
        return super().changeform_view(request, *args, **kwargs)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        made = super().get_form(request, obj, change, **kwargs)
        made.verdict = getattr(request, "webhook_verdict", None)  # type: ignore[attr-defined]  # made for this request
        return made

    @admin.display(description=gettext_lazy("state"))
    def state(self, row: Tenant) -> SafeString:
        return chip("good", _("on")) if row.enabled else chip("off", _("off"))

    @admin.display(description=gettext_lazy("alert webhook"))
    def webhook_shown(self, row: Tenant) -> str:
        return shown_address(row.alert_webhook) or "–"
