"""The pool: every upstream key by upstream, how it stands and why, with what may be done about it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.safestring import SafeString
from django.utils.timezone import now
from django.utils.translation import gettext as _

from keys.admin.upstream_keys import key_actions
from keys.core.counts import BUCKETS, Counts, bucket_of
from keys.core.pool import Sheet
from keys.models import Upstream, UpstreamKey
from keys.standing import cause_words, error_words, pool_of, state_chip, why_words
from tenants.adminchips import duration
from tenants.models import Tenant
from tenants.scoping import ADMINS, OPERATIONS, reach_of, scoped

STRIKES_SHOWN = 3
FRAGMENT = "admin/pool_keys.html"


@dataclass(frozen=True, slots=True)
class Bar:
    """Five minutes of calls: heights in per cent of the busiest, failures at the bottom."""

    calls: int
    failed: int
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """A key as the page shows it."""

    key: UpstreamKey
    sheet: Sheet
    state: SafeString
    why: str
    error: str
    strikes: str
    bars: Sequence[Bar]
    caps: str
    resting: str
    actions: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Block:
    upstream: Upstream
    rows: Sequence[Row]

    @property
    def usable(self) -> int:
        """How many of its keys may be used now."""
        return sum(1 for row in self.rows if row.key.enabled and row.sheet.status == "healthy")


def pool_page(request: HttpRequest, site: AdminSite) -> HttpResponse:
    """Show the pool; with `?fragment=1` only its moving part, for the refreshing script."""
    reach = reach_of(request.user)
    if not (reach.operator or reach.tenants(OPERATIONS)):
        raise PermissionDenied
    tenants = list(scoped(Tenant.objects.order_by("slug"), reach, OPERATIONS))
    chosen = [tenant for tenant in tenants if str(tenant.pk) == request.GET.get("team")] or tenants
    writable = frozenset(tenant.pk for tenant in tenants) if reach.operator else reach.tenants(ADMINS)
    context = {
        **site.each_context(request),
        "title": _("Pool"),
        "blocks": blocks(chosen, writable, now()),
        "tenants": tenants,
        "chosen": chosen[0] if len(chosen) == 1 and len(tenants) > 1 else None,
        "may_paste": bool(writable),
    }
    return TemplateResponse(request, FRAGMENT if "fragment" in request.GET else "admin/pool.html", context)


def blocks(tenants: Sequence[Tenant], writable: frozenset[int], moment: datetime) -> list[Block]:
    """Return the upstreams with their keys, in the order of names. Four queries whatever the size."""
    keys = list(
        UpstreamKey.objects.for_tenants(tenants)
        .select_related("upstream__tenant", "account")
        .defer("secret")
        .order_by("upstream__tenant__slug", "upstream__name", "upstream_id", "name")
    )
    pool = pool_of(keys, moment)
    made = []
    for _pk, group in groupby(keys, key=lambda key: key.upstream_id):
        listed = list(group)
        may = listed[0].upstream.tenant_id in writable
        rows = [
            _row(key, pool.sheet(key.pk, key.account_id), pool.counts.get(key.pk, Counts()), moment, may=may)
            for key in listed
        ]
        made.append(Block(listed[0].upstream, rows))
    return made


def _row(key: UpstreamKey, sheet: Sheet, counts: Counts, moment: datetime, *, may: bool) -> Row:
    resting = [
        f"{name}: {cause_words(str(rest['reason']))}, {duration(rest['left_s'])}" for name, rest in sheet.models.items()
    ]
    return Row(
        key=key,
        sheet=sheet,
        state=state_chip(key, sheet, moment),
        why=why_words(sheet),
        error=error_words(sheet),
        strikes="●" * min(sheet.strikes, STRIKES_SHOWN) + "○" * max(0, STRIKES_SHOWN - sheet.strikes),
        bars=bars(counts, moment),
        caps=_caps(key),
        resting="; ".join(resting),
        actions=key_actions(key, sheet) if may else (),
    )


def bars(counts: Counts, moment: datetime) -> list[Bar]:
    """Return the last hour in steps of five minutes, oldest first."""
    last = bucket_of(moment)
    figures = [counts.recent.get(bucket, (0, 0)) for bucket in range(last - BUCKETS + 1, last + 1)]
    most = max([calls for calls, _failed in figures] + [1])
    return [_bar(calls, failed, most) for calls, failed in figures]


def _bar(calls: int, failed: int, most: int) -> Bar:
    text = _("%(failed)s of %(calls)s failed") % {"failed": failed, "calls": calls}
    return Bar(round(100 * calls / most), round(100 * failed / most), text)


def _caps(key: UpstreamKey) -> str:
    named = (
        (key.rpm, _("%(n)s calls/min")),
        (key.tpm, _("%(n)s tokens/min")),
        (key.per_hour, _("%(n)s calls/h")),
        (key.per_day, _("%(n)s calls/day")),
        (key.concurrency, _("%(n)s at once")),
    )
    return " · ".join(text % {"n": f"{value:,}"} for value, text in named if value is not None)
