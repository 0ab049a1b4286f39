"""What can be wrong with rules before any request comes: shape of one rule, and rules that can never match."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from routing.core.conditions import FLAGS, GLOBS, NUMBERS, comparisons, error_in, listed
from routing.core.rules import denies, has_target
from routing.core.table import RuleInfo
from tenants.core.access import glob_matches
from tenants.core.values import valueclass

DENY_MAX = 300
_TARGETS = ("group", "upstream", "deny")
_THEN = (*_TARGETS, "set", "continue")
_COUNTED = ("max_tokens", "max_completion_tokens", "max_output_tokens")
# A rule that changed these would break the conversation or the answer's framing.
_FIXED = ("stream", "messages", "input", "contents", "prompt")


@valueclass(frozen=True, slots=True)
class RuleShape:
    """A rule as far as it can shadow others. `decides`: nothing below it is judged once it matches."""

    name: str
    when: Mapping[str, Any]
    decides: bool


def validate_rule(when: object, then: object) -> list[str]:
    """Return what is wrong with a rule of the declarative file, each naming its path (`when.hours: ...`)."""
    errors = []
    when = {} if when is None else when
    if isinstance(when, Mapping):
        for name, value in when.items():
            error = error_in(name, value)
            errors += [f"when.{name}: {error}"] if error else []
        if not errors and _contradicts_itself(when):
            errors.append("when: these conditions exclude each other; the rule can never match")
    else:
        errors.append("when: must be a mapping of conditions")
    if not isinstance(then, Mapping):
        return [*errors, "then: must be a mapping with group, upstream, deny or set"]
    return errors + list(_errors_in_then(then, second_phase=isinstance(when, Mapping) and "upstream" in when))


def shape_of(name: str, when: Mapping[str, Any], then: Mapping[str, Any]) -> RuleShape:
    """Read a rule of the declarative file."""
    targeted = any(then.get(target) is not None for target in _TARGETS)
    return RuleShape(name, when, targeted and not then.get("continue", False) and "upstream" not in when)


def shape_of_row(rule: RuleInfo) -> RuleShape:
    """Read a rule of the routing table."""
    targeted = has_target(rule) or denies(rule)
    return RuleShape(rule.name, rule.when, targeted and not rule.proceed and "upstream" not in rule.when)


def never_matches(rules: Sequence[RuleShape]) -> list[tuple[int, str]]:
    """Return the place of each rule that can never match, and why. The rules must be valid.

    A rule is dead when its conditions exclude each other, or when the deciding rules above it leave it nothing: for
    every combination of yes/no conditions one of them holds whenever it does. What cannot be proved is not reported.
    """
    dead = []
    for place, rule in enumerate(rules):
        if _contradicts_itself(rule.when):
            dead.append((place, "its conditions exclude each other"))
        elif "upstream" not in rule.when:
            above = [earlier for earlier in rules[:place] if earlier.decides]
            names = _shadows(rule, above)
            if names:
                verbs = ("stands", "decides") if len(names) == 1 else ("stand", "decide")
                why = f"{' and '.join(names)}, which {verbs[0]} before it, {verbs[1]} every request that it matches"
                dead.append((place, why))
    return dead


def _errors_in_then(then: Mapping[str, Any], *, second_phase: bool) -> Iterator[str]:
    yield from (f"then.{name}: unknown field; known: {', '.join(_THEN)}" for name in then if name not in _THEN)
    targets = [name for name in _TARGETS if then.get(name) is not None]
    if len(targets) > 1:
        yield f"then: {' and '.join(targets)} exclude each other"
    for name in targets:
        if not isinstance(then[name], str) or not then[name].strip():
            yield f"then.{name}: must be a text"
        elif name == "deny" and len(then[name]) > DENY_MAX:
            yield f"then.deny: at most {DENY_MAX} characters"
        elif name != "deny" and second_phase:
            yield f"then.{name}: a rule with an upstream condition may only set or deny"
    if not isinstance(then.get("continue", False), bool):
        yield "then.continue: must be true or false"
    yield from _errors_in_set(then.get("set"))
    if not targets and not then.get("set"):
        yield "then: has no effect; give group, upstream, deny or set"
    if "deny" in targets and (then.get("set") or then.get("continue") is True):
        yield "then.deny: leaves nothing to set or to continue with"


def _errors_in_set(values: object) -> Iterator[str]:
    if values is None:
        return
    if not isinstance(values, Mapping) or not values:
        yield "then.set: must be a mapping of body fields"
        return
    for name, value in values.items():
        if not isinstance(name, str) or not name:
            yield f"then.set: {name!r} is no field name"
        elif name in _FIXED:
            yield f"then.set.{name}: cannot be set by a rule"
        elif name == "model" and (not isinstance(value, str) or not value.strip()):
            yield "then.set.model: must be a model's name"
        elif name in _COUNTED and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            yield f"then.set.{name}: must be a whole number above 0"
        elif not _is_json(value):
            yield f"then.set.{name}: must be a JSON value"


def _is_json(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(name, str) and _is_json(inner) for name, inner in value.items())
    if isinstance(value, list):
        return all(_is_json(inner) for inner in value)
    return value is None or isinstance(value, str | int | float | bool)


def _contradicts_itself(when: Mapping[str, Any]) -> bool:
    if any(not _numbers_left(when[name]) for name in NUMBERS if name in when):
        return True
    tools, count = when.get("tools"), when.get("tool_count")
    if tools is None or count is None:
        return False
    wanted = [">= 1"] if tools else ["== 0"]
    return not _numbers_left([*listed(count), *wanted])


def _numbers_left(value: object) -> bool:
    """Tell whether a whole number >= 0 meets all comparisons: only the bounds and their neighbours need a look."""
    parts = comparisons(value)
    return any(all(part.holds(point) for part in parts) for point in _points(parts))


def _points(parts: Sequence[Any]) -> set[int]:
    near = {int(part.bound) + step for part in parts for step in (-1, 0, 1)}
    return {point for point in near | {0} if point >= 0}


def _shadows(rule: RuleShape, above: Sequence[RuleShape]) -> list[str]:
    """Return the names of the rules that together leave `rule` nothing; empty = it can match."""
    flags = sorted({flag for earlier in above for flag in FLAGS if flag in earlier.when})
    names: dict[str, None] = {}
    for values in product((True, False), repeat=len(flags)):
        case = dict(zip(flags, values, strict=True))
        if any(rule.when.get(flag, value) != value for flag, value in case.items()):
            continue
        covering = next((earlier for earlier in above if _covers(earlier.when, {**rule.when, **case})), None)
        if covering is None:
            return []
        names[covering.name] = None
    return list(names)


def _covers(broad: Mapping[str, Any], narrow: Mapping[str, Any]) -> bool:
    """Tell whether every request that meets `narrow` meets `broad`."""
    return all(_implied(name, value, narrow) for name, value in broad.items())


def _implied(name: str, value: object, narrow: Mapping[str, Any]) -> bool:
    if name in GLOBS and "*" in listed(value):
        return True
    if name not in narrow:
        return False
    given = narrow[name]
    if given == value:
        return True
    if name in NUMBERS:
        return _numbers_within(given, value)
    wide = listed(value)
    if name in GLOBS:
        return all(any(_glob_within(str(one), str(other)) for other in wide) for one in listed(given))
    return name not in FLAGS and all(one in wide for one in listed(given))


def _numbers_within(narrow: object, broad: object) -> bool:
    """Tell whether each whole number that meets `narrow` meets `broad`: bounds and their neighbours decide again."""
    inner, outer = comparisons(narrow), comparisons(broad)
    return all(
        all(part.holds(point) for part in outer)
        for point in _points((*inner, *outer))
        if all(part.holds(point) for part in inner)
    )


def _glob_within(narrow: str, broad: str) -> bool:
    """Tell whether `broad` matches all that `narrow` does, reading narrow's wildcards as letters.

    A `?` of `broad` could swallow only one letter of what a `*` of `narrow` stands for, so that pair proves nothing.
    """
    if "?" in broad and "*" in narrow:
        return broad.lower() == narrow.lower()
    return glob_matches(broad, narrow)
