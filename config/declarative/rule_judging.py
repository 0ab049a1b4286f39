"""Routing rules: conditions that are well formed and can hold, targets that exist, rules that can be reached."""

from typing import Any

from config.declarative.compound import TARGETS
from config.declarative.inspection import unknown_name
from config.declarative.shapes import Row, Tree
from routing.core.conditions import error_in, listed
from tenants.core.access import glob_matches


def judge_route(tree: Tree, tenant: Row, route: Row) -> None:
    """Report on the rules of a route, in their order."""
    closing: Row | None = None
    for rule in tree.under(route.path, "rules").values():
        if {"when", "then"} & rule.bad:
            continue
        when, then = rule.get("when") or {}, rule.get("then") or {}
        _judge_when(tree, tenant, rule, when)
        _judge_then(tree, tenant, rule, when, then)
        second_phase = "upstream" in when
        if closing is not None and not second_phase:
            rule.spot.error(f"can never match: {closing.name}, above it, takes every request")
        decides = any(name in then for name in (*TARGETS, "deny")) and not then.get("continue")
        if not when and decides and closing is None:
            closing = rule


def _judge_when(tree: Tree, tenant: Row, rule: Row, when: dict[str, Any]) -> None:
    spot = rule.spot.key("when")
    for name, value in when.items():
        if problem := error_in(name, value):
            spot.key(str(name)).error(problem)
    for name, section in (("upstream", "upstreams"), ("line", "lines")):
        known = list(tree.under(tenant.path, section))
        for pattern in listed(when[name]) if name in when else ():
            if not isinstance(pattern, str) or any(glob_matches(pattern, each) for each in known):
                continue
            text = unknown_name(name, pattern, known)
            if name == "upstream":
                spot.key(name).error(text)
            else:
                spot.key(name).warn(text)


def _judge_then(tree: Tree, tenant: Row, rule: Row, when: dict[str, Any], then: dict[str, Any]) -> None:
    spot = rule.spot.key("then")
    for name in TARGETS:
        if name in then and then[name] not in tree.under(tenant.path, f"{name}s"):
            spot.key(name).error(unknown_name(name, then[name], tree.under(tenant.path, f"{name}s")))
    stated = [name for name in (*TARGETS, "deny") if name in then]
    if len(stated) > 1:
        spot.error(f"{' and '.join(stated)} exclude each other")
    if not stated and not then.get("set"):
        spot.error("does nothing; write group, upstream, deny or set")
    if "upstream" in when:
        for name in TARGETS:
            if name in then:
                spot.key(name).error("a rule with an upstream condition may only set values or deny")
