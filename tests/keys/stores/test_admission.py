"""Conformance, part two: limits, slots, waiting. Every test runs on both stores."""

import asyncio
from itertools import count

import pytest

from keys.core.admission import Admission, AdmitRequest, Caller, KeyOption, SettleRequest
from keys.core.outcome import Cause
from keys.core.report import Skip
from keys.core.windows import Caps
from tests.keys.stores.conftest import NOW, Store, eventually
from tests.keys.stores.test_states import SECOND, tell, trip

_tickets = count(1)


def key(number: int, **caps: int) -> KeyOption:
    return KeyOption(number, caps=Caps(**caps))


def ask(*keys: KeyOption, **fields: object) -> AdmitRequest:
    return AdmitRequest(f"t{next(_tickets)}", "gpt", keys, **fields)  # type: ignore[arg-type]


def blocks(admission: Admission) -> list[tuple[str, str]]:
    return [(block.scope, block.limit) for block in admission.blocks]


# Order


async def test_the_first_key_with_a_slot_serves_and_the_others_are_named(store: Store) -> None:
    await trip(store)
    keys = (key(1), key(2, concurrency=1), key(3))
    answers = [await store.admit(ask(*keys), NOW) for _ in range(2)]
    assert [one.key_id for one in answers] == [2, 3]
    assert [(passed.key_id, passed.standing.skip) for passed in answers[0].passed] == [(1, Skip.COOLING)]
    assert [(block.scope, block.limit) for block in answers[1].busy] == [("key:2", "concurrency")]


# Slots


async def test_a_slot_is_held_until_it_is_settled(store: Store, peer: Store) -> None:
    first = await store.admit(ask(key(1, concurrency=1)), NOW)
    second = await peer.admit(ask(key(1, concurrency=1)), NOW)
    assert (first.granted, second.granted, blocks(second)) == (True, False, [("key:1", "concurrency")])
    await store.settle(SettleRequest(holds=first.holds), NOW)
    await store.settle(SettleRequest(holds=first.holds), NOW)
    grants = [(await peer.admit(ask(key(1, concurrency=1)), NOW)).granted for _ in range(2)]
    assert grants == [True, False]


async def test_token_counting_takes_no_slot(store: Store) -> None:
    grants = [(await store.admit(ask(key(1, concurrency=1), slots=False), NOW)).granted for _ in range(3)]
    assert grants == [True] * 3
    assert (await store.admit(ask(key(1, concurrency=1)), NOW)).granted


async def test_letting_go_needs_no_await(store: Store) -> None:
    first = await store.admit(ask(key(1, concurrency=1)), NOW)
    store.let_go(first.holds, first.probe)
    assert (await store.admit(ask(key(1, concurrency=1)), NOW)).granted


@pytest.mark.parametrize("slots", [1, 3])
async def test_never_more_in_flight_than_slots(store: Store, peer: Store, slots: int) -> None:
    flying, most, served = 0, 0, 0

    async def call(number: int) -> None:
        nonlocal flying, most, served
        process = (store, peer)[number % 2]
        admission = await process.admit(ask(key(1, concurrency=slots)), NOW, wait_s=20)
        assert admission.granted
        flying += 1
        most = max(most, flying)
        await asyncio.sleep(0)
        flying, served = flying - 1, served + 1
        await process.settle(SettleRequest(holds=admission.holds, probe=admission.probe), NOW)

    await asyncio.gather(*(call(number) for number in range(30)))
    assert (served, most) == (30, slots)


async def test_waiters_are_served_in_the_order_they_came(store: Store, peer: Store) -> None:
    holder = await store.admit(ask(key(1, concurrency=1)), NOW)
    order: list[int] = []

    async def wait(number: int) -> None:
        process = (store, peer)[number % 2]
        admission = await process.admit(ask(key(1, concurrency=1)), NOW + number * SECOND, wait_s=20)
        order.append(number)
        await process.settle(SettleRequest(holds=admission.holds), NOW)

    waiters = []
    for number in range(6):
        waiters.append(asyncio.create_task(wait(number)))
        await asyncio.sleep(0.02)
    newcomer = await peer.admit(ask(key(1, concurrency=1)), NOW)
    await store.settle(SettleRequest(holds=holder.holds), NOW)
    await asyncio.gather(*waiters)
    assert (order, newcomer.granted) == ([0, 1, 2, 3, 4, 5], False)


async def test_a_newcomer_does_not_overtake_a_waiter(store: Store) -> None:
    holder = await store.admit(ask(key(1, concurrency=1)), NOW)
    waiter = asyncio.create_task(store.admit(ask(key(1, concurrency=1)), NOW, wait_s=20))
    await asyncio.sleep(0.05)
    store.let_go(holder.holds)
    newcomer = await store.admit(ask(key(1, concurrency=1)), NOW)
    assert not newcomer.granted
    assert (await waiter).granted


async def test_the_first_free_slot_wins(store: Store) -> None:
    first = await store.admit(ask(key(1, concurrency=1)), NOW)
    second = await store.admit(ask(key(2, concurrency=1)), NOW)
    assert first.granted
    waiter = asyncio.create_task(store.admit(ask(key(1, concurrency=1), key(2, concurrency=1)), NOW, wait_s=20))
    await asyncio.sleep(0.05)
    await store.settle(SettleRequest(holds=second.holds), NOW)
    assert (await waiter).key_id == 2
    # It queued at both and left both.
    store.let_go(first.holds)
    assert (await store.admit(ask(key(1, concurrency=1)), NOW)).granted


async def test_waiting_ends_with_the_budget_and_leaves_the_queue(store: Store) -> None:
    holder = await store.admit(ask(key(1, concurrency=1)), NOW)
    late = await store.admit(ask(key(1, concurrency=1)), NOW, wait_s=0.05)
    assert (late.granted, blocks(late)) == (False, [("key:1", "concurrency")])
    assert 0.05 <= late.waited_s < 0.5
    await store.settle(SettleRequest(holds=holder.holds), NOW)
    assert (await store.admit(ask(key(1, concurrency=1)), NOW)).granted


async def test_a_cancelled_waiter_holds_nothing(store: Store) -> None:
    line = Caller("line:1", Caps(concurrency=1))
    holder = await store.admit(ask(key(1, concurrency=1)), NOW)
    waiter = asyncio.create_task(store.admit(ask(key(1, concurrency=1), callers=(line,)), NOW, wait_s=20))
    await asyncio.sleep(0.05)
    blocked = await store.admit(ask(key(2), callers=(line,)), NOW)
    assert blocks(blocked) == [("line:1", "concurrency")]
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    await store.settle(SettleRequest(holds=holder.holds), NOW)
    assert (await store.admit(ask(key(1, concurrency=1), callers=(line,)), NOW)).granted


# Callers


async def test_a_lines_limit_comes_before_any_key(store: Store) -> None:
    line, gateway = Caller("line:1", Caps(rpm=2)), Caller("gateway:1", Caps(concurrency=5))
    grants = [await store.admit(ask(key(1, rpm=100), callers=(line, gateway)), NOW) for _ in range(3)]
    assert [one.granted for one in grants] == [True, True, False]
    assert (blocks(grants[2]), grants[2].callers_passed, grants[2].holds) == ([("line:1", "rpm")], False, ())
    assert grants[2].retry_after_s == 61
    assert [hold.scope for hold in grants[0].holds] == ["line:1", "gateway:1", "key:1"]


async def test_callers_are_charged_once_while_a_key_is_waited_for(store: Store) -> None:
    line = Caller("line:1", Caps(rpm=2, concurrency=2))
    holder = await store.admit(ask(key(1, concurrency=1)), NOW)
    waiter = asyncio.create_task(store.admit(ask(key(1, concurrency=1), callers=(line,)), NOW, wait_s=20))
    await asyncio.sleep(0.05)
    await store.settle(SettleRequest(holds=holder.holds), NOW)
    admission = await waiter
    assert [hold.scope for hold in admission.holds] == ["line:1", "key:1"]
    assert (await store.admit(ask(key(2), callers=(line,)), NOW)).granted
    assert not (await store.admit(ask(key(2), callers=(line,)), NOW)).granted


async def test_callers_passed_without_a_key_stay_held(store: Store) -> None:
    line = Caller("line:1", Caps(concurrency=1))
    await trip(store)
    answer = await store.admit(ask(key(1), callers=(line,)), NOW)
    assert (answer.granted, answer.callers_passed, [hold.scope for hold in answer.holds]) == (False, True, ["line:1"])
    assert not (await store.admit(ask(key(2), callers=(line,)), NOW)).granted
    await store.settle(SettleRequest(holds=answer.holds), NOW)
    assert (await store.admit(ask(key(2), callers=(line,)), NOW)).granted


# Windows


async def test_a_window_frees_when_its_calls_have_left(store: Store) -> None:
    for at in (0, 10):
        assert (await store.admit(ask(key(1, rpm=2)), NOW + at * SECOND)).granted
    full = await store.admit(ask(key(1, rpm=2)), NOW + 20 * SECOND)
    assert (blocks(full), full.retry_after_s) == ([("key:1", "rpm")], 41)
    assert not (await store.admit(ask(key(1, rpm=2)), NOW + 60.9 * SECOND)).granted
    assert (await store.admit(ask(key(1, rpm=2)), NOW + 61 * SECOND)).granted
    assert not (await store.admit(ask(key(1, rpm=2)), NOW + 61 * SECOND)).granted


@pytest.mark.parametrize(("span", "length_s"), [("rpm", 61), ("per_hour", 3660), ("per_day", 87300)])
async def test_each_span_ends(store: Store, span: str, length_s: int) -> None:
    assert (await store.admit(ask(key(1, **{span: 1})), NOW)).granted
    early = NOW + (length_s - 1) * SECOND
    assert not (await store.admit(ask(key(1, **{span: 1})), early)).granted
    assert (await store.admit(ask(key(1, **{span: 1})), NOW + length_s * SECOND)).granted


async def test_token_windows_are_corrected_to_what_was_used(store: Store) -> None:
    first = await store.admit(ask(key(1, tpm=100), tokens=60), NOW)
    assert not (await store.admit(ask(key(1, tpm=100), tokens=60), NOW)).granted
    await store.settle(SettleRequest(holds=first.holds, tokens=40), NOW + SECOND)
    second = await store.admit(ask(key(1, tpm=100), tokens=60), NOW + SECOND)
    assert second.granted
    await store.settle(SettleRequest(holds=second.holds, tokens=None), NOW + SECOND)
    assert not (await store.admit(ask(key(1, tpm=100), tokens=1), NOW + SECOND)).granted


async def test_one_request_above_the_limit_needs_an_empty_window(store: Store) -> None:
    assert (await store.admit(ask(key(1, tpm=100), tokens=5000), NOW)).granted
    assert not (await store.admit(ask(key(1, tpm=100), tokens=1), NOW)).granted


async def test_a_limit_of_zero_lets_nothing_in(store: Store) -> None:
    answer = await store.admit(ask(key(1, rpm=0)), NOW)
    assert (answer.granted, answer.retry_after_s) == (False, 60)


async def test_a_window_that_frees_too_late_is_not_waited_for(store: Store) -> None:
    await store.admit(ask(key(1, per_day=1)), NOW)
    answer = await store.admit(ask(key(1, per_day=1)), NOW, wait_s=30)
    assert (answer.granted, answer.waited_s < 0.5) == (False, True)


async def test_a_clock_that_steps_back_far_starts_the_window_anew(store: Store) -> None:
    await store.admit(ask(key(1, rpm=1)), NOW)
    assert not (await store.admit(ask(key(1, rpm=1)), NOW - 30 * SECOND)).granted
    assert (await store.admit(ask(key(1, rpm=1)), NOW - 90 * SECOND)).granted


async def test_both_stores_count_alike_over_a_ragged_minute(store: Store) -> None:
    granted = []
    for at in (0, 0.5, 3, 3.2, 30, 59, 60.5, 61.2, 64.1, 64.2, 91, 180, 180.1, 180.2, 180.3, 180.4):
        answer = await store.admit(ask(key(1, rpm=4)), NOW + at * SECOND)
        granted.append((at, answer.granted, answer.retry_after_s and round(answer.retry_after_s, 3)))
    assert granted == [
        (0, True, None),
        (0.5, True, None),
        (3, True, None),
        (3.2, True, None),
        (30, False, 31.0),
        (59, False, 2.0),
        (60.5, False, 0.5),
        (61.2, True, None),
        (64.1, True, None),
        (64.2, True, None),
        (91, True, None),
        (180, True, None),
        (180.1, True, None),
        (180.2, True, None),
        (180.3, True, None),
        (180.4, False, 60.6),
    ]


# Half-open keys and coolings


async def test_admission_takes_the_half_open_lease(store: Store, peer: Store) -> None:
    await trip(store)
    at = NOW + 60 * SECOND
    await eventually(lambda: peer.standing(1, None, "gpt", at).half_open)
    first = await store.admit(ask(key(1)), at)
    second = await peer.admit(ask(key(1)), at)
    assert (first.granted, first.probe and first.probe.targets) == (True, ("key:1",))
    assert (second.granted, blocks(second)) == (False, [("key:1", "probe")])
    await store.settle(SettleRequest(holds=first.holds, probe=first.probe), at)
    assert (await peer.admit(ask(key(1)), at)).granted


async def test_a_request_waits_for_the_half_open_lease(store: Store) -> None:
    await trip(store)
    at = NOW + 60 * SECOND
    first = await store.admit(ask(key(1)), at)
    waiter = asyncio.create_task(store.admit(ask(key(1)), at, wait_s=20))
    await asyncio.sleep(0.05)
    await store.settle(SettleRequest(probe=first.probe), at)
    second = await waiter
    assert (second.granted, second.waited_s < 0.45) == (True, True)


async def test_a_cooling_key_is_refused_unless_the_request_dares(store: Store) -> None:
    await trip(store)
    await tell(store, Cause.RATE_LIMITED, 0, key=2)
    assert not (await store.admit(ask(key(1), key(2)), NOW)).granted
    daring = [KeyOption(number, dares=True) for number in (2, 1)]
    answer = await store.admit(ask(*daring), NOW)
    assert (answer.key_id, [passed.key_id for passed in answer.passed]) == (1, [2])


async def test_a_cooling_that_ends_in_time_is_waited_for_and_no_other(store: Store) -> None:
    await tell(store, Cause.RATE_LIMITED, 0, key=1)
    await tell(store, Cause.INSUFFICIENT_BALANCE, 0, key=2)
    answer = await store.admit(ask(key(1), key(2)), NOW + 59.9 * SECOND, wait_s=5)
    assert (answer.key_id, 0.1 <= answer.waited_s < 0.5) == (1, True)
    hopeless = await store.admit(ask(key(2)), NOW + 1799 * SECOND, wait_s=5)
    assert (hopeless.granted, hopeless.waited_s < 0.05) == (False, True)
