"""The pool: every upstream key by upstream, how it stands and why, with what may be done about it."""

from collections.abc import Iterator, Sequence
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

from config.pages.gauges import Gauge, gauges
from config.pages.paste import PasteForm
from keys.admin.upstream_keys import key_actions
from keys.balancewords import notes_of as balance_notes
from keys.core.counts import BUCKETS, Counts, bucket_of
from keys.core.policy import Policy, overridden
from keys.core.pool import Pool, Sheet
from keys.models import Upstream, UpstreamKey
from keys.standing import error_words, pool_of, rest_words, rests_of, stale_since, state_chip, why_words
from tenants.adminchips import chip, duration
from tenants.models import Tenant
from tenants.scoping import ADMINS, OPERATIONS, reach_of, scoped

STRIKES_SHOWN = 6
FRAGMENT = "admin/pool_keys.html"


@dataclass(frozen=True, slots=True)
class Bar:
    """Five minutes of calls: height in per cent of the busiest, `failed` in per cent of its own calls."""

    calls: int
    failed: int
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """A key as the page shows it. `chips`: its state, then what else marks it. `hour`: calls and failures of it."""

    key: UpstreamKey
    sheet: Sheet
    chips: Sequence[SafeString]
    why: str
    error: str
    strikes: str
    bars: Sequence[Bar]
    hour: tuple[int, int]
    caps: Sequence[str]
    rests: Sequence[SafeString]
    notes: Sequence[str]
    actions: Sequence[tuple[str, str]]

    @property
    def kinds(self) -> str:
        """The buttons by name: what the refreshing script compares."""
        return " ".join(action for action, _words in self.actions)

    @property
    def refused(self) -> bool:
        """Whether only a new secret helps."""
        return self.sheet.status == "dead" and self.sheet.reason.startswith("auth_invalid")


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
    moving = "fragment" in request.GET
    context = {
        **site.each_context(request),
        "title": _("Pool"),
        "blocks": blocks(chosen, writable, now()),
        "tenants": tenants,
        "chosen": chosen[0] if len(chosen) == 1 and len(tenants) > 1 else None,
        "may_paste": bool(writable),
        "paste": PasteForm(request) if writable and not moving else None,
    }
    return TemplateResponse(request, FRAGMENT if moving else "admin/pool.html", context)


def blocks(tenants: Sequence[Tenant], writable: frozenset[int], moment: datetime) -> list[Block]:
    """Return the upstreams with their keys, in the order of names. Four queries whatever the size."""
    keys = list(
        UpstreamKey.objects.for_tenants(tenants)
        .select_related("upstream__tenant", "account__balance", "balance")
        .defer("secret")
        .order_by("upstream__tenant__slug", "upstream__name", "upstream_id", "name")
    )
    pool, known = pool_of(keys, moment), gauges(keys)
    made = []
    for _pk, group in groupby(keys, key=lambda key: key.upstream_id):
        listed = list(group)
        may = listed[0].upstream.tenant_id in writable
        made.append(Block(listed[0].upstream, [_row(key, pool, known.get(key.pk), may=may) for key in listed]))
    return made


def _row(key: UpstreamKey, pool: Pool, gauge: Gauge | None, *, may: bool) -> Row:
    moment, sheet, counts = pool.now, pool.sheet(key.pk, key.account_id), pool.counts.get(key.pk, Counts())
    allowed = min(overridden(Policy(), key.policy).strikes, STRIKES_SHOWN)
    hour = figures_of_hour(counts, moment)
    return Row(
        key=key,
        sheet=sheet,
        chips=[state_chip(key, sheet, moment), *_marks(key, counts, gauge, moment)],
        why=why_words(sheet),
        error="" if error_words(sheet) == why_words(sheet) else error_words(sheet),
        strikes="●" * min(sheet.strikes, allowed) + "○" * max(0, allowed - sheet.strikes),
        bars=bars(counts, moment),
        hour=(sum(calls for calls, _failed in hour), sum(failed for _calls, failed in hour)),
        caps=_caps(key, gauge),
        rests=[rest_words(rest) for rest in rests_of(sheet, moment)],
        notes=[*_notes(gauge), *balance_notes(key)],
        actions=key_actions(key, sheet) if may else (),
    )


def _marks(key: UpstreamKey, counts: Counts, gauge: Gauge | None, moment: datetime) -> Iterator[SafeString]:
    """Yield the chips beside the state."""
    if gauge is not None and gauge.slow is not None:
        yield chip("slow", _("slow"), title=_("Last in order until it is as fast as usual."))
    since = stale_since(key, counts, moment)
    if since is not None:
        word = _("stale spare: %(time)s without a sign") % {"time": duration((moment - since).total_seconds())}
        yield chip("note", word, title=_("Nobody used or tested it for so long: it may be dead. Test it."))


def _notes(gauge: Gauge | None) -> list[str]:
    """Say what the gauges show in numbers."""
    notes = []
    if gauge is not None and gauge.slow is not None:
        mean, usual = gauge.slow
        words = _("%(mean)s ms to first content in the last 5 min, usually %(usual)s ms")
        notes.append(words % {"mean": f"{mean:,.0f}", "usual": f"{usual:,.0f}"})
    if gauge is not None and gauge.water is not None:
        notes.append(
            _("%(share)s of its credit or limit left: last for new conversations") % {"share": f"{gauge.water:.0%}"}
        )
    return notes


def figures_of_hour(counts: Counts, moment: datetime) -> list[tuple[int, int]]:
    """Return calls and failures of the last hour in steps of five minutes, oldest first."""
    last = bucket_of(moment)
    return [counts.recent.get(bucket, (0, 0)) for bucket in range(last - BUCKETS + 1, last + 1)]


def bars(counts: Counts, moment: datetime) -> list[Bar]:
    """Return the last hour in steps of five minutes, oldest first."""
    figures = figures_of_hour(counts, moment)
    most = max([calls for calls, _failed in figures] + [1])
    return [_bar(calls, failed, most) for calls, failed in figures]


def _bar(calls: int, failed: int, most: int) -> Bar:
    text = _("%(failed)s of %(calls)s failed") % {"failed": failed, "calls": calls}
    return Bar(round(100 * calls / most), round(100 * failed / calls) if calls else 0, text)


def _caps(key: UpstreamKey, gauge: Gauge | None) -> list[str]:
    """Say each cap, with what is left of it where that is known."""
    words = {
        "rpm": (_("%(left)s of %(n)s calls/min left"), _("%(n)s calls/min")),
        "tpm": (_("%(left)s of %(n)s tokens/min left"), _("%(n)s tokens/min")),
        "per_hour": (_("%(left)s of %(n)s calls/h left"), _("%(n)s calls/h")),
        "per_day": (_("%(left)s of %(n)s calls/day left"), _("%(n)s calls/day")),
        "concurrency": (_("%(left)s of %(n)s at once free"), _("%(n)s at once")),
    }
    said = []
    for name, (with_left, plain) in words.items():
        limit = getattr(key, name)
        left = gauge.left.get(name) if gauge is not None else None
        if limit is not None:
            said.append((plain if left is None else with_left) % {"n": f"{limit:,}", "left": f"{left or 0:,}"})
    return said
