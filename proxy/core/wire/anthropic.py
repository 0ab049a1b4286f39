"""Anthropic messages as seen on the wire."""

from typing import Final

from proxy.core.sse import Event
from proxy.core.wire.kinds import Kind, Payload, any_substance, opened

_HEAD: Final = 64  # bytes in which an event's type stands


def kind(event: Event) -> Kind:
    """Say what a Messages event means. `[DONE]` is not the end here, only noise."""
    raw = event.raw
    head = raw[:_HEAD]
    if b"content_block_delta" in head and b'":""' not in raw and b'"error"' not in raw and event.complete:
        return Kind.CONTENT
    if head.startswith((b"event: ping\n", b"event: content_block_stop\n")):
        return Kind.QUIET
    payload = opened(event)
    if isinstance(payload, Kind):
        return Kind.QUIET if payload is Kind.END else payload
    return _kind_of(payload)


def _kind_of(payload: Payload) -> Kind:
    match payload.get("type"):
        case "message_start":
            message = payload.get("message")
            found = Kind.CONTENT if isinstance(message, dict) and message.get("content") else Kind.QUIET
        case "content_block_start":
            found = _kind_of_block(payload.get("content_block"))
        case "content_block_delta":
            delta = payload.get("delta")
            found = Kind.CONTENT if not isinstance(delta, dict) or any_substance(delta) else Kind.QUIET
        case "content_block_stop":
            found = Kind.QUIET
        case "message_delta":
            found = _kind_of_message_delta(payload)
        case "message_stop":
            found = Kind.END
        case _:
            found = Kind.CONTENT
    return found


def _kind_of_block(block: object) -> Kind:
    if isinstance(block, dict) and block.get("type") in ("text", "thinking") and not any_substance(block):
        return Kind.QUIET
    return Kind.CONTENT


def _kind_of_message_delta(payload: Payload) -> Kind:
    delta = payload.get("delta")
    if isinstance(delta, dict) and delta.get("stop_reason"):
        return Kind.FINISH
    return Kind.USAGE if payload.get("usage") else Kind.QUIET


def has_content(payload: Payload) -> bool:
    """True when a whole answer has a block that says something; answers of other endpoints count too."""
    content = payload.get("content")
    if not isinstance(content, list):
        return bool(payload) and payload.get("type") != "message"
    return any(_kind_of_block(block) is Kind.CONTENT for block in content)
