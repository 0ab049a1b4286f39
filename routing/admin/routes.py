"""Routes, their rules, and the route of a line."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import Max
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from routing.adminforms import WHEN_FIELDS, RuleForm
from routing.core.rule_checks import never_matches, shape_of
from routing.models import LineRoute, Route, RoutingRule
from routing.sentences import sentence, then_of
from tenants.adminbase import ScopedRelatedFilter, ScopedTabularInline, TenantScopedAdmin, plug_inline
from tenants.adminchips import chip
from tenants.adminforms import ScopedForm
from tenants.corewords import core_words
from tenants.models import BusinessLine
from tenants.scoping import OPERATIONS


def unreachable(route_id: int) -> dict[int, str]:
    """Return the rules of a route that can never match, by id, and why."""
    rules = list(RoutingRule.objects.filter(route_id=route_id).select_related("group", "upstream"))
    shapes = [shape_of(rule.name, rule.when, then_of(rule)) for rule in rules]
    return {rules[place].pk: why for place, why in never_matches(shapes)}


class RouteForm(ScopedForm):
    constraint_words = {
        "one_default_route_per_tenant": gettext_lazy("The team has a default route already: switch that one off first.")
    }

    class Meta:
        model = Route
        fields = "__all__"


class RuleRows(ScopedTabularInline):
    """The rules as sentences, in the order in which they are tried; only the order is edited here."""

    model = RoutingRule
    form = ScopedForm
    readers = OPERATIONS
    fields = ("position", "rule", "reached")
    readonly_fields = ("rule", "reached")
    ordering = ("position", "pk")
    max_num = 0
    can_delete = False
    classes = ("sortable",)

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).select_related("route", "group", "upstream")

    @admin.display(description=gettext_lazy("rule"))
    def rule(self, row: RoutingRule) -> SafeString:
        address = reverse("admin:routing_routingrule_change", args=[row.pk])
        return format_html('<a href="{}">{}</a><br>{}', address, row.name, sentence(row))

    @admin.display(description=gettext_lazy("reached"))
    def reached(self, row: RoutingRule) -> SafeString:
        known: dict[int, str] | None = getattr(self, "_unreachable", None)  # an inline lives for one request
        if known is None:
            known = self._unreachable = unreachable(row.route_id)
        return chip("off", _("never"), title=core_words(known[row.pk])) if row.pk in known else chip("good", _("yes"))


@admin.register(Route)
class RouteAdmin(TenantScopedAdmin):
    form = RouteForm
    readers = OPERATIONS
    list_display = ("name", "tenant", "is_default", "rule_count")
    list_filter = (("tenant", ScopedRelatedFilter),)
    list_select_related = ("tenant",)
    search_fields = ("name",)
    autocomplete_fields = ("tenant",)
    inlines = (RuleRows,)
    fields = ("tenant", "name", "is_default")
    change_form_template = "admin/routing/route/change_form.html"

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).prefetch_related("rules")

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> Any:
        """A new rule goes to the end."""
        rows = self.get_queryset(request).filter(pk=object_id) if object_id.isdigit() else None
        last = rows.aggregate(last=Max("rules__position"))["last"] if rows is not None else None
        extra = {**(extra_context or {}), "next_position": 0 if last is None else last + 1}
        return super().change_view(request, object_id, form_url, extra)

    @admin.display(description=gettext_lazy("rules"))
    def rule_count(self, row: Route) -> int:
        return len(row.rules.all())


@admin.register(RoutingRule)
class RoutingRuleAdmin(TenantScopedAdmin):
    form = RuleForm
    readers = OPERATIONS
    list_display = ("name", "route", "position", "words")
    list_filter = (("route__tenant", ScopedRelatedFilter), ("route", ScopedRelatedFilter))
    list_select_related = ("route__tenant", "group", "upstream")
    search_fields = ("name",)
    autocomplete_fields = ("route", "group", "upstream")
    ordering = ("route", "position", "pk")
    fieldsets = (
        (None, {"fields": ("route", ("position", "name"))}),
        (
            gettext_lazy("When"),
            {
                "fields": (
                    ("when_model", "when_line"),
                    ("when_key", "when_hours"),
                    ("when_stream", "when_tools", "when_image", "when_thinking"),
                    ("when_input_tokens", "when_max_tokens", "when_tool_count"),
                    "when_dialect",
                    "when_upstream",
                ),
                "description": gettext_lazy(
                    "All that is filled in must hold; nothing filled in = always. Commas separate alternatives, * and ?"
                    " stand for any text. A rule with an upstream is judged after each choice of a key and may only"
                    " set values or refuse."
                ),
            },
        ),
        (gettext_lazy("Then"), {"fields": ("set", "group", "upstream", "deny", "proceed")}),
    )
    reading_fieldsets = ((None, {"fields": ("route", "position", "name", "words")}),)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """A reader gets the sentence, not the form."""
        if obj is not None and not self.has_change_permission(request, obj):
            return self.reading_fieldsets
        return self.fieldsets

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return (*super().get_readonly_fields(request, obj), "words")

    @admin.display(description=gettext_lazy("rule"))
    def words(self, row: RoutingRule) -> str:
        return sentence(row)

    def noted(self, form: Any) -> dict[str, Any]:
        """Note the conditions as one value."""
        fields = super().noted(form)
        if any(fields.pop(name, None) is not None for name in WHEN_FIELDS):
            fields["when"] = form.instance.when
        return fields

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Say so when the rule can never match where it stands."""
        super().save_related(request, form, formsets, change)
        why = unreachable(form.instance.route_id).get(form.instance.pk)
        if why:
            text = _("This rule can never match: %(why)s.") % {"why": core_words(why)}
            self.message_user(request, text, messages.WARNING)


class LineRouteRows(ScopedTabularInline):
    model = LineRoute
    readers = OPERATIONS
    autocomplete_fields = ("route",)
    max_num = 1
    verbose_name_plural = gettext_lazy("route (none = the team's default)")


plug_inline(BusinessLine, LineRouteRows)


@admin.register(LineRoute)
class LineRouteAdmin(TenantScopedAdmin):
    readers = OPERATIONS
    list_display = ("line", "route")
    list_select_related = ("line__tenant", "route")
    list_filter = (("route", ScopedRelatedFilter),)
    search_fields = ("line__slug", "route__name")
    autocomplete_fields = ("line", "route")
