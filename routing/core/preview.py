"""The next picks of a strategy group: the real decision, again and again, on a copy of what is known now."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from keys.core.windows import Caps
from routing.core.choose import choose
from routing.core.decide import decide
from routing.core.decision import Decision, Target
from routing.core.facts import Facts
from routing.core.table import GroupInfo, LineInfo, RouteInfo, RoutingTable, RuleInfo
from routing.core.views import FRESH, KeyView, Situation, charged

NOBODY = 0  # id of the line, route and rule that are made up for a preview; real ones begin at 1
CAP_SPENT = "calls"  # the name of a cap that the preview itself used up: which of several it was is not known


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that goes straight to the group: no rule, no conversation, no line's list of models."""

    facts: Facts
    table: RoutingTable
    target: Target


def ask(table: RoutingTable, group: GroupInfo, facts: Facts, now: datetime) -> Asked:
    """Prepare the question. `facts` say which model is asked for, "" = any; their line is not used."""
    rule = RuleInfo(NOBODY, "", when={}, set={}, group_id=group.id)
    route = RouteInfo(NOBODY, group.tenant_id, "", (rule,))
    line = LineInfo(NOBODY, group.tenant_id, "", "", route_id=NOBODY, models=(), limits=Caps())
    asked = replace(facts, tenant_id=group.tenant_id, line_id=NOBODY)
    made = replace(table, routes={**table.routes, NOBODY: route}, lines={**table.lines, NOBODY: line})
    return Asked(asked, made, choose(asked, made, now))


def next_picks(asked: Asked, situation: Situation, number: int) -> tuple[Decision, ...]:
    """Return the decisions of so many calls in a row, each as if the one before it had just ended.

    Shorter when no key is usable (any more); the last decision then has no candidates. Changes nothing: what a pick
    costs its rotation is charged to copies.
    """
    decisions = []
    for _ in range(number):
        decision = decide(asked.facts, asked.table, situation, asked.target)
        decisions.append(decision)
        if not decision.candidates:
            break
        situation = _after(situation, decision)
    return tuple(decisions)


def _after(situation: Situation, decision: Decision) -> Situation:
    rotation: dict[str, Mapping[str, int]] = dict(situation.rotation)
    for charge in decision.charges:
        rotation[charge.scope] = charged(rotation.get(charge.scope, {}), charge)
    lead = decision.candidates[0]
    view = _used(situation.keys.get(lead.key_id, FRESH))
    return replace(situation, rotation=rotation, keys={**situation.keys, lead.key_id: view})


def _used(view: KeyView) -> KeyView:
    left = None if view.remaining is None else max(0, view.remaining - 1)
    cap = view.cap or (CAP_SPENT if left == 0 else "")
    return replace(view, calls_24h=view.calls_24h + 1, remaining=left, cap=cap)
