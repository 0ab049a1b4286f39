"""How far a team has come on the way to its first request: read from its rows, however they were made."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Q
from django.urls import reverse
from django.utils.translation import gettext as _

from billing.models import RequestRecord
from keys.models import Upstream, UpstreamKey
from routing.models import GroupMember, Route, RoutingRule
from tenants.models import BusinessLine, GatewayKey, Tenant

ORDER = ("tenant", "upstream", "test", "group", "line", "key", "request")


@dataclass(frozen=True, slots=True)
class Step:
    """`state`: done | next | later. `detail` names what was found, `url` leads to it."""

    name: str
    title: str
    state: str
    detail: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """What a team has; None = not yet. `tested`: its key has been accepted, or has served already."""

    tenant: Tenant | None = None
    upstream: Upstream | None = None
    key: UpstreamKey | None = None
    tested: bool = False
    rule: RoutingRule | None = None
    line: BusinessLine | None = None
    gateway_key: GatewayKey | None = None
    record: RequestRecord | None = None

    @property
    def next(self) -> str:
        """The first step that is not done; "" when all are."""
        return next((name for name in ORDER if not self.is_done(name)), "")

    def is_done(self, step: str) -> bool:
        """Tell whether a step needs nobody any more."""
        done = {
            "tenant": self.tenant is not None,
            "upstream": self.key is not None,
            "test": self.tested,
            "group": self.rule is not None,
            "line": self.line is not None,
            "key": self.gateway_key is not None,
            "request": self.record is not None,
        }
        return done[step]


def progress_of(tenant: Tenant | None, tested: Sequence[str] = ()) -> Progress:
    """Read a team's rows. `tested`: the marks (see mark_of) of keys that this person's test found good or let pass."""
    if tenant is None:
        return Progress()
    keys = UpstreamKey.objects.for_tenant(tenant).filter(enabled=True, upstream__enabled=True).defer("secret")
    key = keys.select_related("upstream").order_by("pk").last()
    record = RequestRecord.objects.filter(tenant=tenant, status=RequestRecord.Status.FINISHED).order_by("pk").first()
    upstream = key.upstream if key is not None else Upstream.objects.for_tenant(tenant).order_by("pk").last()
    rule = leading_rule(tenant)
    proven = key is not None and (mark_of(key) in tested or bool(key.upstream.read_models))
    return Progress(
        tenant=tenant,
        upstream=upstream,
        key=key,
        tested=proven or record is not None or (key is not None and rule is not None),
        rule=rule,
        line=BusinessLine.objects.for_tenant(tenant).filter(enabled=True).order_by("pk").first(),
        gateway_key=GatewayKey.objects.for_tenant(tenant)
        .filter(enabled=True, revoked=None, line__enabled=True)
        .select_related("line__tenant")
        .order_by("pk")
        .last(),
        record=record,
    )


def mark_of(key: UpstreamKey) -> str:
    """Name a key and the secret that it has now."""
    return f"{key.pk}.{key.epoch}"


def leading_rule(tenant: Tenant) -> RoutingRule | None:
    """Return a rule of the default route that leads somewhere: to an upstream, or to a group that has members."""
    members = GroupMember.objects.filter(group=OuterRef("group"))
    rules = RoutingRule.objects.filter(route__tenant=tenant, route__is_default=True, enabled=True).filter(
        Q(upstream__isnull=False) | Exists(members)
    )
    return rules.select_related("route", "group", "upstream").first()


def steps_of(progress: Progress, *, operator: bool) -> list[Step]:
    """Return the steps that this person goes through, with what is there already. Making a team is the operator's."""
    following = progress.next
    return [
        Step(
            name=name,
            title=_titles()[name],
            state="done" if progress.is_done(name) else "next" if name == following else "later",
            **_found(name, progress),
        )
        for name in ORDER
        if operator or name != "tenant"
    ]


def _titles() -> dict[str, str]:
    return {
        "tenant": _("Make a team"),
        "upstream": _("Connect an upstream with a key"),
        "test": _("Test the key"),
        "group": _("Decide where requests go"),
        "line": _("Name who calls"),
        "key": _("Issue a gateway key"),
        "request": _("Make the first request"),
    }


def _found(name: str, progress: Progress) -> dict[str, str]:
    """Return what stands behind a step that is done, and the page of it."""
    if not progress.is_done(name):
        return {}
    route: Route | None = progress.rule.route if progress.rule is not None else None
    upstream = progress.upstream.name if progress.upstream is not None else ""
    key = progress.key.tail if progress.key is not None else ""
    issued = progress.gateway_key
    rows = {
        "tenant": (progress.tenant, "tenants_tenant", str(progress.tenant.name if progress.tenant else "")),
        "upstream": (progress.upstream, "keys_upstream", f"{upstream} · …{key}"),
        "test": (progress.key, "keys_upstreamkey", ""),
        "group": (route, "routing_route", _target(progress.rule)),
        "line": (progress.line, "tenants_businessline", progress.line.name if progress.line else ""),
        "key": (issued, "tenants_gatewaykey", f"{issued.name} · …{issued.last4}" if issued else ""),
        "request": (progress.record, "billing_requestrecord", progress.record.request_id if progress.record else ""),
    }
    row, page, detail = rows[name]
    return {"detail": detail, "url": reverse(f"admin:{page}_change", args=[row.pk]) if row is not None else ""}


def _target(rule: RoutingRule | None) -> str:
    if rule is None:
        return ""
    target = rule.group or rule.upstream
    return f"{rule.route.name} › {rule.name} › {target.name if target is not None else ''}"
