"""Requests to the Lua scripts, and their answers, as JSON."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from keys.core.admission import Admission, AdmitRequest, Block, Hold, ProbeLease
from keys.core.counts import BUCKETS, bucket_of, error_text, hour_of
from keys.core.outcome import Cause
from keys.core.report import Part, Report, key_target
from keys.core.state import is_failure
from keys.core.windows import Caps, Span
from keys.stores.gate import Eligible
from keys.stores.waiting import Patience


def admit_words(request: AdmitRequest, keys: Sequence[Eligible], now: datetime, patience: Patience) -> dict[str, Any]:
    return {
        "now": now.timestamp(),
        "ticket": request.ticket,
        "tokens": request.tokens,
        "slots": request.slots,
        "left": patience.left_s,
        "arrived": patience.arrived,
        "queued": patience.queued,
        "callers": [{"scope": caller.scope, "caps": _caps(caller.caps)} for caller in request.callers],
        "keys": [
            {
                "id": one.key.key_id,
                "scope": key_target(one.key.key_id),
                "caps": _caps(one.key.caps),
                "probes": one.probes,
            }
            for one in keys
        ],
    }


def admission_of(
    answer: Mapping[str, Any], request: AdmitRequest, keys: Sequence[Eligible], now: datetime
) -> Admission:
    """Read the answer of `admit.lua`; `passed` and `waited_s` are the caller's to add."""
    if not answer["passed"]:
        return Admission(blocks=_blocks(answer["blocks"]))
    holds = tuple(_hold(caller.scope, caller.caps, request, now) for caller in request.callers)
    if "key" not in answer:
        blocks = _blocks(answer["blocks"])
        return Admission(callers_passed=True, holds=holds, blocks=blocks, busy=blocks)
    chosen = next(one for one in keys if one.key.key_id == answer["key"])
    key = chosen.key
    return Admission(
        key_id=key.key_id,
        callers_passed=True,
        holds=(*holds, _hold(key_target(key.key_id), key.caps, request, now)),
        probe=ProbeLease(request.ticket, chosen.probes) if chosen.probes else None,
        busy=_blocks(answer["busy"]),
    )


def settle_words(now: datetime) -> dict[str, Any]:
    """A settling that does nothing yet."""
    parts: dict[str, Any] = {
        name: [] for name in ("moves", "counts", "fixes", "releases", "renewals", "leaves", "ends", "tell")
    }
    return {"now": now.timestamp(), "buckets": BUCKETS, **parts}


def count_words(reports: Iterable[Report], now: datetime) -> list[dict[str, Any]]:
    """Counter steps; health probes and late parts count nothing."""
    return [
        {
            "key": report.key_id,
            "bucket": bucket_of(now),
            "hour": hour_of(now),
            "served": report.outcome.cause is Cause.SERVED,
            **({"error": error_text(report.outcome)} if is_failure(report.outcome) else {}),
        }
        for report in reports
        if not report.probe and report.part is not Part.LATE
    ]


def fix_words(holds: Iterable[Hold], tokens: int) -> list[dict[str, Any]]:
    """Corrections of token windows from estimate to truth."""
    return [
        {
            "scope": hold.scope,
            "window": _window(span, limit),
            "bucket": int(hold.at.timestamp() // span.width_s),
            "delta": tokens - hold.tokens,
        }
        for hold in holds
        for span, limit in hold.caps.windows()
        if span.of_tokens and tokens != hold.tokens
    ]


def slot_words(holds: Iterable[Hold]) -> list[tuple[str, str]]:
    return [(hold.scope, hold.ticket) for hold in holds if hold.slot and hold.caps.concurrency is not None]


def _caps(caps: Caps) -> dict[str, Any]:
    words: dict[str, Any] = {"windows": [_window(span, limit) for span, limit in caps.windows()]}
    if caps.concurrency is not None:
        words["slots"] = caps.concurrency
    return words


def _window(span: Span, limit: int) -> dict[str, Any]:
    return {
        "name": span.name,
        "width": span.width_s,
        "buckets": span.buckets,
        "limit": limit,
        "of_tokens": span.of_tokens,
    }


def _blocks(rows: Iterable[Sequence[Any]]) -> tuple[Block, ...]:
    # An empty Lua table is an empty JSON object, which iterates like an empty list.
    return tuple(Block(str(row[0]), str(row[1]), float(row[2]) if len(row) > 2 else None) for row in rows)  # noqa: PLR2004  scope, limit, seconds left


def _hold(scope: str, caps: Caps, request: AdmitRequest, now: datetime) -> Hold:
    return Hold(scope, request.ticket, now, request.tokens, caps, request.slots)
