"""Business lines."""

from typing import Any

from django.contrib import admin
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tenants.adminbase import LinkedRows, ScopedRelatedFilter, TenantScopedAdmin
from tenants.adminchips import chip, listing, tail
from tenants.adminforms import ScopedForm
from tenants.core.decimals import trimmed
from tenants.formfields import LinesField
from tenants.models import BusinessLine, GatewayKey
from tenants.scoping import OPERATIONS


class BusinessLineForm(ScopedForm):
    model_globs = LinesField(
        label=gettext_lazy("allowed models"),
        help_text=gettext_lazy("One a line; patterns such as gpt-* are fine. Empty = every model."),
    )

    class Meta:
        model = BusinessLine
        fields = "__all__"


class GatewayKeyRows(LinkedRows):
    model = GatewayKey
    readers = OPERATIONS
    fields = ("name", "shown_tail", "state", "expires", "created")
    readonly_fields = fields

    @admin.display(description=gettext_lazy("key"))
    def shown_tail(self, row: GatewayKey) -> SafeString:
        return tail(row.last4)

    @admin.display(description=gettext_lazy("state"))
    def state(self, row: GatewayKey) -> SafeString:
        return chip("good", _("in use")) if row.enabled else chip("off", _("off"))


@admin.register(BusinessLine)
class BusinessLineAdmin(TenantScopedAdmin):
    form = BusinessLineForm
    list_display = ("slug", "name", "tenant", "state", "line_class", "models", "multiplier")
    list_filter = (("tenant", ScopedRelatedFilter), "enabled", "line_class")
    list_select_related = ("tenant",)
    search_fields = ("slug", "name")
    autocomplete_fields = ("tenant",)
    inlines = (GatewayKeyRows,)
    fieldsets = (
        (None, {"fields": ("tenant", "slug", "name", "enabled", "line_class")}),
        (gettext_lazy("Models and money"), {"fields": ("model_globs", "charge_multiplier", "on_unpriced")}),
        (
            gettext_lazy("Limits"),
            {
                "fields": (("rpm", "tpm"), ("per_day", "tokens_per_day"), "concurrency"),
                "description": gettext_lazy("Empty = no limit."),
            },
        ),
        (gettext_lazy("Conversation"), {"fields": ("history",)}),
    )

    @admin.display(description=gettext_lazy("state"))
    def state(self, row: BusinessLine) -> SafeString:
        return chip("good", _("on")) if row.enabled else chip("off", _("off"))

    @admin.display(description=gettext_lazy("models"))
    def models(self, row: BusinessLine) -> Any:
        return listing(row.model_globs, _("every model"))

    @admin.display(description=gettext_lazy("charge multiplier"), ordering="charge_multiplier")
    def multiplier(self, row: BusinessLine) -> str:
        return trimmed(row.charge_multiplier)
