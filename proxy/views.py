"""The corridor: calls the rooms in order and turns what they return into HTTP.

The views are DRF's, with a coroutine in place of its dispatch: authenticators, parsers and renderers would cost more
than the whole decision, and the body must go through byte for byte.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from rest_framework.views import APIView

from billing.recorder import NotDurableError
from keys.core.outcome import Reply
from proxy import background, idempotent, local, settle
from proxy.admit import admit
from proxy.afford import afford
from proxy.core.answer import Answer, Passage
from proxy.core.call import Call
from proxy.core.counting import ESTIMATED_HEADER, count_body, is_upstreams_fault
from proxy.core.endpoints import Endpoint, Meter, find
from proxy.core.errors import Code, Fault, Refused
from proxy.core.idempotency import is_keyed
from proxy.core.passages import ArrayWriter
from proxy.core.sending import Inbound
from proxy.core.translating import passage_of
from proxy.core.tries import refusal_fault
from proxy.core.wire.edits import rename_model
from proxy.core.wire.reading import KEEPALIVE
from proxy.failover import Failover
from proxy.flight import Flight
from proxy.plan import is_served_by_others, plan
from proxy.read import read
from proxy.receive import receive
from proxy.relay import StreamFailedError, chunks, drain, settled
from proxy.responses import (
    INTERNAL,
    CutShortError,
    GatewayStream,
    event_of,
    fault_response,
    own_headers,
    stream_headers,
)
from proxy.runtime import Runtime, current

KEEPALIVE_S = 15.0


class ProxyView(APIView):
    """Every gateway path."""

    authentication_classes = ()
    permission_classes = ()
    throttle_classes = ()

    async def dispatch(self, request: HttpRequest, *_args: Any, **_kwargs: Any) -> HttpResponseBase:  # type: ignore[override]  # a coroutine, see above
        """Answer one request. Faults of clients and upstreams are answers, never exceptions."""
        runtime = current()
        received = receive(request, runtime)
        try:
            endpoint = find(received.method, received.path)
            if isinstance(endpoint, Fault):
                raise Refused(endpoint)
            keeper = runtime.keeper
            admitted = admit(received, keeper.table, keeper.hash_key, table_is_current=keeper.healthy)
            if endpoint.local:
                return await local.answer(admitted, endpoint, runtime)
            if not runtime.recorder.writable:
                raise Refused(settle.NOT_RECORDED)
        except Refused as refused:
            return fault_response(received, refused.fault)
        call = Call(admitted, endpoint.name, endpoint.is_free, unestimable=endpoint.meter is Meter.MEDIA)
        if received.is_keyed and is_keyed(endpoint):
            return await idempotent.answer(call, endpoint, runtime, play)
        runtime.calls[received.request_id] = call
        return await serve(call, endpoint, runtime)

    async def http_method_not_allowed(self, request: HttpRequest, *_args: Any, **_kwargs: Any) -> HttpResponseBase:  # type: ignore[override]  # never reached: dispatch is ours
        """Django asks whether handlers are coroutines by looking at the class."""
        return await self.dispatch(request)


async def serve(call: Call, endpoint: Endpoint, runtime: Runtime) -> HttpResponseBase:
    """Take an admitted call through the remaining rooms; it leaves exactly one record."""
    try:
        try:
            inbound, call.facts = read(call.admitted, endpoint)
            decision = await plan(call, runtime, random.random())  # noqa: S311  # picks a key, no secret
            counts_here = endpoint.meter is Meter.COUNT and decision.refusal is not None
            if counts_here and is_served_by_others(call, runtime):
                return await estimate(call, runtime)
            if decision.refusal is not None:
                raise Refused(refusal_fault(decision.refusal))
            decision = await afford(call, decision, runtime)
        except Refused as refused:
            return await finish_failed(call, refused.fault, runtime)
        opening = background.spawn(Failover(call, inbound, decision, runtime).run())
        stoppable(call, opening.cancel)
        try:
            hold_s = decision.policy.hold_s if inbound.stream else None
            done, _ = await asyncio.wait({opening}, timeout=hold_s)
        except asyncio.CancelledError:
            call.abandoned = True
            settle.hand_over(call, partial(leave_opening, call, opening, runtime))
            raise
        if not done:
            body, left = waiting(call, opening, runtime), partial(leave_opening, call, opening, runtime)
            return streamed(call, body, left, stream_headers(call, ()), as_array=inbound.as_array)
        result = opened(call, opening)
        if endpoint.meter is Meter.COUNT and isinstance(result, Fault) and is_upstreams_fault(result):
            return await estimate(call, runtime)
        return await respond(call, result, runtime, inbound)
    except asyncio.CancelledError:
        settle.hand_over(call, partial(settle.leave, call, runtime))
        raise
    except Exception:
        # A mistake of ours: the caller answers it; it must not cost the record or keep slots.
        call.ending.http_status = INTERNAL.status
        call.ending.fail(INTERNAL)
        settle.hand_over(call, partial(settle.record_quietly, call, runtime))
        raise


async def play(call: Call, endpoint: Endpoint, runtime: Runtime, flight: Flight) -> Fault | None:
    """Serve a keyed call to all who wait for it; it goes on when they leave. Returns a fault that is yet to be told."""
    runtime.calls[call.received.request_id] = call
    response = await serve(call, endpoint, runtime)
    is_kept = call.keep is not None and call.keep.committed is not None
    if isinstance(response, HttpResponse):
        if not is_kept or (flight.begun and call.ending.fault is not None):
            return call.ending.fault or settle.NOT_RECORDED
        flight.show(response.status_code, dict(response.items()), response.content)
    if isinstance(response, GatewayStream):
        flight.begin(response.status_code, dict(response.items()))
        await played(call, response, flight)
    return None


async def played(call: Call, response: GatewayStream, flight: Flight) -> None:
    """Relay a stream to a flight."""
    try:
        async with aclosing(response.parts) as parts:
            async for part in parts:
                await flight.add(part, is_tail=call.ending.recorded)
    except CutShortError:
        flight.is_cut = True
    finally:
        response.hand_over()
    if call.keep is None or call.keep.committed is None:
        flight.fault = call.ending.fault or settle.NOT_RECORDED


def stoppable(call: Call, stop: Callable[[], object]) -> None:
    """Say how what is under way now is ended; a person may have asked for it in the meantime."""
    call.stop = stop
    if call.stopped is not None:
        stop()


def opened(call: Call, opening: "asyncio.Task[Answer | Fault]") -> Answer | Fault:
    """Return what failover came to; when a person aborted it, the fault that says so."""
    return call.stopped if call.stopped is not None and opening.cancelled() else opening.result()


async def respond(call: Call, result: Answer | Fault, runtime: Runtime, inbound: Inbound) -> HttpResponseBase:
    """Turn what failover returned into a response."""
    if isinstance(result, Fault):
        return await finish_failed(call, result, runtime)
    call.ending.http_status = result.status
    call.dropped = result.dropped
    call.session = settle.session_of(call, result.made)
    if result.whole is None:
        passage = passage_of(result)
        body, left = stream(call, result, passage, runtime), partial(leave_stream, call, result, passage, runtime)
        headers = stream_headers(call, result.headers, result.content_type)
        return streamed(call, body, left, headers, as_array=result.as_array)
    body_bytes = result.whole
    if result.rename is not None:
        body_bytes = rename_model(body_bytes, result.rename.sent, result.rename.shown)
    headers = dict(result.headers) | {"content-length": str(len(body_bytes))} | own_headers(call)
    if call.keep is not None:
        call.keep.take(result.status, headers, body_bytes)
    call.ending.delivered = True
    call.ending.first_content_ms = call.elapsed_ms(runtime.clock())
    call.chain = call.chain.with_last(replace(result.made, content=True))
    call.ending.finish()
    try:
        await settle.durable(call, runtime)
    except NotDurableError:
        return fault_response(call.received, settle.NOT_RECORDED, call)
    return HttpResponse(body_bytes, status=result.status, headers=headers)


def streamed(
    call: Call, body: AsyncGenerator[bytes, None], left: settle.Work, headers: dict[str, str], *, as_array: bool
) -> GatewayStream:
    """Return a streamed response; as one JSON array where the client asked for that."""
    if as_array:
        body, headers["content-type"] = arrayed(body), "application/json; charset=utf-8"
    status = call.ending.http_status or 200
    if call.keep is not None:
        call.keep.begin(status, headers, as_array=as_array)
    return GatewayStream(body, partial(settle.hand_over, call, left), status=status, headers=headers)


async def arrayed(body: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Turn a stream's events into one JSON array, piece by piece."""
    writer = ArrayWriter()
    async with aclosing(body) as parts:
        async for part in parts:
            if made := writer.feed(part):
                yield made
    yield writer.close()


async def estimate(call: Call, runtime: Runtime) -> HttpResponseBase:
    """Answer a token count that no upstream answered."""
    tokens = max(call.facts.window_tokens, 1) if call.facts is not None else 1
    body = count_body(call.received.dialect, tokens)
    call.ending.http_status = 200
    call.ending.finish()
    await settle.record_quietly(call, runtime)
    headers = own_headers(call) | {"content-type": "application/json", "content-length": str(len(body))}
    return HttpResponse(body, headers=headers | dict([ESTIMATED_HEADER]))


async def finish_failed(call: Call, fault: Fault, runtime: Runtime) -> HttpResponse:
    """Record a call that got an error, then answer it."""
    response = fault_response(call.received, fault, call)
    if call.keep is not None and fault.is_of_request:
        call.keep.of_request = True
        call.keep.take(fault.status, dict(response.items()), response.content)
    await settle.failed(call, fault, runtime)
    return response


async def stream(call: Call, answer: Answer, passage: Passage, runtime: Runtime) -> AsyncGenerator[bytes, None]:
    """Relay a stream; its last bytes wait for the record."""
    stoppable(call, answer.source.abort)
    keep = call.keep
    try:
        async for part, is_last in chunks(call, answer, passage, runtime.clock):
            if keep is not None:
                keep.add(part)
            shown = await last_part(call, answer, passage, part, runtime) if is_last else part
            if shown:
                yield shown
    except StreamFailedError as problem:
        last = await end_broken(call, answer, passage, problem, runtime)
        if not last:
            raise CutShortError from problem
        yield last
    finally:
        # No await here: a client's disconnect would cancel it. Does nothing when the ending is recorded already.
        settle.hand_over(call, partial(leave_stream, call, answer, passage, runtime))


async def last_part(call: Call, answer: Answer, passage: Passage, part: bytes, runtime: Runtime) -> bytes:
    """Record a stream that was relayed whole; return its last bytes, or an error event when that failed."""
    answer.made = settled(call, answer, passage, runtime.clock)
    call.chain = call.chain.with_last(answer.made)
    call.ending.finish()
    try:
        await settle.durable(call, runtime)
    except NotDurableError:
        return event_of(call, settle.NOT_RECORDED)
    return part


async def waiting(call: Call, opening: "asyncio.Task[Answer | Fault]", runtime: Runtime) -> AsyncGenerator[bytes, None]:
    """The held opening took too long: the status is out, keep the line open while failover goes on."""
    keepalive = KEEPALIVE[call.received.dialect]
    call.ending.http_status = 200
    try:
        while not opening.done():
            if keepalive:
                yield keepalive
            await asyncio.wait({opening}, timeout=KEEPALIVE_S)
    except (asyncio.CancelledError, GeneratorExit):
        call.abandoned = True
        settle.hand_over(call, partial(leave_opening, call, opening, runtime))
        raise
    result = opened(call, opening)
    if isinstance(result, Fault):
        call.ending.fail(result)
        await settle.record_quietly(call, runtime)
        yield event_of(call, result)
        return
    async with aclosing(stream(call, result, passage_of(result), runtime)) as parts:
        async for part in parts:
            yield part


async def end_broken(
    call: Call, answer: Answer, passage: Passage, problem: StreamFailedError, runtime: Runtime
) -> bytes:
    """Record a stream that died after content and return the error event that tells the client."""
    answer.source.abort()
    if call.stopped is not None:
        fault = call.stopped
        settle.aborted(call, settled(call, answer, passage, runtime.clock))
    else:
        reply = Reply(status=answer.status, body=problem.said, fault=problem.fault, dialect=answer.dialect)
        outcome = settle.broke(call, answer, settled(call, answer, passage, runtime.clock), reply, runtime)
        told = f": {outcome.message}" if outcome.message else ""
        text = f"The upstream broke off in the middle of its answer{told}"
        fault = Fault(Code.UPSTREAM_FAILED, text, source="upstream")
    call.ending.fail(fault)
    await settle.record_quietly(call, runtime)
    return passage.broken(fault.status, fault.code.value, fault.message, call.received.request_id)


async def leave_opening(call: Call, opening: "asyncio.Task[Answer | Fault]", runtime: Runtime) -> None:
    """The client left while failover was at work: let the attempt under way say what it used, within bounds."""
    call.abandoned = True
    call.ending.cancel()
    if not call.idle:
        await asyncio.wait({opening}, timeout=call.policy.drain_s)
    if not opening.done():
        opening.cancel()
        await asyncio.wait({opening}, timeout=1)
    ended = opening.done() and not opening.cancelled() and opening.exception() is None
    result = opening.result() if ended else None
    if isinstance(result, Answer):
        await leave_stream(call, result, passage_of(result), runtime)
    else:
        await settle.record_quietly(call, runtime)


async def leave_stream(call: Call, answer: Answer, passage: Passage, runtime: Runtime) -> None:
    """The client left a stream: read on to learn the usage, then record."""
    call.ending.cancel()
    if answer.whole is None:
        await drain(answer, passage, limit_bytes=1 << 20, limit_s=call.policy.drain_s)
        settle.aborted(call, settled(call, answer, passage, runtime.clock))
    else:
        settle.aborted(call, answer.made)
    await settle.record_quietly(call, runtime)
