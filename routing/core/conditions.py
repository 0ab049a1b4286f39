"""The conditions of a routing rule: how they are written, and whether they hold.

model, line, key, upstream      a glob, or a list of which one must match; case is ignored
dialect                         a dialect's name, or a list
stream, tools, image, thinking  true or false
input_tokens, max_tokens, tool_count
                                a comparison (`">= 32k"`, `"< 1M"`, `8`), or a list of which all must hold;
                                k = 1000, M = 1,000,000
hours                           `"22:00-07:00"`, `"mon-fri 09:00-18:00"`, or a list of which one must hold; the start
                                belongs to it, the end does not; a window over midnight belongs to its start day
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from keys.core.dialect import Dialect
from routing.core.facts import Facts
from tenants.core.access import glob_matches
from tenants.core.values import valueclass

GLOBS = ("model", "line", "key", "upstream")
FLAGS = ("stream", "tools", "image", "thinking")
NUMBERS = ("input_tokens", "max_tokens", "tool_count")
NAMES = (*GLOBS, "dialect", *FLAGS, *NUMBERS, "hours")

DAY_MINUTES = 24 * 60
_HOUR_MINUTES = 60
_BOUND_MAX = 10**15  # whole floats are exact below; infinity and "not a number" are no bounds
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_COMPARISON = re.compile(r"(>=|<=|==|!=|>|<|=)?\s*(\d+(?:\.\d+)?)\s*([kKmM]?)")
_WINDOW = re.compile(r"(?:([a-z,-]+)\s+)?(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})")
_FACTORS = {"": 1, "k": 1000, "m": 1_000_000}
_HOLDS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": lambda value, bound: value >= bound,
    "<=": lambda value, bound: value <= bound,
    ">": lambda value, bound: value > bound,
    "<": lambda value, bound: value < bound,
    "==": lambda value, bound: value == bound,
    "!=": lambda value, bound: value != bound,
}


@valueclass(frozen=True, slots=True)
class Comparison:
    operator: str
    bound: float

    def holds(self, value: float) -> bool:
        return _HOLDS[self.operator](value, self.bound)


@valueclass(frozen=True, slots=True)
class Window:
    """Minutes of the day, `start` inclusive, `end` exclusive; `end` <= `start` = over midnight. Monday is day 0."""

    start: int
    end: int
    days: frozenset[int]

    def holds(self, local: datetime) -> bool:
        minute, today = local.hour * _HOUR_MINUTES + local.minute, local.weekday()
        if self.start < self.end:
            return self.start <= minute < self.end and today in self.days
        if minute >= self.start:
            return today in self.days
        return minute < self.end and (today - 1) % len(DAYS) in self.days


def unmet(when: Mapping[str, Any], facts: Facts, local: datetime, upstream: str = "") -> str:
    """Return why the conditions do not hold, naming the first that fails; "" when all do.

    `local` is the present in the tenant's zone, `upstream` the hop's name (second phase). Conditions were validated.
    """
    for name, value in when.items():
        why = _unmet(name, value, facts, local, upstream)
        if why:
            return why
    return ""


def error_in(name: str, value: object) -> str:
    """Return what is wrong with one condition, "" when nothing is."""
    if name not in NAMES:
        return f"unknown condition; known: {', '.join(NAMES)}"
    if name in FLAGS:
        return "" if isinstance(value, bool) else "must be true or false"
    items = listed(value)
    if not items:
        return "must not be empty"
    for item in items:
        try:
            _parsed(name, item)
        except ValueError as error:
            return str(error)
    return ""


def listed(value: object) -> tuple[object, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def comparisons(value: object) -> tuple[Comparison, ...]:
    """Read the value of a number condition. ValueError says what is wrong."""
    return tuple(comparison(item) for item in listed(value))


def comparison(value: object) -> Comparison:
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _BOUND_MAX:
        return Comparison("==", float(value))
    return _comparison(value) if isinstance(value, str) else _refuse(value)


def comparison_parts(value: object) -> tuple[str, str, str]:
    """Return operator, number and unit ("" | k | M) of one comparison as they are written. ValueError as above."""
    comparison(value)
    if not isinstance(value, str):
        return "==", f"{value:f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value), ""
    found = _COMPARISON.fullmatch(value.strip().replace("_", "").replace(",", ""))
    operator, number, unit = found.groups() if found is not None else ("", value, "")
    return "==" if operator in (None, "", "=") else operator, number, {"": "", "k": "k", "m": "M"}[unit.lower()]


def windows(value: object) -> tuple[Window, ...]:
    """Read the value of `hours`. ValueError says what is wrong."""
    return tuple(_window(item) if isinstance(item, str) else _bad_hours(item) for item in listed(value))


def _unmet(name: str, value: object, facts: Facts, local: datetime, upstream: str) -> str:
    if name in GLOBS:
        text = upstream if name == "upstream" else str(getattr(facts, "key_name" if name == "key" else name))
        met = glob_matches(value, text) if isinstance(value, str) else _any_matches(value, text)
    elif name in FLAGS:
        text = str(getattr(facts, name)).lower()
        met = getattr(facts, name) == value
    elif name in NUMBERS:
        number = getattr(facts, name)
        text = "unset" if number is None else str(number)
        met = number is not None and all(each.holds(number) for each in comparisons(value))
    elif name == "dialect":
        text = facts.dialect.value
        met = text in listed(value)
    else:
        text = f"{local:%a %H:%M}"
        met = any(window.holds(local) for window in windows(value))
    return "" if met else f"{name} is {text or 'empty'}, not {_shown(value)}"


def _any_matches(value: object, text: str) -> bool:
    return any(glob_matches(str(pattern), text) for pattern in listed(value))


def _shown(value: object) -> str:
    return " or ".join(str(item) for item in value) if isinstance(value, list | tuple) else str(value).lower()


def _parsed(name: str, item: object) -> None:
    if name in NUMBERS:
        comparison(item)
    elif name == "hours":
        windows(item)
    elif name == "dialect":
        if item not in list(Dialect):
            raise ValueError(f"unknown dialect {item!r}; known: {', '.join(Dialect)}")
    elif not isinstance(item, str) or not item.strip():
        raise ValueError("must be a pattern such as gpt-*")


@lru_cache(maxsize=4096)  # these texts come from configuration, never from clients
def _comparison(text: str) -> Comparison:
    found = _COMPARISON.fullmatch(text.strip().replace("_", "").replace(",", ""))
    if found is None:
        return _refuse(text)
    operator, number, unit = found.groups()
    bound = float(number) * _FACTORS[unit.lower()]
    if bound > _BOUND_MAX:
        return _refuse(text)
    return Comparison("==" if operator in (None, "=") else operator, bound)


def _refuse(value: object) -> Comparison:
    raise ValueError(f"{value!r} is no comparison such as '>= 32k', '< 1M' or '== 8'")


@lru_cache(maxsize=4096)
def _window(text: str) -> Window:
    found = _WINDOW.fullmatch(text.strip().lower())
    if found is None:
        return _bad_hours(text)
    days, *digits = found.groups()
    start_h, start_m, end_h, end_m = (int(digit) for digit in digits)
    start, end = start_h * _HOUR_MINUTES + start_m, end_h * _HOUR_MINUTES + end_m
    if max(start_m, end_m) >= _HOUR_MINUTES or start >= DAY_MINUTES or end > DAY_MINUTES or start == end:
        return _bad_hours(text)
    return Window(start, end, _days(days, text))


def _days(text: str | None, whole: str) -> frozenset[int]:
    if text is None:
        return frozenset(range(len(DAYS)))
    days: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        ends: Sequence[str] = (first, last or first)
        if not set(ends) <= set(DAYS):
            _bad_hours(whole)
        begin, end = (DAYS.index(day) for day in ends)
        span = (end - begin) % len(DAYS)
        days.update((begin + step) % len(DAYS) for step in range(span + 1))
    return frozenset(days)


def _bad_hours(value: object) -> Window:
    raise ValueError(f"{value!r} is no time window such as '22:00-07:00' or 'mon-fri 09:00-18:00'")
