"""What is wrong with a policy as it is written in the file or the admin: `preset` and any field of Policy."""

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from keys.core.policy import FIELDS, PRESETS, Policy

CHOICES: Mapping[str, tuple[str, ...]] = {
    "on_balance": ("cool", "dead"),
    "on_auth": ("dead", "strike", "stop"),
    "on_permission": ("strike", "dead", "stop"),
}
LONGEST_SILENCE_S = 3600
_LONGEST_S = 7 * 24 * 3600
# name -> smallest and largest value; the rest are seconds from 0 to a week.
_BOUNDS: Mapping[str, tuple[float, float]] = {
    "strikes": (1, 1000),
    "max_attempts": (1, 100),
    "hold_bytes": (0, 64 * 1024 * 1024),
    "low_water": (0, 1),
    "slow_factor": (1, 1000),
    "connect_s": (0.001, 600),
    "silence_s": (0.001, LONGEST_SILENCE_S),
    "first_content_deadline_s": (0.001, 3600),
}
_TYPES = {each.name: each.type for each in fields(Policy)}
_PAIRS = (("cool_strike_s", "cool_strike_max_s"), ("cool_429_s", "cool_429_max_s"))


def policy_problems(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (field, problem) pairs; unknown fields among them. Empty when the policy may be stored."""
    found = [(name, problem) for name, value in values.items() if (problem := _problem(name, value))]
    return found or _contradictions(values)


def _problem(name: str, value: Any) -> str:
    if name == "preset":
        known = isinstance(value, str) and value in PRESETS
        return "" if known else f"unknown preset {value!r}; known: {', '.join(PRESETS)}"
    if name not in FIELDS:
        return "unknown policy field"
    if name in CHOICES:
        return "" if value in CHOICES[name] else f"must be one of {', '.join(CHOICES[name])}"
    if _TYPES[name] is bool:
        return "" if isinstance(value, bool) else "must be true or false"
    return _number_problem(name, value)


def _number_problem(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return "must be a number"
    if _TYPES[name] is int and not isinstance(value, int):
        return "must be a whole number"
    least, most = _BOUNDS.get(name, (0, _LONGEST_S))
    return "" if least <= value <= most else f"must be from {least:g} to {most:g}"


def _contradictions(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A first wait above the longest one: judged only where both are written here."""
    return [
        (longest, f"is below {first}")
        for first, longest in _PAIRS
        if first in values and longest in values and values[longest] < values[first]
    ]
