"""Failure rate per upstream key and hour: a strip of 24 cells per key, marked at three times the others' rate."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.cache import cache
from django.db.models import Count, Q
from django.db.models.functions import TruncHour
from django.urls import reverse
from django.utils.translation import gettext as _

from billing.models import Attempt
from config.dashboard.scope import View
from keys.core.outcome import Cause

HOURS = 24
KEYS_MAX = 40
MARK_FACTOR = 3
MARK_CALLS = 5  # fewer tell nothing
KEPT_S = 60
LEVELS = (0.0, 0.02, 0.05, 0.15, 0.4)  # a cell's level is how many of these its rate exceeds

# Answers about the request alone, and clients that left, are no failures of the key.
_FINE = [Cause.SERVED, Cause.ABORTED, Cause.BAD_REQUEST, Cause.CONTENT_FILTERED, Cause.CONTEXT_TOO_LONG]


@dataclass(frozen=True, slots=True)
class Cell:
    """`level` 0–5, -1 = no calls. `marked`: at least MARK_FACTOR times the rate of the other keys in that hour."""

    hour: str
    level: int
    text: str
    marked: bool


@dataclass(frozen=True, slots=True)
class Strip:
    name: str
    url: str
    cells: Sequence[Cell]


def strips(view: View) -> list[Strip]:
    """Return the keys with most calls in the last day, busiest first."""
    tenants = [tenant.pk for tenant in view.pool_tenants]
    if not tenants:
        return []
    last = view.now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    hours = [last - timedelta(hours=n) for n in range(HOURS - 1, -1, -1)]
    counted = _counted(tenants, hours[0])
    keys: dict[tuple[int, str], int] = {}
    for (key, name, _hour), (calls, _failed) in counted.items():
        keys[key, name] = keys.get((key, name), 0) + calls
    busiest = sorted(keys, key=lambda each: (-keys[each], each[1]))[:KEYS_MAX]
    totals = {hour: _total(counted, hour) for hour in hours}
    return [
        Strip(
            name,
            reverse("admin:billing_requestrecord_changelist") + f"?upstream_key_id={key}&period=all",
            [_cell(view, hour, counted.get((key, name, hour), (0, 0)), totals[hour]) for hour in hours],
        )
        for key, name in busiest
    ]


Counted = dict[tuple[int, str, datetime], tuple[int, int]]


def _counted(tenants: Sequence[int], since: datetime) -> Counted:
    """Return (calls, failures) per key and hour; kept for a minute."""
    name = f"heat:{since.timestamp()}:{','.join(map(str, sorted(tenants)))}"
    known: Counted | None = cache.get(name)
    if known is None:
        known = _read(tenants, since)
        cache.set(name, known, KEPT_S)
    return known


def _read(tenants: Sequence[int], since: datetime) -> Counted:
    day = (since - timedelta(days=1)).date()  # zones behind UTC; the index knows days
    rows: Any = (
        Attempt.objects.filter(record__tenant_id__in=tenants, record__day__gte=day, record__created__gte=since)
        .filter(skipped="")
        .exclude(upstream_key_id=None)
        .order_by()
        .annotate(hour=TruncHour("record__created", tzinfo=UTC))
        .values_list("upstream_key_id", "upstream", "upstream_key", "hour")
        .annotate(calls=Count("pk"), failed=Count("pk", filter=~Q(outcome__in=_FINE)))
    )
    return {(key, f"{upstream} · {label}", hour): (calls, failed) for key, upstream, label, hour, calls, failed in rows}


def _total(counted: Counted, hour: datetime) -> tuple[int, int]:
    found = [figures for (_key, _name, when), figures in counted.items() if when == hour]
    return sum(calls for calls, _failed in found), sum(failed for _calls, failed in found)


def _cell(view: View, hour: datetime, own: tuple[int, int], all_: tuple[int, int]) -> Cell:
    calls, failed = own
    local = f"{hour.astimezone(view.zone):%H:00}"
    if not calls:
        return Cell(local, -1, _("%(hour)s: no calls") % {"hour": local}, marked=False)
    rate = failed / calls
    text = _("%(hour)s: %(failed)s of %(calls)s failed") % {"hour": local, "failed": failed, "calls": calls}
    return Cell(local, sum(rate > limit for limit in LEVELS), text, marked=is_marked(own, all_))


def is_marked(own: tuple[int, int], all_: tuple[int, int]) -> bool:
    """Tell whether a key fails at least MARK_FACTOR times as often as the others did in the same hour."""
    calls, failed = own
    others, others_failed = all_[0] - calls, all_[1] - failed
    if calls < MARK_CALLS or others < MARK_CALLS or not failed:
        return False
    return failed * others >= MARK_FACTOR * others_failed * calls
