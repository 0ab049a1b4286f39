"""Routes, their rules, and the route of a line."""

from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from routing.adminforms import WHEN_FIELDS, RuleForm
from routing.adminorder import OrderedAdmin, OrderedForm, OrderedRows
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
    """Return the rules of a route that are switched on and can never match, by id, and why."""
    rules = list(
        RoutingRule.objects.filter(route_id=route_id, enabled=True)
        .select_related("group", "upstream")
        .order_by("position", "pk")
    )
    shapes = [shape_of(rule.name, rule.when, then_of(rule)) for rule in rules]
    return {rules[place].pk: why for place, why in never_matches(shapes)}


class RouteForm(ScopedForm):
    constraint_words = {
        "one_default_route_per_tenant": gettext_lazy("The team has a default route already: switch that one off first.")
    }

    class Meta:
        model = Route
        fields = "__all__"


class RuleRowForm(OrderedForm):
    class Meta:
        model = RoutingRule
        fields = ("position", "enabled")


class RuleRows(OrderedRows):
    """The rules as sentences, in the order in which they are tried; order and switch are edited here."""

    model = RoutingRule
    form = RuleRowForm
    readers = OPERATIONS
    fields = ("position", "rule", "enabled")
    readonly_fields = ("place", "rule")
    max_num = 0
    can_delete = False
    verbose_name_plural = gettext_lazy("rules, tried from the top")

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).select_related("route", "group", "upstream")

    @admin.display(description=gettext_lazy("rule"))
    def rule(self, row: RoutingRule) -> SafeString:
        if row._state.adding:
            return SafeString("")
        known: dict[int, str] | None = getattr(self, "_unreachable", None)  # an inline lives for one request
        if known is None:
            known = self._unreachable = unreachable(row.route_id)
        return rule_words(row, known.get(row.pk, ""))


def rule_words(row: RoutingRule, never: str) -> SafeString:
    """Return a rule as the list shows it. `never`: why it can never match, "" when it can."""
    address = reverse("admin:routing_routingrule_change", args=[row.pk])
    tone, note = "", SafeString("")
    if not row.enabled:
        tone, note = "rule-off", format_html('<span class="rule-note">{}</span>', chip("off", _("switched off")))
    elif never:
        tone, text = "rule-never", _("%(why)s.") % {"why": core_words(never)}
        note = format_html('<span class="rule-note">{} {}</span>', chip("wait", _("never matches")), text)
    return format_html(
        '<span class="rule-words {}"><a href="{}">{}</a><span class="rule-text">{}</span>{}</span>',
        tone, address, row.name, sentence(row), note,
    )  # fmt: skip


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

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Name the rules that can never match in the order that was saved."""
        super().save_related(request, form, formsets, change)
        known = unreachable(form.instance.pk)
        for rule in RoutingRule.objects.filter(pk__in=known).order_by("position"):
            self.message_user(request, never_text(rule.name, known[rule.pk]), messages.WARNING)

    @admin.display(description=gettext_lazy("rules"))
    def rule_count(self, row: Route) -> int:
        return len(row.rules.all())


@admin.register(RoutingRule)
class RoutingRuleAdmin(OrderedAdmin):
    form = RuleForm
    owned_through = "route"
    readers = OPERATIONS
    list_display = ("name", "route", "place", "words", "enabled")
    list_filter = (("route__tenant", ScopedRelatedFilter), ("route", ScopedRelatedFilter))
    list_select_related = ("route__tenant", "group", "upstream")
    search_fields = ("name",)
    autocomplete_fields = ("route", "group", "upstream")
    ordering = ("route", "position", "pk")
    when_fields = (
        gettext_lazy("When"),
        {
            "fields": (
                ("when_model", "when_line"),
                ("when_stream", "when_thinking"),
                ("when_tools", "when_image"),
                "when_input_tokens",
                "when_max_tokens",
                "when_tool_count",
                "when_hours",
                ("when_key", "when_upstream"),
                "when_dialect",
            ),
            "description": gettext_lazy(
                "All that is filled in must hold; nothing filled in = always. Commas separate alternatives, * and ?"
                " stand for any text. A rule with an upstream is judged after each choice of a key and may only"
                " set values or refuse."
            ),
        },
    )
    then_fields = (
        gettext_lazy("Then"),
        {
            "fields": ("group", "upstream", "deny", "set", "proceed"),
            "description": gettext_lazy("At most one of group, upstream and refusal; values may be set with any."),
        },
    )
    reading_fieldsets = ((None, {"fields": ("route", "name", "words", "enabled")}),)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """A reader gets the sentence, not the form. Whoever has the rule in front of them orders it on the route."""
        if obj is not None and not self.has_change_permission(request, obj):
            return self.reading_fieldsets
        first = ("route", "name", "enabled") if obj is not None else ("route", "name", "position", "enabled")
        return ((None, {"fields": first}), self.when_fields, self.then_fields)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return (*super().get_readonly_fields(request, obj), "words")

    def render_change_form(
        self, request: HttpRequest, context: Any, add: bool = False, change: bool = False, form_url: str = "",
        obj: Any = None,
    ) -> Any:  # fmt: skip
        """Show the stored rule as a sentence above its form."""
        if obj is not None and request.method == "GET":
            never = unreachable(obj.route_id).get(obj.pk, "")
            context |= {"sentence": sentence(obj), "never": core_words(never)}
        return super().render_change_form(request, context, add, change, form_url, obj)

    @admin.display(description=gettext_lazy("order"), ordering="position")
    def place(self, row: RoutingRule) -> int:
        return row.position + 1

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
        """Say so when the rule, or one below it, can never match as things stand now."""
        super().save_related(request, form, formsets, change)
        known = unreachable(form.instance.route_id)
        for rule in RoutingRule.objects.filter(pk__in=known).order_by("position"):
            self.message_user(request, never_text(rule.name, known[rule.pk]), messages.WARNING)

    def response_post_save_add(self, request: HttpRequest, obj: Any) -> Any:
        """Go to the route: the rule stands there among the others."""
        return self._to_route(request, obj)

    def response_post_save_change(self, request: HttpRequest, obj: Any) -> Any:
        return self._to_route(request, obj)

    def _to_route(self, request: HttpRequest, obj: Any) -> HttpResponseRedirect:
        del request
        return HttpResponseRedirect(reverse("admin:routing_route_change", args=[obj.route_id]))


def never_text(name: str, why: str) -> str:
    """Return the warning about a rule that nothing reaches."""
    return _("Rule %(name)s can never match: %(why)s.") % {"name": name, "why": core_words(why)}


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
