"""What carries answers that are no server-sent events, and what makes a JSON array of those that are."""

from collections.abc import Sequence

from proxy.core.answer import Answer, Passage
from proxy.core.pieces import ArrayCutter
from proxy.core.sse import Event, Framer
from proxy.core.wire.edits import rename_model


class BytesPassage(Passage):
    """Plain bytes. The last piece waits for the end, as a stream's last event does. A broken one just stops."""

    __slots__ = ("_kept",)

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer)
        self._kept = b""

    def take(self, events: Sequence[Event]) -> bytes:
        """Return the bytes before these."""
        new = b"".join(event.raw for event in events)
        if not new:
            return b""
        self.content = self.finished = True
        ready, self._kept = self._kept, new
        return ready

    def last(self) -> bytes:
        """Return the last piece."""
        return self._kept

    def broken(self, status: int, code: str, message: str, request_id: str) -> bytes:
        """Return nothing: there is no place for words among a sound's bytes."""
        return b""


class ArrayPassage(Passage):
    """A JSON array for a client that asked for one: the upstream's bytes."""

    __slots__ = ("_cutter",)

    def __init__(self, answer: Answer, cutter: ArrayCutter) -> None:
        super().__init__(answer)
        self._cutter = cutter

    def last(self) -> bytes:
        """Return what was held back, and the closing bracket."""
        return b"".join(self._held) + (self._cutter.closing or b"]")

    def _shown(self, event: Event) -> bytes:
        if self._rename is None:
            return event.raw
        front = event.raw.removesuffix(event.data)
        return front + rename_model(event.data, self._rename.sent, self._rename.shown)

    def _hold(self, event: Event, part: bytes) -> None:
        self._held.append(part)


class ArrayWriter:
    """Makes one JSON array of a stream of `data:` events; what is a part of an array already passes as it is."""

    def __init__(self) -> None:
        self._framer = Framer()
        self._begun = False
        self._ended = False

    def feed(self, part: bytes) -> bytes:
        """Return the array's next bytes."""
        if not part.startswith(b"data:"):
            self._begun = True
            self._ended = part.rstrip().endswith(b"]")
            return part
        found = []
        for event in self._framer.feed(part):
            if event.has_data:
                found.append((b",\r\n" if self._begun else b"[") + event.data)
                self._begun = True
        return b"".join(found)

    def close(self) -> bytes:
        """Return the end of the array."""
        if self._ended:
            return b""
        return b"]" if self._begun else b"[]"
