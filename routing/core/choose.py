"""The half of a decision that needs no key states: route → rules → group or upstream → hops.

`decide` calls it itself when it is given no target. A caller whose states live elsewhere calls it first, and then asks
for the standing of `Target.pairs` and the rotations of `Target.scopes` in one go.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from routing.core.decision import Bar, Hop, Refusal, RefusalKind, Target
from routing.core.facts import Facts
from routing.core.rules import HopJudgement, Judgement, has_target, is_second_phase, judge, judge_hop, local_time
from routing.core.sticky import balance_of, provider_of
from routing.core.table import KeyInfo, MemberInfo, RouteInfo, RoutingTable, RuleInfo, UpstreamInfo
from routing.core.views import Owner, Pin
from tenants.core.access import glob_matches, model_allowed
from tenants.core.values import valueclass

_NOBODY: Mapping[str, Owner] = {}
_SILENT = HopJudgement(())


@valueclass(frozen=True, slots=True)
class _Asked:
    """What every hop is judged by. `models` is the line's list, `values` what the first phase set."""

    facts: Facts
    models: tuple[str, ...]
    values: Mapping[str, Any]
    second_phase: tuple[RuleInfo, ...]
    local: datetime


def choose(
    facts: Facts, table: RoutingTable, now: datetime, pin: Pin | None = None, owners: Mapping[str, Owner] = _NOBODY
) -> Target:
    """Return the target of a request. `pin` and `owners` as in `Situation`."""
    line = table.lines.get(facts.line_id)
    route = route_of(table, facts)
    if line is None or route is None:
        return Target(
            refusal=Refusal(RefusalKind.NO_ROUTE, "This line has no route and its team has no default route.")
        )
    if facts.model and not model_allowed(line.models, facts.model):
        text = f"The model {facts.model} is not allowed for this business line."
        return Target(route=route, refusal=Refusal(RefusalKind.NOT_ALLOWED, text))
    local = local_time(now, table.tenants[facts.tenant_id].timezone)
    held = _held_by_turn(facts, table, route, pin)
    judgement = judge(route.rules, facts, local, held)
    bound = _bound(facts, owners)
    if bound is not None and not _reaches(table, judgement.decider, bound):
        held = next((rule.id for rule in route.rules if has_target(rule) and _reaches(table, rule, bound)), None)
        judgement = judge(route.rules, facts, local, held)
    refusal = _refusal(route, judgement)
    if refusal is not None:
        return Target(judgement.verdicts, route, judgement.decider, refusal=refusal)
    return _target(facts, table, route, judgement, local, held=held)


def route_of(table: RoutingTable, facts: Facts) -> RouteInfo | None:
    """Return the line's own route, else the tenant's default, else None."""
    line = table.lines.get(facts.line_id)
    if line is None:
        return None
    route_id = line.route_id if line.route_id is not None else table.default_routes.get(line.tenant_id)
    return None if route_id is None else table.routes.get(route_id)


def owner_for(facts: Facts, owners: Mapping[str, Owner]) -> tuple[frozenset[int], str]:
    """Return the balances that the request's ids live on, and the provider of its newest known signature ("" = any).

    More than one balance cannot be satisfied.
    """
    balances = frozenset(owners[pin.value].balance for pin in facts.pins if pin.value in owners)
    if balances:
        return balances, ""
    signed = [owners[mark].provider for mark in facts.signatures if mark in owners]
    return balances, signed[-1] if signed else ""


def is_bound_to(upstream: UpstreamInfo, key: KeyInfo, balances: frozenset[int], provider: str) -> bool:
    if balances:
        return balances == {balance_of(key)}
    return not provider or provider_of(upstream) == provider


def members_of(table: RoutingTable, rule: RuleInfo | None) -> tuple[MemberInfo, ...]:
    """Return the members a rule's target has, each once; a named upstream is its only member."""
    if rule is None:
        return ()
    group = None if rule.group_id is None else table.groups.get(rule.group_id)
    if group is not None:
        first: dict[int, MemberInfo] = {}
        for member in group.members:
            first.setdefault(member.upstream_id, member)
        return tuple(first.values())
    return () if rule.upstream_id is None else (MemberInfo(rule.upstream_id),)


def _bound(facts: Facts, owners: Mapping[str, Owner]) -> tuple[frozenset[int], str] | None:
    balances, provider = owner_for(facts, owners)
    return (balances, provider) if balances or provider else None


def _reaches(table: RoutingTable, rule: RuleInfo | None, bound: tuple[frozenset[int], str]) -> bool:
    balances, provider = bound
    return any(
        is_bound_to(upstream, key, balances, provider) for upstream in _upstreams(table, rule) for key in upstream.keys
    )


def _upstreams(table: RoutingTable, rule: RuleInfo | None) -> Iterable[UpstreamInfo]:
    """Yield what a rule leads to, the last resort included."""
    group = None if rule is None or rule.group_id is None else table.groups.get(rule.group_id)
    ids = [member.upstream_id for member in members_of(table, rule)]
    if group is not None and group.last_resort_id is not None:
        ids.append(group.last_resort_id)
    return (table.upstreams[upstream_id] for upstream_id in ids if upstream_id in table.upstreams)


def _held_by_turn(facts: Facts, table: RoutingTable, route: RouteInfo, pin: Pin | None) -> int | None:
    """Return the rule that answered, when the conversation is inside a turn and the rule still leads to that key."""
    if pin is None or not facts.turn:
        return None
    rule = next((rule for rule in route.rules if rule.id == pin.rule_id and has_target(rule)), None)
    reached = (key.id for upstream in _upstreams(table, rule) for key in upstream.keys)
    return pin.rule_id if rule is not None and pin.key_id in reached else None


def _refusal(route: RouteInfo, judgement: Judgement) -> Refusal | None:
    decider = judgement.decider
    if decider is None:
        return Refusal(RefusalKind.NO_RULE, f"No rule of the route {route.name} matches this request.")
    if decider.deny:
        return Refusal(RefusalKind.DENIED, decider.deny, do_not_retry=True)
    return None


def _target(
    facts: Facts, table: RoutingTable, route: RouteInfo, judgement: Judgement, local: datetime, *, held: int | None
) -> Target:
    rule = judgement.decider
    group = None if rule is None or rule.group_id is None else table.groups.get(rule.group_id)
    second = tuple(rule for rule in route.rules if is_second_phase(rule))
    asked = _Asked(facts, table.lines[facts.line_id].models, judgement.values, second, local)
    hops = [
        _hop(asked, table.upstreams[member.upstream_id], member.weight)
        for member in members_of(table, rule)
        if member.upstream_id in table.upstreams
    ]
    last_id = None if group is None else group.last_resort_id
    last = None
    if last_id is not None and last_id in table.upstreams and all(hop.upstream.id != last_id for hop in hops):
        last = _hop(asked, table.upstreams[last_id], 1)
    hops = _widest_if_none_fits(hops)
    return Target(judgement.verdicts, route, rule, group, tuple(hops), last, held=held is not None)


def _hop(asked: _Asked, upstream: UpstreamInfo, weight: int) -> Hop:
    second = judge_hop(asked.second_phase, asked.facts, upstream.name, asked.local) if asked.second_phase else _SILENT
    values = {**asked.values, **second.values}
    model = str(values.pop("model", asked.facts.model))
    sent = upstream.aliases.get(model, model)
    bar, why = (Bar.RULE, second.deny) if second.deny is not None else _barred(asked, upstream, model, sent)
    return Hop(upstream, model, sent, weight, values, second.verdicts, bar, why)


def _barred(asked: _Asked, upstream: UpstreamInfo, model: str, sent: str) -> tuple[Bar | None, str]:
    facts = asked.facts
    if not upstream.enabled:
        return Bar.DISABLED, "the upstream is switched off"
    if facts.serves is not None and upstream.dialect not in facts.serves:
        return Bar.DIALECT, f"{facts.operation} is not offered by {upstream.dialect} upstreams"
    if model and not model_allowed(asked.models, model):
        return Bar.FORBIDDEN, f"a rule sets the model {model}, which the line may not use"
    if model and not _lists(upstream, model, sent):
        return Bar.MODEL, f"{model} is not in the upstream's model list"
    if upstream.max_context_tokens is not None and facts.window_tokens > upstream.max_context_tokens:
        return Bar.CONTEXT, f"about {facts.window_tokens} tokens do not fit {upstream.max_context_tokens}"
    return None, ""


def _lists(upstream: UpstreamInfo, model: str, sent: str) -> bool:
    """Tell whether the upstream has the model, by the client's name or its own. An unknown list has everything."""
    if upstream.models is None or model in upstream.aliases:
        return True
    return any(
        listed in (model, sent) or ("*" in listed and (glob_matches(listed, model) or glob_matches(listed, sent)))
        for listed in upstream.models
    )


def _widest_if_none_fits(hops: list[Hop]) -> list[Hop]:
    """An estimate alone refuses nothing: when it rules out every hop, the largest windows are tried."""
    windows = [hop.upstream.max_context_tokens or 0 for hop in hops if hop.bar is Bar.CONTEXT]
    if not windows or any(hop.bar is None for hop in hops):
        return hops
    widest = max(windows)
    return [
        replace(hop, bar=None, why="") if hop.bar is Bar.CONTEXT and hop.upstream.max_context_tokens == widest else hop
        for hop in hops
    ]
