"""One JSON line per finished request in the log `billing.requests`, written for a whole commit at once."""

import logging
from collections.abc import Sequence
from typing import Any

from billing.core.jsonline import json_line
from billing.core.record import AttemptRow, Bundle

logger = logging.getLogger("billing.requests")


def log_requests(bundles: Sequence[Bundle]) -> None:
    """Write the lines of one group commit."""
    if logger.isEnabledFor(logging.INFO):
        logger.info("\n".join(line_of(bundle) for bundle in bundles))


def line_of(bundle: Bundle) -> str:
    """Return who asked, what was decided and why, each try, and what it used and cost. No content, no secret."""
    row = bundle.record
    shown = {
        "id": row.request_id,
        "at": row.created,
        "tenant": row.tenant_id,
        "line": row.line_slug,
        "key": row.key_name,
        "dialect": row.dialect,
        "endpoint": row.endpoint,
        "stream": row.stream,
        "model": row.model_requested,
        "served": row.model_served,
        "status": row.status,
        "http_status": row.http_status,
        "code": row.error_code,
        "replay_of": row.replay_of or None,
        "session": row.session,
        "route": row.route,
        "rule": row.rule,
        "group": row.group,
        "upstream": row.upstream,
        "upstream_key": row.upstream_key,
        "ms": row.duration_ms,
        "first_content_ms": row.first_content_ms,
        "input_tokens": row.input_tokens,
        "cached_read_tokens": row.cached_read_tokens,
        "cache_write_tokens": row.cache_write_tokens,
        "output_tokens": row.output_tokens,
        "usage_source": row.usage_source,
        "charge": row.charge,
        "cost": row.cost,
        "waste": row.waste,
        "currency": row.currency,
        "attempts": [_attempt(attempt) for attempt in bundle.attempts],
        "decision": row.decision,
    }
    return json_line(shown).decode()


def _attempt(row: AttemptRow) -> dict[str, Any]:
    return {
        "n": row.n,
        "upstream": row.upstream,
        "key": row.upstream_key,
        "outcome": row.outcome or None,
        "skipped": row.skipped or None,
        "status": row.status,
        "ms": row.ms,
        "queued_ms": row.queued_ms,
        "first_content_ms": row.first_content_ms,
        "evidence": row.evidence,
        "reason": row.reason,
    }
