"""Reads over records, for the API and the pages."""

from decimal import Decimal
from typing import Any

from django.db import close_old_connections

from billing.models import Attempt, RequestRecord


def request_explained(line_id: int, request_id: str) -> dict[str, Any] | None:
    """Return one request of a line as `GET /v1/requests/{id}` shows it; None when it has none of that id."""
    try:
        row = RequestRecord.objects.filter(line_id=line_id, request_id=request_id).first()
        return explained(row, list(row.attempts.order_by("n"))) if row is not None else None
    finally:
        close_old_connections()


def requests_explained(line_id: int, limit: int, before: str | None) -> list[dict[str, Any]]:
    """Return a line's requests, newest first; `before` is the id of the last one seen."""
    try:
        rows = RequestRecord.objects.filter(line_id=line_id)
        if before:
            last = RequestRecord.objects.filter(line_id=line_id, request_id=before).values_list("pk", flat=True).first()
            rows = rows.filter(pk__lt=last or 0)
        found = list(rows.prefetch_related("attempts").order_by("-pk")[:limit])
        return [explained(row, sorted(row.attempts.all(), key=lambda attempt: attempt.n)) for row in found]
    finally:
        close_old_connections()


def explained(row: RequestRecord, attempts: list[Attempt]) -> dict[str, Any]:
    """Return a record as JSON values: amounts as decimal text, unknown as None."""
    return {
        "id": row.request_id,
        "line": row.line_slug,
        "key": row.key_name,
        "model_requested": row.model_requested,
        "model_served": row.model_served or None,
        "dialect": row.dialect,
        "stream": row.stream,
        "status": row.status,
        "http_status": row.http_status,
        "created": row.created.isoformat(),
        "duration_ms": row.duration_ms,
        "first_content_ms": row.first_content_ms,
        "session": row.session,
        "replay_of": row.replay_of or None,
        "error": {"code": row.error_code, "message": row.message} if row.error_code else None,
        "usage": {
            "input_tokens": row.input_tokens,
            "cached_read_tokens": row.cached_read_tokens,
            "cache_write_tokens": row.cache_write_tokens,
            "cache_write_1h_tokens": row.cache_write_1h_tokens,
            "output_tokens": row.output_tokens,
            "reasoning_tokens": row.reasoning_tokens,
            "source": row.usage_source,
        },
        "charge": {
            "amount": plain(row.charge),
            "currency": row.currency,
            "priced": row.priced,
            "estimated": row.estimated,
        },
        "refusal": {
            "limit": row.refusal_limit,
            "until": row.refusal_until.isoformat() if row.refusal_until is not None else None,
        }
        if row.refusal_limit
        else None,
        "attempts": [_attempt(attempt) for attempt in attempts],
    }


def plain(amount: Decimal | None) -> str | None:
    """Return an amount as plain decimal text, trailing zeros left out but for two places."""
    if amount is None:
        return None
    whole, _, places = f"{amount:.12f}".partition(".")
    return f"{whole}.{places.rstrip('0').ljust(2, '0')}"


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "n": attempt.n,
        "upstream": attempt.upstream,
        "key": attempt.upstream_key,
        "outcome": attempt.outcome or None,
        "content": attempt.content,
        "skipped": attempt.skipped or None,
        "status": attempt.status,
        "ms": attempt.ms,
        "queued_ms": attempt.queued_ms,
        "message": attempt.message,
        "reason": attempt.reason,
    }
