"""Conformance, part four: claims on calls that must not run twice. Every test runs on both stores."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from keys.stores.claims import LEASE_S, Claim, Claims
from keys.stores.courier import StoreDown
from keys.stores.redis import RedisStore, client_of
from tests.keys.stores.conftest import NOW, Server, Store, stop_redis

MINE, THEIRS = Claim("req_1", "body"), Claim("req_2", "body")
SECOND = timedelta(seconds=1)


async def test_the_first_takes_it(store: Store, peer: Store) -> None:
    assert await store.claims.look("7:key", NOW) is None
    assert await store.claims.take("7:key", MINE, NOW) is None
    assert await peer.claims.take("7:key", THEIRS, NOW) == MINE
    assert await peer.claims.look("7:key", NOW) == MINE
    assert await peer.claims.take("8:key", THEIRS, NOW) is None


async def test_of_many_at_once_one_takes_it(store: Store, peer: Store) -> None:
    claims = [Claim(f"req_{n}", "body") for n in range(40)]
    held = await asyncio.gather(*((store, peer)[n % 2].claims.take("7:key", one, NOW) for n, one in enumerate(claims)))
    winners = [claim for claim, standing in zip(claims, held, strict=True) if standing is None]
    assert len(winners) == 1
    assert [standing for standing in held if standing is not None] == winners * 39


async def test_freed_it_is_anybodys(store: Store, peer: Store) -> None:
    await store.claims.take("7:key", MINE, NOW)
    store.claims.free("7:key", MINE, NOW)
    assert await store.claims.take("7:key", THEIRS, NOW) is None  # behind the freeing, though nobody waited for that
    store.claims.free("7:key", MINE, NOW)  # another's by now
    assert await store.claims.look("7:key", NOW) == THEIRS
    assert await peer.claims.said("req_1", NOW) == ""


async def test_what_it_came_to_is_said_to_those_who_wait(store: Store, peer: Store) -> None:
    await store.claims.take("7:key", MINE, NOW)
    store.claims.free("7:key", MINE, NOW, "no luck")
    assert await store.claims.look("7:key", NOW) is None
    assert await peer.claims.said("req_1", NOW) == "no luck"
    assert await peer.claims.said("req_2", NOW) == ""


async def test_a_holder_renews_and_changes_its_own(store: Store, peer: Store) -> None:
    await store.claims.take("7:key", MINE, NOW)
    assert await store.claims.keep("7:key", MINE, NOW)
    written = replace(MINE, written=True)
    assert await store.claims.keep("7:key", written, NOW, 3600)
    assert await peer.claims.take("7:key", THEIRS, NOW) == written
    assert not await peer.claims.keep("7:key", THEIRS, NOW)
    assert await peer.claims.look("7:key", NOW) == written


async def test_one_that_was_lost_is_put_back(store: Store, peer: Store) -> None:
    assert await store.claims.keep("7:key", MINE, NOW)
    assert await peer.claims.take("7:key", THEIRS, NOW) == MINE


async def test_a_lease_lapses(store: Store, peer: Store) -> None:
    assert await store.claims.keep("7:key", MINE, NOW, 0.05)
    await asyncio.sleep(0.1)  # Redis goes by its own clock
    later = NOW + SECOND
    assert await peer.claims.look("7:key", later) is None
    assert await peer.claims.take("7:key", THEIRS, later) is None
    assert not await store.claims.keep("7:key", MINE, later)


async def test_memory_forgets_what_is_over() -> None:
    claims = Claims()
    for n in range(1001):
        await claims.take(f"{n}", Claim(f"{n}", ""), NOW)
        claims.free(f"other {n}", Claim(f"other {n}", ""), NOW, "said")
    over = NOW + (LEASE_S + 1) * SECOND
    assert (await claims.look("0", over), await claims.said("other 0", over)) == (None, "")
    await claims.take("one more", MINE, over)
    assert (list(claims._claims), claims._said) == (["one more"], {})


async def test_without_redis_nothing_can_be_claimed(own_redis: Server) -> None:
    store = RedisStore(client_of(own_redis.url), clock=lambda: NOW)
    await store.open()
    assert await store.claims.take("7:key", MINE, NOW) is None
    stop_redis(own_redis)
    for asked in (
        store.claims.take("7:other", THEIRS, NOW),
        store.claims.keep("7:key", MINE, NOW),
        store.claims.look("7:key", NOW),
        store.claims.said("req_1", NOW),
    ):
        with pytest.raises(StoreDown):
            await asked
    store.claims.free("7:key", MINE, NOW)  # raises nothing: it follows when Redis is back
    await store.close()


async def test_a_claim_that_nobody_hears_of_is_given_back(store: Store) -> None:
    if not isinstance(store, RedisStore):
        return  # there taking a claim waits for nothing
    asking = asyncio.create_task(store.claims.take("7:key", MINE, NOW))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await store.claims.look("7:key", NOW)  # behind the taking
    assert await store.claims.look("7:key", NOW) is None  # behind the freeing
