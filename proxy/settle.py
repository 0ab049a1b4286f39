"""Room six: one durable record per request, slots given back, the key's success reported."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from billing.core.record import AnswerRow, Bundle
from billing.recorder import NotDurableError
from keys.core.admission import SettleRequest
from keys.core.classify import classify
from keys.core.outcome import Cause, Outcome, Phase, Reply, Scope, Verdict
from keys.core.redact import redact
from keys.core.report import Report
from proxy import background
from proxy.core.answer import Answer
from proxy.core.booking import bundle_of, main_try
from proxy.core.call import Call
from proxy.core.chain import Try
from proxy.core.ending import End
from proxy.core.errors import Code, Fault
from proxy.core.idempotency import Keep, pack
from proxy.runtime import Runtime
from routing import sessions
from routing.core.sticky import cached_tokens, owner_of, session_mark
from routing.core.table import KeyInfo
from routing.core.views import Pin
from tenants.encryption import box

Work = Callable[[], Coroutine[Any, Any, None]]
_AT_ONCE = 1 << 18  # bytes of an answer that are packed without a thread
NOT_RECORDED = Fault(Code.RECORDING_UNAVAILABLE, "The call could not be recorded; the answer is withheld.", wait_s=5)


async def durable(call: Call, runtime: Runtime) -> None:
    """Write the ended call's rows; return once they survive a crash. Raises NotDurableError. Safe to repeat."""
    if call.ending.recorded:
        return
    answer = await kept(call, runtime) if call.keep is not None else None
    call.ending.recorded = True
    runtime.calls.pop(call.received.request_id, None)
    background.start(give_back(call, runtime))
    bundle, recorded = replace(bundle_of(call, runtime.clock()), answer=answer), True
    try:
        committed = await runtime.recorder.write(bundle)
        if call.keep is not None and answer is not None:
            call.keep.committed = committed
    except NotDurableError:
        recorded = False
        raise
    finally:
        if runtime.budgets.holds(call.received.request_id):
            # No await here: a client's disconnect would cancel it; the rows are with the recorder by then.
            background.start(settle_budgets(bundle, runtime, recorded=recorded))


async def kept(call: Call, runtime: Runtime) -> AnswerRow | None:
    """Return the row by which a keyed call's answer is given again, None when the call came to nothing."""
    keep = call.keep
    if keep is None or not (call.ending.end is End.FINISHED or keep.of_request):
        return None
    body = ""
    if not keep.is_too_large:
        large = keep.size > _AT_ONCE
        body = await asyncio.to_thread(_sealed, keep) if large else _sealed(keep)
    return AnswerRow(
        line_id=keep.identity.line_id,
        key_digest=keep.identity.key,
        body_digest=keep.identity.body,
        request_id=call.received.request_id,
        status=keep.status,
        headers=dict(keep.headers),
        body=body,
        created=runtime.now(),
    )


def _sealed(keep: Keep) -> str:
    """Encrypted here, so that neither the spool file nor the writer's thread has to do with plain text."""
    return box().encrypt(pack(keep.body()).encode()).decode()


async def settle_budgets(bundle: Bundle, runtime: Runtime, *, recorded: bool) -> None:
    """Count what a call cost once it is recorded, or take its reservation back."""
    request_id = bundle.record.request_id
    if not recorded:
        await runtime.budgets.release(request_id)
        return
    accounts: dict[int, Decimal] = {}
    for row in bundle.ledger:
        if row.account_id is not None and row.kind in {"cost", "waste"}:
            accounts[row.account_id] = accounts.get(row.account_id, Decimal(0)) + row.amount
    await runtime.budgets.settle(request_id, bundle.record.charge or Decimal(0), accounts)


async def record_quietly(call: Call, runtime: Runtime) -> None:
    """The same where nobody waits for the answer; a failure was logged by the recorder."""
    try:
        await durable(call, runtime)
    except NotDurableError:
        return


async def failed(call: Call, fault: Fault, runtime: Runtime) -> None:
    """Record a call that got an error."""
    call.ending.http_status = fault.status
    call.ending.fail(fault)
    await record_quietly(call, runtime)


async def leave(call: Call, runtime: Runtime) -> None:
    """Record a call whose client left before anything was under way, or after all was said."""
    call.ending.cancel()
    await record_quietly(call, runtime)


def hand_over(call: Call, work: Work) -> None:
    """Let the background end a call that nobody waits for any more; the first one to say so does it."""
    if not call.ending.recorded and not call.handed_over:
        call.handed_over = True
        background.start(work())


async def give_back(call: Call, runtime: Runtime) -> None:
    """Release the call's slots and report what the serving attempt taught about its key."""
    reports = _reports(call)
    call.unreported = False
    holds = (*call.key_holds, *call.caller_holds)
    call.key_holds = call.caller_holds = ()
    made = main_try(call)
    usage = made.usage if made is not None else None
    tokens = None if usage is None else (usage.input_tokens or 0) + (usage.output_tokens or 0)
    request = SettleRequest(
        reports=tuple((report, call.policy) for report in reports), holds=holds, tokens=tokens, probe=call.probe
    )
    call.probe = None
    # At once, and each a task from here: so all travel in one round trip where the store is shared.
    changes, *_ = await asyncio.gather(runtime.store.settle(request, runtime.now()), *memories(call, runtime))
    runtime.note(changes, call.received.request_id)


def memories(call: Call, runtime: Runtime) -> Sequence[Coroutine[Any, Any, None]]:
    """Return what pins the conversation to the key that answered, and keeps where the answer's ids and marks live."""
    made, facts, decision = call.chain.served, call.facts, call.decision
    if call.ending.end is not End.FINISHED or made is None or facts is None or decision is None:
        return ()
    now, notes = runtime.now(), runtime.store.notes
    kept: list[Coroutine[Any, Any, None]] = []
    rule = decision.target.rule
    if call.memory.names and rule is not None:
        pin = Pin(
            key_id=made.target.key_id,
            upstream_id=made.target.upstream_id,
            rule_id=rule.id,
            group_id=decision.target.group.id if decision.target.group is not None else None,
            answered_at=now,
            cached_tokens=cached_tokens(made.usage, made.target.dialect),
        )
        kept.append(sessions.keep_pin(notes, call.memory, pin, now))
    if call.marks:
        upstream = call.admitted.table.upstreams.get(made.target.upstream_id)
        key = next((key for key in upstream.keys if key.id == made.target.key_id), None) if upstream else None
        if upstream is not None and key is not None:
            kept.append(sessions.keep_owner(notes, facts, call.marks, owner_of(upstream, key), now))
    return kept


def session_of(call: Call, made: Try) -> str:
    """Return what the client is told about its conversation."""
    decision = call.decision
    if decision is None:
        return "none"
    identified = bool(call.memory.names)
    return session_mark(decision.hold, decision.pinned_key_id, made.target.key_id, identified=identified).value


def broke(call: Call, answer: Answer, made: Try, reply: Reply, runtime: Runtime) -> Outcome:
    """Note that the serving attempt died after content; return what its death means."""
    outcome = classify(replace(reply, phase=Phase.MID_STREAM), now=runtime.now(), rules=call.admitted.table.wordings)
    key = _key_of(call, made)
    message = outcome.message if key is None else redact(outcome.message, (key.secret,))
    outcome = replace(outcome, verdict=Verdict.STOP, phase=Phase.MID_STREAM, message=message)
    answer.made = replace(made, outcome=outcome)
    call.chain = call.chain.with_last(answer.made)
    return outcome


def aborted(call: Call, made: Try | None) -> None:
    """Note that the client left: never held against the key."""
    if made is not None:
        outcome = Outcome(Cause.ABORTED, Verdict.STOP, Scope.NONE, status=made.outcome.status if made.outcome else None)
        call.chain = call.chain.with_last(replace(made, outcome=outcome))


def _key_of(call: Call, made: Try) -> KeyInfo | None:
    upstream = call.admitted.table.upstreams.get(made.target.upstream_id)
    keys = upstream.keys if upstream is not None else ()
    return next((key for key in keys if key.id == made.target.key_id), None)


def _reports(call: Call) -> Sequence[Report]:
    """The report of the attempt that was relayed; failed ones were reported when they failed."""
    made = next((t for t in reversed(call.chain.attempts) if t.outcome is not None), None)
    if made is None or made.outcome is None or not call.unreported or call.free:
        return ()
    key = _key_of(call, made)
    if key is None:
        return ()
    return (
        Report(
            key_id=made.target.key_id,
            account_id=made.target.account_id,
            model=made.target.model,
            outcome=made.outcome,
            began=call.began if call.began is not None else call.received.at,
            epoch=key.epoch,
            first_ms=made.first_content_ms,
        ),
    )
