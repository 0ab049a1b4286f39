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
    def words(since: datetime) -> Words:
        share = round(100 * failed / calls) if calls else 0
        text = f"{failed} of the last {calls} attempts at upstream {upstream.name} failed ({share} %)."
        details = {
            "of": f"upstream {upstream.name}", "of_zh": f"上游 {upstream.name}", "what": "attempts", "calls": calls,
            "failed": failed, "percent": share, "minutes": WINDOW_MIN, "since": since.isoformat(timespec="seconds"),
            "page": f"/admin/pool/?team={tenant.pk}",
        }  # fmt: skip
        return Words(text, details)

    watch_alert(
        tenant=tenant, kind=AlertKind.ERROR_RATE, subject=subject_of(upstream), wrong=many_failures(calls, failed),
        now=now, words=words,
    )  # fmt: skip
