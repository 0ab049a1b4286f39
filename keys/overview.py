"""The snapshot of every upstream key, for `manage.py pool` and the pool page."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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


def text_lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line per key for people, and a last one that counts them."""
    for row in rows:
        yield f"{row['tenant']}/{row['upstream']} {row['key']} (…{row['tail']}): " + "; ".join(_facts(row))
    tally = Counter(_status(row) for row in rows)
    if rows:
        counted = ", ".join(f"{tally[name]} {name}" for name in ("healthy", "cooling", "dead", "off") if tally[name])
        yield f"{_number(len(rows), 'key')}: {counted}"


def _facts(row: Mapping[str, Any]) -> Iterator[str]:
    left = f" {row['cooling_left_s']:.0f} s" if row["cooling_left_s"] else ""
    reason = f", {row['reason']}" if row["reason"] else ""
    yield f"{row['status']}{left}{reason}" if row["enabled"] else f"off ({row['status']}{left}{reason})"
    for model, rest in row["models"].items():
        yield f"{model} rests {rest['left_s']:.0f} s, {rest['reason']}"
    if row["strikes"]:
        yield _number(row["strikes"], "strike")
    if row["trips"]:
        yield _number(row["trips"], "trip")
    yield f"{_number(row['calls'], 'call')}, {row['failure_rate_1h']:.0%} failed in the last hour"
    if row["last_error"]:
        yield f"last error: {row['last_error']}"


def _status(row: Mapping[str, Any]) -> str:
    return str(row["status"]) if row["enabled"] else "off"


def _number(n: int, word: str) -> str:
    return f"{n} {word}" if n == 1 else f"{n} {word}s"
