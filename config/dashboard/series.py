"""From figures to plots: spend per line and day, and how often calls were answered, with failover and without."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal

from django.utils.translation import gettext as _

from billing.adminmoney import shown
from config.dashboard.daily import Figures
from config.dashboard.plots import SERIES, Plot, Point, lines, stacked
from config.dashboard.scope import View
from config.dashboard.tiles import currency_of, percent, requests_url


def days_of(view: View) -> list[date]:
    """Return the days of the period."""
    return [view.first + timedelta(days=n) for n in range(view.days)]


def spend_plot(view: View, rows: Sequence[Figures]) -> Plot | None:
    """Draw what was charged per day: bars of lines, or of teams when several are shown. None without any charge."""
    currency = currency_of(view, rows)
    priced = [row for row in rows if row.currency == currency and row.charge]
    if not priced:
        return None
    several = len(view.tenants) > 1
    teams = {tenant.pk: tenant.slug for tenant in view.tenants}
    owner: Callable[[Figures], tuple[str, str, int]] = (
        (lambda row: (teams[row.tenant_id], "tenant__id__exact", row.tenant_id))
        if several
        else (lambda row: (row.line, "line_id", row.line_id))
    )
    sums: dict[tuple[str, str, int], dict[date, Decimal]] = {}
    for row in priced:
        per_day = sums.setdefault(owner(row), {})
        per_day[row.day] = per_day.get(row.day, Decimal(0)) + row.charge
    ranked = sorted(sums, key=lambda each: (-sum(sums[each].values()), each))
    days = days_of(view)
    series = {
        each[0]: [_bar(view, each, day, sums[each].get(day), currency) for day in days] for each in ranked[:SERIES]
    }
    if len(ranked) > SERIES:
        rest = [sums[each] for each in ranked[SERIES:]]
        totals = [sum((per_day.get(day, Decimal(0)) for per_day in rest), Decimal(0)) for day in days]
        series[_("others")] = [Point(total, f"{_('others')}: {shown(total)} {currency}") for total in totals]
    table = [[each[0], *_amounts(sums[each], days)] for each in ranked]
    wide, narrow = stacked([_label(day) for day in days], series)
    title = _("Charge per team and day") if several else _("Charge per line and day")
    head = [_("team") if several else _("line"), *(_label(day) for day in days), _("total")]
    return Plot(title, currency, wide, narrow, head, table)


def _amounts(per_day: Mapping[date, Decimal], days: Sequence[date]) -> list[str]:
    """Return the amounts of the days and their sum, as texts."""
    amounts = [per_day.get(day, Decimal(0)) for day in days]
    return [shown(amount) for amount in [*amounts, sum(amounts, Decimal(0))]]


def _bar(view: View, owner: tuple[str, str, int], day: date, amount: Decimal | None, currency: str) -> Point:
    name, parameter, pk = owner
    value = amount or Decimal(0)
    return Point(
        value, f"{name}, {_label(day)}: {shown(value)} {currency}", requests_url(view, **{"day": day, parameter: pk})
    )


def availability_plot(view: View, rows: Sequence[Figures]) -> Plot | None:
    """Draw the share of calls that were answered, and what it would have been without failover."""
    days = days_of(view)
    per_day = {day: [row for row in rows if row.day == day] for day in days}
    counted = {
        day: (sum(r.finished for r in each), sum(r.rescued for r in each), sum(r.finished + r.lost for r in each))
        for day, each in per_day.items()
    }
    if not any(whole for _finished, _rescued, whole in counted.values()):
        return None
    answered, alone, table = [], [], []
    for day in days:
        finished, rescued, whole = counted[day]
        answered.append(_share_point(view, day, finished, whole, _("with failover")))
        alone.append(_share_point(view, day, finished - rescued, whole, _("without failover")))
        table.append([_label(day), f"{whole:,}", percent(finished, whole), percent(finished - rescued, whole)])
    series = {_("with failover"): answered, _("without failover"): alone}
    shares = [point.value for points in series.values() for point in points if point.value is not None]
    low = max(0.0, min(float(share) for share in shares) // 10 * 10 - 10)
    wide, narrow = lines([_label(day) for day in days], series, range=(low, 100), allow_interruptions=True)
    head = [_("day"), _("calls"), _("with failover"), _("without failover")]
    return Plot(_("Calls answered"), "%", wide, narrow, head, table)


def _share_point(view: View, day: date, part: int, whole: int, name: str) -> Point:
    if not whole:
        return Point(None, "")
    text = f"{_label(day)}, {name}: {percent(part, whole)}"
    return Point(Decimal(part) * 100 / whole, text, requests_url(view, day=day))


def _label(day: date) -> str:
    return f"{day:%m-%d}"
