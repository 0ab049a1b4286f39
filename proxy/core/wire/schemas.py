"""Gemini's own schema language, as JSON Schema."""

import re
from typing import Any, Final

from proxy.core.wire.form import Body

_LISTS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_MAPS: Final = frozenset({"properties", "defs", "$defs", "definitions"})
_SINGLE: Final = frozenset({"items", "additionalProperties", "not"})
_SNAKE: Final = {
    "any_of": "anyOf",
    "max_items": "maxItems",
    "min_items": "minItems",
    "max_length": "maxLength",
    "min_length": "minLength",
    "max_properties": "maxProperties",
    "min_properties": "minProperties",
    "property_ordering": "propertyOrdering",
}
_COUNTS: Final = frozenset({"maxItems", "minItems", "maxLength", "minLength", "maxProperties", "minProperties"})
_COUNT: Final = re.compile(r"[0-9]{1,18}")


def from_gemini(schema: Any) -> Any:
    """An OpenAPI subset with upper-case types, `nullable` and counts as texts, in JSON Schema's words."""
    if not isinstance(schema, dict):
        return schema
    found: Body = {}
    for given, value in schema.items():
        name = _SNAKE.get(str(given), str(given))
        if name == "type" and isinstance(value, str):
            found[name] = value.lower()
        elif name in _LISTS and isinstance(value, list):
            found[name] = [from_gemini(part) for part in value]
        elif name in _MAPS and isinstance(value, dict):
            found[name] = {key: from_gemini(part) for key, part in value.items()}
        elif name in _SINGLE:
            found[name] = from_gemini(value)
        elif name in _COUNTS and isinstance(value, str) and _COUNT.fullmatch(value):
            found[name] = int(value)
        elif name not in ("nullable", "propertyOrdering", "example"):
            found[name] = value
    if schema.get("nullable") is True and isinstance(found.get("type"), str):
        found["type"] = [found["type"], "null"]
    return found


def closed(schema: Any) -> Any:
    """A JSON Schema whose objects allow no further members: Anthropic refuses an output format without it."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        name: {key: closed(part) for key, part in value.items()}
        if name in _MAPS and isinstance(value, dict)
        else (closed(value) if name in _LISTS or name in _SINGLE else value)
        for name, value in schema.items()
    }
    if schema.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found
