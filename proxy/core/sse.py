"""Server-sent events as bytes: cut a stream into events without changing one of them.

An event is its lines and the blank line that ends it (WHATWG HTML, 9.2.6). A line ends in CRLF, LF or CR. A blank
line on its own is an event too, so the cut does not depend on how the network split the bytes, and joining the raw
bytes of all events gives the stream back. Only a CR that ends a read waits for the next byte: it may be half a CRLF.
"""

import re
from typing import Final

MAX_EVENT_BYTES: Final = 16 * 1024 * 1024

_BOM: Final = b"\xef\xbb\xbf"
_LF: Final = 10
_CR: Final = 13
# Atomic groups (Python 3.11): without them "\r\n" would also match as CR, then LF, and count for a blank line.
_EVENT_END: Final = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")


class EventTooLongError(Exception):
    """An event grew past the stated maximum before its blank line came."""


class Event:
    """One event: `raw` are its exact bytes, the ending blank line included.

    The rest is read on demand. `complete` is False only for what `Framer.close()` found without its blank line.
    """

    __slots__ = ("_fields", "complete", "raw")

    def __init__(self, raw: bytes, *, complete: bool = True) -> None:
        self.raw = raw
        self.complete = complete
        self._fields: tuple[tuple[bytes, bytes], ...] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Event) and (self.raw, self.complete) == (other.raw, other.complete)

    def __hash__(self) -> int:
        return hash((self.raw, self.complete))

    def __repr__(self) -> str:
        return f"Event({self.raw!r}, complete={self.complete})"

    @property
    def fields(self) -> tuple[tuple[bytes, bytes], ...]:
        """All (name, value) lines in order, comments left out; at most one blank after the colon is dropped."""
        if self._fields is None:
            self._fields = _read_fields(self.raw)
        return self._fields

    @property
    def name(self) -> str:
        """Value of the last `event:` line; empty when there is none."""
        names = [value for field, value in self.fields if field == b"event"]
        return names[-1].decode("utf-8", "replace") if names else ""

    @property
    def data(self) -> bytes:
        """The `data:` lines joined by LF; empty when there are none (see `has_data`)."""
        raw = self.raw
        if raw.startswith(b"data: ") and raw.endswith(b"\n\n") and raw.find(b"\n") == len(raw) - 2 and b"\r" not in raw:
            return raw[6:-2]
        return b"\n".join(value for field, value in self.fields if field == b"data")

    @property
    def has_data(self) -> bool:
        """True when a `data:` line exists, be it empty: only then does a client's parser see an event."""
        return any(field == b"data" for field, _ in self.fields)

    def value(self, field: bytes) -> bytes | None:
        """The first value of a field such as `id`, or llama.cpp's `error`; None when absent."""
        return next((value for name, value in self.fields if name == field), None)

    def terminated(self) -> bytes:
        """The raw bytes, with the blank line that an incomplete event lacks: SDKs drop an event without one."""
        if self.complete:
            return self.raw
        return self.raw + (b"\n" if self.raw.endswith((b"\n", b"\r")) else b"\n\n")


class Framer:
    """Cuts reads of any size into events. Time is linear in the bytes fed, however small the reads are.

    `feed` raises EventTooLongError once more than `limit` bytes wait for their blank line. Memory is bounded by the
    limit and one read.
    """

    __slots__ = ("_held", "_limit", "_searched", "_seen_cr")

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        self._limit = limit
        self._held = bytearray()
        self._searched = 0  # no event ends before this offset of the held bytes
        self._seen_cr = False

    @property
    def held(self) -> int:
        """Bytes that wait for the end of their event."""
        return len(self._held)

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that are complete now."""
        if not self._seen_cr and b"\r" in chunk:
            self._seen_cr = True
        if not self._held and not self._seen_cr and chunk[:1] != b"\n" and chunk.find(b"\n\n") == len(chunk) - 2 >= 0:
            return [Event(chunk)]  # the common case: one event, one read
        cut = _cut_any if self._seen_cr else _cut_lf
        if not self._held:
            events, rest = cut(chunk, 0)
            if rest < len(chunk):
                self._held = bytearray(chunk[rest:])
        else:
            self._held += chunk
            events, rest = cut(self._held, self._searched)
            del self._held[:rest]
        size = len(self._held)
        if size > self._limit:
            raise EventTooLongError(f"event longer than {self._limit} bytes")
        # An end has at most four bytes, so three of these can belong to it.
        self._searched = max(0, size - 3)
        return events

    def close(self) -> list[Event]:
        """Return what was left when the stream ended: at most one event, incomplete unless a lone CR ended it."""
        raw, self._held, self._searched = bytes(self._held), bytearray(), 0
        if not raw:
            return []
        return [Event(raw, complete=_ends_blank(raw))]


def _cut_lf(buffer: bytes | bytearray, searched: int) -> tuple[list[Event], int]:
    """Return the complete events and the offset where the rest begins."""
    events: list[Event] = []
    start, size = 0, len(buffer)
    while start < size:
        if buffer[start] == _LF:  # a blank line on its own
            end = start + 1
        else:
            end = buffer.find(b"\n\n", max(start, searched)) + 2
            if end == 1:
                break
        events.append(Event(bytes(buffer[start:end])))
        start = end
    return events, start


def _cut_any(buffer: bytes | bytearray, searched: int) -> tuple[list[Event], int]:
    """The same for a stream that has shown a CR."""
    events: list[Event] = []
    start, size = 0, len(buffer)
    while start < size:
        found = _LINE_END.match(buffer, start) or _EVENT_END.search(buffer, max(start, searched))
        if found is None or (found.end() == size and buffer[-1] == _CR):  # LF may follow
            break
        events.append(Event(bytes(buffer[start : found.end()])))
        start = found.end()
    return events, start


def _ends_blank(raw: bytes) -> bool:
    found = _LINE_END.fullmatch(raw) or _EVENT_END.search(raw)
    return found is not None and found.end() == len(raw)


def _read_fields(raw: bytes) -> tuple[tuple[bytes, bytes], ...]:
    fields = []
    body = raw.removeprefix(_BOM)
    for line in _LINE_END.split(body) if b"\r" in body else body.split(b"\n"):
        name, _, value = line.partition(b":")
        if name:
            fields.append((name, value.removeprefix(b" ")))
    return tuple(fields)
