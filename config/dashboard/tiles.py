"""The five tiles. Each leads to the rows that make up its number."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time
from decimal import Decimal
from math import ceil

from django.db.models import QuerySet
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from billing.adminmoney import amount, shown
from billing.core.forecast import History, forecast
from billing.core.periods import Period, period_of
from billing.models import Budget, RequestRecord
from config.dashboard.attention import Keys
from config.dashboard.daily import Figures
from config.dashboard.scope import View
from keys.core.state import Status
from tenants.adminchips import chip

SAMPLE = 2000


@dataclass(frozen=True, slots=True)
class Tile:
    """`detail` stands below the number; `bar` is a share in per cent with a mark, None = no bar."""

    title: str
    value: SafeString | str
    detail: SafeString | str
    url: str
    bar: tuple[Decimal, Decimal | None] | None = None


def tiles(view: View, keys: Keys, period: Sequence[Figures], month: Sequence[Figures]) -> list[Tile]:
    """Return the tiles in their order. Without a right to see keys there are four."""
    today = [row for row in period if row.day == view.today]
    return [
        _spend(view, month),
        _requests(view, today),
        *([_keys(keys)] if view.pool_tenants else []),
        _speed(view),
        _cache(view, period),
    ]


def requests_url(view: View, **extra: object) -> str:
    """Return the list of requests, narrowed as the view is."""
    chosen: dict[str, object] = {"period": "all", **extra}
    if view.line is not None:
        chosen["line_id"] = view.line.pk
    if len(view.tenants) == 1 and len(view.offered) > 1:
        chosen["tenant__id__exact"] = view.tenants[0].pk
    return reverse("admin:billing_requestrecord_changelist") + "?" + "&".join(f"{k}={v}" for k, v in chosen.items())


def currency_of(view: View, rows: Iterable[Figures]) -> str:
    """Return the currency in which most is charged; that of the first team when nothing is."""
    sums: dict[str, Decimal] = {}
    for row in rows:
        sums[row.currency] = sums.get(row.currency, Decimal(0)) + row.charge
    if sums:
        return max(sums, key=lambda currency: sums[currency])
    return view.tenants[0].currency if view.tenants else "USD"


def _spend(view: View, month: Sequence[Figures]) -> Tile:
    currency = currency_of(view, month)
    rows = [row for row in month if row.currency == currency]
    spent = sum((row.charge for row in rows), Decimal(0))
    expected = _expected(view, rows)
    budget = _month_budget(view, currency)
    unpriced, others = sum(row.unpriced for row in month), {row.currency for row in month} - {currency}
    notes = [_("forecast %(amount)s") % {"amount": shown(expected, 2)} if expected is not None else ""]
    if budget is not None:
        notes.append(_("budget %(amount)s") % {"amount": shown(budget, 2)})
    if unpriced:
        notes.append(_("%(n)s calls unpriced") % {"n": unpriced})
    if others:
        notes.append(_("also in %(currencies)s") % {"currencies": ", ".join(sorted(others))})
    bar = None
    if budget:
        mark = min(Decimal(100), expected * 100 / budget) if expected is not None else None
        bar = (min(Decimal(100), spent * 100 / budget), mark)
    url = requests_url(view, day__gte=view.month, day__lte=view.today)
    return Tile(
        _("Spend this month"), amount(spent, currency, places=2), " · ".join(note for note in notes if note), url, bar
    )


def _expected(view: View, rows: Sequence[Figures]) -> Decimal | None:
    """Return what the month will come to, from the sums per day."""
    if not rows:
        return None
    hours: dict[datetime, Decimal] = {}
    for row in rows:
        start = datetime.combine(row.day, time(), view.zone).astimezone(UTC)
        hours[start] = hours.get(start, Decimal(0)) + row.charge
    since = datetime.combine(view.month, time(), view.zone).astimezone(UTC)
    span = period_of(view.now, Period.MONTH, view.zone)
    return forecast(History(hours, since), view.now, view.zone, left=None, span=span, period=Period.MONTH).expected


def _month_budget(view: View, currency: str) -> Decimal | None:
    if len(view.tenants) != 1:
        return None
    budgets = Budget.objects.for_tenants(view.tenants).filter(account=None, line=view.line, period=Budget.Period.MONTH)
    found = budgets.filter(currency=currency).first()
    return found.amount if found is not None else None


def _requests(view: View, today: Sequence[Figures]) -> Tile:
    calls, finished = sum(row.calls for row in today), sum(row.finished for row in today)
    lost, rescued = sum(row.lost for row in today), sum(row.rescued for row in today)
    detail = _("none yet today")
    if finished + lost:
        detail = _("%(with)s answered · %(without)s without failover") % {
            "with": percent(finished, finished + lost),
            "without": percent(finished - rescued, finished + lost),
        }
    return Tile(_("Requests today"), f"{calls:,}", detail, requests_url(view, day=view.today))


def percent(part: int, whole: int) -> str:
    """Return a share; 100 % and 0 % only when it is exact."""
    if not whole:
        return "–"
    share = Decimal(part) * 100 / whole
    if part not in {0, whole}:
        share = min(Decimal("99.9"), max(Decimal("0.1"), share))
    return f"{share:.1f} %"


def _keys(keys: Keys) -> Tile:
    counts = dict.fromkeys(Status, 0)
    for _key, sheet in keys.sheets():
        counts[sheet.status] += 1
    value = format_html(
        "{} {} {}",
        chip("good", str(counts[Status.HEALTHY]), title=_("healthy")),
        chip("wait", str(counts[Status.COOLING]), title=_("cooling")),
        chip("bad", str(counts[Status.DEAD]), title=_("dead")),
    )
    detail = _("healthy, cooling, dead of %(n)s upstream keys") % {"n": sum(counts.values())}
    return Tile(_("Keys"), value, detail, reverse("admin:pool"))


def _speed(view: View) -> Tile:
    """Percentiles of the latest calls: a bounded sample, and the tile says so."""
    rows: QuerySet[RequestRecord] = RequestRecord.objects.filter(tenant__in=view.tenants, day__gte=view.first)
    if view.line is not None:
        rows = rows.filter(line_id=view.line.pk)
    rows = rows.order_by("-day", "-pk") if len(view.tenants) == 1 else rows.order_by("-pk")
    sample = rows.values_list("first_content_ms", flat=True)[:SAMPLE]
    times = sorted(ms for ms in sample if ms is not None)
    if not times:
        return Tile(_("First content"), "–", _("no answers yet"), requests_url(view, day__gte=view.first))
    value = f"{percentile(times, 50):,} / {percentile(times, 95):,} ms"
    detail = _("p50 / p95 of the latest %(n)s answers") % {"n": f"{len(times):,}"}
    return Tile(_("First content"), value, detail, requests_url(view, day__gte=view.first))


def percentile(ordered: Sequence[int], percent_: int) -> int:
    """Return the nearest-rank percentile of sorted values."""
    return ordered[max(0, ceil(len(ordered) * percent_ / 100) - 1)]


def _cache(view: View, period: Sequence[Figures]) -> Tile:
    tokens, cached = sum(row.input_tokens for row in period), sum(row.cached_tokens for row in period)
    detail = _("%(cached)s of %(tokens)s input tokens, %(n)s days") % {
        "cached": f"{cached:,}", "tokens": f"{tokens:,}", "n": view.days,
    }  # fmt: skip
    return Tile(_("Read from cache"), percent(cached, tokens), detail, requests_url(view, day__gte=view.first))
