"""Both stores of reservations behind one fixture."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count

import pytest

from billing.stores.embedded import EmbeddedReservations
from billing.stores.protocol import Reservations
from billing.stores.redis import RedisReservations
from keys.stores.redis import client_of
from tests.keys.stores.conftest import own_redis, redis_url

__all__ = ["own_redis", "redis_url"]
_prefixes = count(1)


@pytest.fixture(params=["embedded", "redis"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Reservations]:
    if request.param == "embedded":
        yield EmbeddedReservations()
        return
    made = RedisReservations(client_of(request.getfixturevalue("redis_url")), prefix=f"{{b{next(_prefixes)}}}:")
    await made.open()
    serving = asyncio.create_task(made.run())  # calls of one turn share a round trip, as in a gateway
    yield made
    serving.cancel()
    await asyncio.wait({serving})
    for key in await made.courier.client.keys(f"{made.courier.prefix}*"):
        await made.courier.client.delete(key)
    await made.close()
