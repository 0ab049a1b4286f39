"""From figures to plots: spend per line and day, calls answered with failover and without, times to first content."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal

from django.utils.translation import gettext as _

from billing.adminmoney import shown
from billing.core.histogram import percentile
from billing.dashboard import Histogram, LineFigures, added
from config.dashboard.links import requests_url, several
from config.dashboard.plots import SERIES, Cell, Plot, Point, lines, stacked
from config.dashboard.scope import View
from config.dashboard.tiles import MEDIAN, MOST, currency_of, percent

Owner = tuple[str, str, int]  # name, the list's parameter, id


def days_of(view: View) -> list[date]:
    """Return the days of the period."""
    return [view.first + timedelta(days=n) for n in range(view.days)]


def spend_plot(view: View, rows: Sequence[LineFigures]) -> Plot | None:
    """Draw what was charged per day: bars of lines, or of teams when several are shown. None without any charge."""
    currency = currency_of(view, rows)
    sums = _by_owner(view, [row for row in rows if row.currency == currency and row.sums.charge])
    if not sums:
        return None
    ranked = sorted(sums, key=lambda each: (-sum(sums[each].values()), each))
    days = days_of(view)
    series = {each[0]: [_bar(view, [each], day, sums, currency) for day in days] for each in ranked[:SERIES]}
    if len(ranked) > SERIES:
        series[_("others")] = [_bar(view, ranked[SERIES:], day, sums, currency) for day in days]
    table = [
        [Cell(each[0]), *(Cell(point.amount, point.url) for point in _cells(view, each, days, sums, currency))]
        for each in ranked
    ]
    wide, narrow = stacked([_label(day) for day in days], series)
    several_teams = len(view.tenants) > 1
    title = _("Charge per team and day") if several_teams else _("Charge per line and day")
    head = [_("team") if several_teams else _("line"), *(_label(day) for day in days), _("total")]
    return Plot("spend", title, currency, wide, narrow, head, table)


def _by_owner(view: View, rows: Sequence[LineFigures]) -> dict[Owner, dict[date, Decimal]]:
    teams = {tenant.pk: tenant.slug for tenant in view.tenants}
    slugs = {row.line_id: row.line for row in sorted(rows, key=lambda row: row.day)}  # the newest of a line
    owner: Callable[[LineFigures], Owner] = (
        (lambda row: (teams.get(row.tenant_id, "–"), "tenant__id__in", row.tenant_id))
        if len(view.tenants) > 1
        else (lambda row: (slugs[row.line_id], "line_id", row.line_id))
    )
    sums: dict[Owner, dict[date, Decimal]] = {}
    for row in rows:
        per_day = sums.setdefault(owner(row), {})
        per_day[row.day] = per_day.get(row.day, Decimal(0)) + row.sums.charge
    return sums


def _bar(
    view: View, owners: Sequence[Owner], day: date, sums: Mapping[Owner, Mapping[date, Decimal]], currency: str
) -> Point:
    value = sum((sums[each].get(day, Decimal(0)) for each in owners), Decimal(0))
    name = owners[0][0] if len(owners) == 1 else _("others")
    url = requests_url(view, "billed", day=day, currency=currency, **_narrowed(owners))
    if not value:
        return Point(None, "", url, shown(value))
    return Point(value, f"{name}, {_label(day)}: {shown(value)} {currency}", url, shown(value))


def _cells(
    view: View, owner: Owner, days: Sequence[date], sums: Mapping[Owner, Mapping[date, Decimal]], currency: str
) -> list[Point]:
    """Return the amounts of the days and their sum, each with its rows."""
    total = sum(sums[owner].values(), Decimal(0))
    span = {"day__gte": days[0], "day__lte": days[-1]}
    whole = requests_url(view, "billed", currency=currency, **span, **_narrowed([owner]))
    return [*(_bar(view, [owner], day, sums, currency) for day in days), Point(total, "", whole, shown(total))]


def _narrowed(owners: Sequence[Owner]) -> dict[str, object]:
    return {owners[0][1]: several([pk for _name, _parameter, pk in owners])}


def availability_plot(view: View, rows: Sequence[LineFigures]) -> Plot | None:
    """Draw the share of calls that were answered, and what it would have been without failover."""
    days = days_of(view)
    sums = {day: added(row for row in rows if row.day == day) for day in days}
    if not any(one.judged for one in sums.values()):
        return None
    answered, alone, table = [], [], []
    for day, one in sums.items():
        answered.append(_share_point(view, day, one.finished, one.judged, _("with failover")))
        alone.append(_share_point(view, day, one.finished - one.rescued, one.judged, _("without failover")))
        table.append(
            [
                Cell(_label(day)),
                Cell(f"{one.judged:,}", requests_url(view, "judged", day=day)),
                Cell(percent(one.finished, one.judged)),
                Cell(percent(one.finished - one.rescued, one.judged)),
                Cell(f"{one.rescued:,}", requests_url(view, "rescued", day=day)),
                Cell(f"{one.lost:,}", requests_url(view, "lost", day=day)),
            ]
        )
    series = {_("with failover"): answered, _("without failover"): alone}
    shares = [point.value for points in series.values() for point in points if point.value is not None]
    low = max(0.0, min(float(share) for share in shares) // 10 * 10 - 10)
    wide, narrow = lines([_label(day) for day in days], series, range=(low, 100), allow_interruptions=True)
    head = [_("day"), _("calls"), _("with failover"), _("without failover"), _("rescued by failover"), _("lost")]
    return Plot("answered", _("Calls answered"), "%", wide, narrow, head, table)


def _share_point(view: View, day: date, part: int, whole: int, name: str) -> Point:
    if not whole:
        return Point(None, "")
    text = f"{_label(day)}, {name}: {percent(part, whole)}"
    return Point(Decimal(part) * 100 / whole, text, requests_url(view, "judged", day=day))


def times_plot(view: View, times: Mapping[date, Histogram]) -> Plot | None:
    """Draw how long clients waited for first content: the median and the slowest twentieth."""
    if not times:
        return None
    days, series, table = days_of(view), {"p50": MEDIAN, "p95": MOST}, []
    points: dict[str, list[Point]] = {name: [] for name in series}
    for day in days:
        counts = times.get(day, {})
        url = requests_url(view, "timed", day=day)
        found = {name: percentile(counts, share) for name, share in series.items()}
        for name, ms in found.items():
            text = f"{_label(day)}, {name}: {ms:,} ms" if ms is not None else ""
            points[name].append(Point(ms, text, url) if ms is not None else Point(None, ""))
        said = [f"{ms:,}" if ms is not None else "–" for ms in found.values()]
        table.append([Cell(_label(day)), Cell(f"{sum(counts.values()):,}", url), *map(Cell, said)])
    wide, narrow = lines([_label(day) for day in days], points, allow_interruptions=True, include_x_axis=True)
    head = [_("day"), _("answers"), "p50", "p95"]
    return Plot("first", _("First content"), "ms", wide, narrow, head, table)


def _label(day: date) -> str:
    return f"{day:%m-%d}"
