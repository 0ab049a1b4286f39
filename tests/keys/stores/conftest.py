"""Both state stores behind one fixture, and a Redis of our own when the environment names none."""

import asyncio
import os
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count

import pytest
import redis

from keys.stores.embedded import EmbeddedStore
from keys.stores.redis import RedisStore, client_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
_prefixes = count(1)


@dataclass
class Server:
    """A Redis started for these tests, to be frozen and killed at will."""

    url: str
    port: int
    process: "subprocess.Popen[bytes]"


def start_redis(port: int | None = None) -> Server:
    if port is None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
    process = subprocess.Popen(
        ["redis-server", "--save", "", "--appendonly", "no", "--port", str(port), "--bind", "127.0.0.1"],
        stdout=subprocess.DEVNULL,
    )
    url = f"redis://127.0.0.1:{port}/0"
    with redis.Redis.from_url(url) as client:
        for _ in range(200):
            try:
                client.ping()
            except redis.ConnectionError:
                time.sleep(0.02)
            else:
                return Server(url, port, process)
    process.kill()
    raise AssertionError("redis-server did not start")


def stop_redis(server: Server) -> None:
    server.process.kill()
    server.process.wait(10)


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    if os.environ.get("REDIS_URL"):
        yield os.environ["REDIS_URL"]
        return
    server = start_redis()
    yield server.url
    stop_redis(server)


@pytest.fixture
def own_redis() -> Iterator[Server]:
    """One that the test may harm."""
    server = start_redis()
    yield server
    stop_redis(server)


async def subscribed(store: RedisStore, count: int) -> None:
    """Wait until so many processes listen to the news, and have read what came before."""
    channel = f"{store.courier.prefix}news"
    async with asyncio.timeout(5):
        while dict(await store.courier.client.pubsub_numsub(channel)).get(channel, 0) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    await asyncio.sleep(0.02)


Store = EmbeddedStore | RedisStore
MakeStore = Callable[[], Awaitable[Store]]


@pytest.fixture(params=["embedded", "redis"])
async def make_store(request: pytest.FixtureRequest) -> AsyncIterator[MakeStore]:
    """Makes stores that share one truth: of several calls, each is another process (embedded: the same store)."""
    opened: list[tuple[Store, asyncio.Task[None]]] = []
    prefix = f"{{test{os.getpid()}-{next(_prefixes)}}}:"
    embedded = EmbeddedStore(clock=lambda: NOW)

    async def make() -> Store:
        store: Store = embedded
        if request.param == "redis":
            store = RedisStore(client_of(request.getfixturevalue("redis_url")), clock=lambda: NOW, prefix=prefix)
        elif opened:
            return store
        await store.open()
        opened.append((store, asyncio.create_task(store.run())))
        if isinstance(store, RedisStore):
            await subscribed(store, len(opened))
        return store

    yield make
    for store, task in opened:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await store.close()


@pytest.fixture
async def store(make_store: MakeStore) -> Store:
    return await make_store()


@pytest.fixture
async def peer(store: Store, make_store: MakeStore) -> Store:
    """Another process's view of the same store."""
    return await make_store()


async def eventually(holds: Callable[[], bool], within_s: float = 2.0) -> None:
    """Wait for news from another process."""
    async with asyncio.timeout(within_s):
        while not holds():  # noqa: ASYNC110  the news come without an event of ours
            await asyncio.sleep(0.002)
