"""Prices and exchange rates: effective-dated; a row that a record has used is never edited."""

from typing import Any

from django.contrib import admin
from django.db.models import Exists, OuterRef
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from billing.adminmoney import amount
from billing.models import ExchangeRate, Price, RequestRecord
from tenants.adminbase import NOBODY, ScopedRelatedFilter, TenantScopedAdmin
from tenants.adminchips import chip
from tenants.adminforms import ScopedForm


class PriceForm(ScopedForm):
    constraint_words = {
        "one_global_price_per_model_and_day": gettext_lazy("There is a price of this model from this day already."),
        "one_tenant_price_per_model_and_day": gettext_lazy("There is a price of this model from this day already."),
        "price_fields_fit_the_unit": gettext_lazy(
            "A price per call has an amount for the call and none for tokens; a price per tokens the reverse."
        ),
    }

    class Meta:
        model = Price
        fields = "__all__"

    def clean(self) -> dict[str, Any] | None:
        super().clean()
        data = self.cleaned_data
        if data.get("unit") == Price.Unit.PER_MILLION_TOKENS and data.get("input") is None and not self.errors:
            self.add_error("input", _("Write what a million input tokens cost."))
        if data.get("unit") == Price.Unit.PER_CALL and data.get("call") is None and not self.errors:
            self.add_error("call", _("Write what a call costs."))
        return data


@admin.register(Price)
class PriceAdmin(TenantScopedAdmin):
    form = PriceForm
    shared_rows = True
    list_display = ("model", "scope", "unit", "currency", "input_price", "cached_price", "output_price", "call_price",
                    "starts", "state")  # fmt: skip
    list_filter = (("tenant", ScopedRelatedFilter), "unit", "currency")
    list_select_related = ("tenant",)
    search_fields = ("model",)
    autocomplete_fields = ("tenant",)
    fieldsets = (
        (None, {"fields": ("tenant", "model", "unit", "currency", "starts")}),
        (
            gettext_lazy("Per million tokens"),
            {"fields": (("input", "cached_input"), ("cache_write", "cache_write_1h"), "output")},
        ),
        (gettext_lazy("Per call"), {"fields": ("call",)}),
    )

    def get_queryset(self, request: HttpRequest) -> Any:
        used = RequestRecord.objects.filter(price_id=OuterRef("pk"))
        return super().get_queryset(request).annotate(used=Exists(used))

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        made = super().get_form(request, obj, change, **kwargs)
        owner = made.base_fields.get("tenant")
        if owner is not None:
            owner.required = not self.reach(request).operator  # a global price is the operator's
            if self.reach(request).operator:
                owner.help_text = _("Empty = the price list of every team.")
        return made

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Recorded calls were billed by a used price: a change is a new row with a later day."""
        return not _is_used(obj) and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return not _is_used(obj) and super().has_delete_permission(request, obj)

    @admin.display(description=gettext_lazy("for"), ordering="tenant")
    def scope(self, row: Price) -> str:
        return str(row.tenant) if row.tenant is not None else _("every team")

    @admin.display(description=gettext_lazy("state"))
    def state(self, row: Any) -> SafeString:
        return (
            chip("good", _("used"), title=_("recorded calls were billed by it")) if row.used else chip("off", _("free"))
        )

    @admin.display(description=gettext_lazy("input"))
    def input_price(self, row: Price) -> SafeString:
        return amount(row.input)

    @admin.display(description=gettext_lazy("cached input"))
    def cached_price(self, row: Price) -> SafeString:
        return amount(row.cached_input)

    @admin.display(description=gettext_lazy("output"))
    def output_price(self, row: Price) -> SafeString:
        return amount(row.output)

    @admin.display(description=gettext_lazy("call"))
    def call_price(self, row: Price) -> SafeString:
        return amount(row.call)


def _is_used(row: Any) -> bool:
    return row is not None and RequestRecord.objects.filter(price_id=row.pk).exists()


class RateForm(ScopedForm):
    constraint_words = {
        "one_rate_per_pair_and_day": gettext_lazy("There is a rate of this pair on this day already."),
        "exchange_rate_positive": gettext_lazy("A rate is more than zero."),
        "exchange_rate_between_two": gettext_lazy("A rate stands between two currencies."),
    }

    class Meta:
        model = ExchangeRate
        fields = "__all__"


@admin.register(ExchangeRate)
class ExchangeRateAdmin(TenantScopedAdmin):
    """Rates are the same for every team: the operator writes them, everyone may read them."""

    form = RateForm
    writers = NOBODY
    shared_rows = True
    list_display = ("source", "target", "rate", "starts")
    list_filter = ("source", "target")

    def get_queryset(self, request: HttpRequest) -> Any:
        rows = ExchangeRate.objects.all()
        return rows if self.may_read(request) else rows.none()
