"""Redis away: hard budgets close at 95 %, others go on per process; what was spent comes back from the ledger."""

from decimal import Decimal

import pytest

from billing.stores.redis import RedisReservations
from keys.stores.redis import client_of
from tests.billing.stores.test_reservations import NOW, ask, loaded
from tests.keys.stores.conftest import start_redis, stop_redis

D = Decimal


@pytest.fixture
async def store(own_redis):
    made = RedisReservations(client_of(own_redis.url))
    await made.open()
    yield made
    await made.close()


@pytest.mark.parametrize(("spent", "granted"), [("9.499999999999", True), ("9.5", False), ("10", False)])
async def test_blind_budgets_close_near_their_end(store, own_redis, spent, granted):
    await loaded(store, spent)
    assert (await store.reserve(ask("a", "0.1"), NOW)).granted is (spent != "10")
    await store.release("a", ["s"], NOW)
    stop_redis(own_redis)
    assert (await store.reserve(ask("b", "0.1"), NOW)).granted is granted
    assert not store.shared


async def test_blind_calls_are_counted_by_their_process(store, own_redis):
    await loaded(store)
    await store.reserve(ask("a", "4"), NOW)
    stop_redis(own_redis)
    assert (await store.reserve(ask("b", "8"), NOW)).granted
    assert not (await store.reserve(ask("c", "8"), NOW)).granted
    assert await store.settle("b", {"s": D("9.6")}, NOW)
    assert not (await store.reserve(ask("d", "0.1"), NOW)).granted


async def test_a_scope_that_was_never_seen_is_loaded_without_redis(store, own_redis):
    stop_redis(own_redis)
    assert (await store.reserve(ask("a"), NOW)).unknown == ("s",)
    await loaded(store, "9")
    assert (await store.reserve(ask("a"), NOW)).granted


async def test_a_redis_that_comes_back_empty_is_filled_from_the_ledger(store, own_redis):
    await loaded(store, "3")
    stop_redis(own_redis)
    await store.reserve(ask("a"), NOW)
    again = start_redis(own_redis.port)
    try:
        assert (await store.courier.probe()).value == "up"
        store.courier.up()
        assert (await store.reserve(ask("b"), NOW)).unknown == ("s",)
        await loaded(store, "4")
        answer = await store.reserve(ask("b"), NOW)
        assert (answer.granted, answer.standings["s"].spent) == (True, 4)
    finally:
        stop_redis(again)
