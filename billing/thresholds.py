"""Budget thresholds: each mails once per budget, period and amount, however many look at once."""

from collections.abc import Collection
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import transaction

from billing.core.budget import percent_used, reached
from billing.core.csvtext import plain_decimal
from billing.core.reserving import SINCE_EVER, BudgetInfo
from billing.models import Budget, BudgetAlert
from billing.spent import info_of, spent
from tenants.alerts import open_alert
from tenants.models import Alert, AlertKind


def check(*, now: datetime, budget_ids: Collection[int] | None = None) -> int:
    """Claim and open an alert for every threshold that was reached; returns how many were new. None = all budgets.

    Alerts of former periods and amounts are closed without a word: that a month began is no news.
    """
    rows = Budget.objects.select_related("tenant", "line", "account").order_by("pk")
    if budget_ids is not None:
        rows = rows.filter(pk__in=budget_ids)
    return sum(_check(row, now) for row in rows if row.alert_at)


def names_of(row: Budget) -> tuple[str, str]:
    """Return whose budget it is, in English and Chinese."""
    if row.line is not None:
        return f"line {row.line.name}", f"业务线 {row.line.name}"
    if row.account is not None:
        return f"account {row.account.name}", f"账户 {row.account.name}"
    return f"team {row.tenant.name}", f"团队 {row.tenant.name}"


def _check(row: Budget, now: datetime) -> int:
    info = info_of(row)
    total = spent(info, at=now, now=now)
    start = info.span(now).start or SINCE_EVER
    subjects = {percent: _subject(row, start, percent) for percent in row.alert_at}
    stale = Alert.objects.filter(
        tenant=row.tenant, kind=AlertKind.BUDGET, closed=None, subject__startswith=f"budget:{row.pk}:"
    )
    stale.exclude(subject__in=subjects.values()).update(closed=now)
    return sum(
        _claim(row, info, total, int(percent), now, subjects[percent])
        for percent in reached(row.amount, total, row.alert_at)
    )


def _claim(row: Budget, info: BudgetInfo, total: Decimal, percent: int, now: datetime, subject: str) -> int:
    span = info.span(now)
    with transaction.atomic():
        _claimed, new = BudgetAlert.objects.get_or_create(
            budget=row,
            period_start=span.start or SINCE_EVER,
            amount=row.amount,
            threshold=percent,
            defaults={"crossed": now},
        )
        if new:
            details = _details(row, info, total, percent, now)
            text = (
                f"{details['of']} has used {details['percent']} % of its budget: {details['spent']} of "
                f"{details['amount']} {row.currency} per {row.period}."
            )
            open_alert(tenant=row.tenant, kind=AlertKind.BUDGET, subject=subject, text=text, now=now, **details)
    return int(new)


def _details(row: Budget, info: BudgetInfo, total: Decimal, percent: int, now: datetime) -> dict[str, Any]:
    span = info.span(now)
    of, of_zh = names_of(row)
    used = percent_used(row.amount, total)
    return {
        "of": of,
        "of_zh": of_zh,
        "threshold": percent,
        "percent": f"{used}" if used is not None else "100",
        "spent": plain_decimal(total),
        "amount": plain_decimal(row.amount),
        "currency": row.currency,
        "period": row.period,
        "period_start": span.start.isoformat() if span.start is not None else None,
        "resets_at": span.end.isoformat() if span.end is not None else None,
        "hard": row.hard,
    }


def _subject(row: Budget, start: datetime, percent: int) -> str:
    return f"budget:{row.pk}:{int(start.timestamp())}:{plain_decimal(row.amount)}:{percent}"
