"""Puts the home page together. Its cost is bounded: a handful of queries over the days shown."""

from datetime import UTC
from typing import Any

from django.http import HttpRequest
from django.utils.timezone import now as present

from billing.models import RequestRecord
from config.dashboard.attention import Keys, sentences
from config.dashboard.daily import figures
from config.dashboard.heat import strips
from config.dashboard.scope import PERIODS, View, view_of
from config.dashboard.series import availability_plot, spend_plot
from config.dashboard.tiles import tiles
from keys.models import UpstreamKey
from keys.standing import pool_of
from tenants.scoping import ADMINS


def dashboard(request: HttpRequest) -> dict[str, Any]:
    """Return the context of the home page for this person."""
    view = view_of(request, present())
    keys = _keys(view)
    rows = figures(view.tenants, min(view.first, view.month), view.today, view.now.astimezone(UTC).date())
    if view.line is not None:
        rows = [row for row in rows if row.line_id == view.line.pk]
    month = [row for row in rows if row.day >= view.month]
    period = [row for row in rows if row.day >= view.first]
    has_calls = any(row.calls for row in rows)
    plots = [spend_plot(view, period), availability_plot(view, period)]
    return {
        "view": view,
        "sentences": sentences(view, keys, month),
        "tiles": tiles(view, keys, period, month),
        "plots": [plot for plot in plots if plot is not None],
        "strips": strips(view),
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
    return Keys(listed, pool_of(listed, view.now))
