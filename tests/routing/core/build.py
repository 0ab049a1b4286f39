"""A small routing table and requests to ask it about, without a database."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from billing.core.pricing import PriceBook
from keys.core.dialect import Dialect
from keys.core.outcome import Cause
from keys.core.policy import Policy
from keys.core.report import Skip, Standing
from keys.core.windows import Caps
from routing.core.decide import decide
from routing.core.decision import Decision
from routing.core.facts import Caller, Facts, Inbound, read_facts
from routing.core.table import (
    GroupInfo,
    KeyInfo,
    LineInfo,
    MemberInfo,
    RouteInfo,
    RoutingTable,
    RuleInfo,
    TenantInfo,
    UpstreamInfo,
)
from routing.core.views import KeyView, Situation

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)  # a Monday
TENANT, LINE, ROUTE, GROUP = 1, 10, 20, 30

COOLING = KeyView(Standing(Skip.COOLING, 30.0, cause=Cause.RATE_LIMITED))
STRUCK = KeyView(Standing(Skip.COOLING, 60.0, cause=Cause.SERVER_ERROR, by_strikes=True))
DEAD = KeyView(Standing(Skip.DEAD, None, cause=Cause.AUTH_INVALID))
BROKE = KeyView(Standing(Skip.COOLING, 1800.0, cause=Cause.INSUFFICIENT_BALANCE))
LEASED = KeyView(Standing(Skip.BUSY, 1.0))
RESTING = KeyView(Standing(Skip.MODEL, 600.0, cause=Cause.MODEL_UNAVAILABLE))


def upstream(number: int, *, keys: int = 1, **changes: Any) -> UpstreamInfo:
    """Upstream `number` has the keys number × 10 + 1, + 2, ... without accounts."""
    made = UpstreamInfo(
        id=number,
        tenant_id=TENANT,
        name=f"up{number}",
        dialect=Dialect.OPENAI,
        base_url=f"https://up{number}.example/v1",
        models=None,
        aliases={},
        max_context_tokens=None,
        cost_multiplier=Decimal(1),
        rotation="round_robin",
        auth="",
        usage_semantics="",
        headers={},
        timeouts=None,  # type: ignore[arg-type]  # no decision reads it
        keys=tuple(key(number * 10 + place, number) for place in range(1, keys + 1)),
    )
    return replace(made, **changes)


def key(number: int, upstream_id: int, **changes: Any) -> KeyInfo:
    made = KeyInfo(number, upstream_id, f"k{number}", "tail00", epoch=1, account_id=None, secret="sk")
    return replace(made, **changes)


def capped(number: int, upstream_id: int, concurrency: int) -> KeyInfo:
    return key(number, upstream_id, limits=Caps(concurrency=concurrency))


def rule(number: int, when: Mapping[str, Any] | None = None, **changes: Any) -> RuleInfo:
    return RuleInfo(number, f"rule{number}", when or {}, changes.pop("set", {}), **changes)


def table(
    upstreams: Sequence[UpstreamInfo],
    *,
    rules: Sequence[RuleInfo] | None = None,
    models: tuple[str, ...] = (),
    prices: PriceBook | None = None,
    weights: Mapping[int, int] | None = None,
    **group: Any,
) -> RoutingTable:
    """One tenant, line, route and group whose members are all upstreams except the last resort."""
    last = group.get("last_resort_id")
    made = GroupInfo(
        id=GROUP,
        tenant_id=TENANT,
        name="main",
        strategy="priority",
        basis="share",
        members=tuple(MemberInfo(each.id, (weights or {}).get(each.id, 1)) for each in upstreams if each.id != last),
        last_resort_id=None,
        stream_hold="first_content",
        policy=Policy(),
    )
    return RoutingTable(
        version=1,
        tenants={TENANT: TenantInfo(TENANT, "acme", "Acme", "Asia/Shanghai", "CNY")},
        lines={LINE: LineInfo(LINE, TENANT, "support-bot", "Support bot", None, models, Caps())},
        gateway_keys={},
        upstreams={each.id: each for each in upstreams},
        accounts={},
        groups={GROUP: replace(made, **group)},
        routes={ROUTE: RouteInfo(ROUTE, TENANT, "default", tuple(rules or [rule(1, group_id=GROUP)]))},
        default_routes={TENANT: ROUTE},
        prices=prices or PriceBook(),
    )


def facts(**changes: Any) -> Facts:
    return replace(Facts(TENANT, LINE, "support-bot", "prod", Dialect.OPENAI, "gpt-4o"), **changes)


def situation(keys: Mapping[int, KeyView] | None = None, **changes: Any) -> Situation:
    return replace(Situation(NOW, 0.0, keys or {}), **changes)


def read(dialect: Dialect, body: Mapping[str, Any], headers: Mapping[str, str] | None = None, **inbound: Any) -> Facts:
    """Read a request of the line. `size` is the body's length in bytes."""
    size = inbound.pop("size", 400)
    operation = inbound.pop("operation", "chat/completions")
    return read_facts(
        Caller(TENANT, LINE, "support-bot", "prod"), Inbound(dialect, operation, headers or {}, size, **inbound), body
    )


def order(decision: Decision) -> list[int]:
    return [candidate.key_id for candidate in decision.candidates]


def bars(decision: Decision) -> dict[int, str]:
    return {skipped.key_id: skipped.bar.value for skipped in decision.skipped}


def decided(
    routing: RoutingTable, keys: Mapping[int, KeyView] | None = None, asked: Facts | None = None, **now: Any
) -> Decision:
    return decide(asked or facts(), routing, situation(keys, **now))
