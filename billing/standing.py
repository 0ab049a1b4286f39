"""How many budgets stand, at the price of a few queries, and which of them binds first: for pages."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from django.db.models import Q

from billing.core.budget import Held
from billing.core.periods import day_of
from billing.core.pricing import PriceBook
from billing.core.reserving import SINCE_EVER, BudgetInfo
from billing.models import Budget, BudgetSpent, LedgerEntry
from billing.models.fields import MoneySum
from billing.pricebook import read_prices
from billing.reserved import reserved_now
from billing.spent import info_of, spent

FRESH = timedelta(minutes=10)  # an older kept sum is moved on, one by one
_AT_ONCE = 100
_ZERO = Decimal(0)
_CHARGED = (LedgerEntry.Kind.CHARGE, LedgerEntry.Kind.CREDIT)
_PAID = (LedgerEntry.Kind.COST, LedgerEntry.Kind.WASTE)


@dataclass(frozen=True, slots=True)
class BudgetNow:
    """A budget's present period, in its own currency. `resets_at` None = never. `left` may be negative."""

    budget: Budget
    spent: Decimal
    held: Held
    resets_at: datetime | None

    @property
    def reserved(self) -> Decimal:
        """What calls in flight may still spend."""
        return self.held.reserved

    @property
    def left(self) -> Decimal:
        """What is neither spent nor reserved."""
        amount: Decimal = self.budget.amount
        return amount - self.spent - self.reserved


def standings(rows: Sequence[Budget], now: datetime) -> dict[int, BudgetNow]:
    """Return how each budget stands, by id; `rows` come with tenant and account."""
    infos = {row.pk: info_of(row) for row in rows}
    sums, held = spent_now(rows, now), reserved_now(infos.values(), now)
    return {row.pk: BudgetNow(row, sums[row.pk], held[row.pk], infos[row.pk].span(now).end) for row in rows}


def binds_first(
    line_id: int, found: Iterable[BudgetNow], now: datetime, book: PriceBook | None = None
) -> BudgetNow | None:
    """Return what a line meets first of its own budgets and its team's; None when nothing limits it.

    That is the one with the least left, reservations taken off, at the day's rate. An amount without a rate to the
    team's currency cannot be compared and comes last.
    """
    mine = [one for one in found if one.budget.account_id is None and one.budget.line_id in {None, line_id}]
    if len(mine) < 2:  # noqa: PLR2004  # nothing to compare
        return mine[0] if mine else None
    book = book or (read_prices() if len({one.budget.currency for one in mine}) > 1 else PriceBook())
    ranked = [(*_rank(one, now, book), one.budget.pk, one) for one in mine]
    return min(ranked, key=lambda entry: entry[:-1])[-1]


def _rank(one: BudgetNow, now: datetime, book: PriceBook) -> tuple[bool, Decimal]:
    row = one.budget
    left = book.convert(one.left, row.currency, row.tenant.currency, now, row.tenant_id)
    return left is None, one.left if left is None else left


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
