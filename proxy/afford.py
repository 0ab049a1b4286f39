"""Between plan and failover: can the call be paid for? Reserves its estimate, leaves out what is spent or unpriced."""

from billing.core.reserving import BudgetRefused
from proxy.core.call import Call
from proxy.core.errors import Refused
from proxy.core.spending import ask_of, quotes, refused_fault, unpriced_fault
from proxy.runtime import Runtime
from routing.core.decision import Bar, Decision
from routing.core.narrow import candidates_of, without


async def afford(call: Call, decision: Decision, runtime: Runtime) -> Decision:
    """Return the decision without the candidates that cannot be paid for. Raises Refused.

    Waits only where a hard budget binds the call.
    """
    line = call.admitted.line
    if call.free or (line.on_unpriced != "refuse" and not _is_bound(call, decision)):
        return decision
    quoted = quotes(call, candidates_of(decision), runtime.budgets.sizes)
    if line.on_unpriced == "refuse":
        unpriced = {(one.candidate.key_id, one.candidate.model_sent) for one in quoted if one.price is None}
        quoted = [one for one in quoted if one.price is not None]
        if unpriced and not quoted:
            raise Refused(unpriced_fault(call))
        decision = without(decision, lambda one: (one.key_id, one.model_sent) in unpriced, Bar.MODEL, "no price")
    granted = await runtime.budgets.reserve(ask_of(call, quoted), call.admitted.table.prices)
    if isinstance(granted, BudgetRefused):
        raise Refused(refused_fault(granted, runtime.now()))
    closed = granted.closed
    return without(decision, lambda one: one.account_id in closed, Bar.QUOTA, "the account's budget is spent")


def _is_bound(call: Call, decision: Decision) -> bool:
    """Whether any budget, hard or soft, counts this call."""
    admitted = call.admitted
    book = admitted.table.budgets
    if not book.budgets:
        return False
    if book.of("line", admitted.line.id) or book.of("tenant", admitted.tenant.id):
        return True
    return any(book.of("account", one.account_id) for one in candidates_of(decision))
