"""The beginning of an upstream's answer, up to its first content: is it an answer at all?

A 200 is not success. HTML, JSON where a stream was asked, an error event, or nothing is a failed attempt; nothing of
it has reached the client by then.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from keys.core.dialect import Dialect
from keys.core.outcome import Phase, Reply
from proxy.core.answer import SSE
from proxy.core.endpoints import Meter
from proxy.core.pieces import ArrayCutter, BytesCutter, Cutter
from proxy.core.sse import Event, EventTooLongError, Framer
from proxy.core.wire.jsontext import loads
from proxy.core.wire.reading import Kind, event_payload, has_content, is_error, is_whole, kind
from proxy.transport import BrokeError, Exchange, Outgoing, Transport

ERROR_BODY_MAX: Final = 65536
WHOLE_MAX: Final = 128 * 1024 * 1024
FULL_BYTES: Final = 4 * 1024 * 1024
FULL_S: Final = 120.0
_STREAM_STARTS: Final = (b"data:", b"event:", b":", b"id:", b"retry:")
_BLANK: Final = b"\xef\xbb\xbf \t\r\n"
_NO_SOUND: Final = frozenset({"application/json", "text/html", "text/plain"})
_TEXTS: Final = frozenset({"", "text/plain", "text/vtt", "text/srt", "application/x-subrip"})
_SPEAKING: Final = frozenset(
    {"chat/completions", "completions", "responses", "messages", "generateContent", "streamGenerateContent"}
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the attempt asked for. `silence_s` bounds the wait for content; the opening is at most `hold_bytes`.

    `full`: a stream is held back whole, within bounds.
    """

    operation: str
    dialect: Dialect
    stream: bool
    silence_s: float
    hold_bytes: int
    full: bool = False
    meter: Meter = Meter.TOKENS


@dataclass(slots=True)
class Opened:
    """`failed` is the reply of an attempt that did not begin an answer; else a whole body, or a stream's opening."""

    failed: Reply | None = None
    whole: bytes | None = None
    payload: Any = None
    events: Sequence[Event] = ()
    framer: Cutter = field(default_factory=Framer)
    content_type: str = SSE


async def send_and_open(transport: Transport, outgoing: Outgoing, asked: Asked) -> tuple[Exchange, Opened]:
    """Send a request and read its answer's beginning. Cancelled, it drops the connection."""
    until = asyncio.get_running_loop().time() + asked.silence_s  # the head is no content: one silence for both
    try:
        async with asyncio.timeout_at(until):
            exchange = await transport.send(outgoing)
    except TimeoutError:
        exchange = Exchange(fault="silence", fault_text=f"no answer within {asked.silence_s:g} s")
    try:
        return exchange, await open_answer(exchange, asked, until)
    except asyncio.CancelledError:
        exchange.abort()
        raise


async def open_answer(exchange: Exchange, asked: Asked, until: float) -> Opened:
    """Read until first content (by the loop's time `until`) or the whole body. Never raises for an upstream's faults.

    A stream that is to be held whole is read on to its end.
    """
    if exchange.status is None:
        return Opened(failed=Reply(status=None, fault=exchange.fault, dialect=asked.dialect))
    held: list[Event] = []
    opened = await _opened(exchange, asked, held, until)
    if opened.failed is not None:
        opened.events = held  # they may tell what the attempt used
    return opened


async def _opened(exchange: Exchange, asked: Asked, held: list[Event], until: float) -> Opened:
    try:
        async with asyncio.timeout_at(until):
            opened = await _open(exchange, asked, held)
        held_whole = asked.full and opened.failed is None and opened.whole is None and opened.content_type == SSE
        return await _fill(exchange, asked, opened, held) if held_whole else opened
    except TimeoutError:
        return Opened(failed=_reply(exchange, asked, b"", fault="silence"))
    except BrokeError as problem:
        return Opened(failed=_reply(exchange, asked, b"", fault=problem.fault))
    except EventTooLongError as problem:
        return Opened(failed=_reply(exchange, asked, str(problem).encode(), usable=False))


async def _open(exchange: Exchange, asked: Asked, held: list[Event]) -> Opened:
    if exchange.status is None or not 200 <= exchange.status < 300:  # noqa: PLR2004  # the class of successes
        return Opened(failed=_reply(exchange, asked, await exchange.read(ERROR_BODY_MAX)))
    if asked.meter is Meter.MEDIA:
        return await _open_media(exchange, asked, held)
    if asked.stream:
        return await _open_stream(exchange, asked, held)
    return _judge_whole(exchange, asked, await exchange.read(WHOLE_MAX))


async def _open_media(exchange: Exchange, asked: Asked, held: list[Event]) -> Opened:
    """Sound, pictures, transcripts: what comes back depends on the model as much as on the request."""
    told = exchange.headers.get("content-type", "")
    named = told.partition(";")[0].strip().lower()
    if named == "text/event-stream":
        return await _open_stream(exchange, asked, held)
    if asked.operation == "audio/speech" and named not in _NO_SOUND:
        first = await exchange.chunk()
        if not first:
            return Opened(failed=_reply(exchange, asked, b"", usable=False))
        return Opened(events=[Event(first)], framer=BytesCutter(), content_type=told or "application/octet-stream")
    body = await exchange.read(WHOLE_MAX)
    if named in _TEXTS and body.strip() and not body.lstrip().startswith((b"{", b"<")):
        return Opened(whole=body)
    return _judge_whole(exchange, asked, body)


async def _open_stream(exchange: Exchange, asked: Asked, held: list[Event]) -> Opened:
    first = b""
    while (begins := _begins_stream(first, asked.dialect)) is None:
        data = await exchange.chunk()
        if not data:
            return Opened(failed=_reply(exchange, asked, first, usable=False))
        first += data
    if not begins:
        body = first + await exchange.read(ERROR_BODY_MAX)
        return Opened(failed=_reply(exchange, asked, body, usable=False))
    framer: Cutter = ArrayCutter() if first.lstrip(_BLANK).startswith(b"[") else Framer()
    size, data = 0, first
    while True:
        size += len(data)
        fresh = framer.feed(data) if data else framer.close()
        held.extend(fresh)
        verdict = _look(fresh, asked, exchange)
        if verdict is None and size > asked.hold_bytes:
            verdict = Opened()
        if verdict is not None:
            verdict.events, verdict.framer = held, framer
            return verdict
        if not data:
            return Opened(failed=_reply(exchange, asked, b"", usable=False))
        data = await exchange.chunk()


async def _fill(exchange: Exchange, asked: Asked, opened: Opened, held: list[Event]) -> Opened:
    """Hold the whole answer back, so that even its death fails over; past 4 MiB or 120 s the opening is committed."""
    size = 0
    try:
        async with asyncio.timeout(FULL_S):
            size = await _read_full(exchange, asked, opened, held)
    except TimeoutError:
        return opened
    end = _end_of(held, asked)
    if end is None and size < FULL_BYTES and all(kind(asked.dialect, event) is not Kind.FINISH for event in held):
        return Opened(failed=_reply(exchange, asked, b"", fault="closed"))
    if end is not None and kind(asked.dialect, end) is not Kind.END:
        said = end.data or end.value(b"error") or b""
        return Opened(failed=_reply(exchange, asked, said, phase=Phase.BEFORE_CONTENT))
    return opened


async def _read_full(exchange: Exchange, asked: Asked, opened: Opened, held: list[Event]) -> int:
    """Read to the stream's end or the bound; return how many bytes are held. Raises BrokeError, also for silence."""
    loop = asyncio.get_running_loop()
    events: Sequence[Event] = held
    size = sum(len(event.raw) for event in held)
    try:
        async with asyncio.timeout(asked.silence_s) as silence:
            data = b"more"
            while data and _end_of(events, asked) is None and size < FULL_BYTES:
                data = await exchange.chunk()
                events = opened.framer.feed(data) if data else opened.framer.close()
                held.extend(events)
                size += len(data)
                said = any(kind(asked.dialect, event) is not Kind.QUIET for event in events)
                silence.reschedule(loop.time() + asked.silence_s if said else silence.when())
    except TimeoutError:
        raise BrokeError("silence", f"no content for {asked.silence_s:g} s") from None
    return size


def _end_of(events: Sequence[Event], asked: Asked) -> Event | None:
    """Return the event that ends a stream: the dialect's end, an error, or half an event."""
    for event in events:
        if kind(asked.dialect, event) in (Kind.END, Kind.ERROR) or not is_whole(event):
            return event
    return None


def _begins_stream(first: bytes, dialect: Dialect) -> bool | None:
    """Tell whether an answer that starts like this is a stream; None = too short to tell. Gemini also sends arrays."""
    start = first.lstrip(_BLANK)
    if start.startswith(_STREAM_STARTS) or (dialect is Dialect.GEMINI and start.startswith(b"[")):
        return True
    return None if any(one.startswith(start) for one in _STREAM_STARTS) else False


def _look(held: Sequence[Event], asked: Asked, exchange: Exchange) -> Opened | None:
    """Return what the held events decide; None = still nothing said."""
    for event in held:
        what = kind(asked.dialect, event)
        if what is Kind.ERROR or not is_whole(event):
            data = event.data or event.value(b"error") or b""
            return Opened(failed=_reply(exchange, asked, data, phase=Phase.BEFORE_CONTENT))
        if what is Kind.END and event_payload(event) is None:
            # `[DONE]` before anything was said.
            return Opened(failed=_reply(exchange, asked, b"", usable=False))
        if what is not Kind.QUIET:
            return Opened()
    return None


def _judge_whole(exchange: Exchange, asked: Asked, body: bytes) -> Opened:
    try:
        payload = loads(body)
    except ValueError:
        return Opened(failed=_reply(exchange, asked, body[:ERROR_BODY_MAX], usable=False))
    if asked.meter is Meter.STORED:
        return Opened(whole=body, payload=payload)  # a response that failed is what was asked for
    said = has_content(asked.dialect, payload) or _stopped(payload) or asked.operation not in _SPEAKING
    if is_error(payload) or not said:
        return Opened(failed=_reply(exchange, asked, body[:ERROR_BODY_MAX], usable=False))
    return Opened(whole=body, payload=payload)


def _stopped(payload: Any) -> bool:
    """An answer may be empty: a stop reason says that it is one."""
    if not isinstance(payload, dict):
        return False
    choices = payload.get("choices")
    if isinstance(choices, list):
        return any(isinstance(choice, dict) and choice.get("finish_reason") for choice in choices)
    return bool(payload.get("stop_reason")) or payload.get("status") in ("completed", "incomplete", "queued")


def _reply(
    exchange: Exchange,
    asked: Asked,
    body: bytes,
    *,
    phase: Phase = Phase.NONE,
    fault: str | None = None,
    usable: bool = True,
) -> Reply:
    return Reply(
        status=exchange.status,
        headers=exchange.headers,
        body=body,
        phase=phase,
        fault=fault,
        usable=usable,
        dialect=asked.dialect,
    )
