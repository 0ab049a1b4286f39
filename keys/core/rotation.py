"""Whose turn it is: the draws that need memory.

    round_robin   the member served longest ago (never served = first); ties in listed order. No index that a member
                  coming or going could shift.
    weighted      nginx's smooth weighted round-robin. A member that is away keeps its place; currents are held within
                  ± the total, so that weights which change cannot build up a debt.
    least_used    fewest calls in 24 h; a newcomer starts at the others' minimum.
    headroom      most calls left under the caps; uncapped members after the capped ones.
    listed        as they come (the order was decided elsewhere).

A draw looks, a charge remembers; they are apart because the member that really leads is charged, whoever was drawn.
`keys/stores/lua/shared.lua` repeats this; one suite tests both.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

HOUR_S = 3600
HOURS = 24


class Rotation(StrEnum):
    LISTED = "listed"
    ROUND_ROBIN = "round_robin"
    WEIGHTED = "weighted"
    LEAST_USED = "least_used"
    HEADROOM = "headroom"


@dataclass(frozen=True, slots=True)
class Entrant:
    """One that may be drawn. `room`: calls left under its caps, None = uncapped."""

    id: int
    weight: int = 1
    room: int | None = None


@dataclass(slots=True)
class Wheel:
    """Memory of one rotation (a group's members, an upstream's keys)."""

    current: dict[int, int] = field(default_factory=dict)
    served: dict[int, int] = field(default_factory=dict)
    turn: int = 0
    used: dict[int, dict[int, int]] = field(default_factory=dict)  # id -> hour -> calls

    def draw(self, kind: Rotation, entrants: Sequence[Entrant], now: float) -> Entrant:
        """Whose turn it is among these (at least one). `now` in seconds since 1970."""
        match kind:
            case Rotation.ROUND_ROBIN:
                return min(entrants, key=lambda one: self.served.get(one.id, 0))
            case Rotation.WEIGHTED:
                return max(entrants, key=lambda one: self.current.get(one.id, 0) + one.weight)
            case Rotation.LEAST_USED:
                self._welcome(entrants, now)
                return min(entrants, key=lambda one: self.calls_24h(one.id, now))
            case Rotation.HEADROOM:
                return min(entrants, key=lambda one: (one.room is None, -(one.room or 0)))
            case Rotation.LISTED:
                return entrants[0]

    def charge(self, kind: Rotation, entrants: Sequence[Entrant], lead: int, now: float) -> None:
        """Remember that `lead` had the turn; it may be one that was not drawn."""
        match kind:
            case Rotation.ROUND_ROBIN:
                self.turn += 1
                self.served[lead] = self.turn
            case Rotation.WEIGHTED:
                self._weigh(entrants, lead)
            case Rotation.LEAST_USED:
                self._welcome(entrants, now)
                hours = self.used.setdefault(lead, {})
                hours[int(now // HOUR_S)] = hours.get(int(now // HOUR_S), 0) + 1
            case Rotation.HEADROOM | Rotation.LISTED:
                pass

    def calls_24h(self, member: int, now: float) -> int:
        hour = int(now // HOUR_S)
        return sum(n for h, n in self.used.get(member, {}).items() if hour - HOURS < h <= hour)

    def _weigh(self, entrants: Sequence[Entrant], lead: int) -> None:
        total = sum(one.weight for one in entrants)
        for one in entrants:
            current = self.current.get(one.id, 0) + one.weight - (total if one.id == lead else 0)
            self.current[one.id] = max(-total, min(total, current))

    def _welcome(self, entrants: Sequence[Entrant], now: float) -> None:
        hour = int(now // HOUR_S)
        for member, hours in list(self.used.items()):
            kept = {h: n for h, n in hours.items() if hour - HOURS < h <= hour}
            if kept:
                self.used[member] = kept
            else:
                del self.used[member]
        known = [self.calls_24h(one.id, now) for one in entrants if one.id in self.used]
        for one in entrants:
            if one.id not in self.used:
                self.used[one.id] = {hour: min(known, default=0)}
