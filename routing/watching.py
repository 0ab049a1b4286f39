"""Groups and upstreams with too few usable keys left.

A group is what requests depend on, so it is watched from its first key on, and so is an upstream that a rule names
itself. Any other upstream is watched from two keys on: a single key has alerts of its own. Where the same keys make up
a group and an upstream, the group alone is told of.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from keys.core.pool import Sheet
from keys.core.state import Status
from keys.core.watch import is_low
from keys.models import UpstreamKey
from keys.watching import Watched, subject_of
from routing.models import GroupMember, RoutingRule
from tenants.alerts import Words, forget_others, watch_alert
from tenants.models import AlertKind, Tenant

NAMED = 10  # keys named one by one in a mail


@dataclass(frozen=True, slots=True)
class Part:
    """What is watched: some keys under one name."""

    subject: str
    name: str
    name_zh: str
    keys: Sequence[UpstreamKey]


def watch_pool(seen: Watched, *, now: datetime) -> None:
    """Take in one look at how many keys are usable."""
    for tenant in Tenant.objects.order_by("pk"):
        subjects = []
        for part in parts_of(tenant, seen.of(tenant)):
            subjects.append(part.subject)
            _watch(tenant, part, seen, now)
        forget_others(tenant=tenant, kind=AlertKind.LOW_POOL, subjects=subjects, now=now)


def parts_of(tenant: Tenant, keys: Sequence[UpstreamKey]) -> Iterator[Part]:
    """Yield what of a team is watched, groups first."""
    told: set[frozenset[int]] = set()
    members: dict[int, tuple[str, list[int]]] = {}
    rows = GroupMember.objects.filter(group__tenant=tenant).select_related("group").order_by("group_id", "position")
    for row in rows:
        members.setdefault(row.group_id, (row.group.name, []))[1].append(row.upstream_id)
    for group_id, (name, upstreams) in members.items():
        own = [key for key in keys if key.upstream_id in upstreams]
        if own:
            told.add(_ids(own))
            yield Part(f"group:{group_id}", f"group {name}", f"策略组 {name}", own)
    named = set(RoutingRule.objects.filter(route__tenant=tenant, enabled=True).values_list("upstream_id", flat=True))
    for upstream_id in dict.fromkeys(key.upstream_id for key in keys):
        own = [key for key in keys if key.upstream_id == upstream_id]
        if (len(own) > 1 or upstream_id in named) and _ids(own) not in told:
            upstream = own[0].upstream
            yield Part(subject_of(upstream), f"upstream {upstream.name}", f"上游 {upstream.name}", own)


def _ids(keys: Iterable[UpstreamKey]) -> frozenset[int]:
    return frozenset(key.pk for key in keys)


def _watch(tenant: Tenant, part: Part, seen: Watched, now: datetime) -> None:
    sheets = [(key, seen.pool.sheet(key.pk, key.account_id)) for key in part.keys]
    away = [(key, sheet) for key, sheet in sheets if sheet.status is not Status.HEALTHY]
    enabled, usable = len(sheets), len(sheets) - len(away)

    def words(since: datetime) -> Words:
        keys = "1 key" if enabled == 1 else f"{enabled} keys"
        text = f"{usable or 'None'} of the {keys} of {part.name} {'are' if usable > 1 else 'is'} usable."
        details = {
            "of": part.name, "of_zh": part.name_zh, "usable": usable, "enabled": enabled,
            "dead": sum(1 for _key, sheet in away if sheet.status is Status.DEAD),
            "keys": [_said(key, sheet, now) for key, sheet in away[:NAMED]],
            "more": max(0, len(away) - NAMED), "since": since.isoformat(timespec="seconds"),
            "page": f"/admin/pool/?team={tenant.pk}",
        }  # fmt: skip
        return Words(text, details)

    watch_alert(
        tenant=tenant, kind=AlertKind.LOW_POOL, subject=part.subject, wrong=is_low(usable, enabled), now=now,
        words=words,
    )  # fmt: skip


def _said(key: UpstreamKey, sheet: Sheet, now: datetime) -> dict[str, str | None]:
    until = now + timedelta(seconds=sheet.cooling_left_s) if sheet.status is Status.COOLING else None
    return {
        "name": f"{key.upstream.name} · …{key.tail}",
        "status": sheet.status.value,
        "reason": sheet.reason,
        "until": until.isoformat(timespec="seconds") if until is not None else None,
    }
