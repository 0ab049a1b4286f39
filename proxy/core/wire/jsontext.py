"""JSON as bytes: the one place that reads and writes it."""

import json
from typing import Any, Final, NoReturn

import orjson

MAX_DEPTH_TEXT: Final = "nested too deeply"


class MalformedBody(ValueError):
    """A body that is not JSON. `position` counts from 0, `line` and `column` from 1."""

    def __init__(self, message: str, position: int, line: int, column: int) -> None:
        super().__init__(f"{message}: line {line} column {column} (char {position})")
        self.message = message
        self.position = position
        self.line = line
        self.column = column


def parse_json(body: bytes) -> Any:
    """Read a body. Raises MalformedBody.

    Lone surrogates, which JavaScript clients send when they cut an emoji, are valid here: the upstream judges them.
    NaN and Infinity are not JSON.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return _parse_slowly(body)


def loads(data: bytes) -> Any:
    """Read an upstream's JSON, NaN and bytes that are no UTF-8 (half a character) included. Raises ValueError."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            return json.loads(data.decode("utf-8-sig", "replace"))
        except RecursionError as exc:
            raise ValueError(MAX_DEPTH_TEXT) from exc


def dumps(value: object) -> bytes:
    """Write compact JSON; integers beyond 64 bits and lone surrogates included."""
    try:
        return orjson.dumps(value)
    except (TypeError, orjson.JSONEncodeError):
        return json.dumps(value, separators=(",", ":")).encode()


def quoted(text: str) -> bytes:
    """The text as a JSON string."""
    return dumps(text)


def _parse_slowly(body: bytes) -> Any:
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except json.JSONDecodeError as exc:
        raise MalformedBody(exc.msg, exc.pos, exc.lineno, exc.colno) from exc
    except UnicodeDecodeError as exc:
        line = body.count(b"\n", 0, exc.start) + 1
        column = exc.start - body.rfind(b"\n", 0, exc.start)
        raise MalformedBody("Invalid UTF-8", exc.start, line, column) from exc
    except RecursionError as exc:
        raise MalformedBody(MAX_DEPTH_TEXT, 0, 1, 1) from exc
    except ValueError as exc:
        raise MalformedBody(str(exc), 0, 1, 1) from exc


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
