"""How the fake upstream says it: framing, pieces, codings, wrong lengths, silences and broken ends.

A reply becomes a list of steps for the server: Write, Wait, Hold, End. Nothing here does I/O.
"""

import asyncio
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus

import brotli
from backports import zstd

from tests.fake.content import Event


class Gate:
    """A point at which the server waits until the test opens it."""

    def __init__(self) -> None:
        self._opened: Future[None] = Future()

    def open(self) -> None:
        if not self._opened.done():
            self._opened.set_result(None)

    async def passed(self) -> None:
        loop = asyncio.get_running_loop()
        opened = asyncio.Event()

        def wake(_: Future[None]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(opened.set)

        self._opened.add_done_callback(wake)
        await opened.wait()


class Length(StrEnum):
    """How the end of a body is told."""

    CHUNKED = "chunked"
    STATED = "stated"  # content-length
    CLOSE = "close"  # end of connection


class Ending(StrEnum):
    """What happens to the connection behind the last byte sent."""

    KEEP = "keep"
    CLOSE = "close"  # FIN, though nothing announced it
    RESET = "reset"  # RST
    STALL = "stall"  # nothing more, until the client goes


@dataclass(frozen=True, slots=True)
class Delivery:
    """Everything about an answer's bytes but their meaning.

    Positions count body bytes as they travel, codings included and chunk framing excluded.
    Chunked bodies carry one chunk per write.
    """

    headers: tuple[tuple[str, str], ...] = ()
    informational: tuple[int, ...] = ()  # 1xx answers before the real one
    newline: bytes = b"\n"
    data_prefix: bytes = b"data: "
    last_blank: bool = True  # the blank line behind the last event
    comments: tuple[str, ...] = ()  # before the first event
    single_write: bool = False  # the whole body at once
    cuts: tuple[int, ...] = ()  # body positions at which a new write begins
    every: int = 0  # > 0: so many bytes a write
    cut_delay_s: float = 0.002  # between cut pieces, so that they arrive apart
    head_delay_s: float = 0.0
    head_every: int = 0  # > 0: the head itself is sent so many bytes a write, cut_delay_s apart
    first_delay_s: float = 0.0  # between head and body
    delay_s: float = 0.0  # between events
    holds: tuple[tuple[int, Gate], ...] = ()  # (n, gate): before piece n (events and comments), -1 = before the head
    coding: str = ""  # gzip | deflate | br | zstd
    length: Length | None = None  # None = chunked for streams, stated otherwise
    length_off: int = 0  # added to the stated length
    stop_bytes: int | None = None  # end behind so many body bytes, without terminator
    stop_events: int | None = None  # the same, behind so many pieces (events and comments)
    ending: Ending = Ending.KEEP


@dataclass(frozen=True, slots=True)
class Write:
    data: bytes


@dataclass(frozen=True, slots=True)
class Wait:
    seconds: float


@dataclass(frozen=True, slots=True)
class Hold:
    gate: Gate


@dataclass(frozen=True, slots=True)
class End:
    ending: Ending


Step = Write | Wait | Hold | End


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer before delivery; a piece is one event, or the whole body."""

    status: int
    headers: tuple[tuple[str, str], ...]
    pieces: tuple[bytes, ...]
    streamed: bool = False


def framed(events: Iterable[Event], how: Delivery) -> tuple[bytes, ...]:
    """Server-sent events, one piece each; comments come first."""
    pieces = [b": " + comment.encode() + how.newline * 2 for comment in how.comments]
    for one in events:
        name = b"event: " + one.name.encode() + how.newline if one.name else b""
        pieces.append(name + how.data_prefix + one.data + how.newline * 2)
    if pieces and not how.last_blank:
        pieces[-1] = pieces[-1].removesuffix(how.newline)
    return tuple(pieces)


def array(events: Iterable[Event]) -> tuple[bytes, ...]:
    """Gemini's stream without alt=sse: one JSON array in pieces."""
    pieces = [(b"[" if index == 0 else b",\r\n") + one.data for index, one in enumerate(events)]
    return (*pieces, b"]")


def steps(reply: Reply, how: Delivery, *, head_only: bool = False) -> Iterator[Step]:
    """Yield what the server does for this reply. head_only: the answer to HEAD."""
    gates = dict(how.holds)
    if -1 in gates:
        yield Hold(gates[-1])
    if how.head_delay_s:
        yield Wait(how.head_delay_s)
    pieces = coded(reply.pieces, how.coding)
    length = how.length or (Length.CHUNKED if reply.streamed else Length.STATED)
    yield from _head(reply, how, length, sum(map(len, pieces)))
    if not head_only:
        yield from _body(pieces, how, gates, chunked=length is Length.CHUNKED)
    ending = how.ending
    if ending is Ending.KEEP and (length is Length.CLOSE or how.stop_bytes is not None or how.stop_events is not None):
        ending = Ending.CLOSE
    yield End(ending)


def _head(reply: Reply, how: Delivery, length: Length, size: int) -> Iterator[Step]:
    lines = [f"HTTP/1.1 {code} {reason(code)}\r\n\r\n" for code in how.informational]
    yield from (Write(line.encode()) for line in lines)
    headers = [*reply.headers, *how.headers]
    if how.coding:
        headers.append(("content-encoding", how.coding))
    match length:
        case Length.CHUNKED:
            headers.append(("transfer-encoding", "chunked"))
        case Length.STATED:
            headers.append(("content-length", str(size + how.length_off)))
        case Length.CLOSE:
            headers.append(("connection", "close"))
    text = "".join(f"{name}: {value}\r\n" for name, value in headers)
    head = f"HTTP/1.1 {reply.status} {reason(reply.status)}\r\n{text}\r\n".encode()
    places = range(how.head_every, len(head), how.head_every) if how.head_every else ()
    for index, part in enumerate(_cut(head, places)):
        if index:
            yield Wait(how.cut_delay_s)
        yield Write(part)


def _body(pieces: tuple[bytes, ...], how: Delivery, gates: dict[int, Gate], *, chunked: bool) -> Iterator[Step]:
    if how.first_delay_s:
        yield Wait(how.first_delay_s)
    stopped = how.stop_bytes is not None or how.stop_events is not None
    cut = how.single_write or how.every or how.cuts
    pieces = _stopped(pieces, how)
    pause = how.delay_s
    if cut:
        whole = b"".join(pieces)
        places = range(how.every, len(whole), how.every) if how.every else how.cuts
        pieces, pause = tuple(_cut(whole, places)), how.delay_s or how.cut_delay_s
    for index, piece in enumerate(pieces):
        if index in gates:
            yield Hold(gates[index])
        if index and pause:
            yield Wait(pause)
        if piece:
            yield Write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
    if len(pieces) in gates:
        yield Hold(gates[len(pieces)])
    if chunked and not stopped:
        yield Write(b"0\r\n\r\n")


def _stopped(pieces: tuple[bytes, ...], how: Delivery) -> tuple[bytes, ...]:
    pieces = pieces[: how.stop_events]
    if how.stop_bytes is None:
        return pieces
    kept, left = [], how.stop_bytes
    for piece in pieces:
        kept.append(piece[:left])
        left -= len(kept[-1])
    return tuple(kept)


def _cut(data: bytes, places: Iterable[int]) -> Iterator[bytes]:
    last = 0
    for place in places:
        yield data[last:place]
        last = place
    yield data[last:]


def reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


def coded(pieces: Iterable[bytes], coding: str) -> tuple[bytes, ...]:
    """Compress so that each piece can be read as soon as it is there."""
    if not coding:
        return tuple(pieces)
    feed, finish = _coder(coding)
    out = [feed(piece) for piece in pieces] or [b""]
    out[-1] += finish()
    return tuple(out)


def _coder(coding: str) -> tuple[Callable[[bytes], bytes], Callable[[], bytes]]:
    match coding:
        case "gzip" | "deflate":
            flat = zlib.compressobj(wbits=31 if coding == "gzip" else 15)
            return lambda data: flat.compress(data) + flat.flush(zlib.Z_SYNC_FLUSH), flat.flush
        case "br":
            brown = brotli.Compressor()
            return lambda data: brown.process(data) + brown.flush(), brown.finish
        case "zstd":
            tight = zstd.ZstdCompressor()
            return lambda data: tight.compress(data, tight.FLUSH_BLOCK), tight.flush
        case _:
            raise ValueError(f"unknown coding {coding!r}")
