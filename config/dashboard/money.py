"""What is spent on which model, and how far the budgets are."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django.db.models import Q
from django.urls import reverse

from billing.core.periods import day_of
from billing.dashboard import ModelFigures, Sums
from billing.models import Budget
from billing.spent import info_of
from config.dashboard.links import period, requests_url
from config.dashboard.scope import View
from config.dashboard.tiles import currency_of
from config.pages.budget_bars import Bar, bars_of_rows

MODELS_MAX, BUDGETS_MAX = 8, 6
_READ_MAX = 200


@dataclass(frozen=True, slots=True)
class Model:
    """A model's part of the period's charge in one currency; `share` in per cent of the dearest."""

    name: str
    sums: Sums
    currency: str
    share: Decimal
    url: str


@dataclass(frozen=True, slots=True)
class Spent:
    """A budget's bar and the ledger entries that it is made of."""

    bar: Bar
    title: str
    url: str


def by_model(view: View, rows: Sequence[ModelFigures]) -> list[Model]:
    """Return the models of the main currency by charge, then calls; those of other currencies after them."""
    main = currency_of(view, rows)
    used = [row for row in rows if row.sums.calls]
    ranked = sorted(used, key=lambda row: (row.currency != main, -row.sums.charge, -row.sums.calls, row.model))
    most = max((row.sums.charge for row in used if row.currency == main), default=Decimal(0))
    return [
        Model(
            name=row.model,
            sums=row.sums,
            currency=row.currency,
            share=row.sums.charge * 100 / most if most and row.currency == main else Decimal(0),
            url=requests_url(view, "billed", model=row.model, currency=row.currency, **period(view)),
        )
        for row in ranked[:MODELS_MAX]
    ]


def budgets(view: View) -> list[Spent]:
    """Return the budgets of the view, the fullest first: a line's own and its team's when one is chosen."""
    rows = Budget.objects.filter(tenant__in=view.tenants).select_related("tenant", "line", "account").order_by("pk")
    if view.line is not None:
        rows = rows.filter(Q(line=view.line) | Q(line=None, account=None))
    return [
        Spent(bar, _title(view, bar), _ledger_url(view, bar)) for bar in bars_of_rows(list(rows[:_READ_MAX]), view.now)
    ]


def _title(view: View, bar: Bar) -> str:
    return f"{bar.budget.tenant.slug} · {bar.name}" if len(view.tenants) > 1 else bar.name


def _ledger_url(view: View, bar: Bar) -> str:
    """Return the ledger entries that the bar adds up: those of its period, kind and owner."""
    info = info_of(bar.budget)
    span, zone = info.span(view.now), ZoneInfo(info.zone)
    chosen: dict[str, object] = {"period": "all", "tenant__id__exact": info.tenant_id, "currency": info.currency}
    if info.account_id is not None:
        chosen |= {"account_id": info.account_id, "kind__in": "cost,waste"}
        if span.start is not None and span.end is not None:
            chosen |= {"created__gte": span.start.isoformat(), "created__lt": span.end.isoformat()}
    else:
        chosen |= {"kind__in": "charge,credit"} | ({"line_id": info.line_id} if info.line_id is not None else {})
        if span.start is not None and span.end is not None:
            last = day_of(span.end, zone) - timedelta(days=1)
            chosen |= {"day__gte": day_of(span.start, zone), "day__lte": last}
    return reverse("admin:billing_ledgerentry_changelist") + "?" + urlencode(chosen)
