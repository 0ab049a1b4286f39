"""What nobody edits: alerts, their deliveries, the audit log."""

from typing import Any

from django.apps import apps
from django.contrib import admin
from django.db.models import Q, TextField
from django.db.models.functions import Cast
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tenants.adminbase import LinkedRows, ReadOnlyAdmin, ScopedRelatedFilter, shown_address
from tenants.adminchips import ago, chip
from tenants.models import Alert, AlertDelivery, AuditEntry
from tenants.scoping import OPERATIONS, reach_of, scoped

_TONES = {"pending": "wait", "claimed": "wait", "sent": "good", "failed": "bad"}


def shown_target(row: AlertDelivery) -> str:
    """Return where a delivery goes; of a webhook only the host."""
    return shown_address(row.target) if row.channel == AlertDelivery.Channel.WEBHOOK else row.target


class DeliveryRows(LinkedRows):
    model = AlertDelivery
    fields = ("channel", "to", "occasion", "status", "tries", "error", "sent")
    readonly_fields = fields
    show_change_link = False

    @admin.display(description=gettext_lazy("to"))
    def to(self, row: AlertDelivery) -> str:
        return shown_target(row)


class OpenFilter(admin.SimpleListFilter):
    title = gettext_lazy("state")
    parameter_name = "state"

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, Any]]:
        return [("open", _("open")), ("closed", _("over"))]

    def queryset(self, _request: HttpRequest, queryset: Any) -> Any:
        return (
            queryset.filter(closed__isnull=self.value() == "open") if self.value() in {"open", "closed"} else queryset
        )


@admin.register(Alert)
class AlertAdmin(ReadOnlyAdmin):
    list_display = ("text", "kind", "state", "tenant", "since", "over")
    list_filter = (OpenFilter, "kind", ("tenant", ScopedRelatedFilter))
    list_select_related = ("tenant",)
    search_fields = ("text", "subject")
    fields = ("text", "kind", "subject", "tenant", "opened", "closed")
    inlines = (DeliveryRows,)

    @admin.display(description=gettext_lazy("state"))
    def state(self, row: Alert) -> SafeString:
        return chip("bad", _("open")) if row.closed is None else chip("good", _("over"))

    @admin.display(description=gettext_lazy("since"), ordering="opened")
    def since(self, row: Alert) -> SafeString:
        return ago(row.opened)

    @admin.display(description=gettext_lazy("over"), ordering="closed")
    def over(self, row: Alert) -> SafeString:
        return ago(row.closed)


@admin.register(AlertDelivery)
class AlertDeliveryAdmin(ReadOnlyAdmin):
    list_display = ("alert", "channel", "to", "occasion", "state", "tries", "error", "when")
    list_filter = ("status", "channel")
    list_select_related = ("alert",)
    fields = ("alert", "channel", "to", "occasion", "status", "tries", "error", "created", "due", "sent")

    @admin.display(description=gettext_lazy("to"))
    def to(self, row: AlertDelivery) -> str:
        return shown_target(row)

    @admin.display(description=gettext_lazy("state"))
    def state(self, row: AlertDelivery) -> SafeString:
        return chip(_TONES[row.status], row.get_status_display())

    @admin.display(description=gettext_lazy("sent"), ordering="sent")
    def when(self, row: AlertDelivery) -> SafeString:
        return ago(row.sent)


class KindFilter(admin.SimpleListFilter):
    """Kinds of objects, by their names."""

    title = gettext_lazy("kind")
    parameter_name = "model"

    def lookups(self, request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        return sorted(((label, kind_words(label)) for label in _seen(request, "model")), key=lambda item: item[1])

    def queryset(self, _request: HttpRequest, queryset: Any) -> Any:
        return queryset.filter(model=self.value()) if self.value() else queryset


class PersonFilter(admin.SimpleListFilter):
    """People by the name that they had; empty = the gateway itself and the command line."""

    title = gettext_lazy("person")
    parameter_name = "person"
    NOBODY = "-"

    def lookups(self, request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        return [(name or self.NOBODY, name or _("the gateway itself")) for name in _seen(request, "username")]

    def queryset(self, _request: HttpRequest, queryset: Any) -> Any:
        if not self.value():
            return queryset
        return queryset.filter(username="" if self.value() == self.NOBODY else self.value())


def _seen(request: HttpRequest, column: str, most: int = 200) -> list[str]:
    """Return what stands in a column of the entries that this person may see."""
    rows = scoped(AuditEntry.objects.all(), reach_of(request.user), OPERATIONS)
    return list(rows.order_by(column).values_list(column, flat=True).distinct()[:most])


def kind_words(label: str) -> str:
    """Return the name of a model by its label; the label of one that is gone."""
    try:
        return str(apps.get_model(label)._meta.verbose_name)
    except (LookupError, ValueError):
        return label.rpartition(".")[2]


def action_words(action: str) -> str:
    """Return what was done in plain words; an unknown one as it is."""
    words = {
        "added": _("added"),
        "changed": _("changed"),
        "removed": _("removed"),
        "revoked": _("revoked"),
        "revived": _("revived"),
        "aborted": _("aborted"),
        "close_month": _("month closed"),
        "credit": _("credit given"),
        "reprice": _("priced anew"),
        "login_slowed": _("logins slowed down"),
        "login_unlocked": _("logins let through again"),
        "second_factor_on": _("second factor on"),
        "second_factor_off": _("second factor off"),
        "recovery_code_used": _("recovery code used"),
        "recovery_codes_renewed": _("recovery codes renewed"),
        "invited": _("invited"),
    }
    return words.get(action, action)


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    counted_as = gettext_lazy("audit entries")
    readers = OPERATIONS
    list_display = ("when", "person", "done", "what", "object_name", "changes", "tenant")
    list_filter = (("at", admin.DateFieldListFilter), KindFilter, PersonFilter, ("tenant", ScopedRelatedFilter))
    list_select_related = ("tenant",)
    search_fields = ("username", "object_name", "action")
    search_help_text = gettext_lazy("An object, a person, or the name of a field.")
    change_list_template = "admin/tenants/auditentry/change_list.html"
    fields = ("at", "person", "done", "what", "object_name", "object_id", "changes", "tenant")

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:
        """Look into the names of the fields as well, and into their harmless values."""
        found, twice = super().get_search_results(request, queryset, search_term)
        term = search_term.strip()
        if not term:
            return found, twice
        in_fields = queryset.annotate(fields_text=Cast("fields", TextField())).filter(fields_text__icontains=term)
        return queryset.filter(Q(pk__in=found.values("pk")) | Q(pk__in=in_fields.values("pk"))), twice

    @admin.display(description=gettext_lazy("when"), ordering="at")
    def when(self, row: AuditEntry) -> SafeString:
        return ago(row.at)

    @admin.display(description=gettext_lazy("person"), ordering="username")
    def person(self, row: AuditEntry) -> str:
        return row.username or _("the gateway itself")

    @admin.display(description=gettext_lazy("action"), ordering="action")
    def done(self, row: AuditEntry) -> str:
        return action_words(row.action)

    @admin.display(description=gettext_lazy("kind"))
    def what(self, row: AuditEntry) -> str:
        return kind_words(row.model)

    @admin.display(description=gettext_lazy("fields"))
    def changes(self, row: AuditEntry) -> Any:
        return format_html_join("", "<div><code>{}</code> {}</div>", row.fields.items()) or "–"
