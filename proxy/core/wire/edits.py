"""Edits of a JSON body that leave every other byte as it was.

A small scanner finds the spans of an object's own members. It trusts that the text is JSON (see `parse_json`); what
it checks is only what it must know to tell a member from what lies inside one.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from proxy.core.wire.jsontext import MalformedBody, loads, parse_json, quoted

__all__ = [
    "MalformedBody",
    "Member",
    "ask_for_usage",
    "asks_for_usage",
    "insert_member",
    "parse_json",
    "read_top_level",
    "rename_model",
    "replace_member",
]

_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SCALAR: Final = re.compile(rb"[^\s,\]}\[{:\"]++")
_BLANK: Final = re.compile(rb"[ \t\r\n]*+")
# Everything up to the next bracket that stands outside strings.
_TO_BRACKET: Final = re.compile(rb'(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+', re.DOTALL)
_BOM: Final = b"\xef\xbb\xbf"
_ESCAPED: Final = b"\\u00"  # how an ASCII letter of a name could be hidden
_MODEL_NAMES: Final = frozenset({"model", "modelVersion"})
_WRAPPERS: Final = frozenset({"response", "message"})


@dataclass(frozen=True, slots=True)
class Member:
    """One member of an object: its decoded name and where its value stands."""

    name: str
    start: int
    end: int


def read_top_level(body: bytes, start: int = 0) -> list[Member]:
    """Return the members of the object that begins at `start` (blanks and a BOM aside), duplicates included.

    Raises MalformedBody when there is no object, or it does not end.
    """
    if body.startswith(_BOM, start):
        start += len(_BOM)
    at = _skip(body, _BLANK, start)
    if body[at : at + 1] != b"{":
        raise _malformed(body, at, "expected an object")
    at = _skip(body, _BLANK, at + 1)
    members: list[Member] = []
    if body[at : at + 1] == b"}":
        return members
    while True:
        member = _read_member(body, at)
        members.append(member)
        at = _skip(body, _BLANK, member.end)
        mark = body[at : at + 1]
        if mark == b"}":
            return members
        if mark != b",":
            raise _malformed(body, at, "expected ',' or '}'")
        at = _skip(body, _BLANK, at + 1)


def replace_member(body: bytes, name: str, value: bytes) -> bytes:
    """Give the member a new value, wherever it is named (parsers differ on duplicates); add it when absent."""
    key = quoted(name)
    known = _ESCAPED not in body  # no name is written another way
    if known and (count := body.count(key)) <= 1:
        lone = _lone_member(body, name, key) if count else None
        if not count or lone is not None:
            return _spliced(body, [(lone.start, lone.end)], value) if lone else insert_member(body, name, value)
    spans = [(member.start, member.end) for member in read_top_level(body) if member.name == name]
    return _spliced(body, spans, value) if spans else insert_member(body, name, value)


def _lone_member(body: bytes, name: str, key: bytes) -> Member | None:
    """The member whose name stands nowhere else, if it is the object's own. Looks at the shorter side of it only."""
    at = body.find(key)
    colon = _skip(body, _BLANK, at + len(key))
    if body[colon : colon + 1] != b":" or body[at - 1 : at] == b"\\":  # a value, or the end of a longer name
        return None
    start = _skip(body, _BLANK, colon + 1)
    end = _value_end(body, start)
    outermost = _depth(body[:at]) == 1 if at <= len(body) - end else _depth(body[end:]) == -1
    return Member(name, start, end) if outermost else None


def _depth(text: bytes) -> int:
    """How many brackets are left open (or closed, when negative). The text does not begin inside a string."""
    bare = _STRING.sub(b"", text)
    return bare.count(b"{") + bare.count(b"[") - bare.count(b"}") - bare.count(b"]")


def insert_member(body: bytes, name: str, value: bytes) -> bytes:
    """Add a member behind the last one."""
    end = body.rfind(b"}")
    at = len(body[:end].rstrip())
    if end < 0:
        raise _malformed(body, 0, "expected an object")
    return body[:at] + (b"" if body[at - 1 : at] == b"{" else b",") + quoted(name) + b":" + value + body[at:]


def asks_for_usage(payload: Mapping[str, Any]) -> bool:
    """True when a chat request asks for the usage chunk itself."""
    options = payload.get("stream_options")
    return isinstance(options, Mapping) and bool(options.get("include_usage"))


def ask_for_usage(body: bytes) -> bytes:
    """Set `stream_options.include_usage`; other stream options stay."""
    asked = b'{"include_usage":true}'
    if b"stream_options" in body or _ESCAPED in body:
        for member in reversed(read_top_level(body)):
            options = body[member.start : member.end]
            if member.name == "stream_options" and options.startswith(b"{"):
                asked = replace_member(options, "include_usage", b"true")
                break
    return replace_member(body, "stream_options", asked)


def rename_model(raw: bytes, sent: bytes, shown: bytes) -> bytes:
    """Turn the model name sent upstream back into the client's, in a whole answer or one raw event.

    Only a value that is exactly `sent` changes, and only in `model` or `modelVersion` at the top or directly inside
    `response` or `message`. Names are plain UTF-8. What cannot be read stays as it is.
    """
    if b'"model' not in raw or sent == shown:
        return raw
    wanted, new = _as_json(sent), _as_json(shown)
    at = raw.find(wanted)
    if at < 0 and b"\\/" not in raw and b"\\u" not in raw:
        return raw
    begin = _json_begin(raw)
    if raw.startswith(b'"model":', at - 8) and _is_flat(raw, begin, at - 8) and raw.find(wanted, at + 1) < 0:
        return raw[:at] + new + raw[at + len(wanted) :]
    try:
        spans = _model_spans(raw, begin, sent.decode())
    except MalformedBody:
        return raw
    return _spliced(raw, spans, new)


@lru_cache(maxsize=1024)
def _as_json(name: bytes) -> bytes:
    return quoted(name.decode())


def _json_begin(raw: bytes) -> int:
    """Where the JSON begins: in an event behind the first `data:` of a line, else at the start."""
    if raw.startswith(b"data: {"):
        return 6
    if raw[:8].lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
        return 0
    found = re.search(rb"(?:^|[\r\n])data:", raw)
    return found.end() if found else 0


def _is_flat(raw: bytes, begin: int, at: int) -> bool:
    """True when nothing but the outermost object can be open at `at`."""
    return raw.count(b"{", begin, at) == 1 and raw.find(b"[", begin, at) < 0


def _model_spans(raw: bytes, begin: int, sent: str) -> list[tuple[int, int]]:
    members = read_top_level(raw, begin)
    for wrapper in [member for member in members if member.name in _WRAPPERS]:
        if raw[wrapper.start : wrapper.start + 1] == b"{":
            members += read_top_level(raw, wrapper.start)
    return sorted(
        (member.start, member.end)
        for member in members
        if member.name in _MODEL_NAMES and _text(raw[member.start : member.end]) == sent
    )


def _text(value: bytes) -> object:
    return loads(value) if value.startswith(b'"') else None


def _read_member(body: bytes, at: int) -> Member:
    name = _STRING.match(body, at)
    if name is None:
        raise _malformed(body, at, "expected a member name")
    colon = _skip(body, _BLANK, name.end())
    if body[colon : colon + 1] != b":":
        raise _malformed(body, colon, "expected ':'")
    start = _skip(body, _BLANK, colon + 1)
    return Member(str(loads(name.group())), start, _value_end(body, start))


def _value_end(body: bytes, at: int) -> int:
    mark = body[at : at + 1]
    if mark in (b"{", b"["):
        return _nested_end(body, at)
    found = _STRING.match(body, at) if mark == b'"' else _SCALAR.match(body, at)
    if found is None:
        raise _malformed(body, at, "expected a value")
    return found.end()


def _nested_end(body: bytes, at: int) -> int:
    depth, size = 0, len(body)
    while at < size:
        mark = body[at]
        if mark in b"{[":
            depth += 1
        elif mark in b"}]":
            depth -= 1
        else:
            break  # a quote without its pair
        at += 1
        if depth == 0:
            return at
        at = _skip(body, _TO_BRACKET, at)
    raise _malformed(body, min(at, size), "unexpected end")


def _spliced(body: bytes, spans: list[tuple[int, int]], value: bytes) -> bytes:
    pieces, at = [], 0
    for start, end in spans:
        pieces += [body[at:start], value]
        at = end
    return b"".join([*pieces, body[at:]])


def _skip(body: bytes, pattern: re.Pattern[bytes], at: int) -> int:
    found = pattern.match(body, at)
    return found.end() if found else at


def _malformed(body: bytes, at: int, message: str) -> MalformedBody:
    return MalformedBody(message, at, body.count(b"\n", 0, at) + 1, at - body.rfind(b"\n", 0, at))
