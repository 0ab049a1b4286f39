"""One accepted connection: reads requests exactly as they come, runs their behaviour, notes what became of them.

Runs on the server's own loop. Writes wait until the kernel has taken every byte, so `sent` is what really left.
"""

import asyncio
import fcntl
import socket
import struct
import termios
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson

from tests.fake.delivery import End, Ending, Hold, Step, Wait, Write


@dataclass(slots=True)
class Recorded:
    """One request as it arrived, and what became of its answer. Only the server changes it."""

    number: int  # from 1, in order of arrival
    connection: int  # from 1
    method: str
    target: str  # as sent, query included
    headers: tuple[tuple[str, str], ...]  # exact names, values and order
    body: bytes  # chunked framing removed
    at: float  # time.monotonic()
    key: str  # the credential presented; the first of `credentials`, else ""
    credentials: tuple[tuple[str, str], ...]  # all of them: (where, value)
    sent: int = 0  # bytes of the answer that left, head and framing included
    ended: bool = False  # the behaviour has run to its end, or the client is gone
    hung_up: bool = False  # the client left before the end
    stalled: bool = False  # nothing more will be sent

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> str:
        return urlsplit(self.target).query

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    def header(self, name: str) -> str | None:
        """The value of the first header so named, in any case."""
        return next((value for found, value in self.headers if found.lower() == name.lower()), None)


@dataclass(slots=True)
class Counts:
    """What the server has seen. open = connections now."""

    connections: int = 0
    open: int = 0
    requests: int = 0
    answered: int = 0  # behaviours that ran to their end
    hung_up: int = 0
    malformed: int = 0


@dataclass(frozen=True, slots=True)
class Seat:
    """What a connection shares with its server."""

    counts: Counts
    arrive: Callable[[Recorded], Iterator[Step]]  # records the request, returns its steps
    changed: Callable[[], None]  # wakes the tests that wait for something
    live: set["Connection"] = field(default_factory=set)
    faults: list[BaseException] = field(default_factory=list)  # of the server or of a test's own reaction


class ClientGone(Exception):
    """The peer closed or reset the connection."""


class Connection(asyncio.Protocol):
    transport: asyncio.Transport
    task: asyncio.Task[None]

    def __init__(self, seat: Seat) -> None:
        self.seat = seat
        self.buffer = bytearray()
        self.news = asyncio.Event()  # bytes arrived
        self.gone = asyncio.Event()
        self.drained = asyncio.Event()
        self.number = 0
        self.idle = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        # Not 0: a TLS transport then pauses with nothing left to send, and nothing is left to wake it.
        transport.set_write_buffer_limits(high=1)
        self.drained.set()
        counts = self.seat.counts
        counts.connections += 1
        counts.open += 1
        self.number = counts.connections
        self.seat.live.add(self)
        self.task = asyncio.get_running_loop().create_task(self.serve())
        self.task.add_done_callback(self._served)
        self.seat.changed()

    def _served(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (fault := task.exception()):
            self.seat.faults.append(fault)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        self.news.set()

    def eof_received(self) -> bool:
        self.gone.set()
        self.news.set()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set()
        self.news.set()
        self.drained.set()
        self.seat.live.discard(self)
        self.seat.counts.open -= 1
        self.seat.changed()

    def pause_writing(self) -> None:
        self.drained.clear()

    def resume_writing(self) -> None:
        self.drained.set()

    async def serve(self) -> None:
        try:
            while not self.transport.is_closing():
                await self._exchange()
        except ClientGone:
            pass
        finally:
            self.transport.close()

    async def _exchange(self) -> None:
        try:
            request = await self._request()
        except ValueError:
            self.seat.counts.malformed += 1
            self.transport.close()
            return
        await self._run(request, self.seat.arrive(request))
        if (request.header("connection") or "").lower() == "close":
            self.transport.close()
        self.idle = True

    async def _request(self) -> Recorded:
        method, target, headers = _head(await self._until(b"\r\n\r\n"))
        self.idle = False
        lower = {name.lower(): value for name, value in headers}
        if lower.get("expect", "").lower() == "100-continue":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        credentials = tuple(_credentials(headers, target))
        return Recorded(
            number=0,
            connection=self.number,
            method=method,
            target=target,
            headers=headers,
            body=await self._body(lower),
            at=asyncio.get_running_loop().time(),
            key=credentials[0][1] if credentials else "",
            credentials=credentials,
        )

    async def _run(self, request: Recorded, steps: Iterator[Step]) -> None:
        try:
            for step in steps:
                await self._step(request, step)
            self.seat.counts.answered += 1
        except ClientGone:
            request.hung_up = True
            self.seat.counts.hung_up += 1
            raise
        finally:
            request.ended = True
            self.seat.changed()

    async def _step(self, request: Recorded, step: Step) -> None:
        match step:
            case Write(data):
                await self._write(data)
                request.sent += len(data)
            case Wait(seconds):
                await self._unless_gone(asyncio.sleep(seconds))
            case Hold(gate):
                await self._unless_gone(gate.passed())
            case End(ending):
                await self._end(request, ending)

    async def _write(self, data: bytes) -> None:
        # A write that fails closes the transport at once; connection_lost comes a turn of the loop later,
        # and a loop of writes that never waits would take none.
        if self.gone.is_set() or self.transport.is_closing():
            raise ClientGone
        self.transport.write(data)
        await self.drained.wait()

    async def _end(self, request: Recorded, ending: Ending) -> None:
        match ending:
            case Ending.KEEP:
                return
            case Ending.CLOSE:
                self.transport.close()
            case Ending.RESET:
                await self._taken()
                peer = self.transport.get_extra_info("socket")
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.transport.abort()
            case Ending.STALL:
                request.stalled = True
                self.seat.changed()
                await self.gone.wait()
                raise ClientGone

    async def _taken(self) -> None:
        """Wait until the peer's kernel has every byte: a reset throws away what is still on the way."""
        handle = self.transport.get_extra_info("socket").fileno()
        for _ in range(200):
            left = struct.unpack("i", fcntl.ioctl(handle, termios.TIOCOUTQ, b"\0" * 4))[0]
            if not left or self.gone.is_set():
                return
            await asyncio.sleep(0.005)

    async def _unless_gone(self, waiting: Coroutine[Any, Any, None]) -> None:
        loop = asyncio.get_running_loop()
        wanted = loop.create_task(waiting)
        leaving = loop.create_task(self.gone.wait())
        try:
            await asyncio.wait({wanted, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not wanted.done():
                raise ClientGone
        finally:
            wanted.cancel()
            leaving.cancel()

    # Reading.

    async def _until(self, mark: bytes) -> bytes:
        while (end := self.buffer.find(mark)) < 0:
            await self._more()
        return self._take(end + len(mark))

    async def _exactly(self, size: int) -> bytes:
        while len(self.buffer) < size:
            await self._more()
        return self._take(size)

    def _take(self, size: int) -> bytes:
        taken = bytes(self.buffer[:size])
        del self.buffer[:size]
        return taken

    async def _more(self) -> None:
        if self.gone.is_set():
            raise ClientGone
        self.news.clear()
        await self.news.wait()

    async def _body(self, headers: dict[str, str]) -> bytes:
        if "chunked" in headers.get("transfer-encoding", "").lower():
            body = b""
            while size := int((await self._until(b"\r\n")).split(b";")[0], 16):
                body += (await self._exactly(size + 2))[:-2]
            while await self._until(b"\r\n") != b"\r\n":
                pass
            return body
        return await self._exactly(int(headers.get("content-length", "0")))


def _head(raw: bytes) -> tuple[str, str, tuple[tuple[str, str], ...]]:
    first, *lines = raw.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    method, target, version = first.split(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError(f"not HTTP/1: {first!r}")
    pairs = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise ValueError(f"not a header: {line!r}")
        pairs.append((name, value.strip(" \t")))
    return method, target, tuple(pairs)


def _credentials(headers: tuple[tuple[str, str], ...], target: str) -> Iterator[tuple[str, str]]:
    """Every credential the request carries, as (where, value); Authorization first."""
    lower = [(name.lower(), value) for name, value in headers]
    for name, value in lower:
        if name == "authorization":
            yield name, value.removeprefix("Bearer ").removeprefix("bearer ")
    for wanted in ("x-api-key", "api-key", "x-goog-api-key"):
        yield from ((name, value) for name, value in lower if name == wanted)
    yield from (("key", value) for value in parse_qs(urlsplit(target).query).get("key", ()))
