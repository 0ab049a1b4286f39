"""What both stores of reservations do alike: decide and reserve in one step, settle once, exact to 12 places."""

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from billing.core.budget import Held, Standing
from billing.core.reserving import Claim, ReserveRequest
from billing.stores.protocol import LEASE_S

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
D = Decimal


async def loaded(store, spent="0", scope="s", now=NOW):
    await store.load(scope, D(spent), await store.mark(scope, now), now)


def ask(request_id, estimate="1", amount="10", scope="s", free=True, account=None):
    return ReserveRequest(request_id, (Claim(scope, D(amount), D(estimate), account),), free)


async def standing(store, scope="s", amount="10", now=NOW):
    """What the store holds, seen through a request that reserves nothing."""
    answer = await store.reserve(ask("look", "999999", amount, scope), now)
    await store.release("look", [scope], now)
    return answer.standings[scope]


async def test_a_scope_that_is_not_loaded_is_unknown_and_nothing_is_reserved(store):
    await loaded(store, scope="known")
    request = ReserveRequest("r1", (Claim("known", D(10), D(1)), Claim("new", D(10), D(1))))
    answer = await store.reserve(request, NOW)
    assert (answer.granted, answer.unknown) == (False, ("new",))
    await loaded(store, scope="new")
    assert (await standing(store, "known")).in_flight == 0
    assert (await store.reserve(request, NOW)).granted


async def test_admitted_while_everything_fits_and_always_when_nothing_is_in_flight(store):
    await loaded(store, "4")
    assert (await store.reserve(ask("a", "6"), NOW)).granted
    refused = await store.reserve(ask("b", "0.000000000001"), NOW)
    assert (refused.granted, refused.refused) == (False, ("s",))
    assert refused.standings["s"] == Standing(D(10), D(4), D(6), 1)
    await store.release("a", ["s"], NOW)
    assert (await store.reserve(ask("c", "1000"), NOW)).granted
    await store.settle("c", {"s": D("5.999999999999")}, NOW)
    assert (await store.reserve(ask("d", "1000"), NOW)).granted
    await store.settle("d", {"s": D("0.000000000001")}, NOW)
    assert not (await store.reserve(ask("e", "1"), NOW)).granted
    assert (await store.reserve(ask("f", "0"), NOW)).granted


async def test_settling_counts_once_and_frees_the_reservation(store):
    await loaded(store)
    await store.reserve(ask("a", "3"), NOW)
    assert await store.settle("a", {"s": D("1.25")}, NOW)
    assert not await store.settle("a", {"s": D("1.25")}, NOW)
    assert await standing(store) == Standing(D(10), D("1.25"), D(0), 0)


async def test_a_call_settles_although_its_lease_ran_out(store):
    await loaded(store)
    await store.reserve(ask("a", "3"), NOW)
    later = NOW + timedelta(seconds=LEASE_S)
    assert await standing(store, now=later) == Standing(D(10), D(0), D(0), 0)
    assert await store.settle("a", {"s": D(2)}, later)
    assert (await standing(store, now=later)).spent == 2


async def test_leases_are_renewed_and_lost_reservations_made_again(store):
    await loaded(store)
    claims = ask("a", "3").claims
    await store.reserve(ask("a", "3"), NOW)
    await store.renew({"a": claims, "b": claims}, NOW + timedelta(seconds=LEASE_S - 1))
    assert await standing(store, now=NOW + timedelta(seconds=LEASE_S + 1)) == Standing(D(10), D(0), D(6), 2)
    await store.settle("a", {"s": D(1)}, NOW)
    await store.renew({"a": claims}, NOW)
    assert (await standing(store)).in_flight == 1


async def test_asking_again_under_one_id_replaces_the_reservation(store):
    await loaded(store)
    for _ in range(3):
        assert (await store.reserve(ask("a", "4"), NOW)).granted
    assert await standing(store) == Standing(D(10), D(0), D(4), 1)


async def test_release_forgets_and_leaves_the_id_open(store):
    await loaded(store)
    await store.reserve(ask("a", "4"), NOW)
    await store.release("a", ["s"], NOW)
    assert await standing(store) == Standing(D(10), D(0), D(0), 0)
    assert await store.settle("a", {"s": D(1)}, NOW)
    assert (await standing(store)).spent == 1


async def test_the_ledger_replaces_what_is_spent_and_settling_meanwhile_is_added(store):
    await loaded(store, "5")
    await store.settle("a", {"s": D(1)}, NOW)
    mark = await store.mark("s", NOW)
    await store.settle("b", {"s": D("0.000000000001")}, NOW)
    await store.load("s", D(100), mark, NOW)
    assert (await standing(store)).spent == D("100.000000000001")


async def test_a_mark_that_is_not_the_newest_changes_nothing(store):
    await loaded(store, "5")
    old, new = await store.mark("s", NOW), await store.mark("s", NOW)
    await store.load("s", D(1), old, NOW)
    assert (await standing(store)).spent == 5
    await store.load("s", D(2), new, NOW)
    assert (await standing(store)).spent == 2


async def test_sums_stay_exact(store):
    await loaded(store, "123456789.000000000001")
    for number in range(50):
        await store.settle(f"r{number}", {"s": D("0.333333333333")}, NOW)
    assert (await standing(store, amount="999999999")).spent == D("123456805.666666666651")
    await loaded(store, "-0.000000000001")
    await store.settle("more", {"s": D("0.5")}, NOW)
    assert (await standing(store)).spent == D("0.499999999999")


async def test_every_fatal_budget_must_have_room(store):
    await loaded(store, "0", "line")
    await loaded(store, "10", "tenant")
    request = ReserveRequest("a", (Claim("line", D(10), D(1)), Claim("tenant", D(10), D(1))))
    answer = await store.reserve(request, NOW)
    assert (answer.granted, answer.refused) == (False, ("tenant",))
    assert (await standing(store, "line")).in_flight == 0


# spent of account 1's budget, of account 2's two budgets, a free account too -> granted, refused
ACCOUNTS = [
    ("all have room", ("0", "0", "0"), False, True, ()),
    ("one is spent", ("10", "0", "0"), False, True, ("a1",)),
    ("one of two budgets of an account is spent", ("0", "0", "10"), False, True, ("a2b",)),
    ("all are spent", ("10", "0", "10"), False, False, ("a1", "a2b")),
    ("all are spent but one has no budget", ("10", "0", "10"), True, True, ("a1", "a2b")),
]


@pytest.mark.parametrize(
    ("spent", "free", "granted", "refused"), [c[1:] for c in ACCOUNTS], ids=[c[0] for c in ACCOUNTS]
)
async def test_an_accounts_budget_closes_that_account(store, spent, free, granted, refused):
    scopes = ("a1", "a2a", "a2b")
    for scope, amount in zip(scopes, spent, strict=True):
        await loaded(store, amount, scope)
    accounts = {"a1": 1, "a2a": 2, "a2b": 2}
    claims = tuple(Claim(scope, D(10), D(1), accounts[scope]) for scope in scopes)
    answer = await store.reserve(ReserveRequest("r", claims, free), NOW)
    assert (answer.granted, set(answer.refused)) == (granted, set(refused))
    closed = {accounts[scope] for scope in refused}
    for scope in scopes:
        held = 1 if granted and accounts[scope] not in closed else 0
        assert (await standing(store, scope)).in_flight == held, scope


async def test_a_hundred_at_once_never_reserve_more_than_there_is(store):
    await loaded(store)
    answers = await asyncio.gather(*(store.reserve(ask(f"r{n}", "0.7"), NOW) for n in range(100)))
    assert sum(answer.granted for answer in answers) == 14
    assert (await standing(store)).reserved == D("9.8")


async def test_what_is_held_can_be_read_without_asking_for_anything(store):
    await loaded(store, "5", "one")
    await loaded(store, "0", "two")
    assert await store.held([], NOW) == []
    await store.reserve(ask("a", "3", scope="one"), NOW)
    await store.reserve(ask("b", "0.000000000001", scope="one"), NOW)
    await store.reserve(ask("c", "0", scope="two"), NOW)
    held = await store.held(["one", "unknown", "two"], NOW)
    assert list(held) == [Held(D("3.000000000001"), 2), Held(D(0), 0), Held(D(0), 1)]
    await store.settle("a", {"one": D(2)}, NOW)
    assert list(await store.held(["one"], NOW)) == [Held(D("0.000000000001"), 1)]
    assert list(await store.held(["one"], NOW + timedelta(seconds=LEASE_S))) == [Held(D(0), 0)]
    assert (await standing(store, "one")).spent == 7
