"""Streams that are no server-sent events: Gemini's JSON array, and plain bytes such as sound.

They are cut into events all the same, so that one relay serves them all; joined again, the raw bytes are the stream.
"""

import re
from typing import Final, Protocol

from proxy.core.sse import MAX_EVENT_BYTES, Event, EventTooLongError

_TOKEN: Final = re.compile(rb'["\\{}\[\]]')


class Cutter(Protocol):
    """Cuts reads of any size into events."""

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that are complete now. Raises EventTooLongError."""

    def close(self) -> list[Event]:
        """Return what was left when the stream ended."""


class Item(Event):
    """An object of the array. `raw` has what stood in front of it too: the bracket or the comma."""

    __slots__ = ()

    def __init__(self, raw: bytes, data: bytes, *, complete: bool = True) -> None:
        super().__init__(raw, complete=complete)
        self._fields = ((b"data", data),)


class BytesCutter:
    """Every read is an event."""

    def feed(self, chunk: bytes) -> list[Event]:
        return [Event(chunk)]

    def close(self) -> list[Event]:
        return []


class ArrayCutter:
    """Cuts a JSON array into its objects. Time is linear in the bytes fed.

    `closing` is what follows the last object, the bracket included; empty until it came.
    """

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        self._limit = limit
        self._held = bytearray()
        self._searched = 0
        self._begin = 0  # where the object under way starts
        self._depth = 0  # 1 = inside the array, between its objects
        self._quoted = False
        self.closing = b""

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the objects that are complete now. Raises EventTooLongError."""
        if self.closing:
            self.closing += chunk
            return []
        self._held += chunk
        found: list[Event] = []
        done = 0
        while (at := self._next()) >= 0:
            if self._held[at] == ord("\\") and at + 1 == len(self._held):
                break  # what is escaped has not come yet
            self._searched = at + (2 if self._held[at] == ord("\\") else 1)
            end = self._step(self._held[at], at)
            if end is not None and self._depth == 0:
                self.closing = bytes(self._held[done:])
                break
            if end is not None:
                found.append(Item(bytes(self._held[done:end]), bytes(self._held[self._begin : end])))
                done = end
        else:
            self._searched = len(self._held)
        self._drop(done)
        return found

    def close(self) -> list[Event]:
        """Return what is left of an object that was cut; nothing behind a whole array."""
        rest, self._held = bytes(self._held), bytearray()
        if self.closing or not rest.strip():
            return []
        return [Item(rest, rest.lstrip(b"[, \t\r\n"), complete=False)]

    def _next(self) -> int:
        """Return the place of the next mark; -1 = none has come. No match is kept: it would lock the buffer."""
        match = _TOKEN.search(self._held, self._searched)
        return match.start() if match else -1

    def _step(self, mark: int, at: int) -> int | None:
        """Take one mark into account; return the end of the object, or of the array, that it completes."""
        if self._quoted:
            self._quoted = mark != ord('"')
        elif mark == ord('"'):
            self._quoted = True
        elif mark in b"{[":
            self._depth += 1
            if self._depth == 2:  # noqa: PLR2004  # the array, an object
                self._begin = at
        elif mark != ord("\\"):
            self._depth -= 1
            if self._depth <= 1:
                return at + 1
        return None

    def _drop(self, done: int) -> None:
        if self.closing:
            self._held.clear()
            return
        del self._held[:done]
        self._searched -= done
        self._begin -= done
        if len(self._held) > self._limit:
            raise EventTooLongError(f"object longer than {self._limit} bytes")
