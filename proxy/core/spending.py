"""What a call would cost before it is made, and what a spent budget or a missing price tells the client."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from billing.core.csvtext import plain_decimal
from billing.core.estimate import estimate_request
from billing.core.pricing import PriceRow, PriceUnit, amount_of
from billing.core.reserving import Ask, BudgetInfo, BudgetRefused
from proxy.core.call import Call
from proxy.core.errors import Code, Fault
from routing.core.decision import Candidate

_ZERO = Decimal(0)
_ONE = Decimal(1)


@dataclass(frozen=True, slots=True)
class Quote:
    """What one candidate would cost. `price` None = it has none that counts in the tenant's currency."""

    candidate: Candidate
    price: PriceRow | None
    charge: Decimal = _ZERO
    cost: Decimal = _ZERO


def quotes(call: Call, candidates: Iterable[Candidate], sizes: Mapping[tuple[int, str], int]) -> list[Quote]:
    """Estimate each candidate: bytes ÷ 4 of input, and the smaller of max_tokens and what answers are like.

    `sizes` maps (line, model) to the 95th percentile of output tokens.
    """
    return [_quote(call, candidate, sizes) for candidate in candidates]


def ask_of(call: Call, quoted: Iterable[Quote]) -> Ask:
    """Return what the call asks of its budgets: of the line's and tenant's the dearest quote, of an account its own.

    A call that is known to cost nothing asks for nothing: a spent budget does not stop it.
    """
    admitted = call.admitted
    book, tenant, at = admitted.table.budgets, admitted.tenant, call.received.at
    listed = list(quoted)
    accounts: dict[int, Decimal] = {}
    for one in listed:
        account = one.candidate.account_id
        if account is not None:
            accounts[account] = max(accounts.get(account, _ZERO), one.cost)
    owned = [*book.of("line", admitted.line.id), *book.of("tenant", tenant.id)]
    charge = max((one.charge for one in listed), default=_ZERO)
    counted = [(budget, charge) for budget in owned]
    counted += [(budget, cost) for account, cost in accounts.items() for budget in book.of("account", account)]
    free = all(one.price is not None and not one.charge and not one.cost for one in listed)
    return Ask(
        request_id=call.received.request_id,
        tenant_id=tenant.id,
        at=at,
        currency=tenant.currency,
        claims=tuple((one, _in(one, amount, call)) for one, amount in counted if one.hard and not free),
        budgets=frozenset(budget.id for budget, _amount in counted),
        free=any(not book.hard("account", one.candidate.account_id) for one in listed),
    )


def refused_fault(refused: BudgetRefused, now: datetime) -> Fault:
    """Word a spent budget. Trying again is no use before it begins anew."""
    budget = refused.budget
    owner = {"line": "business line", "tenant": "team", "account": "upstream account"}[budget.owner]
    spent = f", {plain_decimal(refused.spent)} {budget.currency} of it spent" if refused.spent is not None else ""
    period = "in total" if budget.period == "total" else f"per {budget.period}"
    reset = (
        f"It begins anew at {refused.resets_at:%Y-%m-%d %H:%M} UTC."
        if refused.resets_at is not None
        else "It does not begin anew; your administrator can raise it."
    )
    return Fault(
        Code.BUDGET_SPENT,
        f"The {owner}'s budget of {plain_decimal(budget.amount)} {budget.currency} {period} leaves no room for this "
        f"call{spent}. {reset}",
        wait_s=None if refused.resets_at is None else max(0.0, (refused.resets_at - now).total_seconds()),
        refusal_limit=refused.limit,
        refusal_until=refused.resets_at,
    )


def unpriced_fault(call: Call) -> Fault:
    """Word the refusal of a model that has no price."""
    text = f"The model {call.model!r} has no price here, and this business line is not served without one."
    return Fault(Code.MODEL_UNPRICED, text, hopeless=True, param="model")


def _quote(call: Call, candidate: Candidate, sizes: Mapping[tuple[int, str], int]) -> Quote:
    admitted, facts = call.admitted, call.facts
    at, book = call.received.at, admitted.table.prices
    price = book.find(admitted.tenant.id, list(dict.fromkeys([candidate.model_sent, call.model])), at)
    rate = None if price is None else book.rate_of(price.currency, admitted.tenant.currency, at, admitted.tenant.id)
    if price is None or rate is None:
        return Quote(candidate, None)
    size = sizes.get((admitted.line.id, candidate.model_sent))
    guess = estimate_request(len(call.received.body), facts.max_tokens if facts is not None else None, size)
    if price.unit == PriceUnit.PER_MILLION_TOKENS and price.output is None:
        guess = replace(guess, output_tokens=0)  # embeddings and the like
    upstream = admitted.table.upstreams.get(candidate.upstream_id)
    multiplier = upstream.cost_multiplier if upstream is not None else _ONE
    charge, cost = (amount_of(guess, price, factor, rate) for factor in (admitted.line.charge_multiplier, multiplier))
    return Quote(candidate, price, charge or _ZERO, cost or _ZERO)


def _in(budget: BudgetInfo, amount: Decimal, call: Call) -> Decimal:
    """Convert an estimate; without a rate it counts nothing, as the amounts themselves do."""
    admitted, at = call.admitted, call.received.at
    book, tenant = admitted.table.prices, admitted.tenant
    return book.convert(amount, tenant.currency, budget.currency, at, tenant.id) or _ZERO
