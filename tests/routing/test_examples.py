"""Requests that rules are meant for."""

import pytest

from routing.examples import matches_line, request_like

MODELS = ["claude-3", "gpt-4o", "gpt-4o-mini"]


@pytest.mark.parametrize(
    ("when", "fields"),
    [
        ({}, {}),
        ({"model": "gpt-*"}, {"model": "gpt-4o"}),
        ({"model": ["o1*", "exact-1"]}, {"model": "exact-1"}),
        ({"model": "nobody-*"}, {"model": ""}),
        ({"key": "prod"}, {"key": "prod"}),
        ({"key": "prod-*"}, {"key": ""}),
        ({"stream": False, "image": True, "thinking": True}, {"stream": False, "image": True, "thinking": True}),
        ({"tools": True}, {"tools": 1}),
        ({"tools": True, "tool_count": "> 8"}, {"tools": 9}),
        ({"input_tokens": [">= 32k", "< 1M"]}, {"input_tokens": 32000}),
        ({"input_tokens": ["!= 4", "< 6"]}, {"input_tokens": 5}),
        ({"max_tokens": "< 64k"}, {"max_tokens": 63999}),
        ({"max_tokens": 8}, {"max_tokens": 8}),
        ({"dialect": ["gemini", "openai"], "hours": "22:00-07:00", "upstream": "x"}, {"dialect": "gemini"}),
    ],
)
def test_a_request_like_a_rule(when, fields):
    assert request_like(when, MODELS) == fields


@pytest.mark.parametrize(
    ("when", "held"), [({}, True), ({"line": "night*"}, True), ({"line": ["x", "y"]}, False), ({"line": "*"}, True)]
)
def test_the_line_of_a_rule(when, held):
    assert matches_line(when, "nightly") is held
