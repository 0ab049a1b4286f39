"""A keyed call under way, as one process sees it: what it came to so far, for every client that waits for it.

One writes, each client reads at its own pace from a seat of its own. What is written stays until all is over, so that
who comes late reads from the start; an answer that grows too large for that takes no more clients and waits for the
slowest it has.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping

from proxy.core.call import Call
from proxy.core.errors import Fault
from proxy.core.idempotency import KEPT_MAX

_AHEAD_MAX = 1 << 20  # bytes that a slow client may be behind, once the answer is too large to be kept whole


class Flight:
    """Belongs to one event loop.

    `owner`: the call that runs upstream from here; None while that is not known, or where it runs elsewhere.
    `original`: id of the request whose answer this is. `fault`: what went wrong, before the answer began or in it.
    """

    def __init__(self) -> None:
        self.seats: list[Seat] = []
        self.owner: Call | None = None
        self.original = ""
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.begun = False
        self.is_whole = False  # no stream: the body is there at once
        self.fault: Fault | None = None
        self.is_cut = False  # broke off without a word
        self.over = False
        self._parts: list[tuple[bytes, bool]] = []
        self._dropped = 0  # parts that nobody needs any more
        self._size = 0
        self._news = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether who comes now could not read from the start."""
        return self._dropped > 0

    @property
    def lead(self) -> Call | None:
        """The call that came first of those still waiting."""
        return self.seats[0].call if self.seats else None

    @property
    def body(self) -> bytes:
        """What is there of the body."""
        return b"".join(part for part, _is_tail in self._parts)

    def join(self, call: Call) -> "Seat":
        """Let a client wait for it."""
        seat = Seat(self, call)
        self.seats.append(seat)
        return seat

    def waits(self, call: Call) -> bool:
        """Whether a call's client is still there."""
        return any(seat.call is call for seat in self.seats)

    def own(self, call: Call) -> None:
        """From here on a call runs, whoever leaves."""
        self.owner, self.original, call.replay_of = call, call.received.request_id, ""

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """The answer's head is known; its body follows."""
        if not self.begun:
            self.begun, self.status, self.headers = True, status, headers
            self._tell()

    def show(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """The answer is there, whole."""
        self.is_whole = True
        self._parts.append((body, True))
        self.begin(status, headers)

    async def add(self, part: bytes, *, is_tail: bool = False) -> None:
        """Append to the body. `is_tail`: the call is recorded, these are its last bytes."""
        if not part:
            return
        self._parts.append((part, is_tail))
        self._size += len(part)
        self._tell()
        while self._size > KEPT_MAX and not self._has_room():
            await self.news()

    def end(self) -> None:
        """Nothing follows."""
        self.over = True
        self._tell()

    def at(self, place: int) -> tuple[bytes, bool] | None:
        """Return one part, None when there is no such part yet."""
        index = place - self._dropped
        return self._parts[index] if index < len(self._parts) else None

    def moved(self) -> None:
        """A client read on or left."""
        if self._size > KEPT_MAX:
            self._tell()

    async def news(self) -> None:
        """Wait until something changes."""
        await self._news.wait()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _has_room(self) -> bool:
        """Drop what all have read; tell whether the slowest client is near enough."""
        read = min((seat.place for seat in self.seats), default=self._dropped + len(self._parts))
        del self._parts[: read - self._dropped]
        self._dropped = read
        return sum(len(part) for part, _is_tail in self._parts) <= _AHEAD_MAX


class Seat:
    """One client's place at a flight."""

    def __init__(self, flight: Flight, call: Call) -> None:
        self.flight, self.call = flight, call
        self.place = 0

    @property
    def is_owners(self) -> bool:
        """Whether this client's own call is the one that runs."""
        return self.flight.owner is self.call

    async def opened(self) -> None:
        """Wait until there is something to tell the client."""
        while not (self.flight.begun or self.flight.over):
            await self.flight.news()

    async def parts(self) -> AsyncIterator[tuple[bytes, bool]]:
        """Yield (bytes, whether they are of the tail) to the end."""
        while True:
            while (part := self.flight.at(self.place)) is not None:
                self.place += 1
                yield part
                self.flight.moved()
            if self.flight.over:
                return
            await self.flight.news()

    def leave(self) -> None:
        """The client needs nothing more. Safe to repeat."""
        if self in self.flight.seats:
            self.flight.seats.remove(self)
            self.flight.moved()
