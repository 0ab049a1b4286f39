"""The tiles. Each leads to the rows that make up its number."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from billing.adminmoney import amount, shown
from billing.core.forecast import History, forecast
from billing.core.histogram import merged, percentile
from billing.core.periods import Period, period_of
from billing.dashboard import ACTIVE, Histogram, LineFigures, ModelFigures, Traffic, added
from billing.models import Budget
from config.dashboard.attention import Keys
from config.dashboard.links import period, requests_url
from config.dashboard.scope import View
from config.pages.budget_bars import Bar
from keys.core.state import Status
from tenants.adminchips import chip

MEDIAN, MOST = 0.5, 0.95


@dataclass(frozen=True, slots=True)
class Tile:
    """`detail` stands below the number; `bar` is a share in per cent with a mark, None = no bar."""

    title: str
    value: SafeString | str
    detail: SafeString | str
    url: str
    bar: tuple[Decimal, Decimal | None] | None = None


def tiles(view: View, keys: Keys, found: Traffic, bars: Iterable[Bar], conversations: int) -> list[Tile]:
    """Return the tiles in their order; those of keys only with a right to see keys."""
    return [
        _spend(view, [row for row in found.lines if row.day >= view.month], bars),
        _requests(view, [row for row in found.lines if row.day == view.today]),
        *([_keys(keys)] if view.pool_tenants else []),
        _speed(view, found.times),
        _cache(view, [row for row in found.lines if row.day >= view.first]),
        _sessions(view, conversations),
    ]


def currency_of(view: View, rows: Iterable[LineFigures | ModelFigures]) -> str:
    """Return the currency in which most is charged; that of the first team when nothing is."""
    sums: dict[str, Decimal] = {}
    for row in rows:
        sums[row.currency] = sums.get(row.currency, Decimal(0)) + row.sums.charge
    if sums:
        return max(sorted(sums), key=lambda currency: sums[currency])
    return view.tenants[0].currency if view.tenants else "USD"


def _spend(view: View, month: Sequence[LineFigures], bars: Iterable[Bar]) -> Tile:
    currency = currency_of(view, month)
    rows = [row for row in month if row.currency == currency]
    spent = added(rows).charge
    expected = _expected(view, rows)
    budget = _month_budget(view, currency, bars)
    unpriced, others = added(month).unpriced, {row.currency for row in month} - {currency}
    notes = [_("forecast %(amount)s") % {"amount": shown(expected, 2)} if expected is not None else ""]
    if budget is not None:
        notes.append(_("budget %(amount)s") % {"amount": shown(budget, 2)})
    if unpriced:
        words = ngettext("%(n)s call unpriced", "%(n)s calls unpriced", unpriced)
        notes.append(words % {"n": f"{unpriced:,}"})
    if others:
        notes.append(_("also in %(currencies)s") % {"currencies": ", ".join(sorted(others))})
    bar = None
    if budget:
        mark = min(Decimal(100), expected * 100 / budget) if expected is not None else None
        bar = (min(Decimal(100), spent * 100 / budget), mark)
    url = requests_url(view, "billed", currency=currency, day__gte=view.month, day__lte=view.today)
    return Tile(
        _("Spend this month"), amount(spent, currency, places=2), " · ".join(note for note in notes if note), url, bar
    )


def _expected(view: View, rows: Sequence[LineFigures]) -> Decimal | None:
    """Return what the month will come to, from the sums per day."""
    if not rows:
        return None
    hours: dict[datetime, Decimal] = {}
    for row in rows:
        start = datetime.combine(row.day, time(), view.zone).astimezone(UTC)
        hours[start] = hours.get(start, Decimal(0)) + row.sums.charge
    since = datetime.combine(view.month, time(), view.zone).astimezone(UTC)
    span = period_of(view.now, Period.MONTH, view.zone)
    return forecast(History(hours, since), view.now, view.zone, left=None, span=span, period=Period.MONTH).expected


def _month_budget(view: View, currency: str, bars: Iterable[Bar]) -> Decimal | None:
    """Return the amount of the month's budget of the line shown, or of the one team shown."""
    line = view.line.pk if view.line is not None else None
    for bar in bars:
        budget = bar.budget
        fits = budget.account_id is None and budget.line_id == line and budget.currency == currency
        if fits and budget.period == Budget.Period.MONTH and len(view.tenants) == 1:
            amount_: Decimal = budget.amount
            return amount_
    return None


def _requests(view: View, today: Sequence[LineFigures]) -> Tile:
    sums = added(today)
    detail = _("none yet today")
    if sums.judged:
        detail = _("%(with)s answered · %(without)s without failover") % {
            "with": percent(sums.finished, sums.judged),
            "without": percent(sums.finished - sums.rescued, sums.judged),
        }
    return Tile(_("Requests today"), f"{sums.admitted:,}", detail, requests_url(view, "admitted", day=view.today))


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


def _speed(view: View, times: Mapping[date, Histogram]) -> Tile:
    counts = merged(times.values())
    url = requests_url(view, "timed", **period(view))
    p50, p95 = percentile(counts, MEDIAN), percentile(counts, MOST)
    if p50 is None or p95 is None:
        return Tile(_("First content"), "–", _("no answers yet"), url)
    number = sum(counts.values())
    words = ngettext("p50 / p95 of %(n)s answer, %(days)s days", "p50 / p95 of %(n)s answers, %(days)s days", number)
    value = format_html('<span title="{}">{} / {} ms</span>', _("to about 9 %"), f"{p50:,}", f"{p95:,}")
    return Tile(_("First content"), value, words % {"n": f"{number:,}", "days": view.days}, url)


def _cache(view: View, rows: Sequence[LineFigures]) -> Tile:
    sums = added(rows)
    detail = _("%(cached)s of %(tokens)s input tokens, %(n)s days") % {
        "cached": f"{sums.cached_read_tokens:,}", "tokens": f"{sums.input_tokens:,}", "n": view.days,
    }  # fmt: skip
    value = percent(sums.cached_read_tokens, sums.input_tokens)
    return Tile(_("Read from cache"), value, detail, requests_url(view, "billed", **period(view)))


def _sessions(view: View, conversations: int) -> Tile:
    since = view.now - ACTIVE
    detail = _("conversations with a call in the last %(n)s min") % {"n": round(ACTIVE.total_seconds() / 60)}
    url = requests_url(view, "talking", created__gte=since.isoformat())
    return Tile(_("Active sessions"), f"{conversations:,}", detail, url)
