"""What the first steps write: each in one transaction, each in the audit log."""

from typing import Any

from django.db import transaction
from django.utils.timezone import now

from keys.models import Upstream, UpstreamKey
from keys.prober import ProbeResult, probe
from keys.probing import note
from keys.services import save_key
from routing.models import GroupMember, Route, RoutingRule, StrategyGroup
from tenants.models import BusinessLine, Tenant
from tenants.services import IssuedKey, audit, issue_gateway_key, touch_config

GROUP, ROUTE, RULE, GATEWAY_KEY = "main", "default", "everything", "first"
TEAM_FIELDS = ("name", "slug", "timezone", "currency")


@transaction.atomic
def make_team(user: Any, tenant: Tenant) -> Tenant:
    """Save a new team."""
    tenant.save()
    touch_config()
    audit(user=user, action="added", target=tenant, tenant=tenant, fields=_values(tenant, TEAM_FIELDS))
    return tenant


@transaction.atomic
def connect(user: Any, tenant: Tenant, asked: dict[str, Any]) -> UpstreamKey:
    """Save an upstream (its models are read from it) and its first key."""
    upstream = Upstream.objects.create(
        tenant=tenant, name=asked["name"], dialect=asked["dialect"], base_url=asked["base_url"], model_list="auto"
    )
    fields = _values(upstream, ("name", "dialect", "base_url", "model_list"))
    audit(user=user, action="added", target=upstream, tenant=tenant, fields=fields)
    return add_key(user, upstream, asked["secret"])


@transaction.atomic
def add_key(user: Any, upstream: Upstream, secret: str) -> UpstreamKey:
    """Save one more key of an upstream."""
    taken = set(UpstreamKey.objects.filter(upstream=upstream).values_list("name", flat=True))
    name = next(f"k{n}" for n in range(1, len(taken) + 2) if f"k{n}" not in taken)
    key = save_key(key=UpstreamKey(upstream=upstream, name=name), secret=secret)
    audit(user=user, action="added", target=key, tenant=upstream.tenant, fields={"secret": "changed"})
    return key


@transaction.atomic
def replace_secret(user: Any, key: UpstreamKey, secret: str) -> UpstreamKey:
    """Give a key another secret: a new epoch."""
    saved = save_key(key=key, secret=secret)
    audit(user=user, action="changed", target=saved, tenant=key.upstream.tenant, fields={"secret": "changed"})
    return saved


def test_key(key_id: int) -> tuple[UpstreamKey, ProbeResult]:
    """Ask the upstream for its models with this key; waits for the answer."""
    key = UpstreamKey.objects.select_related("upstream__tenant").get(pk=key_id)
    moment = now()
    result = probe(key, moment)
    note(key=key, result=result, now=moment)
    return key, result


@transaction.atomic
def lead_everything(user: Any, tenant: Tenant) -> RoutingRule:
    """Lead every request to the team's group of all upstreams, in their order; what is there already is used."""
    group, is_new = StrategyGroup.objects.get_or_create(tenant=tenant, name=GROUP)
    made: list[Any] = [group] if is_new else []
    if not group.members.exists():
        upstreams = Upstream.objects.for_tenant(tenant).filter(enabled=True).order_by("pk")
        for position, upstream in enumerate(upstreams):
            made.append(GroupMember.objects.create(group=group, upstream=upstream, position=position))
    route = Route.objects.filter(tenant=tenant, is_default=True).first()
    if route is None:
        route, is_new = Route.objects.get_or_create(tenant=tenant, name=ROUTE, defaults={"is_default": True})
        Route.objects.filter(pk=route.pk).update(is_default=True)
        made += [route] if is_new else []
    last = route.rules.order_by("-position").values_list("position", flat=True).first()
    position = 0 if last is None else last + 1
    rule, is_new = RoutingRule.objects.get_or_create(
        route=route, name=RULE, defaults={"group": group, "position": position}
    )
    made += [rule] if is_new else []
    touch_config()
    for row in made:
        audit(user=user, action="added", target=row, tenant=tenant)
    return rule


@transaction.atomic
def make_line(user: Any, tenant: Tenant, name: str, slug: str) -> IssuedKey:
    """Save a line and issue its first gateway key."""
    line = BusinessLine.objects.create(tenant=tenant, name=name, slug=slug)
    audit(user=user, action="added", target=line, tenant=tenant, fields={"name": name, "slug": slug})
    return issue(user, line)


@transaction.atomic
def issue(user: Any, line: BusinessLine) -> IssuedKey:
    """Issue one more gateway key for a line."""
    taken = set(line.gateway_keys.values_list("name", flat=True))
    names = [GATEWAY_KEY, *(f"{GATEWAY_KEY}-{n}" for n in range(2, len(taken) + 3))]
    issued = issue_gateway_key(line=line, name=next(name for name in names if name not in taken))
    audit(user=user, action="added", target=issued.row, tenant=line.tenant, fields={"name": issued.row.name})
    return issued


def _values(row: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(row, name) for name in names}
