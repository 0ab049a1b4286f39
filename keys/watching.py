"""Upstreams at which many attempts fail, told by what the state store counts of each key."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from keys.core.counts import Counts, bucket_of
from keys.core.pool import Pool
from keys.core.watch import WINDOW_MIN, many_failures, recent
from keys.models import Upstream, UpstreamKey
from keys.standing import pool_of
from tenants.alerts import Words, forget_others, watch_alert
from tenants.models import AlertKind, Tenant


@dataclass(frozen=True, slots=True)
class Watched:
    """The keys that are switched on, by team, and how they stand."""

    keys: Mapping[int, Sequence[UpstreamKey]]
    pool: Pool

    def of(self, tenant: Tenant) -> Sequence[UpstreamKey]:
        """Return one team's keys."""
        return self.keys.get(tenant.pk, ())


def watched(now: datetime) -> Watched:
    """Read every key that may serve: it, its upstream and its team are switched on."""
    keys = UpstreamKey.objects.filter(enabled=True, upstream__enabled=True, upstream__tenant__enabled=True)
    rows = list(keys.select_related("upstream", "account").defer("secret").order_by("upstream_id", "pk"))
    by_tenant: dict[int, list[UpstreamKey]] = {}
    for row in rows:
        by_tenant.setdefault(row.upstream.tenant_id, []).append(row)
    return Watched(by_tenant, pool_of(rows, now))


def watch_upstreams(seen: Watched, *, now: datetime) -> None:
    """Take in one look at how many attempts fail at each upstream."""
    for tenant in Tenant.objects.order_by("pk"):
        upstreams: defaultdict[Upstream, list[Counts]] = defaultdict(list)
        for key in seen.of(tenant):
            upstreams[key.upstream].append(seen.pool.counts.get(key.pk, Counts()))
        for upstream, counts in upstreams.items():
            _watch(tenant, upstream, *recent(counts, bucket_of(now)), now)
        subjects = [subject_of(upstream) for upstream in upstreams]
        forget_others(tenant=tenant, kind=AlertKind.ERROR_RATE, subjects=subjects, now=now, within="upstream:")


def subject_of(upstream: Upstream) -> str:
    """Name an upstream for alerts."""
    return f"upstream:{upstream.pk}"


def _watch(tenant: Tenant, upstream: Upstream, calls: int, failed: int, now: datetime) -> None:
    said = f"{failed} of the last {calls} attempts at upstream {upstream.name} failed"
    names = Named(subject_of(upstream), f"upstream {upstream.name}", f"上游 {upstream.name}", "attempts")
    watch_rate(tenant, Rate(names, calls, failed, WINDOW_MIN, said, f"/admin/pool/?team={tenant.pk}"), now=now)


@dataclass(frozen=True, slots=True)
class Named:
    """Whose failures, in both languages; `what` is counted: attempts or calls."""

    subject: str
    of: str
    of_zh: str
    what: str


@dataclass(frozen=True, slots=True)
class Rate:
    """How many of the calls of some minutes failed. `said` becomes a sentence with the share; `page` shows them."""

    names: Named
    calls: int
    failed: int
    minutes: int
    said: str
    page: str


def watch_rate(tenant: Tenant, rate: Rate, *, now: datetime) -> None:
    """Take in one look at a failure rate, for the alert about it."""
    names, share = rate.names, round(100 * rate.failed / rate.calls) if rate.calls else 0

    def words(since: datetime) -> Words:
        details = {
            "of": names.of, "of_zh": names.of_zh, "what": names.what, "calls": rate.calls, "failed": rate.failed,
            "percent": share, "minutes": rate.minutes, "since": since.isoformat(timespec="seconds"),
            "page": rate.page,
        }  # fmt: skip
        return Words(f"{rate.said} ({share} %).", details)

    watch_alert(
        tenant=tenant, kind=AlertKind.ERROR_RATE, subject=names.subject,
        wrong=many_failures(rate.calls, rate.failed), now=now, words=words,
    )  # fmt: skip
