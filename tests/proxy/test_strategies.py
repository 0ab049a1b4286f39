"""Who goes first, through the real gateway: the golden vectors, every strategy, rotations inside an upstream."""

import time
from collections import Counter
from decimal import Decimal

import pytest

from billing.models import Price
from tests.factories import PriceFactory
from tests.fake_upstream import Gate, Tokens, answer, status
from tests.gateway import attempts, chat, outcomes
from tests.proxy.pool import Calls, ask, asking, settled

WARM = answer("Hello.", tokens=Tokens(2000, 5, cached_read=1500))


def weighted(gateway, up, *weights, strategy="weighted", **group):
    """A group of as many upstreams with these weights; their keys are k-1, k-2 …"""
    secrets = [f"k-{n}" for n in range(1, len(weights) + 1)]
    world = gateway.serving(up, *secrets, group={"strategy": strategy, **group})
    for member, weight in zip(world.group.members.order_by("position"), weights, strict=True):
        member.weight = weight
        member.save()
    gateway.refresh()
    return world


def drawn(gateway, up, world, count):
    """Who served so many new conversations, as letters."""
    up.requests.clear()
    for number in range(count):
        assert gateway.post(world, asking(f"new {number} {time.monotonic_ns()}")).status_code == 200
    served = up.keys()
    return "".join("?ABCDEFG"[int(key.rpartition("-")[2])] for key in served)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [((7, 3), "ABAAABAABA"), ((5, 1, 1), "AABACAA"), ((3, 2, 1), "ABACBA")],
)
def test_smooth_weights_are_the_golden_vectors(gateway, up, weights, expected):
    world = weighted(gateway, up, *weights)
    assert drawn(gateway, up, world, len(expected) * 2) == expected * 2


@pytest.mark.parametrize("rotation", ["round_robin", "weighted"])
def test_keys_of_an_upstream_take_turns_by_their_weights(gateway, up, rotation):
    world = gateway.serving(up, "k-1", "k-2", one_upstream=True, upstream={"rotation": rotation})
    for key, weight in zip(world.keys, (7, 3), strict=True):
        key.weight = weight
        key.save()
    gateway.refresh()
    assert drawn(gateway, up, world, 10) == ("ABABABABAB" if rotation == "round_robin" else "ABAAABAABA")


def test_members_rotate_and_the_keys_inside_them_too(gateway, up):
    world = gateway.serving(up, "k-1", "k-2", one_upstream=True, group={"strategy": "round_robin"})
    other = gateway.serving(up, "k-3", "k-4", one_upstream=True)
    other.upstreams[0].tenant, other.upstreams[0].name = world.tenant, "u2"
    other.upstreams[0].save()
    world.group.members.create(upstream=other.upstreams[0], position=2)
    gateway.refresh()
    assert drawn(gateway, up, world, 8) == "ACBDACBD"


def test_no_key_is_favoured_and_none_is_left_out(gateway, up):
    """reports.md 23."""
    world = gateway.serving(up, "k-1", "k-2", one_upstream=True)
    served = Counter(drawn(gateway, up, world, 40))
    assert min(served["A"], served["B"]) >= 0.3 * 40


def test_priority_goes_on_only_when_the_first_is_out(gateway, up):
    world = weighted(gateway, up, 1, 1, strategy="priority")
    assert drawn(gateway, up, world, 3) == "AAA"
    up.script("k-1", status(429, retry_after=30))
    assert drawn(gateway, up, world, 3) == "ABBB"


def test_random_reaches_everyone(gateway, up):
    world = weighted(gateway, up, 1, 1, 1, strategy="random")
    assert set(drawn(gateway, up, world, 40)) == set("ABC")


def test_least_used_counts_a_day_and_lends_to_a_newcomer(gateway, up):
    world = weighted(gateway, up, 1, 1, strategy="least_used")
    up.requests.clear()
    for number in range(6):
        ask(gateway, world, asking(f"one by one {number}"))
    assert Counter(up.keys()) == {"k-1": 3, "k-2": 3}


def test_fastest_goes_to_the_quick_one_once_both_are_known(gateway, up):
    world = weighted(gateway, up, 1, 1, strategy="fastest")
    up.default(answer("slow", head_delay_s=0.15), key="k-1")
    up.default(answer("quick"), key="k-2")
    for number in range(3):  # k-1 leads as listed until it is measured; then k-2 must be met by failing over
        up.script("k-1", status(500))
        ask(gateway, world, asking(f"measure b {number}"))
    for number in range(3):
        ask(gateway, world, asking(f"measure a {number}"))
    up.requests.clear()
    for number in range(4):
        ask(gateway, world, asking(f"known {number}"))
    assert up.keys() == ["k-2"] * 4


def test_cheapest_counts_the_multiplier_and_leaves_the_unpriced_last(gateway, up):
    world = weighted(gateway, up, 1, 1, 1, strategy="cheapest")
    Price.objects.filter(tenant=world.tenant).delete()
    PriceFactory(tenant=world.tenant, model="gpt-4o", input=Decimal(2), output=Decimal(8))
    for upstream, multiplier, alias in zip(world.upstreams, ("1.5", "0.5", "1"), ("", "", "unpriced"), strict=True):
        upstream.cost_multiplier = Decimal(multiplier)
        upstream.aliases = {"gpt-4o": alias} if alias else {}
        upstream.save()
    gateway.refresh()
    up.script("k-2", status(500))
    got = ask(gateway, world)
    assert outcomes(gateway.record(got))[:2] == [("k2", "server_error"), ("k3", "served")]


def test_headroom_goes_to_the_most_requests_left_then_to_the_uncapped(gateway, up):
    world = weighted(gateway, up, 1, 1, 1, strategy="headroom")
    for key, rpm in zip(world.keys, (3, 2, None), strict=True):
        key.rpm = rpm
        key.save()
    gateway.refresh()
    assert drawn(gateway, up, world, 7) == "AABABCC"


def test_sticky_traffic_is_charged_to_the_rotation(gateway, up):
    """New conversations make up for what a sticky one draws."""
    up.default(WARM)
    world = weighted(gateway, up, 1, 1, strategy="round_robin")
    up.requests.clear()
    for _ in range(4):
        ask(gateway, world, headers={"x-session-id": "s"})
    assert up.keys() == ["k-1"] * 4
    up.requests.clear()
    ask(gateway, world, asking("new one"))
    ask(gateway, world, asking("new two"))
    assert up.keys() == ["k-2", "k-2"]


def test_a_member_that_comes_and_goes_starves_nobody(gateway, up):
    world = weighted(gateway, up, 1, 1, 1, strategy="round_robin")
    served: Counter[str] = Counter()
    for turn in range(12):
        world.keys[2].enabled = bool(turn % 2)
        world.keys[2].save()
        gateway.refresh()
        served.update(drawn(gateway, up, world, 2))
    assert min(served["A"], served["B"]) >= 7
    assert served["C"] >= 2


def test_full_and_paused_members_are_not_in_the_draw(gateway, up):
    world = weighted(gateway, up, 1, 1, 1, strategy="round_robin")
    world.keys[0].concurrency = 1
    world.keys[0].save()
    world.keys[1].enabled = False
    world.keys[1].save()
    gateway.refresh()
    gate = Gate()
    up.script("k-1", answer(holds=((-1, gate),)))
    calls = Calls(gateway)
    calls.start(world)
    up.wait_for_requests(1)
    for number in range(3):
        assert gateway.post(world, asking(str(number))).status_code == 200
    assert up.keys() == ["k-1", "k-3", "k-3", "k-3"]
    gate.open()
    calls.finish()


def low(left):
    headers = (("x-ratelimit-limit-requests", "100"), ("x-ratelimit-remaining-requests", str(left)))
    return answer("Hello.", headers=headers)


@pytest.mark.parametrize(
    ("line_class", "left", "expected"),
    [
        ("interactive", 19, "k-2"),
        ("interactive", 21, "k-1"),
        ("batch", 21, "k-2"),
        ("batch", 41, "k-1"),
    ],
)
def test_low_water_goes_last_batch_lines_first(gateway, up, line_class, left, expected):
    world = gateway.serving(up, "k-1", "k-2", line={"line_class": line_class})
    up.default(low(left), key="k-1")
    ask(gateway, world, asking("one"))
    ask(gateway, world, asking("two"))
    assert up.keys() == ["k-1", expected]


def test_low_water_does_not_move_a_conversation(gateway, up):
    headers = (("x-ratelimit-limit-requests", "100"), ("x-ratelimit-remaining-requests", "5"))
    up.default(WARM.but(headers=headers), key="k-1")
    world = gateway.serving(up, "k-1", "k-2")
    for _ in range(3):
        ask(gateway, world, headers={"x-session-id": "s"})
    assert up.keys() == ["k-1"] * 3


def test_the_record_says_what_the_order_was_made_of(gateway, up):
    world = weighted(gateway, up, 7, 3)
    record = gateway.record(ask(gateway, world))
    first, second = record.decision["candidates"]
    assert (first["upstream"], first["key"], first["model"]) == ("u1", "k1", "gpt-4o")
    assert first["scores"] == {"weight": 7000, "balance": 7000}
    assert second["scores"] == {"weight": 3000, "balance": 3000}
    assert (record.rule, record.group, record.route) == ("everything", "main", "default")


def test_each_skip_and_each_try_says_why(gateway, up):
    world = gateway.serving(up, "k-1", "k-2", "k-3", "k-4", "k-5")
    up.script("k-1", status(401, "bad key"))
    up.script("k-2", status(429, "slow down", retry_after=30))
    up.script("k-3", status(404, "no such model", error_code="model_not_found"))
    ask(gateway, world)
    world.keys[3].rpm = 0
    world.keys[3].save()
    gateway.refresh()
    record = gateway.record(ask(gateway, world, chat()))
    assert outcomes(record) == [
        ("k1", "skipped: dead"),
        ("k2", "skipped: cooling"),
        ("k3", "skipped: model"),
        ("k4", "skipped: quota"),
        ("k5", "served"),
    ]
    assert [a.reason for a in attempts(record)] == [
        "auth_invalid",
        "rate_limited",
        "model_unavailable",
        "its own limit rpm",
        "",
    ]
    settled(gateway)
