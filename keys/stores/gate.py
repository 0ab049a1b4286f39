"""Slots and windows in memory: the embedded store's truth, the Redis store's count of its own slots.

Slots need no lease here: they die with the process that holds them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from keys.core.admission import WAIT_MAX_S, Admission, AdmitRequest, Block, Hold, KeyOption
from keys.core.report import key_target
from keys.core.windows import Caps, Span, Window


@dataclass(frozen=True, slots=True)
class Eligible:
    """A key whose state lets it serve; `probes` are the half-open leases that it needs."""

    key: KeyOption
    probes: tuple[str, ...] = ()


class Gate:
    """Not thread-safe: belongs to one event loop."""

    def __init__(self) -> None:
        self.slots: dict[str, set[str]] = {}
        self.queues: dict[str, dict[str, float]] = {}  # scope -> ticket -> arrival
        self.windows: dict[tuple[str, str], Window] = {}

    def admit(self, request: AdmitRequest, keys: Sequence[Eligible], leased: Iterable[str], now: datetime) -> Admission:
        """One try, without waiting. `leased` names the targets whose half-open lease is out."""
        at = now.timestamp()
        refused = [self._blocked(caller.scope, caller.caps, request, at) for caller in request.callers]
        if any(refused):
            return Admission(blocks=tuple(block for block in refused if block))
        holds = [self._take(caller.scope, caller.caps, request, now) for caller in request.callers]
        key, busy = self._first_free(request, keys, frozenset(leased), at)
        if key is None:
            return Admission(callers_passed=True, holds=tuple(holds), blocks=busy, busy=busy)
        holds.append(self._take(key_target(key.key_id), key.caps, request, now))
        return Admission(key.key_id, callers_passed=True, holds=tuple(holds), busy=busy)

    def release(self, hold: Hold) -> bool:
        """Free the hold's slot; False when it was free already."""
        held = self.slots.get(hold.scope)
        if held is None or hold.ticket not in held:
            return False
        held.discard(hold.ticket)
        if not held:
            del self.slots[hold.scope]
        return True

    def correct(self, hold: Hold, tokens: int, now: datetime) -> None:
        """Replace the estimate in the token windows by what was used."""
        for span, _ in hold.caps.windows():
            if span.of_tokens:
                window = self.window(hold.scope, span)
                window.correct(tokens - hold.tokens, hold.at.timestamp(), now.timestamp())

    def keep(self, hold: Hold) -> None:
        """Note a slot that was granted elsewhere (by the shared store)."""
        if hold.slot and hold.caps.concurrency is not None:
            self.slots.setdefault(hold.scope, set()).add(hold.ticket)

    def note(self, hold: Hold, now: datetime) -> None:
        """Count what the shared store granted: its slot, and its share of the windows, which then only inform."""
        self.keep(hold)
        for span, _ in hold.caps.windows():
            self.window(hold.scope, span).add(hold.tokens if span.of_tokens else 1, now.timestamp())

    def hear_calls(self, scope: str, number: int, now: datetime) -> None:
        """Another process sent so many calls: they count in the windows that are kept here."""
        for (kept, _), window in self.windows.items():
            if kept == scope and not window.span.of_tokens:
                window.add(number, now.timestamp())

    def queue(self, ticket: str, scopes: Iterable[str], arrived: float) -> None:
        for scope in scopes:
            self.queues.setdefault(scope, {})[ticket] = arrived

    def leave(self, ticket: str, scopes: Iterable[str]) -> None:
        for scope in scopes:
            queue = self.queues.get(scope)
            if queue is not None:
                queue.pop(ticket, None)
                if not queue:
                    del self.queues[scope]

    # Checks

    def _first_free(
        self, request: AdmitRequest, keys: Sequence[Eligible], leased: frozenset[str], at: float
    ) -> tuple[KeyOption | None, tuple[Block, ...]]:
        busy: list[Block] = []
        for one in keys:
            taken = next((probe for probe in one.probes if probe in leased), None)
            scope = key_target(one.key.key_id)
            block = Block(taken, "probe") if taken else self._blocked(scope, one.key.caps, request, at)
            if block is None:
                return one.key, tuple(busy)
            busy.append(block)
        return None, tuple(busy)

    def _blocked(self, scope: str, caps: Caps, request: AdmitRequest, at: float) -> Block | None:
        """The longest-lasting reason, windows before slots."""
        ahead = self._ahead(scope, request.ticket, at)
        worst: Block | None = None
        for span, limit in caps.windows():
            amount = request.tokens if span.of_tokens else 1 + ahead
            left = self.window(scope, span).frees_in(amount, limit, at)
            if left > 0 and (worst is None or left > (worst.left_s or 0)):
                worst = Block(scope, span.name, left)
        if worst is not None:
            return worst
        if ahead and any(span.of_tokens for span, _ in caps.windows()):
            return Block(scope, "queue")
        held = len(self.slots.get(scope, ()))
        if request.slots and caps.concurrency is not None and held + ahead >= caps.concurrency:
            return Block(scope, "concurrency" if held >= caps.concurrency else "queue")
        return None

    def _ahead(self, scope: str, ticket: str, at: float) -> int:
        """How many wait longer for this scope; all that wait, for one who is not in the queue."""
        queue = self.queues.get(scope)
        if not queue:
            return 0
        mine = (queue[ticket], ticket) if ticket in queue else (at + WAIT_MAX_S, "")
        return sum(1 for other, arrival in queue.items() if (arrival, other) < mine)

    def _take(self, scope: str, caps: Caps, request: AdmitRequest, now: datetime) -> Hold:
        at = now.timestamp()
        for span, _ in caps.windows():
            self.window(scope, span).add(request.tokens if span.of_tokens else 1, at)
        hold = Hold(scope, request.ticket, now, request.tokens, caps, request.slots)
        self.keep(hold)
        return hold

    def window(self, scope: str, span: Span) -> Window:
        return self.windows.setdefault((scope, span.name), Window(span))
