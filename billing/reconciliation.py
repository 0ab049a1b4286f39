"""What our attempts cost per day and key or model, to be held against an upstream's invoice."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from billing.core.matching import Billed, Drift, Reading, compare, falls
from billing.core.periods import day_of, midnight
from billing.models import Attempt
from billing.pricebook import read_prices
from keys.models import Account, UpstreamKey

_ZERO = Decimal(0)


def reconcile(*, account: Account, invoice: Collection[Billed], currency: str) -> list[Drift]:
    """Compare an invoice with cost and waste of the account's attempts, by days of its quota's zone.

    Names of the invoice are keys (by name or the end of their secret) where one fits, else models; without names the
    whole account is compared. The span is that of the invoice. Raises ValueError where an amount of ours cannot be
    turned into the invoice's currency: it must not count as nothing.
    """
    if not invoice:
        return []
    first, last = min(line.day for line in invoice), max(line.day for line in invoice)
    keys = {row.name: row for row in UpstreamKey.objects.filter(account=account)}
    by_tail = {row.tail: row.name for row in keys.values()}
    named = [Billed(line.day, _key_name(line.name, keys, by_tail), line.amount) for line in invoice]
    names = {line.name for line in named} - {""}
    kind = "key" if names & set(keys) else "model" if names else "account"
    return list(compare(named, _ours(account, first, last, kind, currency)))


def reconcile_balances(*, account: Account, readings: Sequence[Reading], currency: str) -> tuple[list[Drift], int]:
    """Compare what a balance lost from reading to reading with cost and waste of the account's attempts meanwhile.

    Names are the times from and to, in the quota's zone. Between two readings that rose there was a top-up: what was
    spent is not known, so they are left out and counted. Raises ValueError as `reconcile` does.
    """
    spans = falls(readings)
    zone, rows = ZoneInfo(account.quota_timezone), []
    for span in spans:
        if span.amount is not None:
            start, end = span.start.astimezone(zone), span.end.astimezone(zone)
            ours = sum((amount for _row, _at, amount in _paid(account, start, end, currency)), _ZERO)
            name = f"{start:%Y-%m-%dT%H:%M:%S} to {end:%Y-%m-%dT%H:%M:%S}"
            rows.append(Drift(end.date(), name, span.amount, ours))
    return rows, len(spans) - len(rows)


def _key_name(text: str, keys: Collection[str], by_tail: dict[str, str]) -> str:
    if text in keys:
        return text
    return next((name for tail, name in by_tail.items() if tail and text.endswith(tail)), text)


def _ours(account: Account, first: date, last: date, kind: str, currency: str) -> dict[tuple[date, str], Decimal]:
    zone = ZoneInfo(account.quota_timezone)
    start, end = midnight(first, zone), midnight(last + timedelta(days=1), zone)
    found: defaultdict[tuple[date, str], Decimal] = defaultdict(lambda: _ZERO)
    for row, at, amount in _paid(account, start, end, currency):
        found[day_of(at, zone), _name(row, kind)] += amount
    return dict(found)


def _paid(
    account: Account, start: datetime, end: datetime, currency: str
) -> Iterator[tuple[Mapping[str, Any], datetime, Decimal]]:
    """Yield what attempts through an account cost, lost ones included, in the currency. Raises ValueError."""
    rows = Attempt.objects.filter(
        record__tenant=account.tenant, record__created__gte=start, record__created__lt=end, account_id=account.pk,
        skipped="",
    ).values("record__created", "record__currency", "upstream_key", "model_sent", "cost", "waste")  # fmt: skip
    book = read_prices()
    for row in rows.iterator(chunk_size=2000):
        amount = (row["cost"] or _ZERO) + (row["waste"] or _ZERO)
        if not amount:
            continue
        at = row["record__created"]
        converted = book.convert(amount, row["record__currency"], currency, at, account.tenant_id)
        if converted is None:
            raise ValueError(f"no exchange rate from {row['record__currency']} to {currency} on {at:%Y-%m-%d}")
        yield row, at, converted


def _name(row: Mapping[str, Any], kind: str) -> str:
    if kind == "key":
        return str(row["upstream_key"]).rpartition(" (…")[0] or str(row["upstream_key"])
    return str(row["model_sent"]) if kind == "model" else ""
