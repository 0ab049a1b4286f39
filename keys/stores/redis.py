"""The state store that any number of processes share through one Redis.

States are rows `version|json`, changed by compare-and-set around the pure `after()`. Every process keeps a mirror of
them, fresh by pub/sub within milliseconds and checked against a change counter twice a second, so that `standing()`
stays a look into memory. Admission and settling are one round trip each, by Lua.

When Redis is down or frozen, each call fails within a second, and after the first ones at once: states go on in the
mirror (and are joined with Redis's when it is back, also when it comes back empty), slots are this process's own
count, rate windows are not looked at (they fail open), half-open leases are per process. A slot that was granted while
the answer got lost ends with its lease (30 s).

When Redis refuses scripts, states are still shared (WATCH/MULTI), but slots, rate windows, rotations, leases and
counters are per process. That is logged as an error and shown by `health`.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import uuid4

import orjson
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.maint_notifications import MaintNotificationsConfig

from keys.core.admission import Admission, AdmitRequest, Hold, ProbeLease, SettleRequest
from keys.core.pool import Pool
from keys.core.report import Change
from keys.core.state import KeyState, merged
from keys.stores.claims import SharedClaims
from keys.stores.courier import CALL_TIMEOUT_S, Courier, Health, StoreDown
from keys.stores.figures import FigureBoard
from keys.stores.gate import Gate
from keys.stores.here import admit_here, freed, is_free, without_rates
from keys.stores.mirror import Mirror
from keys.stores.notes import SharedNotes
from keys.stores.plain import move_plainly, read_counts, read_states
from keys.stores.upkeep import goes_on, listen
from keys.stores.verbs import Verbs
from keys.stores.waiting import Patience
from keys.stores.wording import admission_of, admit_words, count_words, fix_words, settle_words, slot_words

PREFIX = "{pm}:"
CAS_TRIES = 8
TICK_S = 0.25
RENEW_EVERY_S = 10.0
REFUSED_RETRY_S = 5.0

logger = logging.getLogger(__name__)


def client_of(url: str) -> Redis:
    """A client whose calls are bounded and never retried: what follows from a fault is the courier's to say."""
    return Redis.from_url(
        url,
        decode_responses=True,
        socket_timeout=CALL_TIMEOUT_S,
        socket_connect_timeout=CALL_TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
        maint_notifications_config=MaintNotificationsConfig(enabled=False),  # would stretch the timeouts
    )


class RedisStore(Verbs):
    """See `StateStore`. `clock` is read where no caller's `now` is at hand."""

    notes: SharedNotes

    def __init__(self, client: Redis, *, clock: Callable[[], datetime], prefix: str = PREFIX) -> None:
        super().__init__()
        self.courier = Courier(client, prefix)
        self.mirror = Mirror()
        self.board = self.mirror.board
        self.gate = Gate()  # this process's slots; its limits count only while Redis is away
        self.figures = FigureBoard(self.board, self.gate)
        self.process = uuid4().hex
        self.notes = SharedNotes(self.courier, self.process)
        self.claims = SharedClaims(self.courier)
        self._clock = clock
        self._held: dict[tuple[str, str], Hold] = {}
        self._loading = asyncio.Lock()

    @property
    def health(self) -> Health:
        """For readiness: what works now."""
        return self.courier.health

    # Reading

    async def snapshot(self, now: datetime) -> Pool:
        try:
            if self.health is not Health.DOWN:
                async with asyncio.timeout(CALL_TIMEOUT_S):
                    counts = await read_counts(self.courier.client, self.courier.prefix)
                    return Pool(dict(self.board.states), counts, now)
        except (RedisError, OSError, TimeoutError) as exc:
            logger.warning("Counters not read: %s", exc)
        return self.board.pool(now)

    # Admission

    async def _attempt(self, request: AdmitRequest, now: datetime, patience: Patience) -> Admission:
        keys, passed = self.board.eligible(request, now)
        if not keys and not request.callers:
            return Admission(callers_passed=True, passed=passed)
        if not request.callers and is_free(keys[0]):
            admission = admit_here(self.board, self.gate, request, now, patience)  # nothing to agree about
            self._keep(admission.holds)
            return admission
        with suppress(StoreDown):
            words = admit_words(request, keys, now, patience)
            answer = await self.courier.script(
                "admit", words, lambda reply: self._orphaned(request.ticket, admission_of(reply, request, keys, now))
            )
            admission = admission_of(answer, request, keys, now)
            self._keep(admission.holds)
            for hold in admission.holds:
                self.gate.note(hold, now)
            if admission.probe is not None:
                self.board.note_lease(admission.probe.targets, admission.probe.holder, now)
            return replace(admission, passed=passed) if passed else admission
        open_request = request if self.health is Health.NO_SCRIPTS else without_rates(request)
        admission = admit_here(self.board, self.gate, open_request, now, patience)
        self._keep(admission.holds)
        return replace(admission, degraded=True)

    def _keep(self, holds: Iterable[Hold]) -> None:
        for hold in holds:
            if hold.slot and hold.caps.concurrency is not None:
                self._held[hold.scope, hold.ticket] = hold
                self.gate.keep(hold)
            self.figures.began(hold)

    def _orphaned(self, ticket: str, admission: Admission) -> None:
        """Granted to a request that was cancelled while it asked, or queued for it: others must not wait behind it."""
        self._keep(admission.holds)
        self.let_go(admission.holds, admission.probe)
        self._quit(ticket, [block.scope for block in admission.blocks])

    def _quit(self, ticket: str, scopes: Sequence[str]) -> None:
        self.gate.leave(ticket, scopes)
        for scope in scopes:
            self._room.wake(scope)
        if scopes and self.health is not Health.NO_SCRIPTS:
            self.courier.post("settle", settle_words(self._clock()) | {"leaves": [(s, ticket) for s in scopes]})

    def let_go(self, holds: Sequence[Hold], probe: ProbeLease | None = None) -> None:
        words = self._releases(settle_words(self._clock()), holds, probe)
        if (words["releases"] or words["ends"]) and self.health is not Health.NO_SCRIPTS:
            self.courier.post("settle", words)

    def _releases(self, words: dict[str, Any], holds: Sequence[Hold], probe: ProbeLease | None) -> dict[str, Any]:
        """Release in memory, and write down what Redis is to release."""
        for hold in holds:
            self._held.pop((hold.scope, hold.ticket), None)
            self.figures.ended(hold)
        for scope in freed(self.board, self.gate, holds, probe):
            self._room.wake(scope)
        words["releases"] = slot_words(holds)
        words["ends"] = [(target, probe.holder) for target in probe.targets] if probe else []
        return words

    # Reports

    async def settle(self, request: SettleRequest, now: datetime) -> tuple[Change, ...]:
        self._counted(request, now)
        words = self._releases(settle_words(now), request.holds, request.probe)
        words["counts"] = count_words((report for report, _ in request.reports), now)
        if request.tokens is not None:
            words["fixes"] = fix_words(request.holds, request.tokens)
            for hold in request.holds:
                self.gate.correct(hold, request.tokens, now)
        return await self._agree(lambda: self._decided(request, now), words)

    async def _turn(self, target: str, turn: Callable[[KeyState], KeyState], now: datetime) -> tuple[Change, ...]:
        return await self._agree(lambda: self._turned(target, turn, now), settle_words(now))

    async def _agree(self, decide: Callable[[], tuple[Change, ...]], words: dict[str, Any]) -> tuple[Change, ...]:
        """Write what `decide` changes on the mirror, by compare-and-set; decide again when somebody was faster."""
        changes: tuple[Change, ...] = ()
        for attempt in range(CAS_TRIES):
            changes = decide()
            moves = self.mirror.moves(change.target for change in changes)
            if attempt and not moves:
                return ()
            try:
                rows = await self._write({**words, "moves": moves})
            except StoreDown:
                break
            if not rows:
                self.mirror.moved(changes, moves)
                return changes
            self.mirror.conflicted(changes, rows)
            words = settle_words(self._clock())
        self.mirror.unshared.update(change.target for change in changes)
        return changes

    async def _write(self, words: dict[str, Any]) -> dict[str, str]:
        """One settling; returns the rows that were in the way. Raises StoreDown; releases then follow later."""
        if not any(words[name] for name in ("moves", "counts", "fixes", "releases", "ends")):
            return {}
        was = self.health
        if was is Health.NO_SCRIPTS:
            return await self._write_plainly(words["moves"])
        try:
            answer: Mapping[str, Any] = await self.courier.script("settle", words)
        except StoreDown:
            # Sent once, the counters may have moved: better a call uncounted than counted twice.
            self.courier.post("settle", {**words, "moves": [], **({"counts": []} if was is Health.UP else {})})
            raise
        return {str(target): str(row) for target, row in answer["conflicts"]}

    async def _write_plainly(self, moves: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        if not moves:
            return {}
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                return dict(await move_plainly(self.courier.client, self.courier.prefix, moves))
        except (RedisError, OSError, TimeoutError) as exc:
            raise StoreDown(str(exc)) from exc

    # Half-open leases

    async def lease_probe(self, key_id: int, account_id: int | None, now: datetime) -> ProbeLease | None:
        lease = ProbeLease(uuid4().hex, self.board.half_open(key_id, account_id, now))
        if not lease.targets:
            return lease
        with suppress(StoreDown):
            words = {"now": now.timestamp(), "targets": lease.targets, "holder": lease.holder}
            if not await self.courier.script("lease", words, lambda _: self.let_go((), lease)):
                return None
            self.board.note_lease(lease.targets, lease.holder, now)
            return lease
        return lease if self.board.lease(lease.targets, lease.holder, now) else None

    # Life

    async def open(self) -> None:
        """Read the states. Redis being down is no error here: the store begins empty and catches up."""
        if await self.courier.probe() is not Health.DOWN:
            await self._load()
            pool = await self.snapshot(self._clock())
            self.board.counts.update(pool.counts)

    async def run(self) -> None:
        await asyncio.gather(
            self.courier.run(),
            listen(self.courier.client, f"{self.courier.prefix}news", self._hear, self._load),
            self._upkeep(),
        )

    async def close(self) -> None:
        with suppress(StoreDown):
            await self.courier.flush()
        await self.courier.client.aclose()

    def _hear(self, news: str) -> None:
        try:
            match orjson.loads(news):
                case ["free", str(scope)]:
                    self._room.wake(scope)
                case ["spin", *spin]:
                    self.notes.hear_spin(*spin)
                case ["pulse", str(process), dict(pulse)] if process != self.process:
                    self.figures.hear(process, pulse, self._clock())
                case message:
                    self.mirror.hear(message)
        except (ValueError, TypeError, KeyError) as exc:
            logger.warning("Message not understood on the news channel: %s", exc)

    async def _upkeep(self) -> None:
        loop = asyncio.get_running_loop()
        renewed = probed = loop.time()
        while goes_on():
            await asyncio.sleep(TICK_S)
            if self.health is not Health.DOWN:
                await self._check()
            refused_long = self.health is Health.NO_SCRIPTS and loop.time() - probed >= REFUSED_RETRY_S
            if self.health is Health.DOWN or refused_long:
                await self._recover()
                probed = loop.time()
            self._tell_pulse()
            if loop.time() - renewed >= RENEW_EVERY_S:
                self.notes.book.drop_elapsed(self._clock())
                self.notes.book.unsaved.clear()  # Redis keeps them
                await self._renew()
                renewed = loop.time()

    def _tell_pulse(self) -> None:
        now = self._clock()
        self.figures.forget_elapsed(now)
        pulse = self.figures.pulse()
        if pulse is not None:
            news = orjson.dumps(["pulse", self.process, pulse])
            self.courier.post_command("PUBLISH", f"{self.courier.prefix}news", news)

    async def _check(self) -> None:
        """Compare the number of changes with what was heard; read everything anew when news were lost."""
        heard = self.mirror.gen
        with suppress(StoreDown):
            gen = int(await self.courier.command("GET", f"{self.courier.prefix}gen") or 0)
            if gen < heard or gen > heard == self.mirror.gen:
                await self._load()

    async def _recover(self) -> None:
        if await self.courier.probe() is Health.UP:
            self.courier.up()
            await self._load()
            await self._renew()
            self._room.wake_all()

    async def _renew(self) -> None:
        """Extend the leases of the slots held here; also makes Redis know those granted while it was away."""
        if self._held and self.health is Health.UP:
            with suppress(StoreDown):
                await self.courier.script(
                    "settle", {**settle_words(self._clock()), "renewals": slot_words(self._held.values())}
                )

    async def _load(self) -> None:
        """Read all states, then share what is known here alone."""
        async with self._loading:
            try:
                async with asyncio.timeout(CALL_TIMEOUT_S):
                    rows, leases, gen = await read_states(self.courier.client, self.courier.prefix)
                    await self.notes.load(self.courier.client)
            except (RedisError, OSError, TimeoutError) as exc:
                logger.warning("States not read from Redis: %s", exc)
                return
            mine = self.mirror.load(rows, leases, gen)
        await asyncio.gather(*(self._share(target, state) for target, state in mine.items()))

    async def _share(self, target: str, state: KeyState) -> None:
        """Join a state with the stored one; written even where nothing changes here, for Redis does not have it."""
        now = self._clock()

        def join() -> tuple[Change, ...]:
            old = self.board.state(target)
            self.board.states[target] = merged(old, state)
            return (Change(target, old, self.board.states[target], now),)

        await self._agree(join, settle_words(now))
