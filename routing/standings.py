"""The keys' states as a decision reads them, from the persisted copy: for dry runs outside the web process."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TypeAlias

from keys.core.pool import pool_of_rows
from keys.core.report import Standing, account_target, key_target, standing_of
from keys.core.state import FRESH
from keys.models import StoredState
from routing.core.decision import Target
from routing.core.table import KeyInfo
from routing.core.views import KeyView

Views: TypeAlias = Callable[[Target], Mapping[int, KeyView]]


def stored_views(now: datetime) -> Views:
    """Read the states; return what tells the views of every key that a target reaches, for the name sent there."""
    pool = pool_of_rows(dict(StoredState.objects.values_list("target", "data")), now)

    def standing(key: KeyInfo, model: str) -> Standing:
        state = pool.states.get(key_target(key.id), FRESH)
        account = None
        if key.account_id is not None:
            account = pool.states.get(account_target(key.account_id), FRESH)
        return standing_of(FRESH if key.epoch > state.epoch else state, account, model, now)

    def views(target: Target) -> Mapping[int, KeyView]:
        keys = {key.id: key for hop in target.reachable for key in hop.upstream.keys}
        return {key_id: KeyView(standing=standing(keys[key_id], model)) for key_id, model in target.pairs}

    return views
