"""Forecasts for every line and account, kept for the dashboard; an alert where the money ends before its period.

A line's or team's limit is its budget; an account's is its budget, else its stated credit, else what its provider says
is left. Who has no limit is forecast by the month, so that the dashboard can say what it will come to.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from django.db.models.functions import TruncHour

from billing.core.budget import percent_used
from billing.core.csvtext import plain_decimal
from billing.core.forecast import Forecast as Ahead
from billing.core.forecast import History, forecast, runs_out_inside
from billing.core.periods import Period, Span, midnight, period_of
from billing.core.pricing import PriceBook
from billing.credit import fresh_balances
from billing.models import Budget, Forecast, LedgerEntry
from billing.models.fields import MoneySum
from billing.pricebook import read_prices
from billing.rollups import floor
from keys.models import Account, BalanceWatch
from tenants.alerts import close_alert, open_alert
from tenants.models import AlertKind, BusinessLine, Tenant

LOOK_BACK = timedelta(days=130)  # four periods of a month
_ZERO = Decimal(0)
_CHARGED = (LedgerEntry.Kind.CHARGE, LedgerEntry.Kind.CREDIT)
_PAID = (LedgerEntry.Kind.COST, LedgerEntry.Kind.WASTE)


@dataclass(frozen=True, slots=True)
class Subject:
    """What is looked ahead for. `amount` None = no limit. `read`: what its provider last said is left."""

    tenant: Tenant
    kind: str  # line | account | tenant
    pk: int
    name: str
    name_zh: str
    zone: ZoneInfo
    period: str
    amount: Decimal | None
    currency: str
    budgeted: bool = False
    read: Decimal | None = None

    @property
    def key(self) -> str:
        """Name it for the table and for alerts."""
        return f"{self.kind}:{self.pk}:{self.period}"


def forecast_all(*, now: datetime) -> int:
    """Look ahead for everybody; returns how many forecasts there are. Those of what is gone are dropped."""
    book = read_prices()
    count = 0
    balances = {row.account_id: row for row in fresh_balances(now) if row.account_id is not None}
    for tenant in Tenant.objects.all():
        kept = []
        for subject in _subjects(tenant):
            row = balances.get(subject.pk) if subject.kind == "account" else None
            kept.append(_keep(subject if row is None else _with_reading(subject, row, now, book), now, book))
        Forecast.objects.filter(tenant=tenant).exclude(subject__in=kept).delete()
        count += len(kept)
    return count


def _subjects(tenant: Tenant) -> Iterator[Subject]:
    zone = ZoneInfo(tenant.timezone)
    budgets: defaultdict[tuple[str, int], list[Budget]] = defaultdict(list)
    for row in Budget.objects.filter(tenant=tenant).order_by("pk"):
        owner = ("line", row.line_id) if row.line_id else ("account", row.account_id) if row.account_id else None
        budgets[owner or ("tenant", tenant.pk)].append(row)
    for row in budgets[("tenant", tenant.pk)]:
        yield Subject(tenant, "tenant", tenant.pk, f"team {tenant.name}", f"团队 {tenant.name}", zone,
                      row.period, row.amount, row.currency)  # fmt: skip
    for line in BusinessLine.objects.filter(tenant=tenant).order_by("pk"):
        own: list[tuple[str, Decimal | None, str]] = [
            (row.period, row.amount, row.currency) for row in budgets[("line", line.pk)]
        ]
        for period, amount, currency in own or [(Period.MONTH.value, None, tenant.currency)]:
            names = (f"line {line.name}", f"业务线 {line.name}")
            yield Subject(tenant, "line", line.pk, *names, zone, period, amount, currency)
    for account in Account.objects.filter(tenant=tenant).order_by("pk"):
        names = (f"account {account.name}", f"账户 {account.name}")
        own_budgets = budgets[("account", account.pk)]
        for period, amount, currency in _account_limits(account, own_budgets, tenant):
            quota = ZoneInfo(account.quota_timezone)
            yield Subject(tenant, "account", account.pk, *names, quota, period, amount, currency, bool(own_budgets))


def _account_limits(account: Account, budgets: list[Budget], tenant: Tenant) -> list[tuple[str, Decimal | None, str]]:
    if budgets:
        return [(row.period, row.amount, row.currency) for row in budgets]
    if account.credit_amount is not None:
        currency = account.credit_currency or tenant.currency
        return [(account.credit_period or Period.TOTAL.value, account.credit_amount, currency)]
    return [(Period.MONTH.value, None, tenant.currency)]


def _with_reading(subject: Subject, row: BalanceWatch, now: datetime, book: PriceBook) -> Subject:
    """Add what the provider said is left, unless it is in a currency without a rate or in a unit of its own."""
    if row.amount is None or not row.currency:
        return subject
    left = book.convert(row.amount, row.currency, subject.currency, now, subject.tenant.pk)
    return subject if left is None else replace(subject, read=max(left, _ZERO))


def _limited(subject: Subject, spent: Decimal) -> tuple[Decimal | None, Decimal | None]:
    """Return the limit and what is left of it.

    A reading knows better than our ledger what is left of a credit without an end, and limits who states none. Budgets
    and credits that are renewed stay what they are; less may be left than they say.
    """
    own = None if subject.amount is None else subject.amount - spent
    if subject.read is None:
        return subject.amount, own
    if own is None or (subject.period == Period.TOTAL and not subject.budgeted):
        return spent + subject.read, subject.read
    return subject.amount, min(own, subject.read)


def _keep(subject: Subject, now: datetime, book: PriceBook) -> str:
    span = period_of(now, subject.period, subject.zone)
    history, before = _history(subject, now, book)
    spent = (before + sum(history.hours.values(), _ZERO)) if span.start is None else history.between(span.start, now)
    amount, left = _limited(subject, spent)
    ahead = forecast(history, now, subject.zone, left=left, span=span, period=subject.period)
    Forecast.objects.update_or_create(
        tenant=subject.tenant,
        subject=subject.key,
        defaults={
            "line_id": subject.pk if subject.kind == "line" else None,
            "account_id": subject.pk if subject.kind == "account" else None,
            "period": subject.period,
            "made": now,
            "currency": subject.currency,
            "spent": spent,
            "amount": amount,
            "burn_per_day": ahead.burn_per_day,
            "days_left": ahead.days_left,
            "exhausted_at": ahead.exhausted_at,
            "expected": ahead.expected,
            "past_error": None if ahead.past_error is None else min(ahead.past_error, Decimal(99999)),
            "resets_at": span.end,
        },
    )
    _tell(replace(subject, amount=amount), ahead, spent, span, now)
    return subject.key


def _tell(subject: Subject, ahead: Ahead, spent: Decimal, span: Span, now: datetime) -> None:
    if subject.amount is None or not runs_out_inside(ahead, now, span) or ahead.exhausted_at is None:
        close_alert(tenant=subject.tenant, kind=AlertKind.FORECAST, subject=subject.key, now=now)
        return
    details: dict[str, Any] = {
        "of": subject.name,
        "of_zh": subject.name_zh,
        "spent": plain_decimal(spent),
        "amount": plain_decimal(subject.amount),
        "currency": subject.currency,
        "percent": f"{percent_used(subject.amount, spent)}",
        "burn": f"{ahead.burn_per_day:.2f}",
        "days_left": f"{ahead.days_left}",
        "exhausted_at": ahead.exhausted_at.isoformat(timespec="seconds"),
        "resets_at": span.end.isoformat() if span.end is not None else None,
    }
    text = (
        f"{subject.name}: at {details['burn']} {subject.currency} a day the {details['amount']} {subject.currency} are "
        f"gone in {details['days_left']} days, on {ahead.exhausted_at:%Y-%m-%d %H:%M} UTC."
    )
    open_alert(tenant=subject.tenant, kind=AlertKind.FORECAST, subject=subject.key, text=text, now=now, **details)


def _history(subject: Subject, now: datetime, book: PriceBook) -> tuple[History, Decimal]:
    """Return the spend per hour, in the subject's currency, and what was spent before it begins."""
    rows = LedgerEntry.objects.filter(tenant=subject.tenant)
    if subject.kind == "account":
        rows = rows.filter(account_id=subject.pk, kind__in=_PAID)
    else:
        rows = rows.filter(kind__in=_CHARGED)
        rows = rows.filter(line_id=subject.pk) if subject.kind == "line" else rows
    since = floor(now - LOOK_BACK)
    first = rows.order_by("created").values_list("created", flat=True).first()
    hours: defaultdict[datetime, Decimal] = defaultdict(lambda: _ZERO)
    grouped = rows.filter(created__gte=since, created__lt=now).annotate(hour=TruncHour("created")).order_by()
    for hour, currency, total in (
        grouped.values("hour", "currency").annotate(total=MoneySum("amount")).values_list("hour", "currency", "total")
    ):
        hours[floor(hour)] += book.convert(total, currency, subject.currency, hour, subject.tenant.pk) or _ZERO
    before = _ZERO
    if subject.period == Period.TOTAL and first is not None and first < since:
        days = rows.filter(created__lt=since).order_by().values("day", "currency").annotate(total=MoneySum("amount"))
        for day, currency, total in days.values_list("day", "currency", "total"):
            at = midnight(day, subject.zone)
            before += book.convert(total, currency, subject.currency, at, subject.tenant.pk) or _ZERO
    return History(dict(hours), max(floor(first), since) if first is not None else now), before
