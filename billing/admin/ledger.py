"""The ledger, closed months and crossed thresholds: read only."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from billing.admin.periods import PeriodFilter
from billing.adminmoney import amount
from billing.models import BudgetAlert, LedgerEntry, Statement
from tenants.adminbase import ReadOnlyAdmin, ScopedRelatedFilter
from tenants.adminchips import ago


@admin.register(LedgerEntry)
class LedgerEntryAdmin(ReadOnlyAdmin):
    counted_as = gettext_lazy("ledger entries")
    list_display = ("created", "kind", "sum", "record", "tenant", "note")
    list_filter = (PeriodFilter, "kind", ("tenant", ScopedRelatedFilter))
    list_select_related = ("tenant", "record")
    sortable_by = ()  # newest first, as the index is; any other order would sort millions
    extra_lookups = frozenset(
        {"line_id", "account_id", "upstream_key_id", "currency", "kind__in", "day__gte", "day__lte", "created__gte",
         "created__lt"}
    )  # fmt: skip
    fields = ("tenant", "kind", "sum", "record", "attempt", "line", "account", "key", "day", "created", "note")

    @admin.display(description=gettext_lazy("amount"))
    def sum(self, row: LedgerEntry) -> SafeString:
        return amount(row.amount, row.currency, "charge" if row.kind == LedgerEntry.Kind.CREDIT else row.kind)

    # Numbers that name something: plain digits, never with thousands marked.

    @admin.display(description=gettext_lazy("attempt"))
    def attempt(self, row: LedgerEntry) -> str:
        return _digits(row.attempt_n)

    @admin.display(description=gettext_lazy("line's number"))
    def line(self, row: LedgerEntry) -> str:
        return _digits(row.line_id)

    @admin.display(description=gettext_lazy("account's number"))
    def account(self, row: LedgerEntry) -> str:
        return _digits(row.account_id)

    @admin.display(description=gettext_lazy("upstream key's number"))
    def key(self, row: LedgerEntry) -> str:
        return _digits(row.upstream_key_id)


def _digits(number: int | None) -> str:
    return "–" if number is None else str(number)


@admin.register(BudgetAlert)
class BudgetAlertAdmin(ReadOnlyAdmin):
    list_display = ("when", "of", "threshold", "period_start")
    list_filter = (("budget__tenant", ScopedRelatedFilter),)
    list_select_related = ("budget",)
    fields = ("of", "threshold", "amount", "period_start", "crossed")

    @admin.display(description=gettext_lazy("budget"))
    def of(self, row: BudgetAlert) -> SafeString:
        address = reverse("admin:billing_budget_change", args=[row.budget_id])
        words = f"{row.budget.amount} {row.budget.currency} / {row.budget.get_period_display()}"
        return format_html('<a href="{}">{}</a>', address, words)

    @admin.display(description=gettext_lazy("crossed"), ordering="crossed")
    def when(self, row: BudgetAlert) -> SafeString:
        return ago(row.crossed)


@admin.register(Statement)
class StatementAdmin(ReadOnlyAdmin):
    list_display = ("name", "tenant", "charge", "due", "closed", "closed_by")
    list_filter = (("tenant", ScopedRelatedFilter),)
    list_select_related = ("tenant",)
    fields = ("tenant", "name", "charge", "due", "closed", "closed_by", "digest")
    change_form_template = "admin/billing/statement/change_form.html"

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).select_related("tenant").defer("csv")

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.csv_view)
        return [path("<int:statement_id>/csv/", view, name="billing_statement_csv"), *super().get_urls()]

    def csv_view(self, request: HttpRequest, statement_id: int) -> HttpResponse:
        """Return the bytes that were closed."""
        row: Statement = get_object_or_404(self.get_queryset(request), pk=statement_id)
        name = f"{row.tenant.slug}-{row.month:%Y-%m}.csv"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return HttpResponse(bytes(row.csv), content_type="text/csv; charset=utf-8", headers=headers)

    @admin.display(description=gettext_lazy("month"), ordering="month")
    def name(self, row: Statement) -> str:
        return f"{row.month:%Y-%m}"

    @admin.display(description=gettext_lazy("charge"))
    def charge(self, row: Statement) -> SafeString:
        return amount(row.total_charge, row.currency)

    @admin.display(description=gettext_lazy("payable"))
    def due(self, row: Statement) -> SafeString:
        return amount(row.payable, row.currency)
