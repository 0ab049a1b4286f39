"""A request that a rule is meant for, as far as its conditions say so: what a dry run begins with."""

from collections.abc import Mapping, Sequence
from typing import Any

from routing.core.conditions import comparison, listed
from tenants.core.access import glob_matches

_STEP = {">": 1, "<": -1, "!=": 1}  # from the bound to a number that meets it


def matches_line(when: Mapping[str, Any], slug: str) -> bool:
    """Tell whether a rule with these conditions may hold for a line."""
    return "line" not in when or any(glob_matches(str(pattern), slug) for pattern in listed(when["line"]))


def request_like(when: Mapping[str, Any], models: Sequence[str]) -> dict[str, Any]:
    """Return fields of the dry run's form that meet the conditions. `models`: names to choose from for a pattern."""
    found: dict[str, Any] = {}
    for name, known in (("model", models), ("key", ())):
        if name in when:
            named = [str(pattern) for pattern in listed(when[name]) if not set("*?") & set(str(pattern))]
            found[name] = next((one for one in (*named, *known) if _meets(when[name], one)), "")
    if "dialect" in when:
        found["dialect"] = str(listed(when["dialect"])[0])
    found |= {name: when[name] for name in ("stream", "image", "thinking") if name in when}
    if when.get("tools") is True:
        found["tools"] = 1
    for name, target in (("input_tokens", "input_tokens"), ("max_tokens", "max_tokens"), ("tool_count", "tools")):
        if name in when:
            found[target] = _number(when[name])
    return found


def _meets(value: object, text: str) -> bool:
    return any(glob_matches(str(pattern), text) for pattern in listed(value))


def _number(value: object) -> int | None:
    """Return a number near one of the bounds that meets all of them; None when there is none."""
    parts = [comparison(item) for item in listed(value)]
    near = [int(part.bound) + _STEP.get(part.operator, 0) for part in parts]
    return next((point for point in near if point >= 0 and all(part.holds(point) for part in parts)), None)
