"""A value as one line of JSON, whatever text it holds."""

import json
from typing import Any

import orjson


def json_line(value: Any) -> bytes:
    """Return compact JSON without a line end; what JSON does not know is written as text. Never raises for text."""
    try:
        return orjson.dumps(value, default=str)
    except TypeError:  # half of an emoji, or a number beyond 64 bits
        return json.dumps(value, default=str, separators=(",", ":")).encode()
