"""Gemini names the model in the path, and in some bodies again: each of a batch, a request to be counted."""

from collections.abc import Iterator
from typing import Final

from proxy.core.pieces import ArrayCutter
from proxy.core.wire.edits import Member, read_top_level
from proxy.core.wire.jsontext import loads, quoted

_PREFIX: Final = "models/"
_ONE: Final = frozenset({"generateContentRequest", "generate_content_request"})


def rename_requests(body: bytes, asked: str, sent: str) -> bytes:
    """Exchange the client's name for the one to send wherever the body, a JSON object, repeats it."""
    found = sorted(_models(body), key=lambda member: member.start)
    new = {_PREFIX + asked: quoted(_PREFIX + sent), asked: quoted(sent)}
    pieces, at = [], 0
    for member in found:
        value = loads(body[member.start : member.end]) if body.startswith(b'"', member.start) else None
        if isinstance(value, str) and value in new:
            pieces += [body[at : member.start], new[value]]
            at = member.end
    return b"".join([*pieces, body[at:]])


def _models(body: bytes) -> Iterator[Member]:
    for member in read_top_level(body):
        if member.name == "model":
            yield member
        elif member.name in _ONE and body.startswith(b"{", member.start):
            yield from _own_model(body, member.start)
        elif member.name == "requests" and body.startswith(b"[", member.start):
            at = member.start
            for item in ArrayCutter().feed(body[member.start : member.end]):
                at += len(item.raw)
                yield from _own_model(body, at - len(item.data))


def _own_model(body: bytes, start: int) -> Iterator[Member]:
    return (member for member in read_top_level(body, start) if member.name == "model")
