"""Redis frozen, killed, emptied, forbidding scripts: every call stays bounded, nothing learnt is lost."""

import asyncio
import logging
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from redis.asyncio import Redis

from keys.core.admission import Caller, SettleRequest
from keys.core.outcome import Cause
from keys.core.report import Skip
from keys.core.state import Status
from keys.core.windows import Caps
from keys.stores.courier import Health
from keys.stores.redis import RedisStore, client_of
from tests.keys.stores.conftest import NOW, Server, eventually, start_redis, stop_redis
from tests.keys.stores.test_admission import ask, key
from tests.keys.stores.test_states import POLICY, SECOND, report, tell, trip

CAPPED = key(1, concurrency=1000)  # a key without limits is granted without asking Redis


@asynccontextmanager
async def running(url: str, prefix: str = "{pm}:") -> AsyncIterator[RedisStore]:
    store = RedisStore(client_of(url), clock=lambda: NOW, prefix=prefix)
    await store.open()
    task = asyncio.create_task(store.run())
    await asyncio.sleep(0.05)
    try:
        yield store
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await store.close()


async def bounded(store: RedisStore) -> None:
    """Everything a request does, within a second each."""
    for call in (
        lambda: store.admit(ask(CAPPED), NOW),
        lambda: tell(store, Cause.SERVED, 1),
        lambda: store.snapshot(NOW),
    ):
        started = time.monotonic()
        await call()
        assert time.monotonic() - started < 1


async def test_a_frozen_redis_bounds_every_call_and_recovers_unaided(own_redis: Server) -> None:
    async with running(own_redis.url) as store, running(own_redis.url) as peer:
        line = Caller("line:1", Caps(rpm=1, concurrency=2))
        held = await store.admit(ask(key(1), callers=(line,)), NOW)
        os.kill(own_redis.process.pid, signal.SIGSTOP)
        try:
            await bounded(store)
            assert store.health is Health.DOWN
            started = time.monotonic()
            open_rates = await store.admit(ask(key(1), callers=(line,)), NOW)
            full = await store.admit(ask(key(1), callers=(line,)), NOW)
            await trip(store, at=2)
            assert time.monotonic() - started < 0.2  # no call waits once it is known
        finally:
            os.kill(own_redis.process.pid, signal.SIGCONT)
        assert (open_rates.granted, open_rates.degraded, full.granted) == (True, True, False)
        assert store.standing(1, None, "gpt", NOW + 2 * SECOND).skip is Skip.COOLING
        await eventually(lambda: store.health is Health.UP)
        await eventually(lambda: peer.standing(1, None, "gpt", NOW + 2 * SECOND).skip is Skip.COOLING)
        # The slot granted meanwhile counts for everybody; rates are looked at again.
        await store.settle(SettleRequest(holds=held.holds), NOW)
        await eventually(lambda: peer.health is Health.UP)
        blocked = await peer.admit(ask(key(1), callers=(line,)), NOW)
        assert [(block.limit) for block in blocked.blocks] == ["rpm"]
        other = Caller("line:1", Caps(concurrency=1))
        assert not (await peer.admit(ask(key(1), callers=(other,)), NOW)).granted


async def test_calls_that_queue_behind_a_failing_one_fail_with_it(own_redis: Server) -> None:
    async with running(own_redis.url) as store:
        await store.admit(ask(CAPPED), NOW)
        os.kill(own_redis.process.pid, signal.SIGSTOP)
        started = time.monotonic()
        calls = []
        for _ in range(5):
            calls.append(asyncio.create_task(store.admit(ask(CAPPED), NOW)))
            await asyncio.sleep(0.01)
        async with asyncio.timeout(5):
            answers = await asyncio.gather(*calls)
        assert [answer.degraded for answer in answers] == [True] * 5
        assert time.monotonic() - started < 1
        os.kill(own_redis.process.pid, signal.SIGCONT)


async def test_a_redis_that_comes_back_empty_learns_the_states_again(own_redis: Server) -> None:
    async with running(own_redis.url) as store:
        await tell(store, Cause.AUTH_INVALID, 1)
        stop_redis(own_redis)
        await tell(store, Cause.RATE_LIMITED, 1, key=2)
        assert store.health is Health.DOWN
        own_redis.process = start_redis(own_redis.port).process
        await eventually(lambda: store.health is Health.UP, 5)
        async with running(own_redis.url) as peer:
            await eventually(lambda: peer.standing(1, None, "gpt", NOW).skip is Skip.DEAD)
            await eventually(lambda: peer.standing(2, None, "gpt", NOW + SECOND).skip is Skip.COOLING)


async def test_a_flushed_redis_is_noticed(own_redis: Server) -> None:
    async with running(own_redis.url) as store:
        await tell(store, Cause.AUTH_INVALID, 1)
        async with Redis.from_url(own_redis.url) as client:
            await client.flushall()
            await asyncio.sleep(1)
        async with running(own_redis.url) as peer:
            assert peer.standing(1, None, "gpt", NOW).skip is Skip.DEAD


async def test_a_store_starts_while_redis_is_down(own_redis: Server) -> None:
    stop_redis(own_redis)
    async with running(own_redis.url) as store:
        assert store.health is Health.DOWN
        assert (await store.admit(ask(key(1)), NOW)).granted
        await tell(store, Cause.AUTH_INVALID, 1)
        own_redis.process = start_redis(own_redis.port).process
        await eventually(lambda: store.health is Health.UP, 5)
        async with running(own_redis.url) as peer:
            await eventually(lambda: peer.standing(1, None, "gpt", NOW).skip is Skip.DEAD)


async def test_what_one_process_learnt_alone_is_joined_with_the_rest(own_redis: Server) -> None:
    async with running(own_redis.url) as store, running(own_redis.url) as peer:
        await tell(store, Cause.RATE_LIMITED, 1)
        await eventually(lambda: peer.standing(1, None, "gpt", NOW).skip is Skip.COOLING)
        os.kill(own_redis.process.pid, signal.SIGSTOP)
        await store.revive(1, NOW + 2 * SECOND)  # nobody else can know
        os.kill(own_redis.process.pid, signal.SIGCONT)
        await eventually(lambda: peer.standing(1, None, "gpt", NOW).epoch == 1)
        assert peer.standing(1, None, "gpt", NOW).available


async def test_lost_news_are_noticed(own_redis: Server) -> None:
    async with running(own_redis.url) as store, running(own_redis.url) as peer:
        peer.mirror.hear = lambda message: None  # type: ignore[method-assign]
        await tell(store, Cause.AUTH_INVALID, 1)
        await eventually(lambda: peer.standing(1, None, "gpt", NOW).skip is Skip.DEAD)


async def test_refused_scripts_are_loud_and_states_stay_shared(
    own_redis: Server, caplog: pytest.LogCaptureFixture
) -> None:
    async with Redis.from_url(own_redis.url) as client:
        await client.acl_setuser("default", enabled=True, nopass=True, categories=["-@scripting"])
        with caplog.at_level(logging.ERROR):
            async with running(own_redis.url, "{a}:") as store, running(own_redis.url, "{a}:") as peer:
                assert store.health is Health.NO_SCRIPTS
                assert "refuses Lua scripts" in caplog.text
                changes = await asyncio.gather(
                    *(tell((store, peer)[n % 2], Cause.SERVER_ERROR, 1, began=0.5) for n in range(20))
                )
                assert sum(change.entered for step in changes for change in step) == 1
                await eventually(lambda: peer.standing(1, None, "gpt", NOW + SECOND).skip is Skip.COOLING)
                await eventually(lambda: store.standing(1, None, "gpt", NOW + SECOND).skip is Skip.COOLING)
                grants = [await store.admit(ask(key(2, rpm=1)), NOW) for _ in range(2)]
                assert [(one.granted, one.degraded) for one in grants] == [(True, True), (False, True)]


async def test_forgotten_scripts_are_sent_again(own_redis: Server) -> None:
    async with running(own_redis.url) as store, Redis.from_url(own_redis.url) as client:
        assert not (await store.admit(ask(CAPPED), NOW)).degraded
        await client.script_flush()
        assert not (await store.admit(ask(CAPPED), NOW)).degraded
        assert store.health is Health.UP


async def test_slots_of_a_crashed_process_expire(own_redis: Server) -> None:
    async with running(own_redis.url) as peer:
        async with running(own_redis.url) as crashed:
            assert (await crashed.admit(ask(key(1, concurrency=1)), NOW)).granted
        assert not (await peer.admit(ask(key(1, concurrency=1)), NOW + 29 * SECOND)).granted
        assert (await peer.admit(ask(key(1, concurrency=1)), NOW + 30 * SECOND)).granted


async def test_slots_in_use_are_renewed(own_redis: Server) -> None:
    async with running(own_redis.url) as store:
        held = await store.admit(ask(key(1, concurrency=1)), NOW)
        store._clock = lambda: NOW + 25 * SECOND
        await store._renew()
        assert not (await store.admit(ask(key(1, concurrency=1)), NOW + 54 * SECOND)).granted
        await store.settle(SettleRequest(holds=held.holds), NOW + 54 * SECOND)
        await store._renew()
        assert (await store.admit(ask(key(1, concurrency=1)), NOW + 54 * SECOND)).granted


async def test_a_grant_to_a_cancelled_request_is_given_back(own_redis: Server) -> None:
    async with running(own_redis.url) as store:
        for _ in range(20):
            task = asyncio.create_task(store.admit(ask(key(1, concurrency=1)), NOW))
            await asyncio.sleep(0)  # under way, not answered
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await eventually(lambda: not store._held)
        assert (await store.admit(ask(key(1, concurrency=1)), NOW, wait_s=1)).granted


async def test_a_stored_state_that_is_not_understood_reads_as_healthy(
    own_redis: Server, caplog: pytest.LogCaptureFixture
) -> None:
    async with Redis.from_url(own_redis.url) as client:
        await client.hset("{pm}:states", mapping={"key:1": '7|{"status":"frozen","epoch":2}', "key:2": "garbage"})
        async with running(own_redis.url) as store:
            assert store.standing(1, None, "gpt", NOW).available
            assert store.standing(1, None, "gpt", NOW).epoch == 2
            assert "key:1: stored state not understood" in caplog.text
            await tell(store, Cause.AUTH_INVALID, 1, epoch=2)
            await tell(store, Cause.AUTH_INVALID, 1, key=2)
            pool = await store.snapshot(NOW)
            assert [pool.sheet(number).status for number in (1, 2)] == [Status.DEAD, Status.DEAD]


async def test_many_calls_share_a_round_trip(own_redis: Server) -> None:
    async with running(own_redis.url) as store, Redis.from_url(own_redis.url) as client:
        before = (await client.info("commandstats")).get("cmdstat_evalsha", {"calls": 0})["calls"]
        reads = (await client.info("stats"))["total_reads_processed"]
        await asyncio.gather(*(store.admit(ask(CAPPED), NOW) for _ in range(100)))
        after = (await client.info("commandstats"))["cmdstat_evalsha"]["calls"]
        assert after - before >= 100
        assert (await client.info("stats"))["total_reads_processed"] - reads < 60


async def test_a_request_costs_one_round_trip_to_admit_and_one_to_settle(redis_url: str) -> None:
    """None to admit where nothing is limited; what is remembered travels with the settling."""
    async with running(redis_url, "{trips}:") as store:
        trips = 0
        plain = store.courier._pipelined

        async def counted(commands: object) -> list[object]:
            nonlocal trips
            trips += 1
            return await plain(commands)  # type: ignore[arg-type]

        store.courier._pipelined = counted  # type: ignore[method-assign, assignment]
        found = []
        for option in (key(1), CAPPED):
            await store.admit(ask(option), NOW)  # the scripts are known then
            trips = 0
            admission = await store.admit(ask(option), NOW)
            found.append(trips)
            settle = store.settle(SettleRequest(holds=admission.holds, reports=((report(Cause.SERVED), POLICY),)), NOW)
            await asyncio.gather(
                settle, store.notes.remember({"a": 1, "b": 2}, 60, NOW), store.notes.remember({"c": 3}, 60, NOW)
            )
            found.append(trips)
        assert found == [0, 1, 1, 2]
