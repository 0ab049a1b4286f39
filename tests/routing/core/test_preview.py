"""The next picks: what the decision really does next, and nothing of it is done."""

import copy
from dataclasses import replace
from typing import Any

import pytest

from routing.core.decide import decide
from routing.core.preview import ask, next_picks
from routing.core.table import MemberInfo
from routing.core.views import KeyView, charged
from tests.routing.core.build import DEAD, GROUP, NOW, bars, capped, decided, facts, situation, table, upstream


def leads(routing: Any, number: int = 10, keys: Any = None, asked: Any = None, **now: Any) -> list[int]:
    question = ask(routing, routing.groups[GROUP], asked or facts(), NOW)
    picks = next_picks(question, situation(keys, **now), number)
    return [one.candidates[0].upstream_id for one in picks if one.candidates]


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({1: 7, 2: 3}, [1, 2, 1, 1, 1, 2, 1, 1, 2, 1]),
        ({1: 5, 2: 1, 3: 1}, [1, 1, 2, 1, 3, 1, 1]),
        ({1: 3, 2: 2, 3: 1}, [1, 2, 1, 3, 2, 1]),
    ],
)
def test_smooth_weights_take_their_turns(weights: dict[int, int], expected: list[int]) -> None:
    routing = table([upstream(number) for number in weights], strategy="weighted", weights=weights)
    assert leads(routing, len(expected)) == expected


@pytest.mark.parametrize("strategy", ["priority", "round_robin", "weighted", "least_used", "fastest", "headroom"])
def test_the_picks_are_those_that_really_follow(strategy: str) -> None:
    """The loop of a gateway, drawn out: decide, charge, count; from a rotation in the middle of its round."""
    routing = table([upstream(1, keys=2), upstream(2), upstream(3)], strategy=strategy, weights={1: 4, 2: 2, 3: 1})
    keys = {11: KeyView(calls_24h=4, median_ms=300.0, remaining=9), 12: KeyView(calls_24h=1, remaining=2),
            21: KeyView(calls_24h=3, median_ms=200.0), 31: KeyView(calls_24h=9, remaining=30)}  # fmt: skip
    rotation: dict[str, dict[str, int]] = {f"group:{GROUP}:{strategy}": {"1": -1500, "2": 700, "3": 800, "draws": 17}}
    foreseen = leads(routing, keys=keys, rotation=copy.deepcopy(rotation))
    happened = []
    for _ in range(10):
        decision = decided(routing, keys, rotation=rotation)
        happened.append(decision.candidates[0].upstream_id)
        lead = decision.candidates[0].key_id
        for due in decision.charges:
            rotation[due.scope] = charged(rotation.get(due.scope, {}), due)
        view = keys[lead]
        left = None if view.remaining is None else view.remaining - 1
        keys[lead] = KeyView(
            calls_24h=view.calls_24h + 1, median_ms=view.median_ms, remaining=left, cap="rpm" if left == 0 else ""
        )
    assert foreseen == happened


def test_nothing_is_changed_and_the_next_pick_is_the_first() -> None:
    routing = table([upstream(1), upstream(2)], strategy="round_robin")
    now = situation({11: KeyView(calls_24h=2)}, rotation={f"group:{GROUP}:round_robin": {"1": -500, "2": 500}})
    before = copy.deepcopy(now)
    question = ask(routing, routing.groups[GROUP], facts(), NOW)
    picks = next_picks(question, now, 10)
    assert now == before
    assert 0 not in routing.routes
    assert decide(facts(), routing, now).candidates[0].key_id == picks[0].candidates[0].key_id == 21


def test_who_is_away_is_told_and_takes_no_turn() -> None:
    routing = table([upstream(1), upstream(2, keys=0), upstream(3)], strategy="round_robin")
    question = ask(routing, routing.groups[GROUP], facts(), NOW)
    picks = next_picks(question, situation({11: DEAD}), 3)
    assert [one.candidates[0].upstream_id for one in picks] == [3, 3, 3]
    assert bars(picks[0]) == {11: "dead"}


def test_a_cap_that_the_picks_use_up_ends_the_turns_of_its_key() -> None:
    routing = table([upstream(1), upstream(2)])
    assert leads(routing, 4, keys={11: KeyView(remaining=2)}) == [1, 1, 2, 2]


def test_a_full_key_is_passed_over_by_all_ten() -> None:
    full = replace(upstream(1), keys=(capped(11, 1, 2),))
    assert leads(table([full, upstream(2)]), 3, keys={11: KeyView(in_flight=2)}) == [2, 2, 2]
    assert leads(table([full, upstream(2)]), 3, keys={11: KeyView(in_flight=1)}) == [1, 1, 1]


def test_no_usable_key_ends_the_list() -> None:
    routing = table([upstream(1), upstream(2)], strategy="weighted")
    question = ask(routing, routing.groups[GROUP], facts(), NOW)
    picks = next_picks(question, situation({11: DEAD, 21: DEAD}), 10)
    assert len(picks) == 1
    assert picks[0].candidates == ()
    assert bars(picks[0]) == {11: "dead", 21: "dead"}


def test_a_group_without_members_has_one_empty_decision() -> None:
    routing = table([], members=())
    assert leads(routing) == []


def test_a_model_that_one_member_does_not_list() -> None:
    routing = table([upstream(1, models=("other",)), upstream(2)])
    assert leads(routing, 2) == [2, 2]
    assert leads(routing, 2, asked=facts(model="")) == [1, 1]
    assert routing.groups[GROUP].members == (MemberInfo(1), MemberInfo(2))
