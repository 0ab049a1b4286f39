"""What a budget's period has cost so far: ledger sums, the truth, read at the price of the newest entries only.

Each sum is kept up to a ledger entry; what came later is added when it is read. Entries of parallel commits may appear
out of order, so the kept sum moves on only to an entry that was the newest a minute ago.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from django.db import IntegrityError, transaction
from django.db.models import Max, QuerySet

from billing.core.periods import Span, day_of, midnight
from billing.core.pricing import PriceBook
from billing.core.reserving import SINCE_EVER, BudgetBook, BudgetInfo
from billing.models import Budget, BudgetSpent, LedgerEntry
from billing.models.fields import MoneySum
from billing.pricebook import read_prices

SETTLED_AFTER = timedelta(seconds=60)
_ZERO = Decimal(0)
_CHARGED = (LedgerEntry.Kind.CHARGE, LedgerEntry.Kind.CREDIT)
_PAID = (LedgerEntry.Kind.COST, LedgerEntry.Kind.WASTE)


def read_budgets() -> BudgetBook:
    """Return all budgets as the request path knows them."""
    rows = Budget.objects.select_related("tenant", "account").order_by("pk")
    return BudgetBook(tuple(info_of(row) for row in rows))


def info_of(row: Budget) -> BudgetInfo:
    """Return a budget as a plain value; an account's days are those of its quota."""
    return BudgetInfo(
        id=row.pk,
        tenant_id=row.tenant_id,
        line_id=row.line_id,
        account_id=row.account_id,
        amount=row.amount,
        currency=row.currency,
        period=row.period,
        hard=row.hard,
        zone=row.account.quota_timezone if row.account is not None else row.tenant.timezone,
    )


def spent(budget: BudgetInfo, *, at: datetime, now: datetime, book: PriceBook | None = None) -> Decimal:
    """Return what the period that holds `at` has cost, in the budget's currency.

    An amount without an exchange rate counts nothing: it cannot be compared.
    """
    span = budget.span(at)
    entries = _entries(budget, span)
    newest = LedgerEntry.objects.aggregate(newest=Max("pk"))["newest"] or 0
    start = span.start or SINCE_EVER
    kept = BudgetSpent.objects.filter(budget_id=budget.id, period_start=start, currency=budget.currency).first()
    if kept is None:
        return _begin(budget, start, _sum(budget, entries.filter(pk__lte=newest), book), newest, now)
    base: Decimal = kept.spent
    if now - kept.seen_at < SETTLED_AFTER:
        return base + _sum(budget, entries.filter(pk__gt=kept.ledger_id), book)
    settled = base + _sum(budget, entries.filter(pk__gt=kept.ledger_id, pk__lte=kept.seen_id), book)
    # By compare-and-set: of two that move on at once, one does.
    BudgetSpent.objects.filter(pk=kept.pk, ledger_id=kept.ledger_id, seen_id=kept.seen_id).update(
        spent=settled, ledger_id=kept.seen_id, seen_id=newest, seen_at=now
    )
    return settled + _sum(budget, entries.filter(pk__gt=kept.seen_id), book)


def account_spent(credit: BudgetInfo, at: datetime) -> Decimal:
    """Return what was paid from an account in the period of its credit, lost attempts included."""
    return _sum(credit, _entries(credit, credit.span(at)), None)


def _begin(budget: BudgetInfo, start: datetime, total: Decimal, newest: int, now: datetime) -> Decimal:
    """Keep a first sum: of nothing yet, so that entries under way now are not missed later."""
    try:
        with transaction.atomic():
            BudgetSpent.objects.create(
                budget_id=budget.id, period_start=start, currency=budget.currency,
                spent=_ZERO, ledger_id=0, seen_id=newest, seen_at=now,
            )  # fmt: skip
    except IntegrityError:  # another reader began, or the budget is gone
        return total
    return total


def _entries(budget: BudgetInfo, span: Span) -> QuerySet[LedgerEntry]:
    """Return the entries that a budget counts in a period. Credits belong to lines and tenants."""
    rows = LedgerEntry.objects.filter(tenant_id=budget.tenant_id)
    if budget.account_id is not None:
        rows = rows.filter(account_id=budget.account_id, kind__in=_PAID)
        return rows if span.start is None else rows.filter(created__gte=span.start, created__lt=span.end)
    rows = rows.filter(kind__in=_CHARGED)
    if budget.line_id is not None:
        rows = rows.filter(line_id=budget.line_id)
    if span.start is None or span.end is None:
        return rows
    zone = ZoneInfo(budget.zone)
    return rows.filter(day__gte=day_of(span.start, zone), day__lt=day_of(span.end, zone))


def _sum(budget: BudgetInfo, entries: QuerySet[LedgerEntry], book: PriceBook | None) -> Decimal:
    own: Decimal | None = None
    others: defaultdict[str, list[tuple[datetime, Decimal]]] = defaultdict(list)
    zone = ZoneInfo(budget.zone)
    grouped = entries.order_by().values("currency", "day").annotate(total=MoneySum("amount"))
    for row in grouped.values_list("currency", "day", "total"):
        currency, day, total = row
        if currency == budget.currency:
            own = (own or _ZERO) + total
        else:
            others[currency].append((midnight(day, zone), total))
    if not others:
        return own or _ZERO
    prices = book or read_prices()
    return (own or _ZERO) + sum(_converted(budget, others.items(), prices), _ZERO)


def _converted(
    budget: BudgetInfo, amounts: Iterable[tuple[str, list[tuple[datetime, Decimal]]]], book: PriceBook
) -> Iterable[Decimal]:
    for currency, parts in amounts:
        for at, total in parts:
            yield book.convert(total, currency, budget.currency, at, budget.tenant_id) or _ZERO
