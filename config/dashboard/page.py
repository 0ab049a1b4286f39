"""Puts the home page together from sums of hours and days. Its cost is bounded: a handful of queries."""

from typing import Any

from django.http import HttpRequest
from django.utils.timezone import now as present

from billing.dashboard import ACTIVE, active_conversations, traffic
from billing.models import RequestRecord
from config.dashboard.attention import Keys, sentences
from config.dashboard.money import BUDGETS_MAX, budgets, by_model
from config.dashboard.scope import PERIODS, View, view_of
from config.dashboard.series import availability_plot, spend_plot, times_plot
from config.dashboard.tiles import tiles
from config.dashboard.upstreams import healths, hours_of
from config.pages.gauges import gauges
from keys.models import UpstreamKey
from keys.standing import pool_of
from tenants.scoping import ADMINS


def dashboard(request: HttpRequest) -> dict[str, Any]:
    """Return the context of the home page for this person."""
    view = view_of(request, present())
    keys, found, spent = _keys(view), traffic(view.asked, now=view.now), budgets(view)
    bars = [one.bar for one in spent]
    conversations = active_conversations(view.ids, view.asked.line_id, since=view.now - ACTIVE)
    period = [row for row in found.lines if row.day >= view.first]
    has_calls = any(row.sums.admitted or row.sums.refused for row in found.lines)
    plots = (spend_plot(view, period), availability_plot(view, period), times_plot(view, found.times))
    return {
        "view": view,
        "sentences": sentences(view, keys, bars, found.behind),
        "tiles": tiles(view, keys, found, bars, conversations),
        "budgets": spent[:BUDGETS_MAX],
        "budgets_more": len(spent) - BUDGETS_MAX,
        "plots": [plot for plot in plots if plot is not None],
        "models": by_model(view, found.models),
        "healths": healths(view, keys),
        "hours": [f"{hour.astimezone(view.zone):%H:00}" for hour in hours_of(view)],
        "periods": [(days, days == view.days, view.query(days=days)) for days in PERIODS],
        "has_calls": has_calls,
        "is_new": not has_calls and not RequestRecord.objects.filter(tenant__in=view.offered).exists(),
        "may_start": view.reach.operator or bool(view.reach.tenants(ADMINS)),
    }


def _keys(view: View) -> Keys:
    rows = (
        UpstreamKey.objects.for_tenants(view.pool_tenants)
        .select_related("upstream", "account")
        .defer("secret", "upstream__headers")
    )
    listed = list(rows)
    slow = {pk: gauge.slow for pk, gauge in gauges(listed).items() if gauge.slow is not None}
    return Keys(listed, pool_of(listed, view.now), slow)
