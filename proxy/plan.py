"""Room three: where does it go? The facts, the routing table and the key states make a decision."""

from typing import Any

from proxy.core.call import Call
from proxy.core.errors import Code, Fault
from proxy.runtime import Runtime
from routing.core.choose import choose
from routing.core.decide import decide
from routing.core.decision import Decision, Refusal, RefusalKind
from routing.core.views import KeyView, Situation, charged

_CODES = {
    RefusalKind.NO_ROUTE: Code.MODEL_NOT_FOUND,
    RefusalKind.NO_RULE: Code.MODEL_NOT_FOUND,
    RefusalKind.DENIED: Code.DENIED_BY_RULE,
    RefusalKind.NOT_ALLOWED: Code.MODEL_NOT_ALLOWED,
    RefusalKind.MODEL_UNKNOWN: Code.MODEL_NOT_FOUND,
    RefusalKind.PINNED: Code.PINNED_ELSEWHERE,
    RefusalKind.LIMITED: Code.UPSTREAM_RATE_LIMITED,
    RefusalKind.NO_KEY: Code.NO_KEY_AVAILABLE,
}


def plan(call: Call, runtime: Runtime, draw: float) -> Decision:
    """Decide, and charge the rotations for the lead. Never waits."""
    facts, table = call.facts, call.admitted.table
    if facts is None:
        raise RuntimeError("plan before read")
    now = runtime.now()
    target = choose(facts, table, now)
    accounts = {key.id: (key.account_id, key.epoch) for hop in target.reachable for key in hop.upstream.keys}
    keys = {
        key_id: KeyView(standing=runtime.store.standing(key_id, accounts[key_id][0], model, now, accounts[key_id][1]))
        for key_id, model in target.pairs
    }
    rotation = {scope: runtime.rotation.get(scope, {}) for scope in target.scopes}
    situation = Situation(now=now, draw=draw, keys=keys, rotation=rotation, one_attempt=runtime.is_poison(call))
    decision = decide(facts, table, situation, target)
    for charge in decision.charges:
        runtime.rotation[charge.scope] = charged(runtime.rotation.get(charge.scope, {}), charge)
    call.rule, call.group = decision.rule_name, decision.group_name
    call.route = target.route.name if target.route is not None else ""
    call.explained = explained(decision)
    return decision


def fault_of(refusal: Refusal) -> Fault:
    """Word a decision's refusal as an error."""
    return Fault(
        _CODES[refusal.kind],
        refusal.text,
        wait_s=refusal.wait_s,
        hopeless=refusal.do_not_retry or None,
        param="model" if refusal.kind in (RefusalKind.MODEL_UNKNOWN, RefusalKind.NOT_ALLOWED) else None,
    )


def explained(decision: Decision) -> dict[str, Any]:
    """Return what a record keeps of the decision: the candidates in order with what they were ordered by."""
    return {
        "candidates": [
            {"upstream": one.upstream, "key": one.key, "model": one.model_sent, "scores": dict(one.scores)}
            for one in decision.candidates[:20]
        ],
        "hold": decision.hold.value if decision.hold is not None else None,
    }
