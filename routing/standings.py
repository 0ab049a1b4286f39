"""The present as a decision reads it, from what is stored: for dry runs, also outside the process that serves.

Key states, load and caps, rotations, and what is remembered of conversations. Nothing here changes any of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from django.conf import settings

from keys.core.counts import Counts
from keys.core.pool import Pool, pool_of_rows
from keys.core.report import Standing, account_target, key_target, standing_of
from keys.core.sight import SIGHT_PREFIX, WHEEL_PREFIX, figures_of
from keys.core.state import FRESH
from keys.models import StoredState
from keys.stores.reading import stored_records
from keys.stores.records import ROW_PREFIX
from routing.core.decision import Target
from routing.core.facts import Facts
from routing.core.memory import Memory
from routing.core.table import KeyInfo, RoutingTable
from routing.core.views import KeyView, view_of
from routing.sessions import memory_of, names_of

Rows: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Present:
    """How things stand at a moment. Each answers from what was read when it was made, `memory` asks anew."""

    now: datetime
    pool: Pool
    rows: Rows

    def views(self, target: Target) -> Mapping[int, KeyView]:
        """Return the view of every key that a target reaches, for the name sent there."""
        keys = {key.id: key for hop in target.reachable for key in hop.upstream.keys}
        return {key_id: self._view(keys[key_id], model) for key_id, model in target.pairs}

    def rotation(self, scopes: Sequence[str]) -> Mapping[str, Mapping[str, int]]:
        """Return the integers of these rotations."""
        found = ((scope, self.rows.get(f"{WHEEL_PREFIX}{scope}")) for scope in scopes)
        return {scope: _integers(row) for scope, row in found if isinstance(row, Mapping)}

    def memory(self, facts: Facts, table: RoutingTable) -> Memory:
        """Return what is remembered of a request's conversation."""
        wanted = names_of(facts, table)
        return memory_of(wanted, stored_records(wanted.all, self.now, settings.REDIS_URL))

    def _view(self, key: KeyInfo, model: str) -> KeyView:
        holder = key_target(key.id) if key.account_id is None else account_target(key.account_id)
        calls = self.pool.counts.get(key.id, Counts()).calls_24h(self.now)
        seen = figures_of(self._sight(key_target(key.id)), self._sight(holder), key.limits, calls, self.now)
        return view_of(self._standing(key, model), seen)

    def _standing(self, key: KeyInfo, model: str) -> Standing:
        state = self.pool.states.get(key_target(key.id), FRESH)
        account = None
        if key.account_id is not None:
            account = self.pool.states.get(account_target(key.account_id), FRESH)
        return standing_of(FRESH if key.epoch > state.epoch else state, account, model, self.now)

    def _sight(self, target: str) -> Rows:
        row = self.rows.get(f"{SIGHT_PREFIX}{target}")
        return row if isinstance(row, Mapping) else {}


def read_present(now: datetime) -> Present:
    """Read how things stand: one query, conversations left out."""
    listed = StoredState.objects.exclude(target__startswith=ROW_PREFIX).values_list("target", "data")
    rows = dict(listed)
    return Present(now, pool_of_rows(rows, now), rows)


def _integers(row: Mapping[str, Any]) -> dict[str, int]:
    return {str(name): value for name, value in row.items() if isinstance(value, int)}
