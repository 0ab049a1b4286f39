"""Rows for tests, made with factory_boy; and `serving()`, a whole tenant whose calls reach a scripted upstream.

A factory makes what it needs around its row inside one tenant: `RecordFactory(line=line)` belongs to line.tenant.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import factory
from factory.django import DjangoModelFactory

from billing.models import Attempt, Budget, ExchangeRate, LedgerEntry, Price, RequestRecord
from keys.models import Account, Upstream, UpstreamKey
from keys.services import set_secret
from routing.models import GroupMember, LineRoute, Route, RoutingRule, StrategyGroup
from tenants.models import BusinessLine, GatewayKey, Tenant
from tenants.services import issue_gateway_key, touch_config

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


class TenantFactory(DjangoModelFactory[Tenant]):
    class Meta:
        model = Tenant

    slug = factory.Sequence(lambda n: f"tenant-{n}")
    name = factory.LazyAttribute(lambda row: f"Team {row.slug}")


class LineFactory(DjangoModelFactory[BusinessLine]):
    class Meta:
        model = BusinessLine

    tenant = factory.SubFactory(TenantFactory)
    slug = factory.Sequence(lambda n: f"line-{n}")
    name = factory.LazyAttribute(lambda row: f"Line {row.slug}")


class GatewayKeyFactory(DjangoModelFactory[GatewayKey]):
    """Goes through the service; `secret=` sets the credential."""

    class Meta:
        model = GatewayKey

    line = factory.SubFactory(LineFactory)
    name = factory.Sequence(lambda n: f"key-{n}")
    secret = factory.Sequence(lambda n: f"sk-pm-{n:040d}")

    @classmethod
    def _create(cls, model_class: type[GatewayKey], *_args: Any, **fields: Any) -> GatewayKey:
        row = issue_gateway_key(
            line=fields.pop("line"),
            name=fields.pop("name"),
            secret=fields.pop("secret"),
            expires=fields.pop("expires", None),
        ).row
        for name, value in fields.items():
            setattr(row, name, value)
        row.save()
        return row


class AccountFactory(DjangoModelFactory[Account]):
    class Meta:
        model = Account

    tenant = factory.SubFactory(TenantFactory)
    name = factory.Sequence(lambda n: f"account-{n}")


class UpstreamFactory(DjangoModelFactory[Upstream]):
    class Meta:
        model = Upstream

    tenant = factory.SubFactory(TenantFactory)
    name = factory.Sequence(lambda n: f"upstream-{n}")
    base_url = "https://upstream.example/v1"


class UpstreamKeyFactory(DjangoModelFactory[UpstreamKey]):
    """`secret=` is stored as the service stores it, with digest and tail."""

    class Meta:
        model = UpstreamKey

    upstream = factory.SubFactory(UpstreamFactory)
    name = factory.Sequence(lambda n: f"key-{n}")
    secret = factory.Sequence(lambda n: f"sk-upstream-{n:020d}")

    @classmethod
    def _create(cls, model_class: type[UpstreamKey], *_args: Any, **fields: Any) -> UpstreamKey:
        secret = fields.pop("secret")
        row = model_class(**fields)
        set_secret(row, secret)
        row.save()
        return row


class GroupFactory(DjangoModelFactory[StrategyGroup]):
    class Meta:
        model = StrategyGroup

    tenant = factory.SubFactory(TenantFactory)
    name = factory.Sequence(lambda n: f"group-{n}")


class MemberFactory(DjangoModelFactory[GroupMember]):
    class Meta:
        model = GroupMember

    group = factory.SubFactory(GroupFactory)
    upstream = factory.SubFactory(UpstreamFactory, tenant=factory.SelfAttribute("..group.tenant"))
    position = factory.Sequence(int)


class RouteFactory(DjangoModelFactory[Route]):
    class Meta:
        model = Route

    tenant = factory.SubFactory(TenantFactory)
    name = factory.Sequence(lambda n: f"route-{n}")


class RuleFactory(DjangoModelFactory[RoutingRule]):
    """Matches everything and has no target unless told."""

    class Meta:
        model = RoutingRule

    route = factory.SubFactory(RouteFactory)
    name = factory.Sequence(lambda n: f"rule-{n}")
    position = factory.Sequence(int)


class LineRouteFactory(DjangoModelFactory[LineRoute]):
    class Meta:
        model = LineRoute

    line = factory.SubFactory(LineFactory)
    route = factory.SubFactory(RouteFactory, tenant=factory.SelfAttribute("..line.tenant"))


class PriceFactory(DjangoModelFactory[Price]):
    """A global price per million tokens unless told."""

    class Meta:
        model = Price

    model = "*"
    currency = "USD"
    input = Decimal("2.50")
    cached_input = Decimal("1.25")
    output = Decimal(10)


class ExchangeRateFactory(DjangoModelFactory[ExchangeRate]):
    class Meta:
        model = ExchangeRate

    source = "USD"
    target = "CNY"
    rate = Decimal("7.10")
    starts = date(2026, 1, 1)


class BudgetFactory(DjangoModelFactory[Budget]):
    """The tenant's own unless `line` or `account` is given."""

    class Meta:
        model = Budget

    tenant = factory.SubFactory(TenantFactory)
    amount = Decimal(100)
    currency = "USD"


class RecordFactory(DjangoModelFactory[RequestRecord]):
    """A finished, priced call."""

    class Meta:
        model = RequestRecord

    line = factory.SubFactory(LineFactory)
    tenant = factory.SelfAttribute("line.tenant")
    request_id = factory.Sequence(lambda n: f"req_{n:024d}")
    line_slug = factory.SelfAttribute("line.slug")
    line_name = factory.SelfAttribute("line.name")
    gateway_key_id = 1
    key_name = "prod"
    key_last4 = "wxyz"
    created = NOON
    day = factory.LazyAttribute(lambda row: row.created.date())
    dialect = "openai"
    endpoint = "/v1/chat/completions"
    model_requested = "gpt-4o"
    model_served = "gpt-4o"
    status = RequestRecord.Status.FINISHED
    http_status = 200
    duration_ms = 1200
    first_content_ms = 300
    input_tokens = 100
    cached_read_tokens = 0
    cache_write_tokens = 0
    output_tokens = 20
    usage_source = "upstream"
    charge = Decimal("0.00045")
    cost = Decimal("0.00045")
    currency = "USD"
    priced = True


class AttemptFactory(DjangoModelFactory[Attempt]):
    """The serving attempt of its record."""

    class Meta:
        model = Attempt

    record = factory.SubFactory(RecordFactory)
    n = 1
    upstream = "relay-a"
    upstream_key = "a1"
    outcome = "served"
    status = 200


class LedgerEntryFactory(DjangoModelFactory[LedgerEntry]):
    """The charge of its record."""

    class Meta:
        model = LedgerEntry

    record = factory.SubFactory(RecordFactory)
    tenant = factory.SelfAttribute("record.tenant")
    kind = LedgerEntry.Kind.CHARGE
    line_id = factory.SelfAttribute("record.line_id")
    amount = factory.SelfAttribute("record.charge")
    currency = factory.SelfAttribute("record.currency")
    day = factory.SelfAttribute("record.day")
    created = factory.SelfAttribute("record.created")


@dataclass(frozen=True)
class World:
    """A tenant that serves. `secret` is its line's gateway key."""

    tenant: Tenant
    line: BusinessLine
    secret: str
    gateway_key: GatewayKey
    group: StrategyGroup
    upstreams: tuple[Upstream, ...]
    keys: tuple[UpstreamKey, ...]

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.secret}"}


def serving(
    base_url: str,
    *secrets: str,
    one_upstream: bool = False,
    upstream: Mapping[str, Any] | None = None,
    group: Mapping[str, Any] | None = None,
    line: Mapping[str, Any] | None = None,
) -> World:
    """Make a tenant whose default route sends everything to one group of these upstream secrets, in this order.

    Each secret has an upstream u1, u2 … of its own at the same address, with a key k1, k2 …; with `one_upstream` all
    are keys of u1. Secrets are what the scripted upstream knows its keys by. The mappings are fields of the rows.
    """
    tenant = TenantFactory()
    members = GroupFactory(tenant=tenant, name="main", **(group or {}))
    upstreams: list[Upstream] = []
    keys: list[UpstreamKey] = []
    for number, secret in enumerate(secrets, start=1):
        if not upstreams or not one_upstream:
            row = UpstreamFactory(tenant=tenant, name=f"u{number}", base_url=base_url, **(upstream or {}))
            MemberFactory(group=members, upstream=row, position=number)
            upstreams.append(row)
        keys.append(UpstreamKeyFactory(upstream=upstreams[-1], name=f"k{number}", secret=secret))
    route = RouteFactory(tenant=tenant, name="default", is_default=True)
    RuleFactory(route=route, name="everything", group=members)
    made = LineFactory(tenant=tenant, **(line or {}))
    issued = issue_gateway_key(line=made, name="prod")
    touch_config()
    return World(tenant, made, issued.secret, issued.row, members, tuple(upstreams), tuple(keys))
