"""From a finished call to its rows: usage, cost, charge and waste, by the contract's rules.

Charge once, on the serving attempt: list price × the line's multiplier, whoever served. Cost: list price × the
upstream's multiplier. A failed request is charged 0; what it or a lost attempt may have cost is waste. Unpriced is
an amount of None, never 0.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from billing.core.csvtext import plain_decimal
from billing.core.periods import day_of
from billing.core.pricing import PriceRow, PriceUnit, amount_of
from billing.core.record import AttemptRow, Bundle, LedgerRow, RecordRow
from billing.core.tokens import NO_USAGE, Usage, UsageSource
from proxy.core.call import Call
from proxy.core.chain import Try
from proxy.core.ending import End
from tenants.core.values import valueclass

_BYTES_PER_TOKEN = 4
_ZERO = Decimal(0)
_MESSAGE_MAX = 500


@valueclass(frozen=True, slots=True)
class Amounts:
    """In the tenant's currency; None = not known."""

    charge: Decimal | None
    cost: Decimal | None
    waste: Decimal | None
    price: PriceRow | None
    priced: bool


def bundle_of(call: Call, clock_s: float) -> Bundle:
    """Return all rows of a call that has ended. `clock_s` is the monotonic time of the end."""
    tenant = call.admitted.tenant
    day = day_of(call.received.at, ZoneInfo(tenant.timezone))
    made = main_try(call)
    usage = _usage(call, made)
    billed = _completed(call, made, usage)
    amounts = _amounts(call, made, billed)
    wastes = {index: waste for index, waste in _wastes(call) if waste is not None}
    total_waste = _total([amounts.waste, *wastes.values()])
    record = _record(call, made, usage, day, clock_s)
    record.charge, record.cost, record.waste = amounts.charge, amounts.cost, total_waste
    record.estimated = billed.source is UsageSource.ESTIMATED
    record.priced = amounts.priced
    if made is not None and not call.free:
        record.price_id = amounts.price.id if amounts.price is not None else None
        record.price = _price_copy(amounts.price, call, made)
    booked = _Booked(call, made, amounts, wastes)
    attempts = tuple(_attempt(booked, index, t) for index, t in enumerate(call.chain.tries))
    return Bundle(record, attempts, tuple(_ledger(booked, day)))


@valueclass(frozen=True, slots=True)
class _Booked:
    call: Call
    made: Try | None
    amounts: Amounts
    wastes: Mapping[int, Decimal]


def main_try(call: Call) -> Try | None:
    """Return the try whose answer the client got (part of), else None."""
    served = call.chain.served
    if served is not None:
        return served
    attempts = call.chain.attempts
    got = next((t for t in reversed(attempts) if t.content), None)
    # One that nobody waited for to its end is nobody's answer; what it used is a cost all the same.
    return got if got is not None or not attempts or attempts[-1].usage is None else attempts[-1]


def _usage(call: Call, made: Try | None) -> Usage:
    """Return what the record says was used; estimates are made and marked here."""
    if made is None or call.free:
        return NO_USAGE
    seen = made.usage
    failed = call.ending.end is End.FAILED
    if seen is not None and seen.input_tokens is not None and seen.output_tokens is not None:
        return replace(seen, source=UsageSource.PARTIAL) if failed else seen
    if not call.ending.delivered and call.ending.end is not End.FINISHED:
        return replace(seen, source=UsageSource.PARTIAL) if seen is not None else NO_USAGE
    if failed and seen is not None:
        return replace(seen, source=UsageSource.PARTIAL)
    return _estimated(call, made, seen)


def _completed(call: Call, made: Try | None, usage: Usage) -> Usage:
    """Return what amounts are reckoned from: an answer that died may have told its input and not yet its output."""
    known = usage.input_tokens is not None and usage.output_tokens is not None
    if made is None or known:
        return usage
    return _estimated(call, made, usage) if call.ending.delivered else _as_far_as_told(made)


def _estimated(call: Call, made: Try, seen: Usage | None) -> Usage:
    known = seen if seen is not None else NO_USAGE
    if call.unestimable:
        return known
    guessed_input = -(-len(call.received.body) // _BYTES_PER_TOKEN)
    guessed_output = -(-made.output_bytes // _BYTES_PER_TOKEN)
    return replace(
        known,
        input_tokens=known.input_tokens if known.input_tokens is not None else guessed_input,
        output_tokens=known.output_tokens if known.output_tokens is not None else guessed_output,
        source=UsageSource.ESTIMATED,
    )


def price_of(call: Call, made: Try) -> PriceRow | None:
    """Return the price of the call's day: by the name sent upstream, else by the name before the alias."""
    names = dict.fromkeys([made.target.model, call.model])
    return call.admitted.table.prices.find(call.admitted.tenant.id, list(names), call.received.at)


def _amounts(call: Call, made: Try | None, usage: Usage) -> Amounts:
    end, delivered = call.ending.end, call.ending.delivered
    if made is None or call.free:
        return Amounts(_ZERO, _ZERO if call.free else None, None, None, priced=True)
    price = price_of(call, made)
    rate = _rate(call, price)
    list_price = None if price is None or rate is None else _list_amount(usage, price, rate, delivered)
    cost = None
    if list_price is not None:
        cost = list_price if _cost_multiplier(call, made) == 1 else _scaled(call, made, price, usage, rate)
    if end is End.FAILED:
        return Amounts(_ZERO, None, cost, price, priced=True)
    if end is End.CANCELLED and not delivered:
        return Amounts(_ZERO, cost, None, price, priced=True)
    if price is None or rate is None or list_price is None:
        return Amounts(None, None, None, price, priced=False)
    multiplier = call.admitted.line.charge_multiplier
    charge = list_price if multiplier == 1 else amount_of(usage, price, multiplier, rate)
    return Amounts(charge, cost, None, price, priced=charge is not None)


def _list_amount(usage: Usage, price: PriceRow, rate: Fraction, delivered: bool) -> Decimal | None:
    if price.unit == PriceUnit.PER_CALL and not delivered:
        return None
    return amount_of(usage, price, Decimal(1), rate)


def _scaled(call: Call, made: Try, price: PriceRow | None, usage: Usage, rate: Fraction | None) -> Decimal | None:
    if price is None or rate is None:
        return None
    return amount_of(usage, price, _cost_multiplier(call, made), rate)


def _rate(call: Call, price: PriceRow | None) -> Fraction | None:
    if price is None:
        return None
    tenant = call.admitted.tenant
    return call.admitted.table.prices.rate_of(price.currency, tenant.currency, call.received.at, tenant.id)


def _wastes(call: Call) -> list[tuple[int, Decimal | None]]:
    """Return (place in the chain, amount) of the lost attempts whose usage was seen."""
    main = main_try(call)
    lost = [(i, t) for i, t in enumerate(call.chain.tries) if t is not main and t.usage is not None]
    found: list[tuple[int, Decimal | None]] = []
    for index, made in lost:
        price = price_of(call, made)
        found.append((index, _scaled(call, made, price, _as_far_as_told(made), _rate(call, price))))
    return found


def _as_far_as_told(made: Try) -> Usage:
    """Return a lost attempt's usage; output that it did not come to tell is reckoned from what was generated."""
    usage = made.usage if made.usage is not None else NO_USAGE
    if usage.input_tokens is None or usage.output_tokens is not None:
        return usage
    return replace(usage, output_tokens=-(-made.output_bytes // _BYTES_PER_TOKEN))


def _total(amounts: list[Decimal | None]) -> Decimal | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known, _ZERO) if known else None


def _record(call: Call, made: Try | None, usage: Usage, day: date, clock_s: float) -> RecordRow:
    admitted, ending, received = call.admitted, call.ending, call.received
    fault = ending.fault
    return RecordRow(
        id=received.record_id,
        request_id=received.request_id,
        tenant_id=admitted.tenant.id,
        line_id=admitted.line.id,
        line_slug=admitted.line.slug,
        line_name=admitted.line.name,
        gateway_key_id=admitted.key.id,
        key_name=admitted.key.name,
        key_last4=admitted.key.last4,
        created=received.at,
        day=day,
        dialect=received.dialect.value,
        endpoint=call.operation[:60],
        stream=call.facts.stream if call.facts is not None else False,
        model_requested=call.model[:200],
        model_served=made.target.model[:200] if made is not None else "",
        status=(ending.end or End.CANCELLED).value,
        http_status=ending.http_status,
        error_code=fault.code.value if fault is not None else "",
        message=fault.message[:_MESSAGE_MAX] if fault is not None else "",
        refusal_limit=fault.refusal_limit if fault is not None else "",
        refusal_until=fault.refusal_until if fault is not None else None,
        duration_ms=call.elapsed_ms(clock_s),
        first_content_ms=ending.first_content_ms,
        session=call.session,
        conversation=call.memory.names[0][:16] if call.memory.names else "",
        route=call.route,
        rule=call.rule,
        group=call.group,
        upstream=made.target.upstream if made is not None else "",
        upstream_key_id=made.target.key_id if made is not None else None,
        upstream_key=made.target.label[:80] if made is not None else "",
        attempt_count=len(call.chain.attempts),
        skips_left_out=call.chain.skips_left_out,
        decision=call.explained,
        **_tokens(usage),
        usage_flags=list(usage.flags),
        currency=admitted.tenant.currency,
        replay_of=call.replay_of,
    )


def _tokens(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "cached_read_tokens": usage.cached_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "cache_write_1h_tokens": usage.cache_write_1h_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "usage_source": usage.source.value,
    }


def _price_copy(price: PriceRow | None, call: Call, made: Try) -> dict[str, Any]:
    """Return the price used, as text: later edits of the list leave history alone. Not to be changed.

    A call without a price keeps its multipliers, for the day that it gets one.
    """
    return _price_text(price, call.admitted.line.charge_multiplier, _cost_multiplier(call, made), _rate(call, price))


@lru_cache(maxsize=1024)
def _price_text(price: PriceRow | None, charge: Decimal, cost: Decimal, rate: Fraction | None) -> dict[str, Any]:
    kept = {
        name: plain_decimal(value) if isinstance(value, Decimal) else str(value)
        for name, value in (asdict(price) if price is not None else {}).items()
        if value is not None and name != "tenant_id"
    }
    kept |= {"charge_multiplier": plain_decimal(charge), "cost_multiplier": plain_decimal(cost)}
    return kept if rate is None else kept | {"rate": str(rate)}


def _cost_multiplier(call: Call, made: Try) -> Decimal:
    upstream = call.admitted.table.upstreams.get(made.target.upstream_id)
    return upstream.cost_multiplier if upstream is not None else Decimal(1)


def _attempt(booked: _Booked, index: int, made: Try) -> AttemptRow:
    outcome = made.outcome
    mine = made is booked.made
    waste = booked.wastes.get(index)
    return AttemptRow(
        record_id=booked.call.received.record_id,
        n=index + 1,
        upstream=made.target.upstream,
        upstream_key_id=made.target.key_id,
        upstream_key=made.target.label[:80],
        account_id=made.target.account_id,
        model_sent=made.target.model[:200],
        outcome=outcome.cause.value if outcome is not None else "",
        content=made.content,
        skipped=made.skipped,
        status=outcome.status if outcome is not None else None,
        started_ms=made.started_ms,
        ms=made.ms,
        queued_ms=made.queued_ms,
        first_content_ms=made.first_content_ms,
        message=outcome.message[:_MESSAGE_MAX] if outcome is not None else "",
        reason=(made.reason or (outcome.reason if outcome is not None else ""))[:200],
        evidence=outcome.evidence[:120] if outcome is not None else "",
        upstream_request_id=made.upstream_request_id[:120],
        **_tokens(made.usage if made.usage is not None else NO_USAGE),
        cost=booked.amounts.cost if mine else None,
        waste=booked.amounts.waste if mine else waste,
    )


def _ledger(booked: _Booked, day: date) -> list[LedgerRow]:
    call, amounts = booked.call, booked.amounts
    rows: list[LedgerRow] = []
    if amounts.charge:  # an amount of zero changes no sum
        rows.append(_entry(call, day, "charge", amounts.charge, None, None))
    if booked.made is not None:
        place = next(index for index, made in enumerate(call.chain.tries) if made is booked.made)
        for kind, amount in (("cost", amounts.cost), ("waste", amounts.waste)):
            if amount:
                rows.append(_entry(call, day, kind, amount, booked.made, place + 1))
    for index, waste in booked.wastes.items():
        if not waste:
            continue
        rows.append(_entry(call, day, "waste", waste, call.chain.tries[index], index + 1))
    return rows


def _entry(call: Call, day: date, kind: str, amount: Decimal, made: Try | None, n: int | None) -> LedgerRow:
    return LedgerRow(
        tenant_id=call.admitted.tenant.id,
        kind=kind,
        record_id=call.received.record_id,
        line_id=call.admitted.line.id,
        account_id=made.target.account_id if made is not None else None,
        upstream_key_id=made.target.key_id if made is not None else None,
        attempt_n=n,
        amount=amount,
        currency=call.admitted.tenant.currency,
        day=day,
        created=call.received.at,
    )
