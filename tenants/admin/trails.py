"""What nobody edits: alerts, their deliveries, the audit log."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tenants.adminbase import LinkedRows, ReadOnlyAdmin, ScopedRelatedFilter, shown_address
from tenants.adminchips import ago, chip
from tenants.models import Alert, AlertDelivery, AuditEntry
from tenants.scoping import OPERATIONS

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


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    readers = OPERATIONS
    list_display = ("when", "username", "action", "what", "object_name", "changes", "tenant")
    list_filter = ("action", ("tenant", ScopedRelatedFilter))
    list_select_related = ("tenant",)
    search_fields = ("username", "object_name")
    fields = ("at", "username", "action", "what", "object_name", "object_id", "changes", "tenant")

    @admin.display(description=gettext_lazy("when"), ordering="at")
    def when(self, row: AuditEntry) -> SafeString:
        return ago(row.at)

    @admin.display(description=gettext_lazy("kind"))
    def what(self, row: AuditEntry) -> str:
        return row.model.rpartition(".")[2]

    @admin.display(description=gettext_lazy("fields"))
    def changes(self, row: AuditEntry) -> Any:
        return format_html_join("", "<div><code>{}</code> {}</div>", row.fields.items()) or "–"
