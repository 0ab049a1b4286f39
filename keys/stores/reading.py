"""What a store remembers, read by a process that has no store: the records of conversations."""

from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from datetime import datetime
from typing import Any

import orjson
from redis import Redis
from redis.exceptions import RedisError

from keys.models import StoredState
from keys.stores.courier import CALL_TIMEOUT_S
from keys.stores.records import ROW_PREFIX
from keys.stores.redis import PREFIX


def stored_records(names: Sequence[str], now: datetime, redis_url: str = "") -> dict[str, Any]:
    """Return the values of the records that exist and have not run out; none while Redis is away.

    Without `redis_url` the embedded store's rows are read.
    """
    if not names:
        return {}
    rows = _from_redis(names, redis_url) if redis_url else _from_database(names)
    at = now.timestamp()
    return {name: row.get("value") for name, row in rows.items() if float(row.get("until") or 0) > at}


def _from_database(names: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    wanted = [f"{ROW_PREFIX}{name}" for name in names]
    rows = StoredState.objects.filter(target__in=wanted).values_list("target", "data")
    return {target.removeprefix(ROW_PREFIX): row for target, row in rows if isinstance(row, Mapping)}


def _from_redis(names: Sequence[str], url: str) -> dict[str, Mapping[str, Any]]:
    with suppress(RedisError, OSError, orjson.JSONDecodeError):
        timeouts = {"socket_timeout": CALL_TIMEOUT_S, "socket_connect_timeout": CALL_TIMEOUT_S}
        with closing(Redis.from_url(url, **timeouts)) as client:
            texts: Any = client.mget([f"{PREFIX}record:{name}" for name in names])
        return {name: orjson.loads(text) for name, text in zip(names, texts, strict=True) if text}
    return {}
