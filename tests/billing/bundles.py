"""The rows of a finished request, for a tenant and line of the database."""

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import count
from typing import Any

from billing.core.record import AttemptRow, Bundle, LedgerRow, RecordRow
from tenants.models import BusinessLine

NOON = datetime(2026, 11, 15, 12, 0, 0, 123456, tzinfo=UTC)
_numbers = count(1)


def bundle(line: BusinessLine | None = None, number: int | None = None, **record: Any) -> Bundle:
    """One served request that cost 0.000132500001."""
    number = next(_numbers) if number is None else number
    pk, tenant_id, line_id = 1_000_000 + number, line.tenant_id if line else 1, line.pk if line else 1
    row = RecordRow(
        id=pk, request_id=f"req_{number}", tenant_id=tenant_id, line_id=line_id, line_slug="bot", line_name="Bot",
        gateway_key_id=3, key_name="prod", key_last4="wxyz", created=NOON, day=date(2026, 11, 15), dialect="openai",
        endpoint="chat/completions", stream=True, model_requested="gpt-4o", status="finished", duration_ms=12,
        currency="USD", charge=Decimal("0.000132500001"), priced=True, decision={"candidates": [{"key": "k1"}]},
        usage_flags=["odd"], input_tokens=25, output_tokens=7, usage_source="upstream",
    )  # fmt: skip
    tried = AttemptRow(record_id=pk, n=1, upstream="u1", upstream_key_id=4, upstream_key="k1", account_id=None)
    entry = LedgerRow(
        tenant_id=tenant_id, kind="charge", record_id=pk, line_id=line_id, account_id=None, upstream_key_id=None,
        attempt_n=None, amount=Decimal("0.000132500001"), currency="USD", day=date(2026, 11, 15), created=NOON,
    )  # fmt: skip
    return Bundle(replace(row, **record), (tried,), (entry,))
