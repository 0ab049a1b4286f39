"""What conversations are remembered by: who answered last, and on whose account an id or a signature lives.

Kept in the state store's records, so all processes agree: pins for 24 h, ids and signatures for 30 days. Every name
holds tenant and line, hashed; see `routing.core.identity`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from keys.stores.notes import Notes
from routing.core.choose import route_of
from routing.core.facts import Facts
from routing.core.identity import pin_key, session_keys
from routing.core.memory import Memory
from routing.core.sticky import pin_from, pin_values
from routing.core.table import RoutingTable
from routing.core.views import Owner, Pin

PIN_S = 24 * 3600.0
OWNER_S = 30 * 24 * 3600.0


async def recall(notes: Notes, facts: Facts, table: RoutingTable, now: datetime) -> Memory:
    """Look a request's conversation up, in one round trip."""
    wanted = names_of(facts, table)
    if not wanted.all:
        return Memory()
    return memory_of(wanted, await notes.recall(wanted.all, now))


@dataclass(frozen=True, slots=True)
class Wanted:
    """The records of a conversation: its pin, the most exact name first, and the owner of each id and signature."""

    names: tuple[str, ...] = ()
    marks: Mapping[str, str] = field(default_factory=dict)

    @property
    def all(self) -> list[str]:
        return [*self.names, *self.marks.values()]


def names_of(facts: Facts, table: RoutingTable) -> Wanted:
    """Name the records that hold what is remembered of a request's conversation."""
    route = route_of(table, facts)
    names: tuple[str, ...] = ()
    if route is not None and facts.converses:
        names = session_keys(facts.session, facts.tenant_id, facts.line_id, route.id)
    return Wanted(names, {mark: pin_key(facts.tenant_id, facts.line_id, mark) for mark in _marks(facts)})


def memory_of(wanted: Wanted, found: Mapping[str, Any]) -> Memory:
    """Read what was found under the names. The most exact name wins."""
    pin = next((pin for name in wanted.names if name in found and (pin := _pin(found[name])) is not None), None)
    owners = {mark: owner for mark, name in wanted.marks.items() if (owner := _owner(found.get(name))) is not None}
    return Memory(wanted.names, pin, owners)


async def keep_pin(notes: Notes, memory: Memory, pin: Pin, now: datetime) -> None:
    """Remember who answered."""
    if memory.names:
        await notes.remember(dict.fromkeys(memory.names, pin_values(pin)), PIN_S, now)


async def keep_owner(notes: Notes, facts: Facts, marks: Iterable[str], owner: Owner, now: datetime) -> None:
    """Remember on whose account hashed ids live, and who signed what."""
    values = {
        pin_key(facts.tenant_id, facts.line_id, mark): {"balance": owner.balance, "provider": owner.provider}
        for mark in marks
    }
    if values:
        await notes.remember(values, OWNER_S, now)


def _marks(facts: Facts) -> tuple[str, ...]:
    return (*(pin.value for pin in facts.pins), *facts.signatures)


def _pin(value: Any) -> Pin | None:
    return pin_from(value) if isinstance(value, Mapping) else None


def _owner(value: Any) -> Owner | None:
    try:
        return Owner(int(value["balance"]), str(value["provider"]))
    except (KeyError, TypeError, ValueError):
        return None
