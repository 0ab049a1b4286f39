"""What may be written as a policy."""

from dataclasses import asdict
from typing import Any

import pytest

from keys.core.policy import PRESETS, Policy, overridden
from keys.core.policy_check import policy_problems


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_may_be_written_out(preset: str) -> None:
    assert policy_problems({"preset": preset}) == []
    assert policy_problems(PRESETS[preset]) == []


def test_the_defaults_may_be_written_out() -> None:
    values = {name: value for name, value in asdict(Policy()).items() if value is not None}
    assert policy_problems(values) == []
    assert overridden(Policy(), values) == Policy()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"preset": 3}, [("preset", "unknown preset 3; known: standard, keypool, relay, strict")]),
        ({"cool": 3}, [("cool", "unknown policy field")]),
        ({"on_balance": "cool"}, []),
        ({"on_balance": "stop"}, [("on_balance", "must be one of cool, dead")]),
        ({"on_permission": None}, [("on_permission", "must be one of strike, dead, stop")]),
        ({"timeouts_cool": 1}, [("timeouts_cool", "must be true or false")]),
        ({"timeouts_cool": False}, []),
        ({"strikes": True}, [("strikes", "must be a number")]),
        ({"strikes": 1.5}, [("strikes", "must be a whole number")]),
        ({"hold_s": 1.5}, []),
        ({"hold_s": -1}, [("hold_s", "must be from 0 to 604800")]),
        ({"hold_s": float("nan")}, [("hold_s", "must be a number")]),
        ({"hold_s": float("inf")}, [("hold_s", "must be a number")]),
        ({"silence_s": 0}, [("silence_s", "must be from 0.001 to 3600")]),
        ({"silence_s": 3601}, [("silence_s", "must be from 0.001 to 3600")]),
        ({"first_content_deadline_s": 20}, []),
        ({"max_attempts": 0}, [("max_attempts", "must be from 1 to 100")]),
        ({"cool_429_s": 10, "cool_429_max_s": 9}, [("cool_429_max_s", "is below cool_429_s")]),
        ({"cool_429_s": 10, "cool_429_max_s": 10}, []),
        ({"cool_429_max_s": 9}, []),
        ({"a": 1, "b": 2}, [("a", "unknown policy field"), ("b", "unknown policy field")]),
    ],
)
def test_policy_problems(values: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert policy_problems(values) == expected
