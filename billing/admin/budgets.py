"""Budgets: of a line, an account, or the whole team."""

from typing import Any

from django.contrib import admin
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.timezone import now
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from billing.adminmoney import amount
from billing.models import Budget
from billing.standing import standings
from keys.models import Account
from tenants.adminbase import ScopedRelatedFilter, ScopedTabularInline, TenantScopedAdmin, plug_inline
from tenants.adminchips import chip
from tenants.adminforms import ScopedForm
from tenants.formfields import NumbersField
from tenants.models import BusinessLine
from tenants.scoping import tenant_id_of

_TWICE = gettext_lazy("There is a budget of this period already.")


class BudgetForm(ScopedForm):
    constraint_words = {
        "budget_of_line_or_account": gettext_lazy("A budget is a line's or an account's, not both."),
        "one_tenant_budget_per_period": _TWICE,
        "one_line_budget_per_period": _TWICE,
        "one_account_budget_per_period": _TWICE,
    }
    alert_at = NumbersField(
        label=gettext_lazy("alert at (%)"),
        least=1,
        most=1000,
        help_text=gettext_lazy("Such as 80, 100: a mail at each, once per period."),
    )

    class Meta:
        model = Budget
        fields = "__all__"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.instance.pk is None and "alert_at" in self.fields:
            self.initial.setdefault("alert_at", [80, 100])


class BudgetRows(ScopedTabularInline):
    """Budgets inside the page of a line or an account; the tenant follows from it."""

    model = Budget
    form = BudgetForm
    fields = ("amount", "currency", "period", "alert_at", "hard")

    def get_formset(self, request: Any, obj: Any = None, **kwargs: Any) -> Any:
        made = super().get_formset(request, obj, **kwargs)
        owner = tenant_id_of(obj)

        class OwnedForm(made.form):  # type: ignore[misc, name-defined]  # a class made for this request
            def __init__(self, *args: Any, **options: Any) -> None:
                super().__init__(*args, **options)
                if self.instance.tenant_id is None:
                    self.instance.tenant_id = owner

            def save(self, commit: bool = True) -> Any:
                parent = self.instance.line or self.instance.account
                self.instance.tenant_id = tenant_id_of(parent)
                return super().save(commit)

        made.form = OwnedForm
        return made


plug_inline(BusinessLine, BudgetRows)
plug_inline(Account, BudgetRows)


@admin.register(Budget)
class BudgetAdmin(TenantScopedAdmin):
    form = BudgetForm
    list_display = ("about", "limit", "period", "alerts", "kind", "tenant")
    list_filter = (("tenant", ScopedRelatedFilter), "period", "hard")
    list_select_related = ("tenant", "line__tenant", "account")
    search_fields = ("line__slug", "line__name", "account__name")
    autocomplete_fields = ("tenant", "line", "account")
    fields = ("tenant", "line", "account", "amount", "currency", "period", "alert_at", "hard", "standing")
    readonly_fields = ("standing",)

    @admin.display(description=gettext_lazy("now"))
    def standing(self, row: Budget) -> SafeString | str:
        if row._state.adding:
            return "–"
        found = standings([row], now())[row.pk]
        parts = [(_("spent"), found.spent), (_("reserved by calls in flight"), found.reserved), (_("left"), found.left)]
        return format_html_join(" · ", "{} {}", ((name, amount(value, row.currency)) for name, value in parts))

    @admin.display(description=gettext_lazy("of"))
    def about(self, row: Budget) -> str:
        if row.line is not None:
            return _("line %(name)s") % {"name": row.line.name}
        if row.account is not None:
            return _("account %(name)s") % {"name": row.account.name}
        return _("the whole team")

    @admin.display(description=gettext_lazy("amount"))
    def limit(self, row: Budget) -> SafeString:
        return amount(row.amount, row.currency)

    @admin.display(description=gettext_lazy("alerts"))
    def alerts(self, row: Budget) -> str:
        return ", ".join(f"{percent} %" for percent in row.alert_at) or "–"

    @admin.display(description=gettext_lazy("when spent"))
    def kind(self, row: Budget) -> SafeString:
        return chip("bad", _("refuses")) if row.hard else chip("note", _("tells"))
