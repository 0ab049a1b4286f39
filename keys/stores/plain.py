"""Plain commands: reading everything, and compare-and-set for a Redis that refuses scripts."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from redis.asyncio import Redis
from redis.exceptions import WatchError

from keys.core.counts import Counts, loaded_counts


async def move_plainly(client: Redis, prefix: str, moves: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Do what `settle.lua` does with `moves`; returns the conflicting rows (target, row), empty = done.

    Raises RedisError.
    """
    states, gen_key = f"{prefix}states", f"{prefix}gen"
    async with client.pipeline(transaction=True) as pipe:
        await pipe.watch(states, gen_key)
        rows = {move["target"]: await _row(pipe, states, move["target"]) for move in moves}
        if any(_version(rows[move["target"]]) != move["expect"] for move in moves):
            return list(rows.items())
        gen = int(await pipe.get(gen_key) or 0)
        pipe.multi()  # type: ignore[no-untyped-call]  # redis-py leaves it untyped
        for step, move in enumerate(moves, start=1):
            row = f"{move['expect'] + 1}|{move['state']}"
            pipe.hset(states, move["target"], row)
            pipe.incr(gen_key)
            pipe.publish(f"{prefix}news", orjson.dumps(["state", move["target"], row, gen + step]))
        try:
            await pipe.execute()
        except WatchError:
            return [(target, await _row(client, states, target)) for target in rows]
    return []


async def _row(client: Redis, states: str, target: str) -> str:
    return str(await client.hget(states, target) or "")


async def read_states(client: Redis, prefix: str) -> tuple[dict[str, str], dict[str, str], int]:
    """Stored rows by target, leases by target, and the change counter, of one moment. Raises RedisError."""
    async with client.pipeline(transaction=True) as pipe:
        pipe.hgetall(f"{prefix}states")
        pipe.hgetall(f"{prefix}probes")
        pipe.get(f"{prefix}gen")
        rows, leases, gen = await pipe.execute()
    return rows, leases, int(gen or 0)


async def read_counts(client: Redis, prefix: str) -> dict[int, Counts]:
    """Counters of every key that was ever called. Raises RedisError."""
    keys = sorted(int(number) for number in await client.smembers(f"{prefix}counted"))
    async with client.pipeline(transaction=False) as pipe:
        for key_id in keys:
            pipe.hgetall(f"{prefix}count:{key_id}")
        rows = await pipe.execute()
    return {key_id: _counts(row) for key_id, row in zip(keys, rows, strict=True)}


def _counts(row: Mapping[str, str]) -> Counts:
    buckets = {name[1:] for name in row if name[0] in "cf" and name[1:].isdigit()}
    recent = {bucket: [int(row.get(f"c{bucket}", 0)), int(row.get(f"f{bucket}", 0))] for bucket in buckets}
    served = row.get("last_served")
    hours = {name[1:]: int(n) for name, n in row.items() if name[0] == "h" and name[1:].isdigit()}
    return loaded_counts({**row, "recent": recent, "hours": hours, "last_served": float(served) if served else None})


def _version(row: str) -> int:
    head = row.partition("|")[0]
    return int(head) if head.isdigit() else 0
