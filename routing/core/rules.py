"""Which rules of a route hold for a request, and what they say.

Two phases. First, without knowing the hop: top down, the first match with a target or a deny decides; `set` values
gather from all matches up to there, later wins; a deciding rule with `continue` lets the rules below it add values, but
not decide again. Then, for each hop: rules with an `upstream` condition, wherever they stand, may add values or deny
the hop.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from routing.core.conditions import unmet
from routing.core.facts import Facts
from routing.core.table import RuleInfo
from tenants.core.values import valueclass


@valueclass(frozen=True, slots=True)
class RuleVerdict:
    """What became of one rule. `why` says which condition failed, or what the match did."""

    rule_id: int
    name: str
    matched: bool
    why: str


@valueclass(frozen=True, slots=True)
class Judgement:
    """`decider` None = no rule has a target or deny for this request. `values` are those of `set`, gathered."""

    verdicts: tuple[RuleVerdict, ...]
    values: Mapping[str, Any] = field(default_factory=dict)
    decider: RuleInfo | None = None


@valueclass(frozen=True, slots=True)
class HopJudgement:
    """`deny` is the text of the rule that forbids this hop, None = allowed."""

    verdicts: tuple[RuleVerdict, ...]
    values: Mapping[str, Any] = field(default_factory=dict)
    deny: str | None = None


def local_time(now: datetime, zone: str) -> datetime:
    """Return `now` in a zone; UTC when the zone's name is unknown."""
    try:
        return now.astimezone(ZoneInfo(zone))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return now.astimezone(UTC)


def is_second_phase(rule: RuleInfo) -> bool:
    return "upstream" in rule.when


def has_target(rule: RuleInfo) -> bool:
    return rule.group_id is not None or rule.upstream_id is not None


def denies(rule: RuleInfo) -> bool:
    return bool(rule.deny)


def judge(rules: Sequence[RuleInfo], facts: Facts, local: datetime, held: int | None = None) -> Judgement:
    """Judge the first phase.

    `held` is the rule that a conversation inside a turn stays on: other targets are passed over, a deny above it still
    denies.
    """
    verdicts: list[RuleVerdict] = []
    values: dict[str, Any] = {}
    decider: RuleInfo | None = None
    closed = False
    for rule in rules:
        if is_second_phase(rule):
            continue
        why = _passed_over(rule, decider, held, closed=closed)
        if not why and rule.id != held:
            why = unmet(rule.when, facts, local)
        if why:
            verdicts.append(RuleVerdict(rule.id, rule.name, matched=False, why=why))
            continue
        decides = decider is None and (has_target(rule) or denies(rule))
        verdicts.append(RuleVerdict(rule.id, rule.name, matched=True, why=_effect(rule, decides=decides)))
        values.update(rule.set)
        if decides:
            decider, closed = rule, not rule.proceed
    return Judgement(tuple(verdicts), values, decider)


def judge_hop(rules: Sequence[RuleInfo], facts: Facts, upstream: str, local: datetime) -> HopJudgement:
    """Judge the second phase for one upstream."""
    verdicts: list[RuleVerdict] = []
    values: dict[str, Any] = {}
    for rule in rules:
        if not is_second_phase(rule):
            continue
        why = unmet(rule.when, facts, local, upstream)
        matched = not why
        verdicts.append(RuleVerdict(rule.id, rule.name, matched, why or _effect(rule, decides=denies(rule))))
        if matched and denies(rule):
            return HopJudgement(tuple(verdicts), values, rule.deny)
        if matched:
            values.update(rule.set)
    return HopJudgement(tuple(verdicts), values)


def _passed_over(rule: RuleInfo, decider: RuleInfo | None, held: int | None, *, closed: bool) -> str:
    if closed and decider is not None:
        return f"not reached: {decider.name} decided"
    if decider is not None and denies(rule):
        return f"{decider.name} decided"
    if held is not None and rule.id != held and has_target(rule):
        return "the conversation is inside a turn and stays on its rule"
    return ""


def _effect(rule: RuleInfo, *, decides: bool) -> str:
    parts = [f"sets {', '.join(rule.set)}"] if rule.set else []
    if decides:
        parts.append("denies" if denies(rule) else "decides")
    return " and ".join(parts) or "adds nothing"
