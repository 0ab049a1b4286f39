"""What many budgets have spent so far, at the price of a few queries: for pages."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from django.db.models import Q

from billing.core.periods import day_of
from billing.core.reserving import SINCE_EVER, BudgetInfo
from billing.models import Budget, BudgetSpent, LedgerEntry
from billing.models.fields import MoneySum
from billing.spent import info_of, spent

FRESH = timedelta(minutes=10)  # an older kept sum is moved on, one by one
_AT_ONCE = 100
_ZERO = Decimal(0)
_CHARGED = (LedgerEntry.Kind.CHARGE, LedgerEntry.Kind.CREDIT)
_PAID = (LedgerEntry.Kind.COST, LedgerEntry.Kind.WASTE)


def spent_now(rows: Sequence[Budget], now: datetime) -> dict[int, Decimal]:
    """Return what each budget's present period has cost, by id, in its own currency.

    `rows` come with tenant and account. Kept sums are read together, and so are the entries after them; a budget in
    another currency than its tenant's, or without a fresh kept sum, is read by itself.
    """
    infos = {row.pk: info_of(row) for row in rows}
    kept = _kept(infos, now)
    plain = [row.pk for row in rows if row.pk in kept and row.currency == row.tenant.currency]
    found: dict[int, Decimal] = {}
    for start in range(0, len(plain), _AT_ONCE):
        found |= _with_tails({pk: infos[pk] for pk in plain[start : start + _AT_ONCE]}, kept, now)
    return found | {pk: spent(info, at=now, now=now) for pk, info in infos.items() if pk not in found}


def _kept(infos: Mapping[int, BudgetInfo], now: datetime) -> dict[int, BudgetSpent]:
    rows = BudgetSpent.objects.filter(budget_id__in=list(infos), seen_at__gt=now - FRESH)
    return {
        row.budget_id: row
        for row in rows
        if row.period_start == (infos[row.budget_id].span(now).start or SINCE_EVER)
        and row.currency == infos[row.budget_id].currency
    }


def _with_tails(infos: Mapping[int, BudgetInfo], kept: Mapping[int, BudgetSpent], now: datetime) -> dict[int, Decimal]:
    entries = LedgerEntry.objects.filter(
        tenant_id__in={info.tenant_id for info in infos.values()}, pk__gt=min(kept[pk].ledger_id for pk in infos)
    )
    sums = {f"b{pk}": MoneySum("amount", filter=_counted(info, kept[pk], now)) for pk, info in infos.items()}
    tails = entries.aggregate(**sums)
    return {pk: kept[pk].spent + (tails[f"b{pk}"] or _ZERO) for pk in infos}


def _counted(info: BudgetInfo, kept: BudgetSpent, now: datetime) -> Q:
    """Return which entries a budget counts that its kept sum does not hold; the same as `billing.spent` reads."""
    later = Q(tenant_id=info.tenant_id, pk__gt=kept.ledger_id, currency=info.currency)
    span = info.span(now)
    if info.account_id is not None:
        paid = later & Q(account_id=info.account_id, kind__in=_PAID)
        return paid if span.start is None else paid & Q(created__gte=span.start, created__lt=span.end)
    charged = later & Q(kind__in=_CHARGED)
    if info.line_id is not None:
        charged &= Q(line_id=info.line_id)
    if span.start is None or span.end is None:
        return charged
    zone = ZoneInfo(info.zone)
    return charged & Q(day__gte=day_of(span.start, zone), day__lt=day_of(span.end, zone))
