"""Makes finished requests durable: one writer thread, one connection, one commit for many.

A request waits for its group's commit, a millisecond or two. When the database does not take the group within
`patience_s`, the rows go to the spool file instead and are replayed when it is back; only when that fails too is the
caller told, with NotDurableError. An error that nobody foresaw goes the same way: the writer logs it and goes on.
"""

import asyncio
import logging
import queue
import secrets
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from django.db import DatabaseError, DataError, IntegrityError, InterfaceError, connections, transaction

from billing import metrics, rows
from billing.core.record import Bundle
from billing.logline import log_requests
from billing.spool import Spool

logger = logging.getLogger(__name__)

PATIENCE_S = 2.0
FAULTY_S = 60.0
_GROUP = 500
_IDLE_S = 1.0

# One row is at fault, not the database: the others must not suffer for it.
_ROW_AT_FAULT = (IntegrityError, DataError, ValueError, OverflowError, TypeError)
_DATABASE_LOST = (DatabaseError, InterfaceError)


class NotDurableError(Exception):
    """Neither the database nor the spool file took the rows."""


class Ids:
    """Record ids that grow with time and need no database: 41 bits of ms, 10 of this process, 12 of a counter."""

    def __init__(self) -> None:
        self._node = secrets.randbits(10)
        self._count = 0

    def next(self, now_ms: int) -> int:
        """Return the next id. Call from one thread."""
        self._count = (self._count + 1) & 0xFFF
        return (now_ms << 22) | (self._node << 12) | self._count


class _Waiting:
    __slots__ = ("bundle", "future", "loop", "orphaned")

    def __init__(self, bundle: Bundle, loop: asyncio.AbstractEventLoop) -> None:
        self.bundle = bundle
        self.loop = loop
        self.orphaned = False
        self.future: asyncio.Future[bool] = loop.create_future()


class Recorder:
    """Owns the writer thread. `alias` is the database."""

    def __init__(self, spool_folder: Path, alias: str = "default") -> None:
        self.ids = Ids()
        self._alias = alias
        self._spool = Spool(spool_folder)
        self._queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="recorder", daemon=True)
        self._statements: rows.Inserts | None = None
        self._replay_due = 0.0
        self.healthy = True  # False while the database does not take rows
        self.writable = True  # False while nothing takes rows: new calls are refused
        self._faulty_until = 0.0

    def start(self) -> None:
        """Start the writer."""
        self._thread.start()

    async def stop(self, timeout_s: float = 10.0) -> None:
        """Write what is queued and end the writer."""
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join, timeout_s)

    @property
    def alive(self) -> bool:
        """Whether the writer runs."""
        return self._thread.is_alive()

    @property
    def faulty(self) -> bool:
        """Whether something unforeseen happened within the last minute."""
        return time.monotonic() < self._faulty_until

    @property
    def is_behind(self) -> bool:
        """Whether rows wait in this machine's spool: what is durable is not all in the database."""
        return self._spool.waiting()

    async def write(self, bundle: Bundle) -> bool:
        """Return when the rows are durable: True = in the database, False = in the spool. Raises NotDurableError."""
        waiting = _Waiting(bundle, asyncio.get_running_loop())
        self._queue.put(waiting)
        try:
            # Shielded: the writer still holds the future when this wait is given up or cancelled.
            taken = await asyncio.wait_for(asyncio.shield(waiting.future), PATIENCE_S)
        except TimeoutError:
            taken = False
        except asyncio.CancelledError:
            # Nobody is left to spool the rows should the database not take them: the writer does it.
            waiting.orphaned = True
            if waiting.future.done() and not waiting.future.result():
                self._queue.put(waiting)
            raise
        if taken:
            self.writable = True
            return True
        try:
            await asyncio.to_thread(self._spool.append, [bundle])
        except (OSError, TypeError, ValueError) as problem:
            self.writable = False
            logger.critical("a finished request could not be recorded: %s", problem)
            raise NotDurableError(str(problem)) from problem
        self.writable = True
        return False

    def _work(self) -> None:
        try:
            while not self._turn():
                pass
        finally:
            connections[self._alias].close()
            self._spool.close()

    def _turn(self) -> bool:
        """Write what has come and replay what is due; True = stop. Never raises: nobody would start the writer anew."""
        group, last = self._gather()
        try:
            if group:
                self._commit(group)
            if time.monotonic() >= self._replay_due:
                self._replay_due = time.monotonic() + _IDLE_S
                self._recover()
        except Exception as problem:  # noqa: BLE001  # house: the writer's last line of defence
            self._unforeseen(problem)
            self._give_up(group)
        return last

    def _unforeseen(self, problem: Exception) -> None:
        """Log an error of ours with its place; the connection may be in any state and is opened anew."""
        logger.critical("recording met an unforeseen %s and goes on", type(problem).__name__, exc_info=problem)
        self._faulty_until = time.monotonic() + FAULTY_S
        with suppress(Exception):
            connections[self._alias].close()

    def _give_up(self, group: Sequence[_Waiting]) -> None:
        """Have whoever waits put the rows into the spool; those nobody waits for go there at once."""
        try:
            self._spool_orphans(group)
        except Exception as problem:  # noqa: BLE001  # house: those who wait must hear of it in any case
            self._unforeseen(problem)
        _answer(group, taken=False)

    def _gather(self) -> tuple[list[_Waiting], bool]:
        """Wait for one request, then take all that have come meanwhile. The flag says to stop."""
        group: list[_Waiting] = []
        try:
            item = self._queue.get(timeout=_IDLE_S)
            while item is not None:
                group.append(item)
                if len(group) >= _GROUP:
                    return group, False
                item = self._queue.get_nowait()
        except queue.Empty:
            return group, False
        return group, True

    def _commit(self, group: Sequence[_Waiting]) -> None:
        try:
            self._insert([waiting.bundle for waiting in group])
        except _ROW_AT_FAULT:
            for waiting in group:
                self._commit_one(waiting)
        except _DATABASE_LOST as problem:
            self._lost_database(problem)
            self._give_up(group)
        except Exception as problem:  # noqa: BLE001  # house: one of them may be at fault: the others must not suffer
            self._unforeseen(problem)
            for waiting in group:
                self._commit_one(waiting)
        else:
            self.healthy = True
            _answer(group, taken=True)
            _tell([waiting.bundle for waiting in group])

    def _spool_orphans(self, group: Sequence[_Waiting]) -> None:
        left = [waiting.bundle for waiting in group if waiting.orphaned]
        try:
            if left:
                self._spool.append(left)
        except OSError as problem:
            self.writable = False
            logger.critical("%d finished requests could not be recorded: %s", len(left), problem)

    def _commit_one(self, waiting: _Waiting) -> None:
        try:
            self._insert_or_set_aside(waiting.bundle)
        except (*_DATABASE_LOST, OSError) as problem:
            logger.error("a request's rows were not taken: %s", type(problem).__name__)
            self._give_up([waiting])
        except Exception as problem:  # noqa: BLE001  # house: the spool keeps it; its replay sets it aside
            self._unforeseen(problem)
            self._give_up([waiting])
        else:
            _answer([waiting], taken=True)
            _tell([waiting.bundle])

    def _insert_or_set_aside(self, bundle: Bundle) -> None:
        """Insert one request; one that the database will never take goes to a file of its own, for a person."""
        try:
            try:
                self._insert([bundle])
            except IntegrityError:
                self._insert([_with_other_id(bundle)])  # an id was drawn twice
        except _ROW_AT_FAULT as problem:
            self._spool.set_aside(bundle)
            logger.critical(
                "the database refuses request %s; its rows were set aside in %s: %s",
                bundle.record.request_id,
                self._spool.refused,
                problem,
            )

    def _insert(self, bundles: Sequence[Bundle]) -> None:
        connection = connections[self._alias]
        if self._statements is None:
            self._statements = rows.inserts(connection)
        with transaction.atomic(using=self._alias):
            rows.write(connection, self._statements, bundles)

    def _recover(self) -> None:
        """Replay what was spooled, and find out whether records can be written again."""
        try:
            if self._spool.waiting():
                self._replay()
            if not (self.healthy and self.writable):
                with connections[self._alias].cursor() as cursor:
                    cursor.execute("SELECT 1")
                self.healthy = self.writable = True
        except _DATABASE_LOST as problem:
            self._lost_database(problem)
        except OSError as problem:
            logger.error("spooled requests cannot be read: %s", problem)

    def _replay(self) -> None:
        for bundles, remove in self._spool.take():
            for start in range(0, len(bundles), _GROUP):
                self._insert_replayed(bundles[start : start + _GROUP])
            remove()
            logger.warning("%d spooled requests were written to the database", len(bundles))

    def _insert_replayed(self, group: Sequence[Bundle]) -> None:
        try:
            self._insert(group)
        except _ROW_AT_FAULT:
            for bundle in group:
                self._insert_or_set_aside(bundle)
        except _DATABASE_LOST:
            raise
        except Exception as problem:  # noqa: BLE001  # house: found again one by one, and set aside
            self._unforeseen(problem)
            for bundle in group:
                self._insert_spooled(bundle)

    def _insert_spooled(self, bundle: Bundle) -> None:
        """Insert one spooled request; one that fails for a reason nobody foresaw must not hold up the rest."""
        try:
            self._insert_or_set_aside(bundle)
        except (*_DATABASE_LOST, OSError):
            raise
        except Exception as problem:  # noqa: BLE001  # house: kept for a person
            self._unforeseen(problem)
            self._spool.set_aside(bundle)
            logger.critical("request %s was set aside in %s", bundle.record.request_id, self._spool.refused)

    def _lost_database(self, problem: Exception) -> None:
        if self.healthy:
            logger.error("the database does not take records, spooling: %s", type(problem).__name__)
        self.healthy = False
        self._replay_due = time.monotonic() + _IDLE_S
        # The next group opens a new connection.
        connections[self._alias].close()


def _tell(bundles: Sequence[Bundle]) -> None:
    log_requests(bundles)
    metrics.observe(bundles)


def _with_other_id(bundle: Bundle) -> Bundle:
    other = bundle.record.id ^ secrets.randbits(22)
    return replace(
        bundle,
        record=replace(bundle.record, id=other),
        attempts=tuple(replace(row, record_id=other) for row in bundle.attempts),
        ledger=tuple(replace(row, record_id=other) for row in bundle.ledger),
    )


def _answer(group: Sequence[_Waiting], *, taken: bool) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[_Waiting]] = {}
    for waiting in group:
        by_loop.setdefault(waiting.loop, []).append(waiting)
    for loop, members in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_resolve, members, taken)


def _resolve(group: Sequence[_Waiting], taken: bool) -> None:
    for waiting in group:
        if not waiting.future.done():
            waiting.future.set_result(taken)
