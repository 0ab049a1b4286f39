"""Accounts: keys that share one balance or quota."""

from typing import Any, ClassVar

from django.contrib import admin
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from keys.balances import read_soon
from keys.balancewords import balance_cell, balance_story, watch_of
from keys.core.addresses import url_problem
from keys.hosts import HostVerdict, judge_address
from keys.models import Account, UpstreamKey
from tenants.adminbase import LinkedRows, ScopedRelatedFilter, TenantScopedAdmin
from tenants.adminforms import ScopedForm
from tenants.core.decimals import trimmed
from tenants.corewords import core_words
from tenants.scoping import OPERATIONS


class AccountForm(ScopedForm):
    verdict: HostVerdict | None = None  # judged before the transaction began

    class Meta:
        model = Account
        fields = "__all__"
        help_texts: ClassVar = {
            "balance_url": gettext_lazy(
                "Where a key of this account is told what is left, such as https://relay.example/api/usage/token/."
                " Empty: asked at OpenRouter, DeepSeek and Moonshot, elsewhere not."
            )
        }

    def clean_balance_url(self) -> str:
        """Hold the address to the same rules as an upstream's."""
        typed: str = self.cleaned_data["balance_url"]
        if typed and (problem := url_problem(typed)):
            raise ValidationError(_("The address %(problem)s."), params={"problem": core_words(problem)})
        if typed and self.verdict is not None and self.verdict.problem:
            raise ValidationError(core_words(self.verdict.problem))
        return typed

    def clean(self) -> dict[str, Any] | None:
        super().clean()
        if self.cleaned_data.get("credit_amount") is not None and not self.cleaned_data.get("credit_currency"):
            self.add_error("credit_currency", _("An amount needs a currency."))
        return self.cleaned_data


class KeyRows(LinkedRows):
    model = UpstreamKey
    readers = OPERATIONS
    fields = ("name", "upstream", "tail", "enabled")
    readonly_fields = fields

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).select_related("upstream")


@admin.register(Account)
class AccountAdmin(TenantScopedAdmin):
    form = AccountForm
    readers = OPERATIONS
    list_display = ("name", "tenant", "credit", "money_left", "quota_timezone")
    list_filter = (("tenant", ScopedRelatedFilter),)
    list_select_related = ("tenant", "balance")
    search_fields = ("name",)
    autocomplete_fields = ("tenant",)
    hidden_values = frozenset({"balance_url"})
    inlines = (KeyRows,)
    fieldsets = (
        (None, {"fields": ("tenant", "name", "quota_timezone")}),
        (
            gettext_lazy("Credit"),
            {
                "fields": (("credit_amount", "credit_currency", "credit_period"), "balance_url", "story"),
                "description": gettext_lazy("What may be spent here before the provider stops; empty = not known."),
            },
        ),
    )
    readonly_fields = ("story",)

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Look the host up before the transaction begins."""
        typed = request.POST.get("balance_url", "").strip()
        request.host_verdict = judge_address(typed) if typed and not url_problem(typed) else None  # type: ignore[attr-defined]
        return super().changeform_view(request, *args, **kwargs)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        made = super().get_form(request, obj, change, **kwargs)
        made.verdict = getattr(request, "host_verdict", None)  # type: ignore[attr-defined]  # made for this request
        return made

    def save_model(self, request: HttpRequest, obj: Account, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if "balance_url" in form.changed_data:
            read_soon(obj)

    @admin.display(description=gettext_lazy("balance"))
    def money_left(self, row: Account) -> SafeString:
        return balance_cell(watch_of(row))

    @admin.display(description=gettext_lazy("balance"))
    def story(self, row: Account) -> SafeString:
        return balance_story(watch_of(row) if row.pk else None)

    @admin.display(description=gettext_lazy("credit"))
    def credit(self, row: Account) -> str:
        if row.credit_amount is None:
            return "–"
        period = row.get_credit_period_display() if row.credit_period else ""
        return f"{trimmed(row.credit_amount)} {row.credit_currency} {period}".strip()
