"""A million calls are exported in constant memory, on SQLite and, run by `./bin/test -m scale`, on PostgreSQL.

There rows come through a server-side cursor. What is measured is the peak of the whole process as the system counts
it: Python's own count does not see the driver's buffers.
"""

import gc
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from django.db import connection

from billing.core.record import Bundle, RecordRow
from billing.exports import requests_text
from billing.models import RequestRecord
from billing.monthly import Total, month_rows, month_text
from tests.billing.bulk import write
from tests.factories import LineFactory

pytestmark = [pytest.mark.django_db, pytest.mark.scale, pytest.mark.timeout(1800)]
START = datetime(2026, 11, 1, tzinfo=UTC)
WRITTEN, TIMES = 30_000, 34  # by the recorder's statements, and how often they are there in the end
CALLS = WRITTEN * TIMES
MOST_BYTES = 32 * 1024 * 1024


@pytest.fixture
def line():
    made = LineFactory()

    def bundle(n: int) -> Bundle:
        at = START + timedelta(seconds=n * 30 * 86400 // WRITTEN)
        return Bundle(
            RecordRow(
                id=n + 1, request_id=f"req_{n + 1}", tenant_id=made.tenant_id, line_id=made.pk, line_slug=made.slug,
                line_name=made.name, gateway_key_id=1, key_name=f"k{n % 10}", key_last4="wxyz", created=at,
                day=at.date(), dialect="openai", endpoint="chat", stream=False, model_requested=f"m{n % 1000}",
                model_served="m", status="finished", duration_ms=1, currency="USD", priced=True, input_tokens=n,
                output_tokens=1, charge=Decimal("0.000000000001"), cost=Decimal(0),
            )
        )  # fmt: skip

    write((bundle(n) for n in range(WRITTEN)), group=5000)
    rest = [field.column for field in RequestRecord._meta.concrete_fields if field.column not in {"id", "request_id"}]
    columns = ", ".join(connection.ops.quote_name(name) for name in rest)
    into, out_of = "INSERT INTO billing_requestrecord (id, request_id,", "FROM billing_requestrecord WHERE id <= %s"
    copy = " ".join((into, columns, ") SELECT id + %s, 'req_' || (id + %s),", columns, out_of))
    with connection.cursor() as cursor:
        for number in range(1, TIMES):
            cursor.execute(copy, [number * WRITTEN, number * WRITTEN, WRITTEN])
    return made


def measured(what: str, parts: Callable[[], Iterator[str]]) -> int:
    """Run an export to its end and return its lines; fail when it took more memory than is constant."""
    gc.collect()
    before, since = memory("VmRSS"), time.monotonic()
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    lines = sum(1 for _ in parts())
    took_s, grown = time.monotonic() - since, memory("VmHWM") - before
    figures = f"{lines} lines, {took_s:.1f} s, {grown / 2**20:.1f} MB more than before"
    print(f"\n{connection.vendor}, {what}: {figures}", flush=True)  # noqa: T201  # for bench/report.md
    assert grown < MOST_BYTES, figures
    return lines


def memory(name: str) -> int:
    """Bytes of this process, as Linux counts them."""
    row = next(row for row in Path("/proc/self/status").read_text().splitlines() if row.startswith(name))
    return int(row.split()[1]) * 1024


def test_a_million_calls(line):
    month = START.date()
    total = Total()
    assert measured("bill", lambda: month_text(month_rows(line.tenant, month), total)) == 30 * 1000 + 2
    assert (total.row.calls, total.row.input_tokens) == (CALLS, TIMES * WRITTEN * (WRITTEN - 1) // 2)
    assert total.row.charge == Decimal("0.000000000001") * CALLS
    assert measured("requests", lambda: requests_text(line.tenant, month)) == CALLS + 1
