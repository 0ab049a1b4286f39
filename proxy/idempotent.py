"""Calls with an `Idempotency-Key`: one upstream call and one charge for a key, whoever asks how often.

All calls of this process with one key and body share a flight, and one pilot looks for all of them: it claims the key
in the state store and then looks for the stored answer. In this order, because an owner gives its claim up only when
its answer is committed. Then the flight is a replay, or the lead's call runs, whoever of the clients leaves; where
another process holds the claim, the pilot waits for its end.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from django.http import HttpResponse
from django.http.response import HttpResponseBase

from billing import answers
from billing.recorder import NotDurableError
from keys.stores.claims import RENEW_EVERY_S, Claim
from keys.stores.courier import StoreDown
from keys.stores.upkeep import goes_on
from proxy import background, settle
from proxy.core.answer import SSE
from proxy.core.call import Call
from proxy.core.endpoints import Endpoint
from proxy.core.errors import Code, Fault, Refused
from proxy.core.idempotency import (
    MISMATCH,
    NAME,
    OF_ONE_CALL,
    REPLAYED,
    UNAVAILABLE,
    Identity,
    Keep,
    heard,
    identity_of,
    malformed,
    not_kept,
    told,
    unpack,
)
from proxy.core.wire.reading import KEEPALIVE
from proxy.flight import Flight, Seat
from proxy.read import read
from proxy.responses import (
    INTERNAL,
    CutShortError,
    GatewayStream,
    event_of,
    fault_response,
    late_words,
    own_headers,
    stream_headers,
)
from proxy.runtime import Runtime
from tenants.encryption import box

# Serves a call to a flight; returns a fault that the flight was not told of.
Play = Callable[[Call, Endpoint, Runtime, Flight], Coroutine[Any, Any, Fault | None]]

POLL_S = 0.2
_ERRORS = 400
_TEXT_MAX = 500
READ_S = 2.0  # for a look into the database
HOLD_S = KEEPALIVE_S = 15.0  # as a stream that runs here


async def answer(call: Call, endpoint: Endpoint, runtime: Runtime, play: Play) -> HttpResponseBase:
    """Run a call, join the one under way, or give its answer again. Each client's request leaves its own record."""
    try:
        identity = _identity(call, endpoint, runtime)
        flight = runtime.flights.get(identity)
        if flight is not None and flight.is_full:
            call.replay_of = flight.original
            raise Refused(not_kept(flight.original))
    except Refused as refused:
        return await _refuse(call, refused.fault, runtime)
    if flight is None:
        runtime.flights[identity] = flight = Flight()
        background.spawn(Pilot(flight, identity, endpoint, runtime).run(play))
    seat = flight.join(call)
    try:
        await seat.opened()
    except asyncio.CancelledError:
        _left(seat, runtime)
        raise
    if not seat.is_owners:
        call.replay_of = flight.original
        with suppress(Refused):  # then it is refused for that
            _, call.facts = read(call.admitted, endpoint)
    return await _told(seat, runtime)


def _identity(call: Call, endpoint: Endpoint, runtime: Runtime) -> Identity:
    received = call.received
    headers: dict[str, str] = {}
    for name, value in received.headers:
        if (low := name.lower()) in headers and low == NAME:
            raise Refused(malformed())
        headers[low] = value
    request = (received.path, received.query, received.body)
    return identity_of(call.admitted.line.id, endpoint, request, headers, runtime.keeper.hash_key)


async def _refuse(call: Call, fault: Fault, runtime: Runtime) -> HttpResponse:
    await settle.failed(call, fault, runtime)
    return fault_response(call.received, fault, call)


async def _told(seat: Seat, runtime: Runtime) -> HttpResponseBase:
    """Turn what a flight came to into one client's response."""
    flight, call = seat.flight, seat.call
    if flight.begun and not flight.is_whole:
        over = partial(_left, seat, runtime)
        return GatewayStream(_followed(seat, runtime), over, status=flight.status, headers=_headers(seat))
    seat.leave()
    if not flight.begun:
        fault = flight.fault or INTERNAL
        return fault_response(call.received, fault, call) if seat.is_owners else await _refuse(call, fault, runtime)
    if (withheld := await _recorded(seat, runtime)) is not None:
        return fault_response(call.received, withheld, call)
    body = flight.body
    headers = _headers(seat) | {"content-length": str(len(body))}
    return HttpResponse(body, status=flight.status, headers=headers)


def _headers(seat: Seat) -> dict[str, str]:
    """Return the answer's headers; what tells of one exchange is each request's own."""
    if seat.is_owners:
        return dict(seat.flight.headers)
    kept = {name: value for name, value in seat.flight.headers.items() if name.lower() not in OF_ONE_CALL}
    return kept | own_headers(seat.call) | dict([REPLAYED])


async def _followed(seat: Seat, runtime: Runtime) -> AsyncGenerator[bytes, None]:
    """Give a client the stream; the last bytes of one that joined wait for its own record."""
    flight, tail = seat.flight, []
    try:
        async for part, is_tail in seat.parts():
            if is_tail and not seat.is_owners:
                tail.append(part)
            else:
                yield part
        withheld = await _recorded(seat, runtime)
        last = b"".join(tail) if withheld is None else event_of(seat.call, withheld)
        if last:
            yield last
        if flight.is_cut:
            raise CutShortError
    finally:
        # No await here: a client's disconnect would cancel it.
        _left(seat, runtime)


async def _recorded(seat: Seat, runtime: Runtime) -> Fault | None:
    """Write the record of a call that got another's answer; return what is told when that fails."""
    flight, call = seat.flight, seat.call
    if seat.is_owners:
        return None
    call.ending.http_status = flight.status
    refused = flight.status >= _ERRORS
    fault = flight.fault or (Fault(Code.UPSTREAM_REFUSED_REQUEST, "", source="upstream") if refused else None)
    if fault is None:
        call.ending.finish()
    else:
        call.ending.fail(fault)
    try:
        await settle.durable(call, runtime)
    except NotDurableError:
        return settle.NOT_RECORDED
    return None


def _left(seat: Seat, runtime: Runtime) -> None:
    """The client needs nothing more; when it left before the end, that is its record. The owner's call goes on."""
    seat.leave()
    if not seat.is_owners:
        seat.call.replay_of = seat.flight.original
        settle.hand_over(seat.call, partial(settle.leave, seat.call, runtime))


class Pilot:
    """Finds out what a flight comes to."""

    def __init__(self, flight: Flight, identity: Identity, endpoint: Endpoint, runtime: Runtime) -> None:
        self._flight, self._identity, self._endpoint, self._runtime = flight, identity, endpoint, runtime
        self._claims = runtime.store.claims
        self._as_array = False  # the stream that was opened meanwhile is a JSON array

    async def run(self, play: Play) -> None:
        """Fly; ends when all that the clients get is known."""
        flight = self._flight
        try:
            await self._fly(play)
        except (StoreDown, answers.AnswersUnavailable):
            await self._fail(UNAVAILABLE)
        except BaseException:
            flight.is_cut = True
            raise
        finally:
            self._runtime.flights.pop(self._identity, None)
            flight.end()

    async def _fly(self, play: Play) -> None:
        identity = self._identity
        while (lead := self._flight.lead) is not None:
            claim = Claim(lead.received.request_id, identity.body)
            held = await self._claims.take(identity.name, claim, self._runtime.now())
            over = await (self._holding(lead, claim, play) if held is None else self._waiting(held))
            if over:
                return

    async def _holding(self, lead: Call, claim: Claim, play: Play) -> bool:
        """The key is ours: give the stored answer, or run the call. False = its client left before that."""
        said = ""
        try:
            if await self._replayed():
                return True
            if self._runtime.recorder.is_behind:  # the answer may be among what is not written yet
                raise answers.AnswersUnavailable
            if not self._flight.waits(lead):
                return False
            said = await self._flown(lead, claim, play)
            return True
        finally:
            if lead.keep is None or lead.keep.committed is not False:
                self._claims.free(self._identity.name, claim, self._runtime.now(), said)

    async def _flown(self, lead: Call, claim: Claim, play: Play) -> str:
        """Run the lead's call; return what is said to other processes when nothing is kept of it."""
        flight, runtime, name = self._flight, self._runtime, self._identity.name
        flight.own(lead)
        lead.keep = keep = Keep(self._identity)
        renewal = background.spawn(self._renew(claim), upkeep=True)
        try:
            untold = await play(lead, self._endpoint, runtime, flight)
        finally:
            renewal.cancel()
        if untold is not None:
            await self._fail(untold)
        if keep.committed is False:
            # The claim stays, for a day if need be: who asks finds the row under it, or is told to wait for it.
            written, kept_s = replace(claim, written=True), answers.KEPT_FOR.total_seconds()
            with suppress(StoreDown):
                await self._claims.keep(name, written, runtime.now(), kept_s)
        return _sealed(flight.fault) if keep.committed is None and flight.fault is not None else ""

    async def _renew(self, claim: Claim) -> None:
        while goes_on():
            await asyncio.sleep(RENEW_EVERY_S)
            with suppress(StoreDown):  # what runs goes on; the claim is put back when the store is
                await self._claims.keep(self._identity.name, claim, self._runtime.now())

    async def _waiting(self, held: Claim) -> bool:
        """The key is another's: wait while its call runs. False = ask again: its answer is stored, or it died."""
        flight, name = self._flight, self._identity.name
        if held.about != self._identity.body:
            await self._fail(MISMATCH)
            return True
        flight.original = held.owner
        waited_s = 0.0
        while not held.written:
            if flight.lead is None:
                return True
            await asyncio.sleep(POLL_S)
            waited_s += POLL_S
            if await self._claims.look(name, self._runtime.now()) != held:
                return await self._ended(held)
            await self._keep_open(waited_s)
        if not await self._replayed():
            raise answers.AnswersUnavailable
        return True

    async def _ended(self, held: Claim) -> bool:
        said = await self._claims.said(held.owner, self._runtime.now())
        if said:
            await self._fail(_opened(said))
        return bool(said)

    async def _keep_open(self, waited_s: float) -> None:
        """Open a stream that is waited for, and keep it open."""
        flight, lead = self._flight, self._flight.lead
        if lead is None or waited_s < HOLD_S or waited_s % KEEPALIVE_S >= POLL_S:
            return
        if not flight.begun:
            with suppress(Refused):  # its owner is told so
                inbound, _facts = read(lead.admitted, self._endpoint)
                self._as_array = inbound.as_array
                kind = "application/json; charset=utf-8" if inbound.as_array else SSE
                if inbound.stream:
                    flight.begin(200, stream_headers(lead, (), kind))
        if flight.begun and not self._as_array:
            await flight.add(KEEPALIVE[lead.received.dialect])

    async def _replayed(self) -> bool:
        """Give the stored answer if there is one. Raises AnswersUnavailable."""
        flight, identity = self._flight, self._identity
        look = partial(_find, identity, self._runtime)
        try:
            async with asyncio.timeout(READ_S):
                stored, body = await asyncio.get_running_loop().run_in_executor(self._runtime.threads, look)
        except TimeoutError:
            raise answers.AnswersUnavailable from None
        if stored is None:
            return False
        if stored.body_digest != identity.body:
            await self._fail(MISMATCH)
            return True
        flight.original = stored.request_id
        if body is None:
            await self._fail(not_kept(stored.request_id))
        elif not flight.begun:
            flight.show(stored.status, stored.headers, body)
        elif stored.status < _ERRORS:
            await flight.add(body, is_tail=True)
        else:
            text = body.decode(errors="replace")[:_TEXT_MAX]
            await self._fail(Fault(Code.UPSTREAM_REFUSED_REQUEST, text, source="upstream"))
        return True

    async def _fail(self, fault: Fault) -> None:
        flight = self._flight
        flight.fault = fault
        if flight.begun and flight.lead is not None:
            await flight.add(late_words(flight.lead, fault, as_array=self._as_array), is_tail=True)


def _find(identity: Identity, runtime: Runtime) -> tuple[answers.Stored | None, bytes | None]:
    """Read and unpack; runs in a thread."""
    stored = answers.find(identity.line_id, identity.key, runtime.now())
    return stored, unpack(stored.body) if stored is not None and stored.body is not None else None


def _sealed(fault: Fault) -> str:
    """An upstream's words may quote the request: they stand nowhere in plain text."""
    return box().encrypt(told(fault).encode()).decode()


def _opened(text: str) -> Fault:
    return heard(box().decrypt(text.encode()).decode())
