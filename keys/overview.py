"""The snapshot of every upstream key, for `manage.py pool` and the pool page."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import orjson

from keys.core.pool import pool_of_rows
from keys.models import StoredState, UpstreamKey
from tenants.models import Tenant


def overview(*, now: datetime, tenants: Sequence[Tenant] | None = None) -> list[dict[str, Any]]:
    """Return one row per upstream key, of all tenants or of the given ones. Reads the persisted states."""
    pool = pool_of_rows(dict(StoredState.objects.values_list("target", "data")), now)
    keys = UpstreamKey.objects.select_related("upstream__tenant", "account").order_by(
        "upstream__tenant__slug", "upstream__name", "pk"
    )
    if tenants is not None:
        keys = keys.for_tenants(tenants)
    return [
        {
            "tenant": key.upstream.tenant.slug,
            "upstream": key.upstream.name,
            "key": key.name,
            "account": key.account.name if key.account is not None else None,
            "tail": key.tail,
            **pool.sheet(key.pk, key.account_id).as_json(),
            "enabled": key.enabled,
        }
        for key in keys
    ]


def dumps(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as a JSON list."""
    return orjson.dumps(list(rows), option=orjson.OPT_INDENT_2).decode()
