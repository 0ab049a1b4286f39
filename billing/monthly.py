"""The rows of a monthly bill, added up by the database and streamed in order.

Text comes from the records' own copies of names, so that deleted and renamed lines and keys keep theirs. Replays and
refused calls are outside. Tokens, cost and charge are those of `calls`; a failed call is counted and nothing else.
Amounts in a currency that the tenant no longer has are converted at their day's rate; without one they are unpriced.
"""

from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from datetime import date, timedelta
from decimal import Context, Decimal
from typing import Any
from zoneinfo import ZoneInfo

from django.db import connections
from django.db.models import Count, F, Max, Q, QuerySet, Sum
from django.db.models.functions import Collate

from billing.core.csvtext import HEADER, CsvRow, row_text, total_text
from billing.core.periods import midnight
from billing.core.pricing import PriceBook
from billing.models import RequestRecord
from billing.models.fields import MoneySum
from billing.pricebook import read_prices
from tenants.models import Tenant

_EXACT = Context(prec=60)
_ZERO = Decimal(0)
_CHUNK = 2000
_TEXTS = ("line_slug", "key_name", "key_last4", "model_requested", "model_served")
_TOKENS = ("input_tokens", "cached_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")
_IDENTITY = ("date", "line", "gateway_key", "key_last4", "model_requested", "model_served")
_NUMBERS = tuple(column.name for column in fields(CsvRow) if column.type in (int, Decimal))
EMPTY = CsvRow("", "", "", "", "", "", "", "", 0, 0, 0, 0, 0, 0, 0, _ZERO, _ZERO, "", 0, 0)


class Total:
    """Adds rows up while they pass."""

    def __init__(self) -> None:
        self.row = EMPTY

    def through(self, rows: Iterable[CsvRow]) -> Iterator[CsvRow]:
        """Yield the rows unchanged."""
        for row in rows:
            self.row = added(self.row, row)
            yield row


def month_text(rows: Iterable[CsvRow], total: Total | None = None) -> Iterator[str]:
    """Yield the CSV's lines: header, rows, TOTAL. `total` keeps the sums for the caller."""
    total = total or Total()
    yield HEADER
    for row in total.through(rows):
        yield row_text(row)
    yield total_text(total.row)


def month_rows(tenant: Tenant, first: date, line: str | None = None) -> Iterator[CsvRow]:
    """Yield the month's rows, ordered by day, line, gateway key and models (byte order), in constant memory."""
    book = read_prices() if _foreign(tenant, first) else PriceBook()
    pending: CsvRow | None = None
    for row in (_row(tenant, values, book) for values in _groups(tenant, first, line).iterator(chunk_size=_CHUNK)):
        if pending is not None and _identity(pending) == _identity(row):
            pending = replace(added(pending, row), line_name=max(pending.line_name, row.line_name))
            continue
        if pending is not None:
            yield pending
        pending = row
    if pending is not None:
        yield pending


def added(one: CsvRow, other: CsvRow) -> CsvRow:
    """Return `one` with the numbers of both."""
    sums: dict[str, Any] = {name: _sum(getattr(one, name), getattr(other, name)) for name in _NUMBERS}
    return replace(one, **sums)


def following(first: date) -> date:
    """Return the first day of the next month."""
    return (first + timedelta(days=31)).replace(day=1)


def billed(tenant: Tenant, first: date) -> QuerySet[RequestRecord]:
    """Return the records that belong into a month's bill."""
    month = RequestRecord.objects.filter(tenant=tenant, day__gte=first, day__lt=following(first))
    return month.filter(replay_of="", refusal_limit="")


def _foreign(tenant: Tenant, first: date) -> bool:
    return billed(tenant, first).exclude(currency=tenant.currency).exists()


def _groups(tenant: Tenant, first: date, line: str | None) -> QuerySet[RequestRecord, dict[str, Any]]:
    records = billed(tenant, first)
    if line is not None:
        records = records.filter(line_slug=line)
    called = ~Q(status=RequestRecord.Status.FAILED)
    # Texts in byte order, whatever the database's language: a closed month is the same everywhere.
    collation = "C" if connections[records.db].vendor == "postgresql" else "BINARY"
    texts = {f"by_{name}": Collate(F(name), collation) for name in _TEXTS}
    keys = ("day", *texts, "currency")
    groups: QuerySet[RequestRecord, dict[str, Any]] = (
        records.annotate(**texts)
        .values(*keys)
        .annotate(
            line_name=Max("line_name"),
            calls=Count("pk", filter=called),
            failed_calls=Count("pk", filter=~called),
            unpriced_calls=Count("pk", filter=called & Q(priced=False)),
            estimated_calls=Count("pk", filter=called & Q(estimated=True)),
            sum_cost=MoneySum("cost", filter=called),
            sum_charge=MoneySum("charge", filter=called),
            **{f"sum_{name}": Sum(name, filter=called) for name in _TOKENS},
        )
        .order_by(*keys)
    )
    return groups


def _row(tenant: Tenant, values: dict[str, Any], book: PriceBook) -> CsvRow:
    cost, charge, unpriced = values["sum_cost"] or _ZERO, values["sum_charge"] or _ZERO, values["unpriced_calls"]
    if values["currency"] != tenant.currency:
        at = midnight(values["day"], ZoneInfo(tenant.timezone))
        converted = [book.convert(sum_, values["currency"], tenant.currency, at, tenant.pk) for sum_ in (cost, charge)]
        cost, charge = (amount or _ZERO for amount in converted)
        unpriced = values["calls"] if None in converted else unpriced
    return CsvRow(
        date=values["day"].isoformat(),
        tenant=tenant.slug,
        line=values["by_line_slug"],
        line_name=values["line_name"],
        gateway_key=values["by_key_name"],
        key_last4=values["by_key_last4"],
        model_requested=values["by_model_requested"],
        model_served=values["by_model_served"],
        calls=values["calls"],
        failed_calls=values["failed_calls"],
        **{name: values[f"sum_{name}"] or 0 for name in _TOKENS},
        cost=cost,
        charge=charge,
        currency=tenant.currency,
        unpriced_calls=unpriced,
        estimated_calls=values["estimated_calls"],
    )


def _identity(row: CsvRow) -> tuple[str, ...]:
    return tuple(getattr(row, name) for name in _IDENTITY)


def _sum(one: int | Decimal, other: int | Decimal) -> int | Decimal:
    return _EXACT.add(one, other) if isinstance(one, Decimal) else one + int(other)
