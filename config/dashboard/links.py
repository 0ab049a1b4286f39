"""The way from a figure to its rows: the list of requests or attempts, narrowed to exactly what was counted.

`kind` names a set of billing/kinds.py; what the sums hold together is what the list shows.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from django.urls import reverse

from config.dashboard.scope import View

_HOUR = timedelta(hours=1)


def requests_url(view: View, kind: str, **extra: object) -> str:
    """Return the list of requests of this kind, narrowed as the view is and further."""
    chosen: dict[str, object] = {"period": "all", "kind": kind}
    if len(view.tenants) == 1 and len(view.offered) > 1:
        chosen["tenant__id__exact"] = view.tenants[0].pk
    if view.line is not None:
        chosen["line_id"] = view.line.pk
    return reverse("admin:billing_requestrecord_changelist") + "?" + urlencode({**chosen, **extra})


def period(view: View) -> dict[str, object]:
    """Return what narrows requests to the days of the view."""
    return {"day__gte": view.first, "day__lte": view.today}


def several(ids: Sequence[int]) -> str:
    """Return ids as a list takes them."""
    return ",".join(map(str, ids))


def attempts_url(keys: Sequence[int], kind: str, hour: datetime, hours: int = 1) -> str:
    """Return the exchanges with these keys, of the requests that began in these hours."""
    which = f"upstream_key_id={keys[0]}" if len(keys) == 1 else f"upstream_key_id__in={several(keys)}"
    first, end = (f"{at.astimezone(UTC):%Y-%m-%dT%H:%MZ}" for at in (hour, hour + hours * _HOUR))
    page = reverse("admin:billing_attempt_changelist")
    return f"{page}?kind={kind}&{which}&record__created__gte={first}&record__created__lt={end}"
