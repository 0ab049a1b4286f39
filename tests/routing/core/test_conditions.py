"""How conditions are written and when they hold."""

from datetime import datetime
from typing import Any

import pytest

from keys.core.dialect import Dialect
from routing.core.conditions import error_in, unmet
from routing.core.rules import local_time
from tests.routing.core.build import NOW, facts

MONDAY = datetime(2026, 11, 30, 12, 0)  # noqa: DTZ001 - a local time


@pytest.mark.parametrize(
    ("when", "changes", "holds"),
    [
        ({}, {}, True),
        ({"model": "gpt-*"}, {}, True),
        ({"model": "GPT-4?"}, {}, True),
        ({"model": "gpt-4"}, {}, False),
        ({"model": ["claude-*", "gpt-*"]}, {}, True),
        ({"model": "gpt[4]"}, {"model": "gpt4"}, False),
        ({"model": "claude[1m]"}, {"model": "Claude[1M]"}, True),
        ({"line": "support-*"}, {}, True),
        ({"line": "nightly-*"}, {}, False),
        ({"key": "PROD"}, {}, True),
        ({"dialect": "openai"}, {}, True),
        ({"dialect": "openai-responses"}, {}, False),
        ({"dialect": ["gemini", "anthropic"]}, {"dialect": Dialect.GEMINI}, True),
        ({"stream": False}, {}, True),
        ({"stream": True}, {}, False),
        ({"tools": True}, {"tool_count": 1}, True),
        ({"tools": False}, {"tool_count": 1}, False),
        ({"image": True}, {"image": True}, True),
        ({"thinking": False}, {"thinking": True}, False),
        ({"input_tokens": ">= 32k"}, {"input_tokens": 32000}, True),
        ({"input_tokens": ">= 32k"}, {"input_tokens": 31999}, False),
        ({"input_tokens": "<1M"}, {"input_tokens": 999_999}, True),
        ({"input_tokens": "< 1M"}, {"input_tokens": 1_000_000}, False),
        ({"input_tokens": "<= 1.5k"}, {"input_tokens": 1500}, True),
        ({"input_tokens": "> 1_000"}, {"input_tokens": 1001}, True),
        ({"input_tokens": [">= 10", "< 20"]}, {"input_tokens": 20}, False),
        ({"tool_count": 2}, {"tool_count": 2}, True),
        ({"tool_count": "== 2"}, {"tool_count": 3}, False),
        ({"tool_count": "= 2"}, {"tool_count": 2}, True),
        ({"tool_count": "!= 2"}, {"tool_count": 2}, False),
        ({"max_tokens": "< 1M"}, {"max_tokens": None}, False),
        ({"max_tokens": "!= 5"}, {"max_tokens": None}, False),
        ({"max_tokens": "> 5"}, {"max_tokens": 6}, True),
        ({"stream": False, "model": "claude-*"}, {}, False),
    ],
)
def test_conditions(when: dict[str, Any], changes: dict[str, Any], holds: bool) -> None:
    assert (unmet(when, facts(**changes), MONDAY) == "") is holds


@pytest.mark.parametrize(
    ("hours", "day", "clock", "holds"),
    [
        ("22:00-07:00", 30, "22:00", True),
        ("22:00-07:00", 30, "06:59", True),
        ("22:00-07:00", 30, "07:00", False),
        ("22:00-07:00", 30, "21:59", False),
        ("09:00-18:00", 30, "09:00", True),
        ("09:00-18:00", 30, "18:00", False),
        ("00:00-24:00", 30, "23:59", True),
        ("mon 22:00-07:00", 30, "23:00", True),
        ("mon 22:00-07:00", 30, "03:00", False),  # that night began on Sunday
        ("sun 22:00-07:00", 30, "03:00", True),
        ("mon-fri 09:00-18:00", 29, "12:00", False),
        ("fri-mon 09:00-18:00", 29, "12:00", True),
        ("sat,sun 09:00-18:00", 29, "12:00", True),
        (["06:00-07:00", "11:00-13:00"], 30, "12:00", True),
    ],
)
def test_hours(hours: object, day: int, clock: str, holds: bool) -> None:
    hour, minute = (int(part) for part in clock.split(":"))
    local = MONDAY.replace(day=day, hour=hour, minute=minute)
    assert (unmet({"hours": hours}, facts(), local) == "") is holds


def test_hours_are_those_of_the_tenants_zone() -> None:
    assert (local_time(NOW, "Asia/Shanghai").hour, local_time(NOW, "Nowhere/City").hour) == (20, 12)
    assert local_time(NOW, "../etc/passwd").hour == 12
    assert unmet({"hours": "20:00-21:00"}, facts(), local_time(NOW, "Asia/Shanghai")) == ""
    assert unmet({"hours": "20:00-21:00"}, facts(), local_time(NOW, "UTC"))


def test_the_upstream_is_that_of_the_hop() -> None:
    assert unmet({"upstream": "official"}, facts(), MONDAY, "Official") == ""
    assert unmet({"upstream": "official"}, facts(), MONDAY, "relay-a") == "upstream is relay-a, not official"


def test_the_reason_names_the_first_condition_that_fails() -> None:
    asked = facts(input_tokens=5)
    assert unmet({"line": "*", "input_tokens": ">= 32k", "stream": True}, asked, MONDAY) == (
        "input_tokens is 5, not >= 32k"
    )
    assert unmet({"max_tokens": "> 1"}, asked, MONDAY) == "max_tokens is unset, not > 1"
    assert unmet({"stream": True}, asked, MONDAY) == "stream is false, not true"
    assert unmet({"model": ["a", "b"]}, facts(model=""), MONDAY) == "model is empty, not a or b"
    assert unmet({"hours": "01:00-02:00"}, asked, MONDAY) == "hours is Mon 12:00, not 01:00-02:00"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", "gpt-*"),
        ("model", ["gpt-*", "o3"]),
        ("stream", True),
        ("input_tokens", ">= 32k"),
        ("input_tokens", 5),
        ("hours", "mon-fri 09:00-18:00"),
        ("dialect", ["openai", "gemini"]),
        ("upstream", "official"),
    ],
)
def test_valid_conditions(name: str, value: object) -> None:
    assert error_in(name, value) == ""


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("modell", "x", "unknown condition"),
        ("model", 5, "must be a pattern"),
        ("model", " ", "must be a pattern"),
        ("model", [], "must not be empty"),
        ("stream", "yes", "must be true or false"),
        ("stream", 1, "must be true or false"),
        ("input_tokens", "32k >=", "no comparison"),
        ("input_tokens", ">= 32g", "no comparison"),
        ("input_tokens", True, "no comparison"),
        ("input_tokens", None, "no comparison"),
        ("input_tokens", [">= 1", "x"], "no comparison"),
        ("hours", "22-7", "no time window"),
        ("hours", "24:00-07:00", "no time window"),
        ("hours", "22:00-24:01", "no time window"),
        ("hours", "22:60-07:00", "no time window"),
        ("hours", "09:00-09:00", "no time window"),
        ("hours", "mo 09:00-10:00", "no time window"),
        ("hours", 9, "no time window"),
        ("dialect", "claude", "unknown dialect 'claude'; known: openai"),
    ],
)
def test_invalid_conditions_say_what_is_wrong(name: str, value: object, error: str) -> None:
    assert error in error_in(name, value)
