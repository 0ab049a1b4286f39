"""Hard budgets on the request path: reserve before a call, settle once after its commit.

The ledger is the truth: a scope is loaded from it when it is first asked about, and looked at again every few seconds.
In between the store adds what each settled call cost.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db import DatabaseError, InterfaceError, close_old_connections, connection

from billing import reserved, thresholds
from billing import spent as ledger
from billing.core.budget import Held
from billing.core.pricing import PriceBook
from billing.core.reserving import (
    Ask,
    BudgetInfo,
    BudgetRefused,
    Claim,
    Granted,
    ReserveAnswer,
    ReserveRequest,
    closed_accounts,
)
from billing.models import OutputSize
from billing.stores.protocol import RENEW_EVERY_S, Reservations
from keys.stores.upkeep import goes_on

logger = logging.getLogger(__name__)

REFRESH_S = 10.0
ALERT_S = 2.0
SIZES_S = 60.0
FORGET_S = 3600.0
LOOKS_MOST, LOOK_PAUSE_S = 20, 0.05
_TICK_S = 1.0
_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class _Held:
    """What a call in flight claimed."""

    ask: Ask
    claims: tuple[tuple[BudgetInfo, Claim], ...]
    book: PriceBook


@dataclass(slots=True)
class _Known:
    """A budget's period that calls asked about. `at` lies in it; `asked` is when the last one did."""

    budget: BudgetInfo
    at: datetime
    asked: datetime


class Budgets:
    """One per gateway process. `threads` runs what needs the database."""

    def __init__(self, store: Reservations, threads: Executor, clock: Callable[[], datetime]) -> None:
        self.store = store
        self.sizes: Mapping[tuple[int, str], int] = {}  # line id, model -> p95 of output tokens
        self._threads = threads
        self._clock = clock
        self._held: dict[str, _Held] = {}
        self._known: dict[str, _Known] = {}
        self._touched: set[int] = set()
        self._shown: dict[str, tuple[Held, datetime]] = {}  # what the persisted copy says, and since when
        self._loading = asyncio.Lock()

    async def reserve(self, ask: Ask, book: PriceBook) -> Granted | BudgetRefused:
        """Let a call start, or say which budget is spent. Never raises for a store or database that is down."""
        claims = tuple(
            (budget, Claim(budget.scope(ask.at), budget.amount, estimate, budget.account_id))
            for budget, estimate in ask.claims
        )
        if not claims and not ask.budgets:
            return Granted()
        self._held[ask.request_id] = _Held(ask, claims, book)
        if not claims:
            return Granted()
        now = self._clock()
        for budget, claim in claims:
            self._known[claim.scope] = _Known(budget, ask.at, now)
        request = ReserveRequest(ask.request_id, tuple(claim for _budget, claim in claims), ask.free)
        answer = await self.store.reserve(request, now)
        if answer.unknown:
            async with self._loading:
                answer = await self._load_and_ask(request)
        if answer.granted or answer.unknown:  # not known after all: the next look at the ledger corrects it
            return Granted(closed_accounts(request, answer.refused))
        self._held.pop(ask.request_id, None)
        return _refusal(ask, claims, answer)

    async def settle(self, request_id: str, charge: Decimal, accounts: Mapping[int, Decimal]) -> None:
        """Count what a recorded call really cost, once. `accounts`: cost and waste by account. Safe to repeat."""
        held = self._held.pop(request_id, None)
        if held is None:
            return
        self._touched |= held.ask.budgets
        spent = {}
        for budget, claim in held.claims:
            amount = charge if budget.account_id is None else accounts.get(budget.account_id, _ZERO)
            ask = held.ask
            converted = held.book.convert(amount, ask.currency, budget.currency, ask.at, ask.tenant_id)
            spent[claim.scope] = converted or _ZERO
        if spent:
            await self.store.settle(request_id, spent, self._clock())

    def holds(self, request_id: str) -> bool:
        """Whether there is anything to settle."""
        return request_id in self._held

    async def release(self, request_id: str) -> None:
        """Take back the reservation of a call that leaves no record."""
        held = self._held.pop(request_id, None)
        if held is not None and held.claims:
            await self.store.release(request_id, [claim.scope for _budget, claim in held.claims], self._clock())

    async def open(self) -> None:
        """Make the store ready."""
        await self.store.open()

    async def close(self) -> None:
        """Leave the store and end the thread. Thresholds that were not looked at yet are found by the sweep."""
        await self.store.close()
        await asyncio.to_thread(self._threads.shutdown)

    async def run(self) -> None:
        """Upkeep until cancelled: the store's own, leases, looks at the ledger, thresholds, sizes of answers."""
        await asyncio.gather(self.store.run(), self._upkeep())

    async def _upkeep(self) -> None:
        loop = asyncio.get_running_loop()
        jobs = (
            (self._renew, RENEW_EVERY_S),
            (self.refresh, REFRESH_S),
            (self.tell, ALERT_S),
            (self._read_sizes, SIZES_S),
            (self.show, reserved.WRITE_EVERY_S),
        )
        due = dict.fromkeys(range(len(jobs)), 0.0)
        while goes_on():
            for number, (job, every_s) in enumerate(jobs):
                if loop.time() >= due[number]:
                    due[number] = loop.time() + every_s
                    await job()
            await asyncio.sleep(_TICK_S)

    async def refresh(self) -> None:
        """Look at the ledger for every period that was asked about lately."""
        now = self._clock()
        for scope in [name for name, known in self._known.items() if (now - known.asked).total_seconds() > FORGET_S]:
            del self._known[scope]
        async with self._loading:
            for scope in list(self._known):
                await self._look(scope)

    async def tell(self) -> None:
        """Have the thresholds of budgets looked at in which calls were counted since the last time."""
        touched, self._touched = self._touched, set()
        if touched and not await self._in_thread(lambda: thresholds.check(now=self._clock(), budget_ids=touched)):
            self._touched |= touched

    async def show(self) -> None:
        """Keep the persisted copy of what is reserved, for pages."""
        now = self._clock()
        known = dict(self._known)
        held = dict(zip(known, await self.store.held(list(known), now), strict=True))
        changed = {scope: one for scope, one in held.items() if self._is_news(scope, one, now)}
        rows = {scope: (known[scope].budget.id, one) for scope, one in changed.items()}
        if rows and await self._in_thread(lambda: reserved.save(rows, now)):
            self._shown |= {scope: (one, now) for scope, one in changed.items()}
        for scope in self._shown.keys() - known.keys():
            del self._shown[scope]

    def _is_news(self, scope: str, held: Held, now: datetime) -> bool:
        before, at = self._shown.get(scope, (reserved.NOTHING, now))
        return held != before or bool(held.in_flight and now - at >= reserved.RENEW_EVERY)

    async def _load_and_ask(self, request: ReserveRequest) -> ReserveAnswer:
        """Look at the ledger for what is not known, and ask again.

        Of several processes that look at once the newest look counts: the others wait for it, and look again.
        """
        answer = await self.store.reserve(request, self._clock())
        for _ in range(LOOKS_MOST):
            if not answer.unknown:
                break
            for scope in answer.unknown:
                # While the database is down serving goes on from nothing spent; the next look corrects it.
                await self._look(scope, otherwise=_ZERO)
            answer = await self.store.reserve(request, self._clock())
            if answer.unknown:
                await asyncio.sleep(LOOK_PAUSE_S)
                answer = await self.store.reserve(request, self._clock())
        return answer

    async def _look(self, scope: str, otherwise: Decimal | None = None) -> None:
        known = self._known[scope]
        mark = await self.store.mark(scope, self._clock())
        found: list[Decimal] = []
        await self._in_thread(lambda: found.append(ledger.spent(known.budget, at=known.at, now=self._clock())))
        amount = found[0] if found else otherwise
        if amount is not None:
            await self.store.load(scope, amount, mark, self._clock())

    async def _renew(self) -> None:
        holds = {name: [claim for _budget, claim in held.claims] for name, held in self._held.items() if held.claims}
        await self.store.renew(holds, self._clock())

    async def _read_sizes(self) -> None:
        def read() -> None:
            rows: Iterable[tuple[int, str, int]] = OutputSize.objects.values_list("line_id", "model", "p95")
            self.sizes = {(line_id, model): p95 for line_id, model, p95 in rows}

        await self._in_thread(read)

    async def _in_thread(self, work: Callable[[], object]) -> bool:
        """Do something with the database; False when it is down."""

        def guarded() -> bool:
            try:
                work()
            except (DatabaseError, InterfaceError) as problem:
                logger.warning("budgets go on without the database: %s", type(problem).__name__)
                connection.close()
                return False
            finally:
                close_old_connections()
            return True

        return await asyncio.get_running_loop().run_in_executor(self._threads, guarded)


def _refusal(ask: Ask, claims: Iterable[tuple[BudgetInfo, Claim]], answer: ReserveAnswer) -> BudgetRefused:
    """Name the refusing budget that frees last: until then trying again is no use."""
    refused = [(budget, claim) for budget, claim in claims if claim.scope in answer.refused]
    ends = [(budget.span(ask.at).end, budget, claim) for budget, claim in refused]
    never = [entry for entry in ends if entry[0] is None]
    end, budget, claim = never[0] if never else max(ends, key=lambda entry: entry[0] or ask.at)
    standing = answer.standings.get(claim.scope)
    return BudgetRefused(budget, standing.spent if standing is not None else None, end)
