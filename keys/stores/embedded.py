"""The state store of a single web process: memory first, saved to the database from one writer thread.

Coolings and deaths are saved before `report` returns; counters within a second. May lose on a crash: the last second's
counters. When the database is down, work goes on in memory and everything unsaved is saved once it is back.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar
from uuid import uuid4

from keys.core.admission import Admission, AdmitRequest, Hold, ProbeLease, SettleRequest
from keys.core.policy import Policy
from keys.core.pool import Pool, pool_of_rows
from keys.core.report import Change, Report, Standing, account_target, key_target
from keys.core.state import FRESH, KeyState, funded, probed, revived
from keys.core.stored import dumped
from keys.stores.board import Board
from keys.stores.gate import Gate
from keys.stores.protocol import Persistence, PersistenceError
from keys.stores.waiting import Admitting, Patience

TICK_S = 0.5
_T = TypeVar("_T")

logger = logging.getLogger(__name__)


class NoPersistence:
    """For tests and throw-away stores."""

    def load(self) -> dict[str, dict[str, Any]]:
        return {}

    def save(self, rows: Mapping[str, dict[str, Any] | None]) -> None:
        return None


class EmbeddedStore(Admitting):
    """See `StateStore`. `clock` is read by `run()` alone."""

    def __init__(self, persistence: Persistence | None = None, *, clock: Callable[[], datetime]) -> None:
        super().__init__()
        self.board = Board()
        self.gate = Gate()
        self._persistence = persistence or NoPersistence()
        self._clock = clock
        self._dirty: set[str] = set()
        self._unsaved: deque[str] = deque()  # what the writer thread hands back
        self._saving = asyncio.Lock()
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="state-writer")

    # Reading

    def standing(self, key_id: int, account_id: int | None, model: str, now: datetime, epoch: int = 0) -> Standing:
        return self.board.standing(key_id, account_id, model, now, epoch)

    async def snapshot(self, now: datetime) -> Pool:
        return self.board.pool(now)

    # Reports

    async def report(self, report: Report, policy: Policy, now: datetime) -> tuple[Change, ...]:
        changes = self._apply(report, policy, now)
        await self._save_changes(changes)
        return changes

    async def report_chain(self, reports: Sequence[tuple[Report, Policy]], now: datetime) -> tuple[Change, ...]:
        changes = tuple(change for report, policy in reports for change in self._apply(report, policy, now))
        await self._save_changes(changes)
        return changes

    def _apply(self, report: Report, policy: Policy, now: datetime) -> tuple[Change, ...]:
        changes = self.board.decide(report, policy, now)
        self.board.accept(changes)
        self.board.count(report, now)
        self._dirty.add(key_target(report.key_id))
        return changes

    # Admission

    async def _attempt(self, request: AdmitRequest, now: datetime, patience: Patience) -> Admission:
        members, passed = self.board.eligible(request, now)
        answer = replace(self.gate.admit(request, members, self.board.leased(now), now), passed=passed)
        self.gate.leave(request.ticket, patience.queued)
        if not answer.granted:
            scopes = [block.scope for block in answer.blocks if patience.allows(block)]
            self.gate.queue(request.ticket, scopes, patience.arrived)
            return answer
        probes = next(p for e in members for key, p in e.keys if key.key_id == answer.key_id)
        self.board.lease(probes, request.ticket, now)
        return replace(answer, probe=ProbeLease(request.ticket, probes))

    def _quit(self, ticket: str, scopes: Sequence[str]) -> None:
        self.gate.leave(ticket, scopes)
        for scope in scopes:
            self._room.wake(scope)

    async def settle(self, request: SettleRequest, now: datetime) -> tuple[Change, ...]:
        changes = tuple(change for report, policy in request.reports for change in self._apply(report, policy, now))
        if request.tokens is not None:
            for hold in request.holds:
                self.gate.correct(hold, request.tokens, now)
        self.let_go(request.holds, request.probe)
        await self._save_changes(changes)
        return changes

    def let_go(self, holds: Sequence[Hold], probe: ProbeLease | None = None) -> None:
        for hold in holds:
            if self.gate.release(hold):
                self._room.wake(hold.scope)
        if probe is not None:
            self.board.release(probe.targets, probe.holder)
            for target in probe.targets:
                self._room.wake(target)

    # Half-open leases

    async def lease_probe(self, key_id: int, account_id: int | None, now: datetime) -> ProbeLease | None:
        targets = self.board.half_open(key_id, account_id, now)
        lease = ProbeLease(uuid4().hex, targets)
        return lease if self.board.lease(targets, lease.holder, now) else None

    async def end_probe(self, lease: ProbeLease) -> None:
        self.let_go((), lease)

    # What people, probes and balance reads say

    async def revive(self, key_id: int, now: datetime, epoch: int | None = None) -> tuple[Change, ...]:
        return await self._turn(key_target(key_id), lambda state: revived(state, now, epoch), now)

    async def revive_account(self, account_id: int, now: datetime) -> tuple[Change, ...]:
        return await self._turn(account_target(account_id), lambda state: revived(state, now), now)

    async def set_epoch(self, key_id: int, epoch: int, now: datetime) -> tuple[Change, ...]:
        return await self._turn(
            key_target(key_id), lambda state: revived(state, now, epoch) if epoch > state.epoch else state, now
        )

    async def probe_succeeded(self, key_id: int, now: datetime) -> tuple[Change, ...]:
        return await self._turn(key_target(key_id), lambda state: probed(state, now), now)

    async def balance_seen(self, target: str, now: datetime) -> tuple[Change, ...]:
        return await self._turn(target, lambda state: funded(state, now), now)

    async def _turn(self, target: str, turn: Callable[[KeyState], KeyState], now: datetime) -> tuple[Change, ...]:
        old = self.board.state(target)
        new = turn(old)
        if new == old:
            return ()
        changes = (Change(target, old, new, now),)
        self.board.accept(changes)
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

    async def run(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            await self.tick(self._clock())

    async def tick(self, now: datetime) -> None:
        """One turn of the upkeep."""
        await self._flush()

    async def close(self) -> None:
        await self._flush()
        self._writer.shutdown(wait=False)

    # Saving

    async def _save_changes(self, changes: Iterable[Change]) -> None:
        moved = {change.target for change in changes}
        if moved:
            self._dirty |= moved
            await self._flush()

    async def _flush(self) -> None:
        async with self._saving:
            while self._unsaved:
                self._dirty.add(self._unsaved.popleft())
            if not self._dirty:
                return
            rows = {target: self._row(target) for target in self._dirty}
            self._dirty.clear()
            # Shielded: the writer thread finishes even when the request that caused this is cancelled.
            await asyncio.shield(self._in_writer(lambda: self._save(rows)))

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
