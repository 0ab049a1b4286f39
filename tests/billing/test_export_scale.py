"""A million calls are exported in constant memory."""

import tracemalloc
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from billing.core.record import Bundle, RecordRow
from billing.monthly import Total, month_rows, month_text
from tests.billing.bulk import write
from tests.factories import LineFactory

pytestmark = [pytest.mark.django_db, pytest.mark.scale, pytest.mark.timeout(1800)]
MOST_BYTES = 32 * 1024 * 1024


@pytest.mark.parametrize("calls", [1_000_000])
def test_a_million_calls(calls):
    line = LineFactory()
    start = datetime(2026, 11, 1, tzinfo=UTC)

    def bundle(n: int) -> Bundle:
        at = start + timedelta(seconds=n * 30 * 86400 // calls)
        return Bundle(
            RecordRow(
                id=n + 1, request_id=f"req_{n:032x}", tenant_id=line.tenant_id, line_id=line.pk, line_slug=line.slug,
                line_name=line.name, gateway_key_id=1, key_name=f"k{n % 10}", key_last4="wxyz", created=at,
                day=at.date(), dialect="openai", endpoint="chat", stream=False, model_requested=f"m{n % 1000}",
                model_served="m", status="finished", duration_ms=1, currency="USD", priced=True, input_tokens=n,
                output_tokens=1, charge=Decimal("0.000000000001"), cost=Decimal(0),
            )
        )  # fmt: skip

    write((bundle(n) for n in range(calls)), group=5000)
    total = Total()
    tracemalloc.start()
    lines = sum(1 for _ in month_text(month_rows(line.tenant, start.date()), total))
    _now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MOST_BYTES
    assert lines == 30 * 1000 + 2
    assert (total.row.calls, total.row.input_tokens) == (calls, calls * (calls - 1) // 2)
    assert total.row.charge == Decimal("0.000001")
