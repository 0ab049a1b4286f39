"""Strategy groups and their members."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from keys.adminfields import PolicyField
from routing.adminorder import OrderedAdmin, OrderedForm, OrderedRows
from routing.models import GroupMember, StrategyGroup
from routing.ordering import LAST
from tenants.adminbase import ScopedRelatedFilter, TenantScopedAdmin
from tenants.adminchips import listing
from tenants.adminforms import ScopedForm
from tenants.scoping import OPERATIONS


class GroupForm(ScopedForm):
    policy = PolicyField(
        label=gettext_lazy("failover policy"),
        base=gettext_lazy("None chosen: the numbers of “standard”, but for what is written here."),
        base_preset="standard",
        help_text=gettext_lazy("A preset, and what differs from it: one a line, name = value."),
    )

    class Meta:
        model = StrategyGroup
        fields = "__all__"


class MemberForm(OrderedForm):
    constraint_words = {"upstream_once_per_group": gettext_lazy("The group has this upstream already.")}

    class Meta:
        model = GroupMember
        fields = "__all__"


class SingleMemberForm(ScopedForm):
    """A member on a page of its own: a new one goes to the end, the group's page puts it elsewhere."""

    constraint_words = MemberForm.constraint_words

    class Meta:
        model = GroupMember
        fields = ("group", "upstream", "weight")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.instance.pk is None:
            self.instance.position = LAST


class MemberRows(OrderedRows):
    model = GroupMember
    form = MemberForm
    readers = OPERATIONS
    fields = ("position", "upstream", "weight")
    autocomplete_fields = ("upstream",)

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).select_related("upstream")


@admin.register(StrategyGroup)
class StrategyGroupAdmin(TenantScopedAdmin):
    form = GroupForm
    readers = OPERATIONS
    list_display = ("name", "tenant", "strategy", "member_names", "last_resort", "preset")
    list_filter = (("tenant", ScopedRelatedFilter), "strategy")
    list_select_related = ("tenant", "last_resort")
    search_fields = ("name",)
    autocomplete_fields = ("tenant", "last_resort")
    inlines = (MemberRows,)
    fieldsets = (
        (None, {"fields": ("tenant", "name", "strategy", "basis", "last_resort")}),
        (gettext_lazy("Failover"), {"fields": ("stream_hold", "policy")}),
    )

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).prefetch_related("members__upstream")

    @admin.display(description=gettext_lazy("members"))
    def member_names(self, row: StrategyGroup) -> str:
        members = sorted(row.members.all(), key=lambda member: (member.position, member.pk))
        return listing([member.upstream.name for member in members], _("none yet"))

    @admin.display(description=gettext_lazy("preset"))
    def preset(self, row: StrategyGroup) -> str:
        return str(row.policy.get("preset", "standard"))


@admin.register(GroupMember)
class GroupMemberAdmin(OrderedAdmin):
    form = SingleMemberForm
    owned_through = "group"
    readers = OPERATIONS
    list_display = ("group", "place", "upstream", "weight")
    fields = ("group", "upstream", "weight")
    list_filter = (("group", ScopedRelatedFilter),)
    list_select_related = ("group", "upstream")
    autocomplete_fields = ("group", "upstream")

    @admin.display(description=gettext_lazy("order"), ordering="position")
    def place(self, row: GroupMember) -> int:
        return row.position + 1
