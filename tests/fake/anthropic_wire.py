"""Anthropic messages as the fake upstream speaks them."""

from collections.abc import Iterator
from typing import Any

from tests.fake.content import (
    Answer,
    Ask,
    Event,
    EventKind,
    Text,
    Thinking,
    Tokens,
    ToolCall,
    WireError,
    alternate,
    event,
    with_error,
)

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def usage(tokens: Tokens) -> dict[str, Any]:
    return {
        "input_tokens": tokens.input - tokens.cached_read - tokens.cache_write,
        "cache_creation_input_tokens": tokens.cache_write,
        "cache_read_input_tokens": tokens.cached_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": tokens.cache_write - tokens.cache_write_1h,
            "ephemeral_1h_input_tokens": tokens.cache_write_1h,
        },
        "output_tokens": tokens.output,
        "service_tier": "standard",
    }


def reported(answer: Answer) -> dict[str, Any]:
    if answer.raw_usage is not None:
        return dict(answer.raw_usage)
    return usage(answer.tokens) if answer.tokens else {}


def error(wrong: WireError) -> dict[str, Any]:
    kind = wrong.type or TYPES.get(wrong.status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": wrong.message}, "request_id": "req_fake"}


def finish(answer: Answer) -> str:
    return answer.finish or ("tool_use" if answer.has_tools() else "end_turn")


def whole(answer: Answer, ask: Ask) -> dict[str, Any]:
    return {
        **_message(answer, ask),
        "content": [_block(answer, number) for number in range(len(answer.parts))],
        "stop_reason": finish(answer),
        "usage": reported(answer),
        **answer.extra,
    }


def _message(answer: Answer, ask: Ask) -> dict[str, Any]:
    return {
        "id": ask.identity(answer, "msg_"),
        "type": "message",
        "role": "assistant",
        "model": answer.model or ask.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _block(answer: Answer, number: int, *, empty: bool = False) -> dict[str, Any]:
    match answer.parts[number]:
        case Text() as part:
            return {"type": "text", "text": "" if empty else part.whole}
        case Thinking() as part:
            thought = ("", "") if empty else (part.whole, part.signature)
            return {"type": "thinking", "thinking": thought[0], "signature": thought[1]}
        case ToolCall() as part:
            identity = answer.tool_id(number).replace("call_", "toolu_")
            return {"type": "tool_use", "id": identity, "name": part.name, "input": {} if empty else part.arguments}


def events(answer: Answer, ask: Ask) -> list[Event]:
    failure = [event(EventKind.ERROR, error(answer.error), "error")] if answer.error else []
    return with_error(_events(answer, ask), answer, failure)


def _named(kind: EventKind, name: str, **fields: Any) -> Event:
    return event(kind, {"type": name, **fields}, name)


def _events(answer: Answer, ask: Ask) -> Iterator[Event]:
    count = reported(answer)
    start = {**count, "output_tokens": 1} if count else count
    yield _named(EventKind.OPENING, "message_start", message={**_message(answer, ask), "usage": start, **answer.extra})
    if answer.pings:
        yield _named(EventKind.OPENING, "ping")
    rows = [list(_part(answer, number)) for number in range(len(answer.parts))]
    yield from alternate(rows, interleaved=answer.interleaved)
    delta = {"stop_reason": finish(answer), "stop_sequence": None}
    yield _named(EventKind.ENDING, "message_delta", delta=delta, usage=count)
    yield _named(EventKind.ENDING, "message_stop")


def _part(answer: Answer, number: int) -> Iterator[Event]:
    block = _block(answer, number, empty=True)
    # A tool call's name is content by itself; an empty text or thinking block is not.
    opening = EventKind.CONTENT if block["type"] == "tool_use" else EventKind.OPENING
    yield _named(opening, "content_block_start", index=number, content_block=block)
    for delta in _deltas(answer.parts[number]):
        yield _named(EventKind.CONTENT, "content_block_delta", index=number, delta=delta)
    yield _named(EventKind.OPENING, "content_block_stop", index=number)


def _deltas(part: Text | Thinking | ToolCall) -> Iterator[dict[str, Any]]:
    match part:
        case Text():
            yield from ({"type": "text_delta", "text": piece} for piece in part.pieces)
        case Thinking():
            yield from ({"type": "thinking_delta", "thinking": piece} for piece in part.pieces)
            yield {"type": "signature_delta", "signature": part.signature}
        case ToolCall():
            yield from ({"type": "input_json_delta", "partial_json": piece} for piece in part.pieces)
