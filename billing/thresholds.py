"""Budget thresholds: each mails once per budget, period and amount, and once when it is over.

It is over when a new period or amount begins, or the threshold or the whole budget is removed.
"""

from collections.abc import Collection, Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import transaction

from billing.core.budget import percent_used, reached
from billing.core.csvtext import plain_decimal
from billing.core.reserving import SINCE_EVER, BudgetInfo
from billing.models import Budget, BudgetAlert
from billing.spent import info_of, spent
from tenants.alerts import close_alert, open_alert
from tenants.models import Alert, AlertKind


def check(*, now: datetime, budget_ids: Collection[int] | None = None) -> int:
    """Claim and open an alert for every threshold that was reached; returns how many were new. None = all budgets."""
    rows = Budget.objects.select_related("tenant", "line", "account").order_by("pk")
    if budget_ids is not None:
        rows = rows.filter(pk__in=budget_ids)
    alerts = _still_open()
    new = sum(_check(row, alerts.pop(row.pk, ()), now) for row in rows)
    if budget_ids is None:
        for gone in alerts.values():
            _end(gone, "removed", now)
    return new


def names_of(row: Budget) -> tuple[str, str]:
    """Return whose budget it is, in English and Chinese."""
    if row.line is not None:
        return f"line {row.line.name}", f"业务线 {row.line.name}"
    if row.account is not None:
        return f"account {row.account.name}", f"账户 {row.account.name}"
    return f"team {row.tenant.name}", f"团队 {row.tenant.name}"


def _still_open() -> dict[int, list[Alert]]:
    """Return the open alerts by the budget they are about."""
    found: dict[int, list[Alert]] = {}
    for alert in Alert.objects.filter(kind=AlertKind.BUDGET, closed=None).select_related("tenant").order_by("pk"):
        found.setdefault(int(alert.subject.split(":")[1]), []).append(alert)
    return found


def _end(alerts: Iterable[Alert], why: str, now: datetime) -> None:
    for alert in alerts:
        close_alert(tenant=alert.tenant, kind=AlertKind.BUDGET, subject=alert.subject, now=now, ended=why)


def _why(row: Budget, start: datetime, alert: Alert) -> str:
    """Return why an alert no longer stands: a new `period` or `amount`, or its threshold was `removed`."""
    _budget, _pk, began, amount, _percent = alert.subject.split(":")
    if amount != plain_decimal(row.amount):
        return "amount"
    return "period" if int(began) != int(start.timestamp()) else "removed"


def _check(row: Budget, known: Iterable[Alert], now: datetime) -> int:
    info = info_of(row)
    start = info.span(now).start or SINCE_EVER
    subjects = {percent: _subject(row, start, percent) for percent in row.alert_at}
    for alert in known:
        if alert.subject not in subjects.values():
            _end([alert], _why(row, start, alert), now)
    if not subjects:
        return 0
    total = spent(info, at=now, now=now)
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
                f"{details['of']} has crossed {percent} % of its budget: {details['spent']} of "
                f"{details['amount']} {row.currency} per {row.period} used, {details['percent']} %."
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
