"""What is refused before any request comes."""

from typing import Any

import pytest

from routing.core.rule_checks import RuleShape, never_matches, shape_of, shape_of_row, validate_rule
from tests.routing.core.build import rule


@pytest.mark.parametrize(
    ("when", "then"),
    [
        ({"line": "nightly-*", "stream": False}, {"group": "cheap"}),
        ({"upstream": "official"}, {"set": {"model": "gpt-4o-2024-11-20"}, "continue": True}),
        ({"upstream": "official"}, {"deny": "not abroad"}),
        (None, {"group": "main"}),
        ({}, {"upstream": "official", "set": {"max_tokens": 5, "stop": ["a"], "x": {"y": None}}, "continue": True}),
        ({"input_tokens": [">= 1k", "< 2k"]}, {"deny": "no"}),
    ],
)
def test_good_rules(when: object, then: object) -> None:
    assert validate_rule(when, then) == []


@pytest.mark.parametrize(
    ("when", "then", "error"),
    [
        ("x", {"group": "a"}, "when: must be a mapping"),
        ({"modell": "x"}, {"group": "a"}, "when.modell: unknown condition"),
        ({"input_tokens": "a lot"}, {"group": "a"}, "when.input_tokens: 'a lot' is no comparison"),
        ({"input_tokens": ["> 5", "< 6"]}, {"group": "a"}, "when: these conditions exclude each other"),
        ({"max_tokens": "< 0"}, {"group": "a"}, "when: these conditions exclude each other"),
        ({"tools": False, "tool_count": "> 2"}, {"group": "a"}, "when: these conditions exclude each other"),
        ({"tools": True, "tool_count": 0}, {"group": "a"}, "when: these conditions exclude each other"),
        ({}, "main", "then: must be a mapping"),
        ({}, {}, "then: has no effect"),
        ({}, {"continue": True}, "then: has no effect"),
        ({}, {"group": "a", "deny": "b"}, "then: group and deny exclude each other"),
        ({}, {"grup": "a", "deny": "b"}, "then.grup: unknown field"),
        ({}, {"group": 5}, "then.group: must be a text"),
        ({}, {"deny": " "}, "then.deny: must be a text"),
        ({}, {"deny": "x" * 301}, "then.deny: at most 300"),
        ({}, {"group": "a", "continue": "yes"}, "then.continue: must be true or false"),
        ({}, {"deny": "x", "set": {"a": 1}}, "then.deny: leaves nothing"),
        ({}, {"deny": "x", "continue": True}, "then.deny: leaves nothing"),
        ({"upstream": "a"}, {"group": "b"}, "then.group: a rule with an upstream condition may only set or deny"),
        ({"upstream": "a"}, {"upstream": "b"}, "then.upstream: a rule with an upstream condition"),
        ({}, {"set": []}, "then.set: must be a mapping"),
        ({}, {"set": {"stream": True}}, "then.set.stream: cannot be set"),
        ({}, {"set": {"model": ""}}, "then.set.model: must be a model's name"),
        ({}, {"set": {"max_tokens": 0}}, "then.set.max_tokens: must be a whole number"),
        ({}, {"set": {"max_tokens": True}}, "then.set.max_tokens: must be a whole number"),
        ({}, {"set": {"x": object()}}, "then.set.x: must be a JSON value"),
        ({}, {"set": {"": 1}}, "then.set: '' is no field name"),
    ],
)
def test_bad_rules_name_the_place(when: object, then: object, error: str) -> None:
    assert [found for found in validate_rule(when, then) if found.startswith(error)], validate_rule(when, then)


def decider(when: dict[str, Any]) -> RuleShape:
    return RuleShape("above", when, decides=True)


@pytest.mark.parametrize(
    ("above", "below"),
    [
        ({}, {"line": "nightly-*"}),
        ({"model": "*"}, {}),
        ({"model": "gpt-*"}, {"model": "gpt-4*"}),
        ({"model": "gpt-*"}, {"model": ["gpt-4o", "GPT-5"], "stream": True}),
        ({"model": ["gpt-*", "o*"]}, {"model": ["gpt-4o", "o3"]}),
        ({"model": "gpt-?"}, {"model": "gpt-?"}),
        ({"input_tokens": ">= 16k"}, {"input_tokens": ">= 32k"}),
        ({"input_tokens": "> 10"}, {"input_tokens": [">= 11", "< 20"]}),
        ({"input_tokens": "!= 5"}, {"input_tokens": 6}),
        ({"dialect": ["openai", "gemini"]}, {"dialect": "openai"}),
        ({"stream": True}, {"stream": True, "tools": False}),
        ({"hours": "22:00-07:00"}, {"hours": "22:00-07:00", "line": "a"}),
    ],
)
def test_a_rule_below_a_broader_one_is_dead(above: dict[str, Any], below: dict[str, Any]) -> None:
    rules = [decider(above), RuleShape("below", below, decides=True)]
    assert never_matches(rules) == [(1, "above, which stands before it, decides every request that it matches")]


@pytest.mark.parametrize(
    ("above", "below"),
    [
        ({"line": "nightly-*"}, {}),
        ({"model": "gpt-4*"}, {"model": "gpt-*"}),
        ({"model": "gpt-*"}, {"model": ["gpt-4o", "o3"]}),
        ({"model": "gpt-?"}, {"model": "gpt-*"}),
        ({"input_tokens": ">= 32k"}, {"input_tokens": ">= 16k"}),
        ({"input_tokens": "< 1M"}, {"input_tokens": "> 5"}),
        ({"max_tokens": ">= 0"}, {}),
        ({"stream": True}, {}),
        ({"dialect": "openai"}, {"dialect": ["openai", "gemini"]}),
        ({"hours": "22:00-07:00"}, {"hours": "23:00-07:00"}),
    ],
)
def test_a_rule_below_a_narrower_one_lives(above: dict[str, Any], below: dict[str, Any]) -> None:
    assert never_matches([decider(above), RuleShape("below", below, decides=True)]) == []


def test_two_halves_leave_nothing_to_the_third() -> None:
    rules = [
        RuleShape("streams", {"stream": True}, decides=True),
        RuleShape("plain", {"stream": False}, decides=True),
        RuleShape("rest", {"model": "gpt-*"}, decides=True),
    ]
    assert never_matches(rules) == [
        (2, "streams and plain, which stand before it, decide every request that it matches")
    ]
    assert never_matches([rules[0], rules[2]]) == []


def test_rules_that_do_not_decide_shadow_nothing() -> None:
    last = rule(9, group_id=1)
    for quiet in (rule(1, set={"a": 1}), rule(1, group_id=1, proceed=True), rule(1, {"upstream": "*"}, deny="no")):
        assert never_matches([shape_of_row(quiet), shape_of_row(last)]) == []
    assert len(never_matches([shape_of_row(rule(1, deny="no")), shape_of_row(last)])) == 1


def test_second_phase_rules_are_never_shadowed() -> None:
    below = shape_of("per-hop", {"upstream": "official"}, {"deny": "no"})
    assert never_matches([decider({}), below]) == []


def test_the_files_rules_read_like_the_tables() -> None:
    assert shape_of("a", {"line": "x"}, {"group": "g"}) == RuleShape("a", {"line": "x"}, decides=True)
    assert not shape_of("a", {}, {"group": "g", "continue": True}).decides
    assert not shape_of("a", {}, {"set": {"x": 1}}).decides


def test_a_rule_that_contradicts_itself_is_dead() -> None:
    assert never_matches([RuleShape("odd", {"tools": False, "tool_count": ">= 1"}, decides=True)]) == [
        (0, "its conditions exclude each other")
    ]
