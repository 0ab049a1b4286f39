"""Budgets as bars: what is spent, what the period will come to, and which limit binds a line first."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.utils.translation import gettext as _

from billing.core.budget import percent_used
from billing.models import Budget, Forecast
from billing.standing import spent_now
from tenants.models import BusinessLine, Tenant

BUDGETS_MAX = 200
_FULL = Decimal(100)
_NEAR = Decimal(80)
_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class Bar:
    """A budget. `share` is what is spent and `mark` what is expected, in per cent of it, at most 100."""

    budget: Budget
    name: str
    spent: Decimal
    left: Decimal
    share: Decimal
    shown_share: str
    mark: Decimal | None
    expected: Decimal | None
    exhausted_at: datetime | None
    resets_at: datetime | None
    tone: str


@dataclass(frozen=True, slots=True)
class Binding:
    """What a line meets first: of its own budgets and its team's, the one with the least left."""

    line: str
    bar: Bar


def bars_of(tenant: Tenant, now: datetime) -> list[Bar]:
    """Return a tenant's budgets, the fullest first."""
    rows = list(
        Budget.objects.filter(tenant=tenant).select_related("tenant", "line", "account").order_by("pk")[:BUDGETS_MAX]
    )
    spent = spent_now(rows, now)
    ahead = {row.subject: row for row in Forecast.objects.filter(tenant=tenant)} if rows else {}
    return sorted((_bar(row, spent[row.pk], ahead) for row in rows), key=lambda bar: -bar.share)


def binding(bars: Sequence[Bar], lines: Iterable[BusinessLine]) -> list[Binding]:
    """Return what binds each line that a budget limits first, compared within one currency; the tightest on top."""
    shared = [bar for bar in bars if bar.budget.line_id is None and bar.budget.account_id is None]
    found = []
    for line in lines:
        own = [bar for bar in bars if bar.budget.line_id == line.pk]
        known = [*own, *shared]
        if not known:
            continue
        currency = known[0].budget.currency
        first = min((bar for bar in known if bar.budget.currency == currency), key=lambda bar: bar.left)
        found.append(Binding(line.name, first))
    return sorted(found, key=lambda each: -each.bar.share)


def _bar(row: Budget, spent: Decimal, ahead: Mapping[str, Forecast]) -> Bar:
    used = percent_used(row.amount, spent)
    share = min(_FULL, max(_ZERO, used)) if used is not None else _FULL
    forecast = ahead.get(_subject(row))
    expected = forecast.expected if forecast is not None and forecast.currency == row.currency else None
    mark = min(_FULL, expected * 100 / row.amount) if expected is not None and row.amount else None
    return Bar(
        budget=row,
        name=name_of(row),
        spent=spent,
        left=row.amount - spent,
        share=share,
        shown_share=f"{used} %" if used is not None else "–",
        mark=mark,
        expected=expected,
        exhausted_at=forecast.exhausted_at if forecast is not None else None,
        resets_at=forecast.resets_at if forecast is not None else None,
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
