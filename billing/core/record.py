"""The rows that one finished request leaves, as plain values. Field names are the columns' names.

They are not frozen: setting fifty fields of a frozen dataclass costs more than the rest of booking them.
"""

from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any


@dataclass(slots=True, kw_only=True)
class RecordRow:
    """One admitted client request. Amounts are in `currency`; None = not known."""

    id: int
    request_id: str
    tenant_id: int
    line_id: int
    line_slug: str
    line_name: str
    gateway_key_id: int
    key_name: str
    key_last4: str
    created: datetime
    day: date
    dialect: str
    endpoint: str
    stream: bool
    model_requested: str
    model_served: str = ""
    status: str
    http_status: int | None = None
    error_code: str = ""
    message: str = ""
    refusal_limit: str = ""
    refusal_until: datetime | None = None
    duration_ms: int
    first_content_ms: int | None = None
    session: str = ""
    conversation: str = ""
    route: str = ""
    rule: str = ""
    group: str = ""
    upstream: str = ""
    upstream_key_id: int | None = None
    upstream_key: str = ""
    attempt_count: int = 0
    skips_left_out: int = 0
    decision: dict[str, Any] = field(default_factory=dict)
    input_tokens: int | None = None
    cached_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    usage_source: str = "none"
    usage_flags: list[str] = field(default_factory=list)
    charge: Decimal | None = None
    cost: Decimal | None = None
    waste: Decimal | None = None
    currency: str
    priced: bool = False
    estimated: bool = False
    price_id: int | None = None
    price: dict[str, Any] = field(default_factory=dict)
    replay_of: str = ""


@dataclass(slots=True, kw_only=True)
class AttemptRow:
    """One exchange, or a recorded skip."""

    record_id: int
    n: int
    upstream: str
    upstream_key_id: int | None
    upstream_key: str
    account_id: int | None
    model_sent: str = ""
    outcome: str = ""
    content: bool = False
    skipped: str = ""
    status: int | None = None
    started_ms: int = 0
    ms: int | None = None
    queued_ms: int = 0
    first_content_ms: int | None = None
    message: str = ""
    reason: str = ""
    evidence: str = ""
    upstream_request_id: str = ""
    input_tokens: int | None = None
    cached_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    usage_source: str = "none"
    cost: Decimal | None = None
    waste: Decimal | None = None


@dataclass(slots=True, kw_only=True)
class LedgerRow:
    """An amount to book. `kind` is charge, cost or waste; cost and waste name their attempt."""

    tenant_id: int
    kind: str
    record_id: int
    line_id: int
    account_id: int | None
    upstream_key_id: int | None
    attempt_n: int | None
    amount: Decimal
    currency: str
    day: date
    created: datetime
    note: str = ""


@dataclass(slots=True, kw_only=True)
class AnswerRow:
    """An answer kept for `Idempotency-Key`. `body` is encrypted text; "" = finished, but too large to be kept."""

    line_id: int
    key_digest: str
    body_digest: str
    request_id: str
    status: int
    headers: dict[str, str]
    body: str = field(repr=False)
    created: datetime


@dataclass(frozen=True, slots=True)
class Bundle:
    """All rows of one request: written together or not at all."""

    record: RecordRow
    attempts: tuple[AttemptRow, ...] = ()
    ledger: tuple[LedgerRow, ...] = ()
    answer: AnswerRow | None = None
