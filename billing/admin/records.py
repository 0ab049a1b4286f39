"""Requests and their attempts: read only, newest first, never counted in full."""

import json
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from billing.admin.narrowing import (
    AttemptKinds,
    LineFilter,
    ModelFilter,
    OutcomeFilter,
    RecordKinds,
    SkippedFilter,
    totals,
)
from billing.admin.periods import PeriodFilter
from billing.admin.searching import found
from billing.adminmoney import amount, tokens
from billing.chain import chain_of, session_words, skip_words
from billing.models import Attempt, RequestRecord
from billing.selectors import explained
from keys.standing import cause_words
from tenants.adminbase import ReadOnlyAdmin, ScopedRelatedFilter
from tenants.adminchips import ago, chip
from tenants.scoping import EVERYONE, OPERATIONS

TONES = {"finished": "good", "failed": "bad", "cancelled": "off"}


def status_chip(row: RequestRecord) -> SafeString:
    """Return how a request ended; a refusal by a limit is told apart from a failure."""
    if row.refusal_limit:
        return chip("wait", _("refused"), title=row.refusal_limit)
    return chip(TONES[row.status], row.get_status_display(), title=row.message)


def charge_mark(row: RequestRecord) -> str:
    """Return what stands behind an amount: est. or unpriced."""
    if row.estimated:
        return _("est.")
    return "" if row.priced else _("unpriced")


@admin.register(RequestRecord)
class RequestRecordAdmin(ReadOnlyAdmin):
    list_display = ("short_id", "received", "line_slug", "model_name", "state", "served_by", "tries", "time",
                    "token_count", "charged")  # fmt: skip
    list_filter = (PeriodFilter, RecordKinds, "status", LineFilter, ModelFilter, ("tenant", ScopedRelatedFilter),
                   "priced", "estimated")  # fmt: skip
    sortable_by = ()  # newest first, as the indexes are; any other order would sort millions
    list_select_related = ("tenant",)
    search_fields = ("request_id",)
    search_help_text = gettext_lazy("A request id, or the exact name of a model, line or key.")
    extra_lookups = frozenset(
        {"gateway_key_id", "upstream_key_id", "upstream", "model_served", "day", "day__gte", "day__lte", "day__lt",
         "currency", "created__gte", "created__lt", "tenant__id__in"}
    )  # fmt: skip
    change_form_template = "admin/billing/requestrecord/change_form.html"
    change_list_template = "admin/billing/requestrecord/change_list.html"

    ordering = ("-day", "-pk")

    def get_list_display(self, request: HttpRequest) -> Any:
        """Name the team to those who see several."""
        reach = self.reach(request)
        if not reach.operator and len(reach.tenants(EVERYONE)) <= 1:
            return self.list_display
        return (*self.list_display[:4], "tenant", *self.list_display[4:])

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:
        return found(queryset, search_term, self.reach(request)), False

    def get_fields(self, _request: HttpRequest, _obj: Any = None) -> Any:
        return ("request_id",)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """Say what a narrowed list adds up to, as long as it is short enough to add up."""
        answer = super().changelist_view(request, extra_context)
        changes = getattr(answer, "context_data", {}).get("cl")
        if changes is not None and changes.result_count > 0 and not changes.paginator.capped:
            answer.context_data["totals"] = totals(changes.queryset)
        return answer

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> Any:
        """Show the request with its chain; the form below it is not rendered."""
        row = self.get_object(request, object_id)
        extra = dict(extra_context or {})
        if row is not None:
            attempts = list(row.attempts.order_by("n"))
            extra |= {
                "record": row,
                "state": status_chip(row),
                "mark": charge_mark(row),
                "chain": chain_of(row, attempts),
                "session": session_words(row.session),
                "original": self._original(request, row),
                "json": _json(explained(row, attempts)),
                "decision_json": _json(row.decision),
                "usage": _usage(row),
                "title": _("Request"),
                "subtitle": row.request_id,
                "may_dry_run": self.reach(request).allows(row.tenant_id, OPERATIONS),
            }
        return super().change_view(request, object_id, form_url, extra)

    def _original(self, request: HttpRequest, row: RequestRecord) -> int | None:
        """Return the request whose answer a replay gave again."""
        if not row.replay_of:
            return None
        found = self.get_queryset(request).filter(tenant=row.tenant_id, request_id=row.replay_of)
        return found.values_list("pk", flat=True).first()

    # --- columns ---

    @admin.display(description=gettext_lazy("request"), ordering="pk")
    def short_id(self, row: RequestRecord) -> SafeString:
        return format_html('<code title="{}">{}…</code>', row.request_id, row.request_id[:12])

    @admin.display(description=gettext_lazy("received"), ordering="created")
    def received(self, row: RequestRecord) -> SafeString:
        return ago(row.created)

    @admin.display(description=gettext_lazy("model"))
    def model_name(self, row: RequestRecord) -> Any:
        if row.model_served and row.model_served != row.model_requested:
            return format_html("{} → {}", row.model_requested, row.model_served)
        return row.model_requested

    @admin.display(description=gettext_lazy("ending"))
    def state(self, row: RequestRecord) -> SafeString:
        if row.status == RequestRecord.Status.FINISHED:
            said = _("the earlier answer again") if row.replay_of else ""
        else:
            said = " · ".join(filter(None, (str(row.http_status or ""), row.error_code)))
        if not said:
            return status_chip(row)
        return format_html("{}<br><small>{}</small>", status_chip(row), said)

    @admin.display(description=gettext_lazy("served by"))
    def served_by(self, row: RequestRecord) -> Any:
        if not row.upstream:
            return "–"
        return format_html("{}<br><small>{}</small>", row.upstream, row.upstream_key)

    @admin.display(description=gettext_lazy("tries"))
    def tries(self, row: RequestRecord) -> Any:
        if row.attempt_count > 1:
            return format_html('<strong title="{}">{}</strong>', _("failed over"), row.attempt_count)
        return row.attempt_count

    @admin.display(description=gettext_lazy("first / all (ms)"))
    def time(self, row: RequestRecord) -> str:
        return f"{row.first_content_ms if row.first_content_ms is not None else '–'} / {row.duration_ms}"

    @admin.display(description=gettext_lazy("tokens in / out"))
    def token_count(self, row: RequestRecord) -> SafeString:
        return format_html("{} / {}", tokens(row.input_tokens), tokens(row.output_tokens))

    @admin.display(description=gettext_lazy("charge"))
    def charged(self, row: RequestRecord) -> SafeString:
        return amount(row.charge, row.currency, "charge", charge_mark(row))


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _usage(row: RequestRecord) -> list[tuple[str, SafeString]]:
    return [
        (_("input"), tokens(row.input_tokens)),
        (_("of it cached"), tokens(row.cached_read_tokens)),
        (_("cache written"), tokens(row.cache_write_tokens)),
        (_("output"), tokens(row.output_tokens)),
        (_("of it reasoning"), tokens(row.reasoning_tokens)),
    ]


@admin.register(Attempt)
class AttemptAdmin(ReadOnlyAdmin):
    list_display = ("record", "n", "upstream", "upstream_key", "result", "status", "ms", "first_content_ms", "paid")
    list_select_related = ("record",)
    list_filter = (AttemptKinds, OutcomeFilter, SkippedFilter)
    sortable_by = ()  # as above
    extra_lookups = frozenset(
        {"record__id__exact", "upstream_key_id", "upstream_key_id__in", "record__created__gte", "record__created__lt"}
    )
    ordering = ("-record_id", "-n")

    fields = (
        "record", "n", "upstream", "upstream_key", "model_sent", "result", "status", "message", "reason", "evidence",
        "upstream_request_id", "started_ms", "queued_ms", "first_content_ms", "ms", "input_tokens",
        "cached_read_tokens", "output_tokens", "paid", "lost",
    )  # fmt: skip

    def get_ordering(self, request: HttpRequest) -> Any:
        """Within a span of time by that time: by the record's number the database would walk through all since then."""
        return ("-record__created", "-n") if "record__created__gte" in request.GET else self.ordering

    @admin.display(description=gettext_lazy("outcome"))
    def result(self, row: Attempt) -> SafeString:
        if row.skipped:
            return chip("off", _("skipped: %(why)s") % {"why": skip_words(row.skipped)})
        return chip("good" if row.outcome == "served" else "bad", cause_words(row.outcome), title=row.message)

    @admin.display(description=gettext_lazy("cost"))
    def paid(self, row: Attempt) -> SafeString:
        return amount(row.cost, kind="cost")

    @admin.display(description=gettext_lazy("waste"))
    def lost(self, row: Attempt) -> SafeString:
        return amount(row.waste, kind="waste")
