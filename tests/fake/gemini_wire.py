"""Gemini generateContent and streamGenerateContent as the fake upstream speaks them."""

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
    event,
    with_error,
)

STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def usage(tokens: Tokens) -> dict[str, Any]:
    count = {
        "promptTokenCount": tokens.input,
        "candidatesTokenCount": tokens.output - tokens.reasoning,
        "totalTokenCount": tokens.input + tokens.output,
    }
    if tokens.cached_read:
        count["cachedContentTokenCount"] = tokens.cached_read
    if tokens.reasoning:
        count["thoughtsTokenCount"] = tokens.reasoning
    return count


def reported(answer: Answer) -> dict[str, Any] | None:
    if answer.raw_usage is not None:
        return dict(answer.raw_usage)
    return usage(answer.tokens) if answer.tokens else None


def error(wrong: WireError) -> dict[str, Any]:
    status = wrong.type or STATUSES.get(wrong.status, "UNKNOWN")
    body: dict[str, Any] = {"code": wrong.status, "message": wrong.message, "status": status}
    if wrong.code:
        body["details"] = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": wrong.code}]
    return {"error": body}


def whole(answer: Answer, ask: Ask) -> dict[str, Any]:
    parts = [_whole_part(answer, number) for number in range(len(answer.parts))]
    return _payload(answer, ask, parts, answer.finish or "STOP")


def _whole_part(answer: Answer, number: int) -> dict[str, Any]:
    match answer.parts[number]:
        case Text() as part:
            return {"text": part.whole}
        case Thinking() as part:
            return {"text": part.whole, "thought": True}
        case ToolCall() as part:
            return _call(part)


def _call(part: ToolCall) -> dict[str, Any]:
    call: dict[str, Any] = {"name": part.name, "args": part.arguments}
    if part.id:
        call["id"] = part.id
    return {"functionCall": call, **({"thoughtSignature": part.signature} if part.signature else {})}


def _payload(answer: Answer, ask: Ask, parts: list[Any], finish: str | None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    payload: dict[str, Any] = {
        "candidates": [candidate],
        "modelVersion": answer.model or ask.model,
        "responseId": ask.identity(answer, "resp-"),
    }
    count = reported(answer)
    if count is not None and (finish or answer.raw_usage is None):
        payload["usageMetadata"] = count
    return {**payload, **answer.extra}


def events(answer: Answer, ask: Ask) -> list[Event]:
    failure = [event(EventKind.ERROR, error(answer.error))] if answer.error else []
    return with_error(_events(answer, ask), answer, failure)


def _events(answer: Answer, ask: Ask) -> Iterator[Event]:
    for part in answer.parts:
        for piece in _pieces(part):
            yield event(EventKind.CONTENT, _payload(answer, ask, [piece], None))
    yield event(EventKind.ENDING, _payload(answer, ask, [{"text": ""}], answer.finish or "STOP"))


def _pieces(part: Text | Thinking | ToolCall) -> Iterator[dict[str, Any]]:
    match part:
        case Text():
            yield from ({"text": piece} for piece in part.pieces)
        case Thinking():
            yield from ({"text": piece, "thought": True} for piece in part.pieces)
        case ToolCall():
            yield _call(part)
