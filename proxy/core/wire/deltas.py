"""What a translated stream is made of between its two dialects, and how parts are put in line.

A reader turns an upstream's events into deltas, a writer turns deltas into the client's events. Parts are known by
keys. OpenAI-like upstreams may write several tool calls alternately; Messages and Responses clients expect one part
after the other, so the parts that are not their turn wait in a Queue.
"""

from dataclasses import dataclass, field
from typing import Protocol

from billing.core.usage import Usage
from proxy.core.wire.form import Body, Citation, Request, Signature, Stop
from tenants.core.values import valueclass

Key = tuple[str, int, int]


@valueclass(frozen=True, slots=True)
class Begin:
    """The answer's id and creation time, as far as the upstream tells."""

    id: str
    created: int = 0


@valueclass(frozen=True, slots=True)
class Open:
    """A part begins. `kind` is text, thinking, refusal or tool; the rest belongs to a tool call."""

    key: Key
    kind: str
    call_id: str = ""
    name: str = ""
    signature: Signature | None = None
    custom: bool = False


@valueclass(frozen=True, slots=True)
class Add:
    """Text, or a piece of a call's arguments."""

    key: Key
    text: str


@valueclass(frozen=True, slots=True)
class Sign:
    """The signature of a thinking part."""

    key: Key
    signature: Signature


@valueclass(frozen=True, slots=True)
class Cite:
    key: Key
    citation: Citation


@valueclass(frozen=True, slots=True)
class Close:
    key: Key


@valueclass(frozen=True, slots=True)
class Finish:
    """The upstream's stop reason."""

    stop: Stop
    stop_sequence: str | None = None


@valueclass(frozen=True, slots=True)
class Broken:
    """The upstream says that generating failed."""

    message: str


PartDelta = Open | Add | Sign | Cite | Close
Delta = Begin | PartDelta | Finish | Broken


class Reader(Protocol):
    """Reads one upstream's stream."""

    def feed(self, payload: Body) -> list[Delta]:
        """The deltas of one event."""


@valueclass(frozen=True, slots=True)
class Shown:
    """What a writer needs to know: the client's request, the model name it knows, an id and time to fall back on."""

    request: Request
    model: str
    seed: str
    created: int


class Writer(Protocol):
    """Writes one client's stream."""

    def begin(self, delta: Begin) -> list[bytes]:
        """The opening events."""

    def part(self, delta: PartDelta) -> list[bytes]:
        """The events of one step of a part."""

    def end(self, finish: Finish, usage: Usage | None) -> list[bytes]:
        """The closing events. All parts are closed."""


@dataclass(slots=True)
class Parts:
    """The parts that are open, oldest first; closes what a reader left open."""

    opened: dict[Key, Open] = field(default_factory=dict)

    def see(self, delta: PartDelta) -> bool:
        """Note a delta; False when its part is not open, and the delta must be dropped."""
        if isinstance(delta, Open):
            self.opened[delta.key] = delta
            return True
        if delta.key not in self.opened:
            return False
        if isinstance(delta, Close):
            del self.opened[delta.key]
        return True

    def closing(self) -> list[PartDelta]:
        """The deltas that close everything."""
        return [Close(key) for key in self.opened]


@dataclass(slots=True)
class Queue:
    """Lets one part through at a time, in the order in which they began; the others wait, bounded by the answer."""

    _current: Key | None = None
    _waiting: dict[Key, list[PartDelta]] = field(default_factory=dict)

    def take(self, delta: PartDelta) -> list[PartDelta]:
        """The deltas whose turn it is now."""
        if self._current is None and isinstance(delta, Open):
            self._current = delta.key
        if delta.key != self._current:
            self._waiting.setdefault(delta.key, []).append(delta)
            return []
        if not isinstance(delta, Close):
            return [delta]
        return [delta, *self._advance()]

    def _advance(self) -> list[PartDelta]:
        found: list[PartDelta] = []
        self._current = None
        while self._waiting and self._current is None:
            self._current = next(iter(self._waiting))
            waited = self._waiting.pop(self._current)
            found += waited
            if isinstance(waited[-1], Close):
                self._current = None
        return found
