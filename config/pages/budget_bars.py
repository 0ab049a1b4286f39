"""Budgets as bars: what is spent and reserved, what the period will come to, and which limit binds a line first."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.utils.translation import gettext as _

from billing.core.budget import percent_used
from billing.core.pricing import PriceBook
from billing.models import Budget, Forecast
from billing.pricebook import read_prices
from billing.standing import BudgetNow, binds_first, standings
from tenants.models import BusinessLine, Tenant

BUDGETS_MAX = 200
_FULL = Decimal(100)
_NEAR = Decimal(80)
_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class Bar:
    """A budget. `share` is what is spent, `held` what calls in flight reserve behind it, `mark` what is expected.

    All in per cent of the amount; they end at 100. `left` is neither spent nor reserved.
    """

    budget: Budget
    name: str
    now: BudgetNow
    spent: Decimal
    reserved: Decimal
    left: Decimal
    share: Decimal
    held: Decimal
    shown_share: str
    mark: Decimal | None
    expected: Decimal | None
    exhausted_at: datetime | None
    resets_at: datetime | None
    tone: str


@dataclass(frozen=True, slots=True)
class Binding:
    """What a line meets first, of its own budgets and its team's."""

    line: str
    bar: Bar


def bars_of(tenant: Tenant, now: datetime) -> list[Bar]:
    """Return a tenant's budgets, the fullest first."""
    rows = Budget.objects.filter(tenant=tenant).select_related("tenant", "line", "account").order_by("pk")[:BUDGETS_MAX]
    return bars_of_rows(list(rows), now)


def bars_of_rows(rows: Sequence[Budget], now: datetime) -> list[Bar]:
    """Return the bars of budgets, which come with tenant, line and account; the fullest first."""
    found = standings(rows, now)
    tenants = {row.tenant_id for row in rows}
    ahead = {row.subject: row for row in Forecast.objects.filter(tenant__in=tenants)} if rows else {}
    return sorted((_bar(found[row.pk], ahead) for row in rows), key=lambda bar: -bar.share)


def binding(bars: Sequence[Bar], lines: Iterable[BusinessLine], now: datetime) -> list[Binding]:
    """Return what binds each line that a budget limits first; the tightest on top."""
    of = {bar.budget.pk: bar for bar in bars}
    known = [bar.now for bar in bars]
    currencies = {bar.budget.currency for bar in bars}
    book = read_prices() if len(currencies) > 1 else PriceBook()
    found = []
    for line in lines:
        first = binds_first(line.pk, known, now, book)
        if first is not None:
            found.append(Binding(line.name, of[first.budget.pk]))
    return sorted(found, key=lambda each: -each.bar.share)


def _bar(now: BudgetNow, ahead: Mapping[str, Forecast]) -> Bar:
    row, spent = now.budget, now.spent
    used = percent_used(row.amount, spent)
    share = min(_FULL, max(_ZERO, used)) if used is not None else _FULL
    held = min(_FULL - share, now.reserved * 100 / row.amount) if row.amount else _ZERO
    forecast = ahead.get(_subject(row))
    expected = forecast.expected if forecast is not None and forecast.currency == row.currency else None
    mark = min(_FULL, expected * 100 / row.amount) if expected is not None and row.amount else None
    return Bar(
        budget=row,
        name=name_of(row),
        now=now,
        spent=spent,
        reserved=now.reserved,
        left=now.left,
        share=share,
        held=held,
        shown_share=f"{used} %" if used is not None else "–",
        mark=mark,
        expected=expected,
        exhausted_at=forecast.exhausted_at if forecast is not None else None,
        resets_at=now.resets_at,
        tone="bad" if share >= _FULL else "wait" if share >= _NEAR else "good",
    )


def name_of(row: Budget) -> str:
    """Return whose budget it is."""
    if row.line is not None:
        return _("line %(name)s") % {"name": row.line.name}
    if row.account is not None:
        return _("account %(name)s") % {"name": row.account.name}
    return _("the whole team")


def _subject(row: Budget) -> str:
    if row.line_id is not None:
        return f"line:{row.line_id}:{row.period}"
    if row.account_id is not None:
        return f"account:{row.account_id}:{row.period}"
    return f"tenant:{row.tenant_id}:{row.period}"
