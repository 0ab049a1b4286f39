"""Requests, credits and the audit log of a month as CSV: the bill's dialect, one line per row, in constant memory."""

import json
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from django.db.models import QuerySet

from billing.core.csvtext import csv_line
from billing.core.periods import month_of
from billing.models import LedgerEntry, RequestRecord
from billing.monthly import following
from tenants.models import AuditEntry, BusinessLine, Tenant

_CHUNK = 2000
_REQUEST = (
    "request_id", "created", "day", "line_slug", "key_name", "key_last4", "dialect", "endpoint", "stream",
    "model_requested", "model_served", "status", "http_status", "error_code", "refusal_limit", "upstream",
    "upstream_key", "attempt_count", "duration_ms", "first_content_ms", "input_tokens", "cached_read_tokens",
    "cache_write_tokens", "cache_write_1h_tokens", "output_tokens", "reasoning_tokens", "usage_source", "charge",
    "cost", "waste", "currency", "priced", "estimated", "replay_of",
)  # fmt: skip
_AUDIT = ("at", "tenant__slug", "username", "action", "model", "object_id", "object_name", "fields")
_CREDIT = ("created", "line", "amount", "currency", "note")


def requests_text(tenant: Tenant, first: date, line: str | None = None) -> Iterator[str]:
    """Yield every request of a month, oldest first; times in the tenant's zone, unknown figures empty."""
    zone = ZoneInfo(tenant.timezone)
    rows = RequestRecord.objects.filter(tenant=tenant, day__gte=first, day__lt=following(first))
    if line is not None:
        rows = rows.filter(line_slug=line)
    yield csv_line(_REQUEST)
    for values in rows.order_by("day", "pk").values_list(*_REQUEST).iterator(chunk_size=_CHUNK):
        yield csv_line([_cell(value, zone) for value in values])


def audit_text(tenant: Tenant, first: date) -> Iterator[str]:
    """Return a month's audit entries, oldest first."""
    zone = ZoneInfo(tenant.timezone)
    start, end = month_of(first, zone)
    rows = AuditEntry.objects.filter(tenant=tenant, at__gte=start, at__lt=end)
    return audit_rows_text(rows.order_by("at", "pk"), zone)


def audit_rows_text(rows: QuerySet[AuditEntry], zone: ZoneInfo) -> Iterator[str]:
    """Yield audit entries in the order given; times in the zone given."""
    yield csv_line([name.removesuffix("__slug") for name in _AUDIT])
    for values in rows.values_list(*_AUDIT).iterator(chunk_size=_CHUNK):
        yield csv_line([_cell(value, zone) for value in values])


def credits_text(tenant: Tenant, first: date, line: str | None = None) -> Iterator[str]:
    """Yield the corrections of a closed month, oldest first; `amount` is what is given back."""
    zone = ZoneInfo(tenant.timezone)
    names = dict(BusinessLine.objects.filter(tenant=tenant).values_list("pk", "slug"))
    rows = LedgerEntry.objects.filter(
        tenant=tenant, kind=LedgerEntry.Kind.CREDIT, day__gte=first, day__lt=following(first)
    )
    yield csv_line(_CREDIT)
    for row in rows.order_by("pk").iterator(chunk_size=_CHUNK):
        slug = names.get(row.line_id, "") if row.line_id is not None else ""
        if line is None or slug == line:
            yield csv_line([_cell(row.created, zone), slug, -row.amount, row.currency, row.note])


def _cell(value: Any, zone: ZoneInfo) -> str | int | Decimal | None:
    if isinstance(value, datetime):
        return value.astimezone(zone).isoformat(timespec="milliseconds")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    known: str | int | Decimal | None = value
    return known
