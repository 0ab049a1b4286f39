"""Billing of calls that had no price when they were made: by the rules of the day they were made."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

from django.db import transaction

from billing.core.csvtext import plain_decimal
from billing.core.pricing import PriceBook, PriceRow, amount_of
from billing.core.tokens import Usage, UsageSource
from billing.models import Attempt, LedgerEntry, RequestRecord, Statement
from billing.monthly import billed
from billing.pricebook import read_prices
from billing.statements import StatementError
from keys.models import Upstream
from tenants.models import BusinessLine, Tenant

_CHUNK = 500
_ONE = Decimal(1)


@dataclass(frozen=True, slots=True)
class Repriced:
    """What came of it. `left`: calls that still have no price, by model."""

    billed: int
    charge: Decimal
    left: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Terms:
    """What an amount depends on besides the price list."""

    book: PriceBook
    lines: dict[int, Decimal]  # id -> charge multiplier
    upstreams: dict[str, Decimal]  # name -> cost multiplier


def reprice(*, tenant: Tenant, first: date) -> Repriced:
    """Bill a month's unpriced calls at the prices known now for their day. Safe to repeat and to interrupt.

    Raises StatementError when the month is closed.
    """
    if Statement.objects.filter(tenant=tenant, month=first).exists():
        raise StatementError(f"{first:%Y-%m} is closed; correct it by a credit")
    terms = _Terms(
        book=read_prices(),
        lines=dict(BusinessLine.objects.filter(tenant=tenant).values_list("pk", "charge_multiplier")),
        upstreams=dict(Upstream.objects.filter(tenant=tenant).values_list("name", "cost_multiplier")),
    )
    unpriced = billed(tenant, first).filter(priced=False)
    count, total, last = 0, Decimal(0), 0
    left: dict[str, int] = {}
    while chunk := list(unpriced.filter(pk__gt=last).order_by("pk").prefetch_related("attempts")[:_CHUNK]):
        last = chunk[-1].pk
        with transaction.atomic():
            charges = [_bill(row, terms) for row in chunk]
        count += sum(charge is not None for charge in charges)
        total += sum((charge for charge in charges if charge is not None), Decimal(0))
        for row in (row for row, charge in zip(chunk, charges, strict=True) if charge is None):
            name = row.model_served or row.model_requested
            left[name] = left.get(name, 0) + 1
    return Repriced(count, total, left)


def _bill(row: RequestRecord, terms: _Terms) -> Decimal | None:
    """Price one record and book it; None when it still has no price or somebody was faster."""
    names = list(dict.fromkeys(name for name in (row.model_served, row.model_requested) if name))
    price = terms.book.find(row.tenant_id, names, row.created)
    if price is None:
        return None
    rate = terms.book.rate_of(price.currency, row.currency, row.created, row.tenant_id)
    if rate is None:
        return None
    # The multipliers of the day stand in the record; older records have today's.
    for_line = Decimal(row.price.get("charge_multiplier", terms.lines.get(row.line_id, _ONE)))
    for_us = Decimal(row.price.get("cost_multiplier", terms.upstreams.get(row.upstream, _ONE)))
    usage = usage_of(row)
    charge, cost = amount_of(usage, price, for_line, rate), amount_of(usage, price, for_us, rate)
    if charge is None or cost is None:
        return None
    kept = _kept(price, rate, for_line, for_us)
    done = RequestRecord.objects.filter(pk=row.pk, priced=False).update(
        charge=charge, cost=cost, priced=True, price_id=price.id, price=kept
    )
    if not done:
        return None
    _book(row, charge, cost)
    return charge


def _kept(price: PriceRow, rate: Fraction, for_line: Decimal, for_us: Decimal) -> dict[str, str]:
    """Return the price as a record keeps it."""
    kept = {
        name: plain_decimal(value) if isinstance(value, Decimal) else str(value)
        for name, value in asdict(price).items()
        if value is not None and name != "tenant_id"
    }
    multipliers = {"charge_multiplier": plain_decimal(for_line), "cost_multiplier": plain_decimal(for_us)}
    return kept | multipliers | {"rate": str(rate)}


def _book(row: RequestRecord, charge: Decimal, cost: Decimal) -> None:
    made = _served(row.attempts.all())
    if made is not None:
        Attempt.objects.filter(pk=made.pk).update(cost=cost)
    entries = [_entry(row, LedgerEntry.Kind.CHARGE, charge, None)] if charge else []
    if made is not None and cost:
        entries.append(_entry(row, LedgerEntry.Kind.COST, cost, made))
    LedgerEntry.objects.bulk_create(entries, ignore_conflicts=True)


def _served(attempts: Iterable[Attempt]) -> Attempt | None:
    """Return the attempt whose answer the client got (part of)."""
    rows = sorted(attempts, key=lambda attempt: attempt.n)
    served = [attempt for attempt in rows if attempt.outcome == "served"]
    return next(iter(served), None) or next((attempt for attempt in reversed(rows) if attempt.content), None)


def _entry(row: RequestRecord, kind: LedgerEntry.Kind, amount: Decimal, made: Attempt | None) -> LedgerEntry:
    return LedgerEntry(
        tenant_id=row.tenant_id,
        kind=kind,
        record=row,
        line_id=row.line_id,
        account_id=made.account_id if made is not None else None,
        upstream_key_id=made.upstream_key_id if made is not None else None,
        attempt_n=made.n if made is not None else None,
        amount=amount,
        currency=row.currency,
        day=row.day,
        created=row.created,
        note="repriced",
    )


def usage_of(row: Any) -> Usage:
    """Return a record's or an attempt's tokens as the pricing wants them."""
    return Usage(
        row.input_tokens,
        row.cached_read_tokens,
        row.cache_write_tokens,
        row.cache_write_1h_tokens,
        row.output_tokens,
        row.reasoning_tokens,
        UsageSource(row.usage_source),
    )
