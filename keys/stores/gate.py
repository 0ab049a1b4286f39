"""Slots, windows and rotations in memory: the embedded store's truth, the Redis store's count of its own slots.

Slots need no lease here: they die with the process that holds them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from keys.core.admission import WAIT_MAX_S, Admission, AdmitRequest, Block, Hold, KeyOption, MemberOption
from keys.core.report import key_target
from keys.core.rotation import Entrant, Rotation, Wheel
from keys.core.windows import Caps, Span, Window


@dataclass(frozen=True, slots=True)
class Eligible:
    """A member with the keys whose state lets them serve; `probes` are the leases that each key needs."""

    member: MemberOption
    keys: tuple[tuple[KeyOption, tuple[str, ...]], ...]


@dataclass(slots=True)
class _Free:
    member: MemberOption
    keys: list[KeyOption] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Draw:
    scope: str
    kind: Rotation


class Gate:
    """Not thread-safe: belongs to one event loop."""

    def __init__(self) -> None:
        self.slots: dict[str, set[str]] = {}
        self.queues: dict[str, dict[str, float]] = {}  # scope -> ticket -> arrival
        self.windows: dict[tuple[str, str], Window] = {}
        self.wheels: dict[str, Wheel] = {}

    def admit(
        self, request: AdmitRequest, members: Sequence[Eligible], leased: Iterable[str], now: datetime
    ) -> Admission:
        """One try, without waiting. `leased` names the targets whose half-open lease is out."""
        at = now.timestamp()
        refused = [self._blocked(caller.scope, caller.caps, request, at) for caller in request.callers]
        if any(refused):
            return Admission(blocks=tuple(block for block in refused if block))
        holds = [self._take(caller.scope, caller.caps, request, now) for caller in request.callers]
        free, busy = self._sorted(request, members, frozenset(leased), at)
        if not free:
            return Admission(callers_passed=True, holds=tuple(holds), blocks=busy, busy=busy)
        member, key = self._pick(request, free, at)
        holds.append(self._take(key_target(key.key_id), key.caps, request, now))
        return Admission(key.key_id, member.upstream_id, callers_passed=True, holds=tuple(holds), busy=busy)

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
                window = self._window(hold.scope, span)
                window.correct(tokens - hold.tokens, hold.at.timestamp(), now.timestamp())

    def keep(self, hold: Hold) -> None:
        """Note a slot that was granted elsewhere (by the shared store)."""
        if hold.slot and hold.caps.concurrency is not None:
            self.slots.setdefault(hold.scope, set()).add(hold.ticket)

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

    def _sorted(
        self, request: AdmitRequest, members: Sequence[Eligible], leased: frozenset[str], at: float
    ) -> tuple[list[_Free], tuple[Block, ...]]:
        free, busy = [], []
        for eligible in members:
            entry = _Free(eligible.member)
            for key, probes in eligible.keys:
                taken = next((probe for probe in probes if probe in leased), None)
                block = Block(taken, "probe") if taken else self._key_blocked(key, request, at)
                if block is None:
                    entry.keys.append(key)
                else:
                    busy.append(block)
            if entry.keys:
                free.append(entry)
        return free, tuple(busy)

    def _key_blocked(self, key: KeyOption, request: AdmitRequest, at: float) -> Block | None:
        return self._blocked(key_target(key.key_id), key.caps, request, at)

    def _blocked(self, scope: str, caps: Caps, request: AdmitRequest, at: float) -> Block | None:
        """The longest-lasting reason, windows before slots."""
        ahead = self._ahead(scope, request.ticket, at)
        worst: Block | None = None
        for span, limit in caps.windows():
            amount = request.tokens if span.of_tokens else 1 + ahead
            left = self._window(scope, span).frees_in(amount, limit, at)
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

    # Draws

    def _pick(self, request: AdmitRequest, free: Sequence[_Free], at: float) -> tuple[MemberOption, KeyOption]:
        """The sticky conversation's key when it is free, else by draw; the rotations remember who led."""
        entries = {entry.member.upstream_id: entry for entry in free}
        members = [Entrant(e.member.upstream_id, e.member.weight, self._room_of(e.keys, at)) for e in free]
        wanted = next((e.member.upstream_id for e in free if any(k.key_id == request.lead for k in e.keys)), None)
        entry = entries[self._turn(request, _Draw(request.group, request.strategy), members, wanted, at)]
        keys = [Entrant(key.key_id, key.weight, self._room(key, at)) for key in entry.keys]
        draw = _Draw(f"upstream:{entry.member.upstream_id}", entry.member.rotation)
        chosen = self._turn(request, draw, keys, request.lead if wanted is not None else None, at)
        return entry.member, next(key for key in entry.keys if key.key_id == chosen)

    def _turn(
        self, request: AdmitRequest, draw: _Draw, entrants: Sequence[Entrant], wanted: int | None, at: float
    ) -> int:
        wheel = self.wheels.setdefault(draw.scope, Wheel()) if draw.scope else Wheel()
        lead = wheel.draw(draw.kind, entrants, at).id if wanted is None else wanted
        if request.charge or draw.kind is Rotation.LEAST_USED:  # which counts calls, whoever led
            wheel.charge(draw.kind, entrants, lead, at)
        return lead

    def _room_of(self, keys: Iterable[KeyOption], at: float) -> int | None:
        rooms = [self._room(key, at) for key in keys]
        return None if None in rooms else sum(room for room in rooms if room is not None)

    def _room(self, key: KeyOption, at: float) -> int | None:
        """Calls left under the key's caps; None = uncapped."""
        scope = key_target(key.key_id)
        rooms = [
            limit - self._window(scope, span).sum_at(at) for span, limit in key.caps.windows() if not span.of_tokens
        ]
        if key.caps.concurrency is not None:
            rooms.append(key.caps.concurrency - len(self.slots.get(scope, ())))
        return min(rooms, default=None)

    def _take(self, scope: str, caps: Caps, request: AdmitRequest, now: datetime) -> Hold:
        at = now.timestamp()
        for span, _ in caps.windows():
            self._window(scope, span).add(request.tokens if span.of_tokens else 1, at)
        hold = Hold(scope, request.ticket, now, request.tokens, caps, request.slots)
        self.keep(hold)
        return hold

    def _window(self, scope: str, span: Span) -> Window:
        return self.windows.setdefault((scope, span.name), Window(span))
