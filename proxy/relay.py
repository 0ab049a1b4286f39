"""Room five: the answer's bytes to the client, its usage and end on the side."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from proxy.core.answer import Answer, Passage
from proxy.core.call import Call
from proxy.core.chain import Try
from proxy.core.sse import Event, EventTooLongError
from proxy.transport import BrokeError

_LOOK_AGAIN_S = 0.1
LATE_S = 1.0  # how long the end is held for what an upstream sends behind it


class StreamFailedError(Exception):
    """The upstream's answer broke after content had reached the client.

    `fault` is a transport word, or None when an error event said it; `said` are that event's data.
    """

    def __init__(self, fault: str | None, said: bytes) -> None:
        super().__init__(fault or "error event")
        self.fault = fault
        self.said = said


class Silence:
    """Drops an answer that sends no content for too long. One timer per stream, not one per chunk.

    Time that the client takes to read does not count: it is no fault of the upstream's.
    """

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._held_since: float | None = None
        self._timer = self._loop.call_later(answer.silence_s, self._look)

    def hold(self, passage: Passage) -> None:
        """The client is given something, content or not: the wait that follows is its own."""
        self._held_since = self._loop.time()
        if passage.content:
            passage.content = False
            self._last = self._held_since

    def go_on(self) -> None:
        """The client has taken it."""
        if self._held_since is not None:
            self._last += self._loop.time() - self._held_since
            self._held_since = None

    def stop(self) -> None:
        """Watch no longer."""
        self._timer.cancel()

    def _look(self) -> None:
        now = self._loop.time()
        left = self._last + self._answer.silence_s - (now if self._held_since is None else self._held_since)
        if left > 0 or self._held_since is not None:
            self._timer = self._loop.call_later(max(left, _LOOK_AGAIN_S), self._look)
        else:
            self._answer.source.abort("silence", f"no content for {self._answer.silence_s:g} s")


async def chunks(
    call: Call, answer: Answer, passage: Passage, clock: Callable[[], float]
) -> AsyncIterator[tuple[bytes, bool]]:
    """Yield (bytes, is_last); the last part comes once, possibly empty, after the upstream said all it had.

    Raises StreamFailedError when the answer ends before its dialect's end.
    """
    silence = Silence(answer)
    try:
        part = passage.take(answer.opening)
        answer.opening = []
        while True:
            if part:
                _delivered(call, answer, clock)
                silence.hold(passage)
                yield part, False
                silence.go_on()
            if passage.error is not None:  # what came before it, in the same read, is the client's
                raise StreamFailedError(None, passage.error.data)
            if passage.ended:
                break
            events = await _next(answer)
            if events is None:
                part = passage.take(answer.framer.close())
                break
            part = passage.take(events)
    finally:
        silence.stop()
    await _hear_out(answer, passage)
    if passage.error is not None:
        raise StreamFailedError(None, passage.error.data)
    if not passage.ended and not passage.finished:
        raise StreamFailedError(None, b"")  # whole by HTTP, but no whole answer
    part = (part if not passage.ended else b"") + passage.last()
    if part:
        _delivered(call, answer, clock)  # perhaps all of it stood in the last event
    yield part, True


async def drain(answer: Answer, passage: Passage, *, limit_bytes: int, limit_s: float) -> None:
    """Read an answer on that nobody waits for, within bounds, to learn its usage; then drop it."""
    try:
        async with asyncio.timeout(limit_s):
            await _read_on(answer, passage, limit_bytes)
    except (TimeoutError, BrokeError):
        pass
    finally:
        answer.source.abort()


async def _read_on(answer: Answer, passage: Passage, limit_bytes: int) -> None:
    passage.take(answer.opening)
    read = 0
    while read < limit_bytes and passage.error is None:
        data = await answer.source.chunk()
        if not data:
            passage.take(answer.framer.close())
            return
        read += len(data)
        passage.take(_fed(answer, data))
        if passage.ended and answer.meter is not None and answer.meter.result() is not None:
            return


def settled(call: Call, answer: Answer, passage: Passage, clock: Callable[[], float]) -> Try:
    """Return the answer's try with what was learnt while it was relayed, and how long that took."""
    call.marks |= passage.marks
    usage = answer.meter.result() if answer.meter is not None else None
    took = call.elapsed_ms(clock()) - answer.made.started_ms
    return replace(answer.made, usage=usage, output_bytes=passage.output, ms=took)


async def _next(answer: Answer) -> list[Event] | None:
    """Return the events that came next, perhaps none yet; None at the HTTP end. Raises StreamFailedError."""
    try:
        data = await answer.source.chunk()
        return _fed(answer, data) if data else None
    except BrokeError as problem:
        raise StreamFailedError(problem.fault, b"") from problem


def _fed(answer: Answer, data: bytes) -> list[Event]:
    try:
        return answer.framer.feed(data)
    except EventTooLongError as problem:
        raise BrokeError("malformed", str(problem)) from problem


async def _hear_out(answer: Answer, passage: Passage) -> None:
    """After the end, take what an upstream still sends (usage behind `[DONE]`) until EOF, at most a second."""
    if not passage.ended:
        return
    try:
        async with asyncio.timeout(LATE_S):
            while data := await answer.source.chunk():
                passage.take(_fed(answer, data))
            passage.take(answer.framer.close())
    except (TimeoutError, BrokeError):
        answer.source.abort()
    else:
        answer.source.release()


def _delivered(call: Call, answer: Answer, clock: Callable[[], float]) -> None:
    ending = call.ending
    if not ending.delivered:
        ending.delivered = True
        if ending.first_content_ms is None:
            ending.first_content_ms = call.elapsed_ms(clock())
        answer.made = replace(answer.made, content=True)
        call.chain = call.chain.with_last(answer.made)
