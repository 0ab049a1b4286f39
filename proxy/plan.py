"""Room three: where does it go? The facts, the routing table, the conversation and the key states make a decision."""

from dataclasses import replace
from typing import Any

from keys.stores.wheels import Spin
from proxy.core.call import Call
from proxy.core.tries import poison_mark
from proxy.runtime import Runtime
from routing import sessions
from routing.core.choose import choose
from routing.core.decide import decide
from routing.core.decision import Decision, Target
from routing.core.table import KeyInfo
from routing.core.views import KeyView, Situation, view_of


async def plan(call: Call, runtime: Runtime, draw: float) -> Decision:
    """Decide, and charge the rotations for the lead. Waits only for what the store remembers of the conversation."""
    facts, table, store = call.facts, call.admitted.table, runtime.store
    if facts is None:
        raise RuntimeError("plan before read")
    now = runtime.now()
    call.memory = memory = await sessions.recall(store.notes, facts, table, now)
    target = choose(facts, table, now, memory.pin, memory.owners)
    situation = Situation(
        now=now,
        draw=draw,
        keys=views_of(target, runtime),
        rotation={scope: store.notes.rotation(scope) for scope in target.scopes},
        pin=memory.pin,
        owners=memory.owners,
        one_attempt=store.figures.knows_poison and store.figures.is_poisoned(poison_mark(call), now),
    )
    decision = decide(facts, table, situation, target)
    for charge in decision.charges:
        store.notes.spin(Spin(charge.scope, charge.add, charge.put, charge.drop))
    call.decision = decision
    call.explained = explained(decision)
    return decision


def is_served_by_others(call: Call, runtime: Runtime) -> bool:
    """Whether the model is served here by upstreams of any dialect: then its tokens can at least be estimated."""
    if call.facts is None:
        return False
    target = choose(replace(call.facts, serves=None), call.admitted.table, runtime.now())
    return target.refusal is None and any(hop.bar is None for hop in target.reachable)


def views_of(target: Target, runtime: Runtime) -> dict[int, KeyView]:
    """Return what is known now of every key that the target reaches."""
    keys: dict[int, KeyInfo] = {key.id: key for hop in target.reachable for key in hop.upstream.keys}
    now, store = runtime.now(), runtime.store
    views = {}
    for key_id, model in target.pairs:
        key = keys[key_id]
        figures = store.figures.of(key_id, key.account_id, key.limits, now)
        views[key_id] = view_of(store.standing(key_id, key.account_id, model, now, key.epoch), figures)
    return views


def explained(decision: Decision) -> dict[str, Any]:
    """Return what a record keeps of the decision: the candidates in order with what they were ordered by."""
    return {
        "candidates": [
            {"upstream": one.upstream, "key": one.key, "model": one.model_sent, "scores": dict(one.scores)}
            for one in decision.candidates[:20]
        ],
        "hold": decision.hold.value if decision.hold is not None else None,
    }
