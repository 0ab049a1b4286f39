"""multipart/form-data (RFC 7578): read the fields, change one of them, leave every other byte as it was."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from proxy.core.wire.jsontext import MalformedBody

_BOUNDARY: Final = re.compile(r'boundary=(?:"([^"]{1,200})"|([^\s;,"]{1,200}))', re.IGNORECASE)
_PARAMETER: Final = re.compile(rb'[;\s](name|filename\*?)=(?:"((?:[^"\\]|\\.)*)"|([^\s;]+))', re.IGNORECASE)
_PARTS_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class Field:
    """One part; `start` and `end` are the place of its content."""

    name: str
    start: int
    end: int
    is_file: bool


def boundary_of(content_type: str) -> bytes:
    """Return the boundary that a content-type header names. Raises MalformedBody."""
    found = _BOUNDARY.search(content_type)
    if not content_type.lower().startswith("multipart/form-data") or found is None:
        raise _malformed("expected multipart/form-data with a boundary", 0)
    return (found[1] or found[2]).encode("latin-1", "replace")


def fields_of(body: bytes, boundary: bytes) -> list[Field]:
    """Return the parts in order. Raises MalformedBody when the body does not end as it must."""
    mark = b"--" + boundary
    at = 0 if body.startswith(mark) else body.find(b"\r\n" + mark) + 2
    if not body.startswith(mark, at):
        raise _malformed("the boundary does not occur", 0)
    found: list[Field] = []
    while True:
        at += len(mark)
        if body.startswith(b"--", at):
            return found
        head_end = body.find(b"\r\n\r\n", at)
        end = body.find(b"\r\n" + mark, max(head_end, at))
        if head_end < 0 or end < 0 or len(found) >= _PARTS_MAX:
            raise _malformed("a part does not end", at)
        # A part without content: its head's blank line is the line break before the boundary.
        start = min(head_end + 4, end)
        found.append(_field(body[at:head_end], start, end))
        at = end + 2


def values_of(body: bytes, fields: Sequence[Field]) -> Mapping[str, Any]:
    """Return the texts by name, files left out. `true` and `false` are booleans, as a JSON body would have them."""
    values: dict[str, Any] = {}
    for field in fields:
        if not field.is_file:
            text = body[field.start : field.end].decode("utf-8", "replace")
            values[field.name] = {"true": True, "false": False}.get(text, text)
    return values


def replace_field(body: bytes, boundary: bytes, name: str, value: bytes) -> bytes:
    """Give the text field a new value wherever it is named; add it in front when absent. Raises MalformedBody."""
    spans = [(field.start, field.end) for field in fields_of(body, boundary) if field.name == name]
    if not spans:
        head = b'--%b\r\ncontent-disposition: form-data; name="%b"\r\n\r\n' % (boundary, name.encode())
        return head + value + b"\r\n" + body
    pieces, at = [], 0
    for start, end in spans:
        pieces += [body[at:start], value]
        at = end
    return b"".join([*pieces, body[at:]])


def _field(head: bytes, start: int, end: int) -> Field:
    line = next((part for part in head.split(b"\r\n") if part.lower().startswith(b"content-disposition:")), b"")
    given = {match[1].lower(): match[2] or match[3] or b"" for match in _PARAMETER.finditer(line)}
    name = given.get(b"name", b"").decode("utf-8", "replace")
    return Field(name, start, end, b"filename" in given or b"filename*" in given)


def _malformed(message: str, at: int) -> MalformedBody:
    return MalformedBody(message, at, 1, at + 1)
