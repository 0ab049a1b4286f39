"""The golden vectors of the contract, and what each strategy promises."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.core.strategies import (
    Entry,
    Method,
    Moment,
    charge,
    effective_weights,
    is_slow,
    median_of,
    rank,
    speed_factors,
    stability_factor,
)
from routing.core.views import charged
from tests.routing.core.build import NOW

SMOOTH = Method("weighted", "g")


class Rotation:
    """A scope's integers, as a store would keep them."""

    def __init__(self, method: Method) -> None:
        self.method = method
        self.values: dict[str, int] = {}

    def draw(self, entries: Sequence[Entry], *, lead: int | None = None, draw: float = 0.0, now: datetime = NOW) -> int:
        """Let one request go: to the drawn contender, or to `lead` when a conversation is bound to it."""
        moment = Moment(self.values, draw, now)
        first = rank(self.method, entries, moment).order[0] if lead is None else lead
        due = charge(self.method, entries, first, moment)
        if due is not None:
            self.values = charged(self.values, due)
        return first


def entries(*weights: int) -> list[Entry]:
    return [Entry(number, weight) for number, weight in enumerate(weights, start=1)]


def letters(method: Method, weights: Sequence[int], count: int) -> str:
    rotation = Rotation(method)
    return " ".join("_ABC"[rotation.draw(entries(*weights))] for _ in range(count))


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ((7, 3), "A B A A A B A A B A"),
        ((5, 1, 1), "A A B A C A A"),
        ((3, 2, 1), "A B A C B A"),
    ],
)
def test_smooth_weights_draw_as_nginx_does(weights: tuple[int, ...], expected: str) -> None:
    once = len(expected.split())
    assert letters(SMOOTH, weights, once) == expected
    assert letters(SMOOTH, weights, 2 * once) == f"{expected} {expected}"


def test_round_robin_ignores_weights() -> None:
    assert letters(Method("round_robin", "g"), (9, 1, 1), 6) == "A B C A B C"


def test_speed_factors_are_squared_and_bounded() -> None:
    assert speed_factors({1: 400, 2: 800}) == {1: 2.25, 2: 0.5625}
    assert speed_factors({1: 200, 2: 400, 3: 1600}) == {1: 4, 2: 1, 3: 0.1}
    assert speed_factors({1: 10, 2: 1000, 3: 1000}) == {1: 10, 2: 1, 3: 1}
    assert speed_factors({1: 0.0, 2: 100}) == {1: 10, 2: 0.25}
    assert speed_factors({}) == {}


@pytest.mark.parametrize(
    ("ok", "results", "factor"),
    [(10, 10, 1), (9, 10, 0.81), (5, 10, 0.25), (2, 10, 0.05), (0, 10, 0.05), (0, 4, 1), (0, 5, 0.05)],
)
def test_stability_factor(ok: int, results: int, factor: float) -> None:
    assert stability_factor(ok, results) == pytest.approx(factor)


def test_effective_weights_follow_the_basis() -> None:
    shaky = [Entry(1, 7, median_ms=400, ok=5, results=10), Entry(2, 3, median_ms=800, ok=10, results=10)]
    assert effective_weights(Method("weighted", "g", "share"), shaky) == {1: 7000, 2: 3000}
    assert effective_weights(Method("weighted", "g", "stability"), shaky) == {1: 1750, 2: 3000}
    assert effective_weights(Method("weighted", "g", "speed"), shaky) == {1: 15750, 2: 1688}
    assert effective_weights(Method("weighted", "g", "speed_and_stability"), shaky) == {1: 3938, 2: 1688}
    assert effective_weights(Method("round_robin", "g"), shaky) == {1: 1000, 2: 1000}


def test_too_few_samples_count_as_one() -> None:
    fresh = [Entry(1, median_ms=None, ok=0, results=4), Entry(2, median_ms=500, ok=5, results=5)]
    assert effective_weights(Method("weighted", "g", "speed_and_stability"), fresh) == {1: 1000, 2: 1000}


def test_a_weight_never_falls_to_nothing() -> None:
    assert effective_weights(SMOOTH, [Entry(1, 0)]) == {1: 1}


def test_median_of_takes_the_last_32_and_at_least_3() -> None:
    assert median_of([5, 7]) is None
    assert median_of([5, 9, 7]) == 7
    assert median_of([1_000_000] * 10 + [40] * 32) == 40
    assert median_of([1_000_000] * 17 + [40] * 15) == 1_000_000


def test_slow_is_above_three_times_the_baseline() -> None:
    assert is_slow(901, 300, 3)
    assert not is_slow(899, 300, 3)
    assert not is_slow(900, 300, 3)
    assert not is_slow(None, 300, 3)
    assert not is_slow(901, None, 3)
    assert not is_slow(901, 0, 3)


def test_a_bound_conversation_is_charged_like_a_draw() -> None:
    rotation = Rotation(SMOOTH)
    leads = [rotation.draw(entries(1, 1), lead=1) for _ in range(2)]
    leads += [rotation.draw(entries(1, 1)) for _ in range(4)]
    assert leads == [1, 1, 2, 2, 1, 2]


def test_a_lead_outside_the_draw_pays_too() -> None:
    behind = [Entry(1), Entry(2, tier=2)]
    due = charge(SMOOTH, behind, 2, Moment({}, 0.0, NOW))
    assert due is not None
    assert due.add == {"1": 1000, "2": -1000}


def test_a_later_tier_is_no_part_of_the_draw() -> None:
    tiered = [Entry(1, tier=1), Entry(2), Entry(3)]
    moment = Moment({"1": 900, "2": 0, "3": 500}, 0.0, NOW)
    assert rank(SMOOTH, tiered, moment).order == (3, 2, 1)
    due = charge(SMOOTH, tiered, 3, moment)
    assert due is not None
    assert due.add == {"2": 1000, "3": -1000}


def test_a_lone_contender_writes_nothing() -> None:
    for strategy in ("priority", "round_robin", "weighted", "random", "fastest", "cheapest", "headroom"):
        assert charge(Method(strategy, "g"), entries(1), 1, Moment({}, 0.0, NOW)) is None
    for strategy in ("priority", "random", "cheapest", "headroom"):
        assert charge(Method(strategy, "g"), entries(1, 1), 1, Moment({}, 0.0, NOW)) is None


def test_balances_are_clamped_to_the_total() -> None:
    wild = Moment({"1": 10**9, "2": -(10**9)}, 0.0, NOW)
    due = charge(SMOOTH, entries(1, 1), 1, wild)
    assert due is not None
    assert charged(wild.rotation, due) == {"1": 1000, "2": -1000}
    other = charge(SMOOTH, entries(1, 1), 2, wild)
    assert other is not None
    assert charged(wild.rotation, other) == {"1": 2000, "2": -2000}


def test_a_return_after_long_sticky_traffic_is_paid_back_briefly() -> None:
    rotation = Rotation(SMOOTH)
    for _ in range(1000):
        rotation.draw(entries(1, 1), lead=1)
    leads = [rotation.draw(entries(1, 1)) for _ in range(10)]
    assert leads.count(1) >= 3


@given(st.lists(st.integers(1, 20), min_size=2, max_size=5))
def test_shares_come_true_in_one_round(weights: list[int]) -> None:
    rotation = Rotation(SMOOTH)
    total = sum(weights)
    leads = [rotation.draw(entries(*weights)) for _ in range(total)]
    assert [leads.count(number) for number in range(1, len(weights) + 1)] == weights


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sets(st.integers(1, 4), min_size=1), min_size=1, max_size=300))
def test_nobody_starves_while_others_come_and_go(present: list[set[int]]) -> None:
    """Between two of its leads no contender is passed over more than twice per contender."""
    rotation = Rotation(Method("round_robin", "g"))
    waits = dict.fromkeys(range(1, 5), 0)
    for drawn in present:
        lead = rotation.draw([Entry(number) for number in sorted(drawn)])
        for number in drawn:
            waits[number] = 0 if number == lead else waits[number] + 1
        assert max(waits.values()) <= 8


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 50), min_size=3, max_size=3),
    st.lists(st.tuples(st.booleans(), st.sampled_from((0, 0, 0, 1))), min_size=400, max_size=400),
)
def test_a_steady_member_keeps_leading_whatever_the_others_do(
    weights: list[int], script: list[tuple[bool, int]]
) -> None:
    rotation = Rotation(SMOOTH)
    leads = []
    for is_there, bound in script:
        drawn = entries(*weights) if is_there else entries(*weights)[:2]
        leads.append(rotation.draw(drawn, lead=bound or None))
    longest = 3 * sum(weights) // weights[1] + 3
    gaps = [place for place, lead in enumerate([2, *leads, 2]) if lead == 2]
    assert max(later - earlier for earlier, later in pairwise(gaps)) <= max(longest, 12) * 2


def test_least_used_takes_the_smallest_count_and_then_the_first_listed() -> None:
    used = [Entry(1, calls=7), Entry(2, calls=3), Entry(3, calls=3)]
    seen = {f"seen:{number}": int(NOW.timestamp()) for number in (1, 2, 3)}
    assert rank(Method("least_used", "g"), used, Moment(seen, 0.0, NOW)).order == (2, 3, 1)


def test_a_newcomer_starts_at_the_minimum_instead_of_taking_everything() -> None:
    rotation = Rotation(Method("least_used", "g"))
    calls = {1: 100, 2: 110}
    rotation.draw([Entry(1, calls=100), Entry(2, calls=110)])
    calls[3] = 0
    leads = []
    for _ in range(30):
        lead = rotation.draw([Entry(number, calls=count) for number, count in calls.items()])
        calls[lead] += 1
        leads.append(lead)
    assert leads[:4] == [1, 3, 1, 3]
    assert {number: leads.count(number) for number in (1, 2, 3)} == {1: 14, 2: 3, 3: 13}


def test_one_who_returns_from_a_long_absence_takes_no_more_than_its_share() -> None:
    rotation = Rotation(Method("least_used", "g"))
    calls = {1: 100, 2: 100}
    rotation.draw([Entry(1, calls=100), Entry(2, calls=100)])
    for minute in range(60):
        rotation.draw([Entry(1, calls=100 + minute)], now=NOW + timedelta(minutes=minute))
    calls[1] = 160
    leads = []
    for _ in range(20):
        lead = rotation.draw(
            [Entry(number, calls=count) for number, count in calls.items()], now=NOW + timedelta(minutes=60)
        )
        calls[lead] += 1
        leads.append(lead)
    assert leads.count(1) == 10


def test_a_short_absence_is_made_up_for() -> None:
    rotation = Rotation(Method("least_used", "g"))
    rotation.draw([Entry(1, calls=10), Entry(2, calls=10)])
    later = NOW + timedelta(minutes=5)
    assert rotation.draw([Entry(1, calls=13), Entry(2, calls=10)], now=later) == 2
    assert not [name for name in rotation.values if name.startswith("lent")]


def test_a_loan_ends_with_the_calls_it_stands_for() -> None:
    rotation = Rotation(Method("least_used", "g"))
    rotation.draw([Entry(1, calls=100), Entry(2, calls=0)])
    lent = [name for name in rotation.values if name.startswith("lent:2@")]
    assert [rotation.values[name] for name in lent] == [100]
    rotation.draw([Entry(1, calls=90), Entry(2, calls=90)], now=NOW + timedelta(hours=25))
    assert lent[0] not in rotation.values


def test_random_gives_everyone_the_same_chance_and_keeps_everyone() -> None:
    method = Method("random", "g")
    orders = [rank(method, entries(9, 1, 1), Moment({}, step / 600, NOW)).order for step in range(600)]
    assert [sum(order[0] == number for order in orders) for number in (1, 2, 3)] == [200, 200, 200]
    assert len(set(orders)) == 6
    assert rank(method, entries(1, 1), Moment({}, 0.999999, NOW)).order == (2, 1)


def test_fastest_puts_the_unmeasured_last() -> None:
    measured = [Entry(1), Entry(2, median_ms=300), Entry(3, median_ms=200)]
    ranking = rank(Method("fastest", "g"), measured, Moment({}, 0.0, NOW))
    assert ranking.order == (3, 2, 1)
    assert ranking.scores[1] == {"median_ms": None}


def test_fastest_gives_every_20th_draw_to_the_unknown() -> None:
    known = Entry(1, median_ms=200, sample_age_s=5)
    stale = Entry(2, median_ms=900, sample_age_s=1801)
    fresh = Entry(3, median_ms=900, sample_age_s=1800)
    unmeasured = Entry(4)
    rotation = Rotation(Method("fastest", "g"))
    leads = [rotation.draw([known, stale, fresh, unmeasured]) for _ in range(80)]
    assert [(place + 1, lead) for place, lead in enumerate(leads) if lead != 1] == [(20, 4), (40, 2), (60, 4), (80, 2)]


def test_fastest_explores_nothing_when_all_is_known() -> None:
    rotation = Rotation(Method("fastest", "g"))
    known = [Entry(1, median_ms=200, sample_age_s=5), Entry(2, median_ms=300, sample_age_s=5)]
    assert {rotation.draw(known) for _ in range(60)} == {1}


def test_a_bound_lead_is_no_exploration() -> None:
    due = charge(Method("fastest", "g"), [Entry(1, median_ms=9), Entry(2)], 1, Moment({"draws": 19}, 0.0, NOW))
    assert due is not None
    assert due.add == {"draws": 1}


def test_cheapest_and_headroom() -> None:
    priced = [Entry(1), Entry(2, cost=Decimal("0.02")), Entry(3, cost=Decimal(0)), Entry(4, cost=Decimal("0.01"))]
    assert rank(Method("cheapest", "g"), priced, Moment({}, 0.0, NOW)).order == (3, 4, 2, 1)
    roomy = [Entry(1), Entry(2, remaining=3), Entry(3, remaining=30), Entry(4, remaining=0)]
    assert rank(Method("headroom", "g"), roomy, Moment({}, 0.0, NOW)).order == (3, 2, 4, 1)


def test_tiers_are_ranked_one_after_the_other() -> None:
    tiered = [replace(Entry(1, median_ms=1), tier=2), Entry(2, median_ms=9), replace(Entry(3, median_ms=2), tier=1)]
    assert rank(Method("fastest", "g"), tiered, Moment({}, 0.0, NOW)).order == (2, 3, 1)
