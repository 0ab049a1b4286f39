"""Rotations and records as the request path sees them; this process's own, and shared through Redis."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import orjson
from redis.asyncio import Redis

from keys.stores.courier import Courier, Health, StoreDown
from keys.stores.records import RECORDS_MAX, RecordBook
from keys.stores.wheels import Spin, Wheels

OWN_RECORDS_MAX = 10_000  # what a process remembers of its own for the time that Redis is away
BOARD_S = 60  # a board that nobody writes on is forgotten
_SEPARATOR = "\x1f"  # between scope and name; appears in neither


class Notes:
    """In memory; the embedded store saves the records."""

    def __init__(self, most_records: int = RECORDS_MAX) -> None:
        self.wheels = Wheels()
        self.book = RecordBook(most_records)
        self._boards: dict[str, dict[str, tuple[float, Any]]] = {}

    def rotation(self, scope: str) -> Mapping[str, int]:
        """The integers of a rotation; empty when it never turned."""
        return self.wheels.of(scope)

    def spin(self, spin: Spin) -> None:
        """Charge a rotation. Takes effect here at once, in other processes within milliseconds."""
        self.wheels.spin(spin)

    async def recall(self, names: Sequence[str], now: datetime) -> dict[str, Any]:
        """Values of the records that exist; one round trip for all. Names carry their tenant: see routing."""
        found = ((name, self.book.get(name, now)) for name in names)
        return {name: value for name, value in found if value is not None}

    async def remember(self, values: Mapping[str, Any], ttl_s: float, now: datetime) -> None:
        """Keep JSON values for a time."""
        for name, value in values.items():
            self.book.put(name, value, now.timestamp() + ttl_s)

    async def forget(self, names: Sequence[str]) -> None:
        self.book.drop(names)

    async def pin_up(self, board: str, name: str, value: Any, ttl_s: float, now: datetime) -> None:
        """Show a JSON value on a board that every process reads whole, for a short time."""
        self._boards.setdefault(board, {})[name] = (now.timestamp() + ttl_s, value)

    async def pinned(self, board: str, now: datetime) -> dict[str, Any]:
        """What stands on a board, by name."""
        kept = {name: row for name, row in self._boards.get(board, {}).items() if row[0] > now.timestamp()}
        self._boards[board] = kept
        return {name: value for name, (_until, value) in kept.items()}


class SharedNotes(Notes):
    """The same for all processes. While Redis is away, what this process wrote itself is still known to it."""

    def __init__(self, courier: Courier, process: str) -> None:
        super().__init__(OWN_RECORDS_MAX)
        self._courier = courier
        self._process = process
        self._wheels_key = f"{courier.prefix}wheels"

    def spin(self, spin: Spin) -> None:
        self.wheels.spin(spin)
        if self._courier.health is Health.DOWN:
            return
        fields = [_field(spin.scope, name) for name in spin.drop]
        if fields:
            self._courier.post_command("HDEL", self._wheels_key, *fields)
        for name, step in spin.add.items():
            self._courier.post_command("HINCRBY", self._wheels_key, _field(spin.scope, name), step)
        for name, value in spin.put.items():
            self._courier.post_command("HSET", self._wheels_key, _field(spin.scope, name), value)
        news = ["spin", self._process, spin.scope, dict(spin.add), dict(spin.put), spin.drop]
        self._courier.post_command("PUBLISH", f"{self._courier.prefix}news", orjson.dumps(news))

    def hear_spin(self, process: str, scope: str, add: dict[str, int], put: dict[str, int], drop: list[str]) -> None:
        """Another process charged a rotation."""
        if process != self._process:
            self.wheels.spin(Spin(scope, add, put, tuple(drop)))

    async def load(self, client: Redis) -> None:
        """Read all rotations. Raises RedisError."""
        rows = await client.hgetall(self._wheels_key)
        places = ((str(field).split(_SEPARATOR, 1), int(value)) for field, value in rows.items())
        self.wheels.load((scope, name, value) for (scope, name), value in places)

    async def recall(self, names: Sequence[str], now: datetime) -> dict[str, Any]:
        if not names:
            return {}
        with suppress(StoreDown):
            texts = await self._courier.command("MGET", *(self._key(name) for name in names))
            rows = ((name, orjson.loads(text)) for name, text in zip(names, texts, strict=True) if text)
            return {name: row["value"] for name, row in rows if row["until"] > now.timestamp()}
        return await super().recall(names, now)

    async def remember(self, values: Mapping[str, Any], ttl_s: float, now: datetime) -> None:
        await super().remember(values, ttl_s, now)
        until = now.timestamp() + ttl_s
        sets = [
            ("SET", self._key(name), orjson.dumps({"value": value, "until": until}), "EX", max(1, round(ttl_s)))
            for name, value in values.items()
        ]
        if sets:
            with suppress(StoreDown):
                await self._courier.commands(sets)

    async def forget(self, names: Sequence[str]) -> None:
        await super().forget(names)
        if names:
            with suppress(StoreDown):
                await self._courier.command("DEL", *(self._key(name) for name in names))

    async def pin_up(self, board: str, name: str, value: Any, ttl_s: float, now: datetime) -> None:
        key, text = self._board(board), orjson.dumps([now.timestamp() + ttl_s, value])
        with suppress(StoreDown):
            await self._courier.command("HSET", key, name, text)
            await self._courier.command("EXPIRE", key, max(BOARD_S, round(ttl_s)))

    async def pinned(self, board: str, now: datetime) -> dict[str, Any]:
        with suppress(StoreDown):
            texts = await self._courier.command("HGETALL", self._board(board))
            rows = {name: orjson.loads(text) for name, text in texts.items()}
            over = [name for name, (until, _value) in rows.items() if until <= now.timestamp()]
            if over:
                self._courier.post_command("HDEL", self._board(board), *over)
            return {name: value for name, (_until, value) in rows.items() if name not in over}
        return {}

    def _board(self, board: str) -> str:
        return f"{self._courier.prefix}board:{board}"

    def _key(self, name: str) -> str:
        return f"{self._courier.prefix}record:{name}"


def _field(scope: str, name: str) -> str:
    return f"{scope}{_SEPARATOR}{name}"
