"""Bytes of an upstream's answer → what kind of text they are, and the JSON documents in them."""

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

MAX_BYTES = 65536  # what classification reads of a body, whatever the caller handed over
MAX_EVENTS = 400

SSE_FIELDS = ("data:", "event:", "id:", "retry:", "error:", ":")
# Not str.splitlines(): it also splits at U+2028, which may stand raw inside a JSON string.
_LINE_END = re.compile(r"\r\n|\n|\r")
HTML_OPENINGS = ("<!doctype", "<html", "<head", "<body", "<?xml", "<center", "<!--")


class Kind(StrEnum):
    EMPTY = "empty"
    JSON = "json"
    EVENTS = "events"
    HTML = "html"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Content:
    """`documents` are the parsed JSON values: one of a JSON body, one per `data:` of an event stream."""

    kind: Kind
    text: str = ""
    documents: tuple[Any, ...] = ()


def content_of(body: bytes) -> Content:
    """Read a body by its bytes and never by its content-type, which relays get wrong. Never raises."""
    text = body[:MAX_BYTES].decode("utf-8", "replace").lstrip("\ufeff").strip()
    if not text:
        return Content(Kind.EMPTY)
    found, value = parsed(text)
    if found:
        inner_found, inner = parsed(value) if isinstance(value, str) else (False, None)
        return Content(Kind.JSON, text, (inner if inner_found else value,))
    if text.startswith(SSE_FIELDS):
        return Content(Kind.EVENTS, text, tuple(_event_documents(text)))
    if text[:200].lower().startswith(HTML_OPENINGS):
        return Content(Kind.HTML, text)
    return Content(Kind.TEXT, text)


def parsed(text: str) -> tuple[bool, Any]:
    """Return (True, value) for a JSON text and (False, None) for anything else, however deep or broken."""
    try:
        return True, json.loads(text)
    except (ValueError, RecursionError):
        return False, None


def embedded(text: str, start: int) -> Any:
    """Return the JSON value that begins at `start` of a longer text, or None."""
    try:
        value, _ = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return value


def title_of(html: str) -> str:
    """Return the text of the <title>, or ''. Searches the first 4096 characters only."""
    head = html[:4096]
    lowered = head.lower()
    opening = lowered.find("<title")
    start = lowered.find(">", opening) if opening >= 0 else -1
    end = lowered.find("</title", start) if start >= 0 else -1
    return " ".join(head[start + 1 : end].split()) if end >= 0 else ""


def _event_documents(text: str) -> list[Any]:
    """Collect the JSON of every event; llama.cpp's `error: {...}` field counts as data."""
    documents: list[Any] = []
    lines: list[str] = []
    for line in [*_LINE_END.split(text), ""]:
        if line.startswith(("data:", "error:")):
            lines.append(line.partition(":")[2].strip())
        elif not line.strip() and lines:
            found, value = parsed("\n".join(lines))
            lines = []
            if found:
                documents.append(value)
        if len(documents) >= MAX_EVENTS:
            break
    return documents
