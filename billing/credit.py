"""How much of each account's credit is left, by our own ledger: what low water is judged by."""

from datetime import datetime
from decimal import Decimal

from django.db import close_old_connections

from billing.core.reserving import BudgetInfo
from billing.spent import account_spent
from keys.models import Account


def credits_left(now: datetime) -> dict[int, float]:
    """Return the share left, 0 to 1, per account that states a credit with its currency and period."""
    try:
        return {row.pk: _share(row, now) for row in _with_credit()}
    finally:
        close_old_connections()


def _with_credit() -> list[Account]:
    stated = Account.objects.filter(credit_amount__gt=0).exclude(credit_currency="").exclude(credit_period="")
    return list(stated.order_by("pk"))


def _share(row: Account, now: datetime) -> float:
    amount = row.credit_amount or Decimal(0)
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
    left = max(amount - account_spent(credit, now), Decimal(0))
    return float(left / amount)
