"""Builders of prices and usages for the money tests."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from billing.core.pricing import PriceRow, PriceUnit
from billing.core.usage import Usage, UsageSource

NOW = datetime(2026, 11, 10, 12, tzinfo=UTC)
EVER = date(1970, 1, 1)


def decimal(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)


def price(model: str = "gpt-4o", row_id: int = 1, tenant_id: int | None = None, **stated: Any) -> PriceRow:
    """`stated`: rates as text, `currency`, `unit`, `starts`."""
    rates = {
        name: decimal(stated.get(name))
        for name in ("input", "cached_input", "cache_write", "cache_write_1h", "output", "call")
    }
    return PriceRow(
        id=row_id,
        tenant_id=tenant_id,
        model=model,
        unit=stated.get("unit", PriceUnit.PER_MILLION_TOKENS),
        currency=stated.get("currency", "USD"),
        starts=stated.get("starts", EVER),
        **rates,
    )


def tokens(
    total: int | None, output: int | None, *, read: int | None = 0, write: int | None = 0, hour: int = 0
) -> Usage:
    return Usage(total, read, write, hour, output, 0, UsageSource.UPSTREAM)
