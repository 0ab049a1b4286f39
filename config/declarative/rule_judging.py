"""Routing rules: conditions that are well formed and can hold, targets that exist, rules that can be reached."""

from typing import Any

from config.declarative.compound import TARGETS
from config.declarative.inspection import unknown_name
from config.declarative.shapes import Row, Tree
from routing.core.conditions import listed
from routing.core.rule_checks import never_matches, shape_of, validate_rule
from tenants.core.access import glob_matches


def judge_route(tree: Tree, tenant: Row, route: Row) -> None:
    """Report on the rules of a route, in their order."""
    sound: list[Row] = []
    for rule in tree.under(route.path, "rules").values():
        if {"when", "then"} & rule.bad:
            continue
        problems = validate_rule(rule.get("when"), rule.get("then") or {})
        for problem in problems:
            where, _, text = problem.partition(": ")
            rule.spot.key(where).error(text)
        if not problems:
            sound += [rule] if rule.get("enabled") is not False else []  # one that is switched off shadows nothing
            _judge_names(tree, tenant, rule)
    for place, why in never_matches([shape_of(rule.name, rule.get("when"), rule.get("then")) for rule in sound]):
        sound[place].spot.error(f"can never match: {why}")


def _judge_names(tree: Tree, tenant: Row, rule: Row) -> None:
    """Judge what a sound rule refers to: its target must exist, and what it asks for should."""
    then: dict[str, Any] = rule.get("then")
    for name in TARGETS:
        known = tree.under(tenant.path, f"{name}s")
        if name in then and then[name] not in known:
            rule.spot.key(f"then.{name}").error(unknown_name(name, then[name], known))
    for name, section in (("upstream", "upstreams"), ("line", "lines")):
        known = tree.under(tenant.path, section)
        for pattern in listed(rule.get("when").get(name, ())):
            if any(glob_matches(str(pattern), each) for each in known):
                continue
            spot, text = rule.spot.key(f"when.{name}"), unknown_name(name, str(pattern), known)
            if name == "upstream":
                spot.error(text)
            else:  # lines come and go; a rule may wait for one
                spot.warn(text)
