"""The routing table: everything a request's decision may read, as frozen values.

Built from the database by `routing/snapshot.py`, replaced whole when a version counter moves, never edited.
Ids are database primary keys. Names and slugs are copied, so that records keep them.
"""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from decimal import Decimal
from typing import Any

from billing.core.pricing import PriceBook
from billing.core.reserving import BudgetBook
from keys.core.dialect import Dialect
from keys.core.policy import Policy
from keys.core.rulebook import DEFAULT_RULES
from keys.core.windows import Caps
from keys.core.wording import Rules
from tenants.core.values import valueclass


@valueclass(frozen=True, slots=True)
class TenantInfo:
    id: int
    slug: str
    name: str
    timezone: str
    currency: str
    enabled: bool = True


@valueclass(frozen=True, slots=True)
class LineInfo:
    id: int
    tenant_id: int
    slug: str
    name: str
    route_id: int | None
    models: tuple[str, ...]  # allow-list of globs; empty = all
    limits: Caps
    charge_multiplier: Decimal = Decimal(1)
    on_unpriced: str = "serve"  # already resolved: refuse | serve
    history: bool = False
    batch: bool = False
    enabled: bool = True


@valueclass(frozen=True, slots=True)
class GatewayKeyInfo:
    id: int
    line_id: int
    name: str
    last4: str
    limits: Caps
    expires: datetime | None = None
    enabled: bool = True  # False once revoked


@valueclass(frozen=True, slots=True)
class AccountInfo:
    id: int
    name: str
    quota_timezone: str
    credit_amount: Decimal | None = None
    credit_currency: str = ""
    credit_period: str = ""


@valueclass(frozen=True, slots=True)
class Timeouts:
    """Seconds. An upstream's own values; None = the policy's."""

    connect_s: float | None = None
    silence_s: float | None = None


@valueclass(frozen=True, slots=True)
class KeyInfo:
    """One upstream key. `secret` is never shown: repr leaves it out."""

    id: int
    upstream_id: int
    name: str
    tail: str
    epoch: int
    account_id: int | None  # None = a balance of its own
    secret: str = field(repr=False)
    weight: int = 1
    limits: Caps = field(default_factory=Caps)
    policy: Mapping[str, Any] = field(default_factory=dict)  # overrides
    enabled: bool = True


@valueclass(frozen=True, slots=True)
class UpstreamInfo:
    id: int
    tenant_id: int
    name: str
    dialect: Dialect
    base_url: str  # already completed with the dialect's version segment, no trailing slash
    models: tuple[str, ...] | None  # None = unknown: tried
    aliases: Mapping[str, str]
    max_context_tokens: int | None
    cost_multiplier: Decimal
    rotation: str  # round_robin | weighted | least_used | random
    auth: str  # "" = the dialect's default | bearer | x-api-key | both
    usage_semantics: str
    headers: Mapping[str, str]
    timeouts: Timeouts
    keys: tuple[KeyInfo, ...]
    enabled: bool = True


@valueclass(frozen=True, slots=True)
class MemberInfo:
    upstream_id: int
    weight: int = 1


@valueclass(frozen=True, slots=True)
class GroupInfo:
    id: int
    tenant_id: int
    name: str
    strategy: str  # priority | round_robin | weighted | least_used | random | fastest | cheapest | headroom
    basis: str  # share | speed | stability | speed_and_stability
    members: tuple[MemberInfo, ...]
    last_resort_id: int | None  # an upstream id
    stream_hold: str  # first_content | full
    policy: Policy


@valueclass(frozen=True, slots=True)
class RuleInfo:
    """`when` and `then` as in the declarative file, already validated (routing/core/rules.py reads them)."""

    id: int
    name: str
    when: Mapping[str, Any]
    set: Mapping[str, Any]
    group_id: int | None = None
    upstream_id: int | None = None
    deny: str | None = None
    proceed: bool = False  # `continue`


@valueclass(frozen=True, slots=True)
class RouteInfo:
    id: int
    tenant_id: int
    name: str
    rules: tuple[RuleInfo, ...]


@valueclass(frozen=True, slots=True)
class RoutingTable:
    """`gateway_keys` maps the keyed hash (hex) of a presented credential to the key it belongs to."""

    version: int
    tenants: Mapping[int, TenantInfo]
    lines: Mapping[int, LineInfo]
    gateway_keys: Mapping[str, GatewayKeyInfo]
    upstreams: Mapping[int, UpstreamInfo]
    accounts: Mapping[int, AccountInfo]
    groups: Mapping[int, GroupInfo]
    routes: Mapping[int, RouteInfo]
    default_routes: Mapping[int, int]  # tenant id -> route id
    prices: PriceBook
    budgets: BudgetBook = field(default_factory=BudgetBook)
    wordings: Rules = DEFAULT_RULES
