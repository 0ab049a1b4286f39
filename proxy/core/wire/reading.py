"""Reading answers, whatever their dialect: what an event means, where usage stands, what an SDK could not take."""

from collections.abc import Callable
from typing import Any, Final, assert_never

from keys.core.dialect import Dialect
from proxy.core.sse import Event
from proxy.core.wire import anthropic, gemini, openai, responses
from proxy.core.wire.jsontext import loads
from proxy.core.wire.kinds import MISSHAPEN, Kind, Payload, is_error, opened

__all__ = [
    "KEEPALIVE",
    "Kind",
    "event_payload",
    "has_content",
    "has_usage",
    "is_error",
    "is_usage_only_chunk",
    "is_whole",
    "kind",
    "repaired",
]

# What may be sent while a client waits; SDKs break on anything else (wire reference, 3).
KEEPALIVE: Final = {
    Dialect.OPENAI: b": keep-alive\n\n",
    Dialect.RESPONSES: b": keep-alive\n\n",
    Dialect.ANTHROPIC: b'event: ping\ndata: {"type":"ping"}\n\n',
    Dialect.GEMINI: b"",
}

_KINDS: Final[dict[Dialect, Callable[[Event], Kind]]] = {
    Dialect.OPENAI: openai.kind,
    Dialect.RESPONSES: responses.kind,
    Dialect.ANTHROPIC: anthropic.kind,
    Dialect.GEMINI: gemini.kind,
}
_HAS_CONTENT: Final[dict[Dialect, Callable[[Payload], bool]]] = {
    Dialect.OPENAI: openai.has_content,
    Dialect.RESPONSES: responses.has_content,
    Dialect.ANTHROPIC: anthropic.has_content,
    Dialect.GEMINI: gemini.has_content,
}


def kind(dialect: Dialect, event: Event) -> Kind:
    """Say what a stream event means. A scan for the common deltas, a parse for the rest.

    What has the wrong shape for its dialect is an error: no SDK could read it.
    """
    try:
        return _KINDS[dialect](event)
    except MISSHAPEN:
        return Kind.ERROR


def has_content(dialect: Dialect, payload: Any) -> bool:
    """True when a whole answer, or the `response` of a Responses end event, says anything at all.

    A list is a Gemini stream without `alt=sse`.
    """
    if isinstance(payload, list):
        return any(has_content(dialect, part) for part in payload)
    try:
        return isinstance(payload, dict) and _HAS_CONTENT[dialect](payload)
    except MISSHAPEN:
        return False


def event_payload(event: Event) -> Payload | None:
    """The event's JSON object; None when it has none (comment, `[DONE]`, ping, text that is not JSON)."""
    try:
        payload = loads(event.data)
    except ValueError:
        return None
    return payload if isinstance(payload, dict) else None


def has_usage(data: bytes) -> bool:
    """True when the bytes hold a usage member that is not null. A scan: a parse may still find it empty."""
    at = data.find(b'"usage"')
    while at >= 0:
        if not data.startswith(b":null", at + 7):
            return True
        at = data.find(b'"usage"', at + 7)
    return b'"usageMetadata"' in data


def is_usage_only_chunk(data: bytes) -> bool:
    """True for the chunk that `stream_options.include_usage` adds to a chat stream (`choices: []` and usage)."""
    if not has_usage(data):
        return False
    try:
        payload = loads(data)
    except ValueError:
        return False
    return isinstance(payload, dict) and openai.is_usage_only(payload)


def is_whole(event: Event) -> bool:
    """False for the rest of a stream that was cut inside an event: it lacks its end and its JSON."""
    if event.complete:
        return True
    data = event.data.strip() or event.value(b"error") or b""
    if data.startswith(b"[DONE]"):
        return True
    try:
        loads(data)
    except ValueError:
        return False
    return True


def repaired(dialect: Dialect, event: Event) -> bytes:
    """The bytes to forward: the raw ones, unless the dialect's SDKs would break on them or skip them.

    Empty when the event must be dropped.
    """
    match dialect:
        case Dialect.OPENAI:
            return _repaired_openai(event)
        case Dialect.RESPONSES | Dialect.ANTHROPIC:
            return _repaired_named(event)
        case Dialect.GEMINI:
            return _repaired_gemini(event)
        case _:
            assert_never(dialect)


def _repaired_openai(event: Event) -> bytes:
    if event.raw.startswith(b"data: {") and b'"ping"' not in event.raw:
        return event.terminated()
    if not event.data:
        # openai-python parses the empty data of any event that has fields; comments it ignores.
        return b"" if event.fields else event.terminated()
    is_ping = event.name == "ping" or opened(event) is Kind.QUIET
    return b"" if is_ping else event.terminated()


def _repaired_named(event: Event) -> bytes:
    """anthropic-python skips events without a name; openai-python parses empty data."""
    if event.raw.startswith(b"event: ") and b"\ndata: {" in event.raw:
        return event.terminated()
    if not event.data:
        return b"" if event.fields else event.terminated()
    payload = event_payload(event)
    if payload is None:
        return b"" if event.data.startswith(b"[DONE]") else event.terminated()
    name = payload.get("type")
    if event.name or not isinstance(name, str):
        return event.terminated()
    return b"event: " + name.encode(errors="replace") + b"\n" + event.terminated().removeprefix(b"\xef\xbb\xbf")


def _repaired_gemini(event: Event) -> bytes:
    """google-genai raises on comments, event names and `data:` without a blank; bare blank lines it takes."""
    raw = event.raw
    if raw.startswith(b"data: {") and event.complete and raw.count(b"\n") == 2:  # noqa: PLR2004  (data, blank)
        return raw
    data = event.data
    if not data:
        return b"\n\n" if raw.strip() else raw
    if data.startswith(b"[DONE]"):
        return b""
    return b"data: " + data.replace(b"\n", b" ") + b"\n\n"
