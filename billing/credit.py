"""How much of each account's credit is left, by our own ledger and by balance readings: what low water is judged by."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal

from django.db import close_old_connections

from billing.core.periods import Period
from billing.core.reserving import BudgetInfo
from billing.pricebook import read_prices
from billing.spent import account_spent
from keys.core.report import account_target, key_target
from keys.models import Account, BalanceWatch

READ_FOR = timedelta(hours=1)  # how long a balance reading counts
_ZERO = Decimal(0)


def credits_left(now: datetime) -> dict[str, float]:
    """Return the share left, 0 to 1, per target (`account:3`, or `key:12` for a key with a balance of its own).

    Our ledger is held against the credit that an account states with its currency and period. A fresh reading knows
    better than the ledger what is left of a credit without an end; of one that is renewed the smaller share counts. A
    reading is held against the stated credit, else against what was there after the last top-up.
    """
    try:
        stated = {row.pk: row for row in _with_credit()}
        left = {account_target(pk): _share(row, now) for pk, row in stated.items()}
        for watch in fresh_balances(now):
            if watch.account_id is None:
                left[key_target(watch.upstream_key_id or 0)] = _read_share(watch, None, now)
                continue
            credit, target = stated.get(watch.account_id), account_target(watch.account_id)
            share = _read_share(watch, credit, now)
            renewed = credit is not None and credit.credit_period != Period.TOTAL
            left[target] = min(left[target], share) if renewed else share
        return left
    finally:
        close_old_connections()


def fresh_balances(now: datetime) -> Iterable[BalanceWatch]:
    """Return the balances whose last reading still counts, by id."""
    return BalanceWatch.objects.filter(read__gt=now - READ_FOR, amount__isnull=False).order_by("pk")


def _with_credit() -> list[Account]:
    stated = Account.objects.filter(credit_amount__gt=0).exclude(credit_currency="").exclude(credit_period="")
    return list(stated.order_by("pk"))


def _share(row: Account, now: datetime) -> float:
    amount = row.credit_amount or _ZERO
    credit = BudgetInfo(
        id=0,
        tenant_id=row.tenant_id,
        line_id=None,
        account_id=row.pk,
        amount=amount,
        currency=row.credit_currency,
        period=row.credit_period,
        hard=False,
        zone=row.quota_timezone,
    )
    return _part(amount - account_spent(credit, now), amount)


def _read_share(watch: BalanceWatch, credit: Account | None, now: datetime) -> float:
    if not watch.available:
        return 0.0
    amount = watch.amount or _ZERO
    whole: Decimal | None = None
    if credit is not None:
        whole = _in(watch.currency, credit, now)
    return _part(amount, whole or watch.high or _ZERO)


def _in(currency: str, credit: Account, now: datetime) -> Decimal | None:
    """Return a stated credit in another currency; None where there is no rate."""
    if credit.credit_amount is None or currency == credit.credit_currency:
        return credit.credit_amount
    if not currency:
        return None
    return read_prices().convert(credit.credit_amount, credit.credit_currency, currency, now, credit.tenant_id)


def _part(left: Decimal, whole: Decimal) -> float:
    return float(min(max(left, _ZERO) / whole, Decimal(1))) if whole > 0 else 0.0
