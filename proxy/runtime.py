"""What a gateway process holds while it runs: snapshot, state store, transport, recorder, requests in flight."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connections
from django.utils import timezone

from billing.budgets import Budgets
from billing.credit import credits_left
from billing.recorder import Recorder
from billing.stores.embedded import EmbeddedReservations
from billing.stores.protocol import Reservations
from billing.stores.redis import RedisReservations
from keys import events
from keys.core.addresses import refusal
from keys.core.pool import rows_of_pool
from keys.core.report import Change
from keys.persistence import DatabasePersistence, Request, take_requests
from keys.stores.embedded import EmbeddedStore
from keys.stores.protocol import PersistenceError, StateStore
from keys.stores.redis import RedisStore, client_of
from keys.stores.upkeep import goes_on
from proxy import background
from proxy.core.call import Call
from proxy.core.idempotency import Identity
from proxy.flight import Flight
from proxy.transport import Guard, Transport
from routing.snapshot import Keeper

logger = logging.getLogger("proxy.runtime")

THREADS = 2
INBOX_S = 0.5
PERSIST_S = 1.0
CREDIT_S = 30.0
CREDIT_FOR = timedelta(seconds=120)
DRAIN_S = 30.0


@dataclass(slots=True)
class Runtime:
    """One per process."""

    keeper: Keeper
    store: StateStore
    transport: Transport
    recorder: Recorder
    threads: ThreadPoolExecutor
    budgets: Budgets
    calls: dict[str, Call] = field(default_factory=dict)
    flights: dict[Identity, Flight] = field(default_factory=dict)  # keyed calls under way
    usage_refused: set[int] = field(default_factory=set)  # upstreams that do not know stream_options
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = timezone.now

    def running(self, request_id: str) -> Call | None:
        """Return a call that is under way here, also one that waits for another's answer."""
        seated = (seat.call for flight in self.flights.values() for seat in flight.seats)
        waiting = (call for call in seated if call.received.request_id == request_id and not call.ending.recorded)
        return self.calls.get(request_id) or next(waiting, None)

    def note(self, changes: tuple[Change, ...], request_id: str = "") -> None:
        """Write key events and alerts for state changes, off the request's path."""
        real = [change for change in changes if change.changed]
        if real:
            self.threads.submit(events.note_changes, real, request_id)


class _Holder:
    current: Runtime | None = None


def current() -> Runtime:
    """Return the process's runtime. Only a process that serves has one."""
    if _Holder.current is None:
        raise RuntimeError("the gateway is not running in this process")
    return _Holder.current


async def open_runtime() -> Runtime:
    """Start everything; the database may be down, then requests are answered 503 until it is up."""
    background.bind(asyncio.get_running_loop())
    threads = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="gateway")
    store = _store()
    runtime = Runtime(
        keeper=Keeper(),
        store=store,
        transport=Transport(_guard()),
        recorder=Recorder(Path(settings.POINTSMAN_DATA) / "spool"),
        threads=threads,
        budgets=Budgets(_reservations(), ThreadPoolExecutor(1, thread_name_prefix="budgets"), timezone.now),
    )
    await asyncio.to_thread(_first_look, runtime.keeper)
    await store.open()
    await runtime.budgets.open()
    await runtime.transport.open()
    runtime.recorder.start()
    background.start(runtime.budgets.run(), upkeep=True)
    background.start(store.run(), upkeep=True)
    background.start(_serve_inbox(runtime), upkeep=True)
    background.start(_watch_credits(runtime), upkeep=True)
    if isinstance(store, RedisStore):
        background.start(_persist_shared(store, runtime), upkeep=True)
    _Holder.current = runtime
    return runtime


def _first_look(keeper: Keeper) -> None:
    keeper.start()
    connections.close_all()  # this thread has no further use for its own


def _guard() -> Guard:
    """Return the check of addresses, its answers remembered: the allowance does not change while a process runs."""
    allowed = settings.POINTSMAN_ALLOW_PRIVATE_UPSTREAMS

    @lru_cache(maxsize=4096)
    def guard(host: str, address: str | None) -> str | None:
        return refusal(host, allowed, address)

    return guard


def _store() -> StateStore:
    if settings.REDIS_URL:
        return RedisStore(client_of(settings.REDIS_URL), clock=timezone.now)
    return EmbeddedStore(DatabasePersistence(), clock=timezone.now)


def _reservations() -> Reservations:
    return RedisReservations(client_of(settings.REDIS_URL)) if settings.REDIS_URL else EmbeddedReservations()


async def close_runtime(runtime: Runtime) -> None:
    """Finish what is under way, write what is unsaved, stop the threads."""
    _Holder.current = None
    await background.settle_requests(DRAIN_S)
    await background.cancel_upkeep()
    await runtime.store.close()
    await runtime.budgets.close()
    await runtime.recorder.stop()
    await runtime.transport.close()
    await asyncio.to_thread(runtime.keeper.stop)
    await asyncio.to_thread(_end_threads, runtime.threads)


def _end_threads(threads: ThreadPoolExecutor) -> None:
    """Close each thread's database connection, which nobody else may close, then end the threads."""
    together = threading.Barrier(THREADS)

    def let_go() -> None:
        connections.close_all()
        with contextlib.suppress(threading.BrokenBarrierError):
            together.wait(5)  # so that each thread takes one

    for _ in range(THREADS):
        threads.submit(let_go)
    threads.shutdown(wait=True)


async def _serve_inbox(runtime: Runtime) -> None:
    """Do what worker, beat and admin commands ask of the state store, within a second."""
    loop = asyncio.get_running_loop()
    while goes_on():
        await asyncio.sleep(INBOX_S)
        try:
            for request in await loop.run_in_executor(runtime.threads, take_requests):
                runtime.note(await _obey(runtime.store, request, runtime.now()))
        except PersistenceError:
            continue


async def _persist_shared(store: RedisStore, runtime: Runtime) -> None:
    """Keep the persisted copy of a shared store's states: pages, `pool` and `explain` read the database."""
    loop, persistence = asyncio.get_running_loop(), DatabasePersistence()
    written: dict[str, dict[str, Any]] = {}
    while goes_on():
        await asyncio.sleep(PERSIST_S)
        pool = await store.snapshot(runtime.now())
        rows = rows_of_pool(pool)
        changed = {target: row for target, row in rows.items() if written.get(target) != row}
        sights = store.sight_rows(runtime.now())
        if not (changed or sights):
            continue
        try:
            await loop.run_in_executor(runtime.threads, persistence.save, {**changed, **sights})
        except PersistenceError:
            store.sight_lost(sights)
            continue
        written.update(changed)


async def _watch_credits(runtime: Runtime) -> None:
    """Tell the decisions how much of each account's known credit is left."""
    loop = asyncio.get_running_loop()
    while goes_on():
        now = runtime.now()
        try:
            left = await loop.run_in_executor(runtime.threads, credits_left, now)
        except (DatabaseError, InterfaceError):
            left = {}  # what was known holds until it is too old
        for target, share in left.items():
            runtime.store.figures.saw_credit(target, share, now + CREDIT_FOR)
        await asyncio.sleep(CREDIT_S)


async def _obey(store: StateStore, request: Request, now: datetime) -> tuple[Change, ...]:
    payload: Mapping[str, Any] = request.payload
    match request.command:
        case "revive" | "set_epoch":  # by then traffic may have brought the new epoch, and news of it
            return await store.set_epoch(int(payload["key_id"]), int(payload["epoch"]), now)
        case "revive_account":
            return await store.revive_account(int(payload["account_id"]), now)
        case "probe_succeeded":
            return await store.probe_succeeded(int(payload["key_id"]), now)
        case "balance_seen":
            return await store.balance_seen(str(payload["target"]), now)
        case "report":
            report, policy = events.report_of(payload)
            return await store.report(report, policy, now)
        case unknown:
            logger.warning("the state inbox holds an unknown command %r; it is left out", unknown)
            return ()
