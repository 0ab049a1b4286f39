"""The keys' states as a decision reads them, from the persisted copy: for dry runs outside the web process."""

from datetime import datetime

from keys.core.pool import pool_of_rows
from keys.core.report import account_target, key_target, standing_of
from keys.core.state import FRESH
from keys.models import StoredState
from routing.core.table import RoutingTable
from routing.core.views import KeyView


def stored_views(table: RoutingTable, model: str, now: datetime) -> dict[int, KeyView]:
    """Return a view per upstream key. `model` is the name whose rests count."""
    pool = pool_of_rows(dict(StoredState.objects.values_list("target", "data")), now)
    views = {}
    for upstream in table.upstreams.values():
        sent = upstream.aliases.get(model, model)
        for key in upstream.keys:
            state = pool.states.get(key_target(key.id), FRESH)
            if key.epoch > state.epoch:
                state = FRESH
            account = None
            if key.account_id is not None:
                account = pool.states.get(account_target(key.account_id), FRESH)
            views[key.id] = KeyView(standing=standing_of(state, account, sent, now))
    return views
