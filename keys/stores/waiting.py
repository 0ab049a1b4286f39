"""Waiting for a slot: the loop around one try, and the waiters of this process in the order they came.

A free slot wakes the longest waiter of its scope; one that leaves, served or not, wakes the next, so that no wake-up is
lost and no crowd wakes for one slot. Who may really go is decided by the try (places in the queue are the store's).
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from keys.core.admission import Admission, AdmitRequest, Block, Hold, ProbeLease
from keys.core.report import Skip, is_broke, key_target

POLL_S = 0.5  # bounds what a lost wake-up costs


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a try may still wait (seconds), since when it waits (seconds since 1970), and where it queues."""

    left_s: float
    arrived: float
    queued: tuple[str, ...] = ()

    def allows(self, block: Block) -> bool:
        return self.left_s > 0 and (block.left_s is None or block.left_s <= self.left_s)


class WaitRoom:
    """The sleeping requests of this process."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[str, tuple[float, asyncio.Event]]] = {}

    def enter(self, ticket: str, scopes: Iterable[str], arrived: float) -> asyncio.Event:
        event = asyncio.Event()
        for scope in scopes:
            self._waiting.setdefault(scope, {})[ticket] = (arrived, event)
        return event

    def leave(self, ticket: str, scopes: Iterable[str]) -> None:
        for scope in scopes:
            waiting = self._waiting.get(scope)
            if waiting is not None:
                waiting.pop(ticket, None)
                if not waiting:
                    del self._waiting[scope]

    def wake(self, scope: str) -> None:
        """Wake the longest waiter of a scope, in the order that the store's queues have (ties by ticket)."""
        waiting = self._waiting.get(scope, {})
        asleep = ((arrived, ticket) for ticket, (arrived, event) in waiting.items() if not event.is_set())
        first = min(asleep, default=None)
        if first is not None:
            waiting[first[1]][1].set()

    def wake_all(self) -> None:
        for waiting in self._waiting.values():
            for _, event in waiting.values():
                event.set()


class Admitting(ABC):
    """`admit` for both stores."""

    def __init__(self) -> None:
        self._room = WaitRoom()

    @abstractmethod
    async def _attempt(self, request: AdmitRequest, now: datetime, patience: Patience) -> Admission:
        """One try; queues the ticket at the scopes that `patience` allows to wait for."""

    @abstractmethod
    def _quit(self, ticket: str, scopes: Sequence[str]) -> None:
        """Take a ticket out of the queues; must not await."""

    @abstractmethod
    def let_go(self, holds: Sequence[Hold], probe: ProbeLease | None = None) -> None:
        """See StateStore."""

    async def admit(self, request: AdmitRequest, now: datetime, wait_s: float = 0.0) -> Admission:
        """See StateStore."""
        loop = asyncio.get_running_loop()
        started, waiting = loop.time(), _Waiting(request)
        patience, waited = Patience(wait_s, now.timestamp()), 0.0
        try:
            while True:
                if waited:
                    patience = replace(patience, left_s=wait_s - waited, queued=waiting.scopes)
                answer = await self._attempt(waiting.request, now + timedelta(seconds=waited), patience)
                waiting.note(answer)
                blocks = [block for block in _waitable(answer) if patience.allows(block)]
                if answer.granted or not blocks:
                    return waiting.finish(answer, waited)
                await self._sleep(waiting, blocks, patience)
                waited = loop.time() - started
        finally:
            self._quit(request.ticket, waiting.scopes)
            if not waiting.finished:
                self.let_go(waiting.held)

    async def _sleep(self, waiting: "_Waiting", blocks: Sequence[Block], patience: Patience) -> None:
        ticket = waiting.request.ticket
        scopes = tuple(dict.fromkeys(block.scope for block in blocks))
        waiting.scopes = tuple(dict.fromkeys((*waiting.scopes, *scopes)))
        event = self._room.enter(ticket, scopes, patience.arrived)
        pause = min(
            [patience.left_s, POLL_S, *(max(block.left_s, 0.001) for block in blocks if block.left_s is not None)]
        )
        try:
            async with asyncio.timeout(pause):
                await event.wait()
        except TimeoutError:
            pass
        finally:
            self._room.leave(ticket, scopes)


class _Waiting:
    """What one call of `admit` has and wants so far."""

    def __init__(self, request: AdmitRequest) -> None:
        self.request = request
        self.held: tuple[Hold, ...] = ()
        self.scopes: tuple[str, ...] = ()
        self.finished = False

    def note(self, answer: Admission) -> None:
        """The callers' limits are passed once; what was taken there stays taken while a key is waited for."""
        if answer.callers_passed and self.request.callers and not answer.granted:
            self.held = answer.holds[: len(self.request.callers)]
            self.request = replace(self.request, callers=())

    def finish(self, answer: Admission, waited_s: float) -> Admission:
        self.finished = True
        if not waited_s and not self.held:
            return answer
        own = tuple(hold for hold in answer.holds if hold not in self.held)
        return replace(answer, holds=(*self.held, *own), waited_s=waited_s)


def _waitable(answer: Admission) -> list[Block]:
    """Blocks, and coolings that end by themselves: never a dead, broke or wrong-model key."""
    if answer.granted:
        return []
    cooling = [
        Block(key_target(passed.key_id), "cooling", passed.standing.left_s)
        for passed in answer.passed
        if answer.callers_passed and passed.standing.skip is Skip.COOLING and not is_broke(passed.standing)
    ]
    return [*answer.blocks, *cooling]
