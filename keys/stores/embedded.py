"""The state store of a single web process: memory first, saved to the database from one writer thread.

Coolings and deaths are saved before `report` returns; counters within a second. May lose on a crash: the last second's
counters. When the database is down, work goes on in memory and everything unsaved is saved once it is back.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, TypeVar
from uuid import uuid4

from keys.core.admission import Admission, AdmitRequest, Hold, ProbeLease, SettleRequest
from keys.core.pool import Pool, pool_of_rows
from keys.core.report import Change, key_target
from keys.core.sight import SIGHT_PREFIX, WHEEL_PREFIX
from keys.core.state import FRESH, KeyState
from keys.core.stored import dumped
from keys.stores.board import Board
from keys.stores.claims import Claims
from keys.stores.figures import FigureBoard
from keys.stores.gate import Gate
from keys.stores.here import admit_here, freed
from keys.stores.notes import Notes
from keys.stores.protocol import Persistence, PersistenceError
from keys.stores.records import ROW_PREFIX
from keys.stores.upkeep import goes_on
from keys.stores.verbs import Verbs
from keys.stores.waiting import Patience

TICK_S = 0.5
_T = TypeVar("_T")

logger = logging.getLogger(__name__)


class NoPersistence:
    """For tests and throw-away stores."""

    def load(self) -> dict[str, dict[str, Any]]:
        return {}

    def save(self, rows: Mapping[str, dict[str, Any] | None]) -> None:
        return None

    def close(self) -> None:
        return None


class EmbeddedStore(Verbs):
    """See `StateStore`. `clock` is read by `run()` alone."""

    def __init__(self, persistence: Persistence | None = None, *, clock: Callable[[], datetime]) -> None:
        super().__init__()
        self.board = Board()
        self.gate = Gate()
        self.figures = FigureBoard(self.board, self.gate)
        self.notes = Notes()
        self.claims = Claims()
        self._persistence = persistence or NoPersistence()
        self._clock = clock
        self._dirty: set[str] = set()
        self._pruned = -1  # minute of the hour in which elapsed records were last dropped
        self._unsaved: deque[str] = deque()  # what the writer thread hands back
        self._saving = asyncio.Lock()
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="state-writer")

    async def snapshot(self, now: datetime) -> Pool:
        return self.board.pool(now)

    # Admission

    async def _attempt(self, request: AdmitRequest, now: datetime, patience: Patience) -> Admission:
        answer = admit_here(self.board, self.gate, request, now, patience)
        for hold in answer.holds:
            self.figures.began(hold)
        return answer

    def _quit(self, ticket: str, scopes: Sequence[str]) -> None:
        self.gate.leave(ticket, scopes)
        for scope in scopes:
            self._room.wake(scope)

    async def settle(self, request: SettleRequest, now: datetime) -> tuple[Change, ...]:
        changes = self._decided(request, now)
        self._counted(request, now)
        self._dirty.update(key_target(report.key_id) for report, _ in request.reports)
        if request.tokens is not None:
            for hold in request.holds:
                self.gate.correct(hold, request.tokens, now)
        self.let_go(request.holds, request.probe)
        await self._save_changes(changes)
        return changes

    def let_go(self, holds: Sequence[Hold], probe: ProbeLease | None = None) -> None:
        for hold in holds:
            self.figures.ended(hold)
        for scope in freed(self.board, self.gate, holds, probe):
            self._room.wake(scope)

    # Half-open leases

    async def lease_probe(self, key_id: int, account_id: int | None, now: datetime) -> ProbeLease | None:
        targets = self.board.half_open(key_id, account_id, now)
        lease = ProbeLease(uuid4().hex, targets)
        return lease if self.board.lease(targets, lease.holder, now) else None

    async def _turn(self, target: str, turn: Callable[[KeyState], KeyState], now: datetime) -> tuple[Change, ...]:
        changes = self._turned(target, turn, now)
        await self._save_changes(changes)
        return changes

    # Life

    async def open(self) -> None:
        """Raises PersistenceError: starting without the states would revive dead keys."""
        rows = await self._in_writer(self._persistence.load)
        pool = pool_of_rows(rows, self._clock())
        for warning in pool.warnings:
            logger.warning(warning)
        self.board.states.update({t: state for t, state in pool.states.items() if state != FRESH})
        self.board.counts.update(pool.counts)
        self.notes.book.load(rows)

    async def run(self) -> None:
        while goes_on():
            await asyncio.sleep(TICK_S)
            await self.tick(self._clock())

    async def tick(self, now: datetime) -> None:
        """One turn of the upkeep."""
        self.figures.forget_elapsed(now)
        self.figures.pulse()  # nobody else to tell
        if now.minute != self._pruned:
            self._pruned = now.minute
            self.notes.book.drop_elapsed(now)
        await self._flush(self.sight_rows(now))

    async def close(self) -> None:
        await self._in_writer(lambda: None)  # a save whose request was cancelled may be under way
        await self._flush()
        await self._in_writer(self._persistence.close)
        self._writer.shutdown(wait=False)

    # Saving

    async def _save_changes(self, changes: Iterable[Change]) -> None:
        moved = {change.target for change in changes}
        if moved:
            self._dirty |= moved
            await self._flush()

    async def _flush(self, sights: Mapping[str, dict[str, Any]] | None = None) -> None:
        async with self._saving:
            while self._unsaved:
                self._unsave(self._unsaved.popleft())
            rows = dict(sights or {}) | self.notes.book.rows() | {target: self._row(target) for target in self._dirty}
            if not rows:
                return
            self._dirty.clear()
            # Shielded: the writer thread finishes even when the request that caused this is cancelled.
            await asyncio.shield(self._in_writer(lambda: self._save(rows)))

    def _unsave(self, row: str) -> None:
        if row.startswith(ROW_PREFIX):
            self.notes.book.unsaved.add(row.removeprefix(ROW_PREFIX))
        elif row.startswith((SIGHT_PREFIX, WHEEL_PREFIX)):
            self.sight_lost((row,))
        else:
            self._dirty.add(row)

    def _row(self, target: str) -> dict[str, Any]:
        row: dict[str, Any] = {"state": dumped(self.board.state(target))}
        kind, _, number = target.partition(":")
        counts = self.board.counts.get(int(number)) if kind == "key" else None
        if counts is not None:
            row["counts"] = counts.dumped()
        return row

    def _save(self, rows: Mapping[str, dict[str, Any] | None]) -> None:
        """Runs in the writer thread."""
        try:
            self._persistence.save(rows)
        except PersistenceError as exc:
            logger.warning("Key states not saved, will be tried again: %s", exc)
            self._unsaved.extend(rows)

    def _in_writer(self, work: Callable[[], _T]) -> "asyncio.Future[_T]":
        return asyncio.get_running_loop().run_in_executor(self._writer, work)
