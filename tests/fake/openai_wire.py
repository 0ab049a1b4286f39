"""OpenAI chat completions as the fake upstream speaks them."""

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
    UsagePlace,
    WireError,
    alternate,
    event,
    with_error,
)

CREATED = 1_790_000_000
TYPES = {
    400: ("invalid_request_error", ""),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("permission_error", ""),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}


def usage(tokens: Tokens) -> dict[str, Any]:
    details: dict[str, int] = {"cached_tokens": tokens.cached_read}
    if tokens.cache_write:
        details["cache_write_tokens"] = tokens.cache_write
    return {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": details,
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
    }


def reported(answer: Answer) -> dict[str, Any] | None:
    if answer.raw_usage is not None:
        return dict(answer.raw_usage)
    return usage(answer.tokens) if answer.tokens else None


def error(wrong: WireError) -> dict[str, Any]:
    kind, code = TYPES.get(wrong.status, ("server_error", ""))
    return {
        "error": {
            "message": wrong.message,
            "type": wrong.type or kind,
            "param": None,
            "code": wrong.code or code or None,
        }
    }


def whole(answer: Answer, ask: Ask) -> dict[str, Any]:
    text = [part.whole for part in answer.parts if isinstance(part, Text)]
    message: dict[str, Any] = {"role": "assistant", "content": "".join(text) if text else None, "refusal": None}
    if thoughts := [part.whole for part in answer.parts if isinstance(part, Thinking)]:
        message["reasoning_content"] = "".join(thoughts)
    if answer.has_tools():
        message["tool_calls"] = [
            {
                "id": answer.tool_id(number),
                "type": "function",
                "function": {"name": part.name, "arguments": part.whole},
            }
            for number, part in enumerate(answer.parts)
            if isinstance(part, ToolCall)
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish(answer)}
    payload = _base(answer, ask, "chat.completion", [choice])
    if (count := reported(answer)) is not None:
        payload["usage"] = count
    return payload


def finish(answer: Answer) -> str:
    return answer.finish or ("tool_calls" if answer.has_tools() else "stop")


def _base(answer: Answer, ask: Ask, kind: str, choices: list[Any]) -> dict[str, Any]:
    return {
        "id": ask.identity(answer, "chatcmpl-"),
        "object": kind,
        "created": CREATED,
        "model": answer.model or ask.model,
        "choices": choices,
        "system_fingerprint": "fp_fake",
        **answer.extra,
    }


def events(answer: Answer, ask: Ask) -> list[Event]:
    failure = [event(EventKind.ERROR, error(answer.error))] if answer.error else []
    return with_error(_events(answer, ask), answer, failure)


def _events(answer: Answer, ask: Ask) -> Iterator[Event]:
    asked = ask.include_usage or not answer.usage_if_asked
    place = answer.usage_place if asked else UsagePlace.NEVER
    count = reported(answer)

    def chunk(kind: EventKind, delta: dict[str, Any], end: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": end}
        payload = _base(answer, ask, "chat.completion.chunk", [choice])
        if place is UsagePlace.EVERY or (place is UsagePlace.FINISH and end):
            payload["usage"] = count
        elif asked:
            payload["usage"] = None
        return event(kind, payload)

    yield chunk(EventKind.OPENING, {"role": "assistant", "content": ""})
    tools: list[list[Event]] = []
    for number, part in enumerate(answer.parts):
        if isinstance(part, ToolCall):
            tools.append([chunk(EventKind.CONTENT, delta) for delta in _tool_deltas(answer, number, len(tools), part)])
        else:
            field = "content" if isinstance(part, Text) else "reasoning_content"
            yield from (chunk(EventKind.CONTENT, {field: piece}) for piece in part.pieces)
    yield from alternate(tools, interleaved=answer.interleaved)
    yield chunk(EventKind.ENDING, {}, finish(answer))
    last = event(EventKind.ENDING, {**_base(answer, ask, "chat.completion.chunk", []), "usage": count})
    if count is not None and place is UsagePlace.OWN_CHUNK:
        yield last
    if answer.done:
        yield Event(EventKind.ENDING, b"[DONE]")
    if count is not None and place is UsagePlace.AFTER_DONE:
        yield last


def _tool_deltas(answer: Answer, number: int, index: int, part: ToolCall) -> Iterator[dict[str, Any]]:
    opening = {"name": part.name, "arguments": ""}
    yield {"tool_calls": [{"index": index, "id": answer.tool_id(number), "type": "function", "function": opening}]}
    for piece in part.pieces:
        yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def completion(answer: Answer, ask: Ask) -> dict[str, Any]:
    """The older text completion."""
    text = "".join(part.whole for part in answer.parts if isinstance(part, Text))
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish(answer)}
    payload = _base(answer, ask, "text_completion", [choice])
    if (count := reported(answer)) is not None:
        payload["usage"] = count
    return payload


def completion_events(answer: Answer, ask: Ask) -> list[Event]:
    failure = [event(EventKind.ERROR, error(answer.error))] if answer.error else []
    return with_error(_completion_events(answer, ask), answer, failure)


def _completion_events(answer: Answer, ask: Ask) -> Iterator[Event]:
    def chunk(kind: EventKind, text: str, end: str | None = None) -> Event:
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": end}
        return event(kind, _base(answer, ask, "text_completion", [choice]))

    for part in answer.parts:
        if isinstance(part, Text):
            yield from (chunk(EventKind.CONTENT, piece) for piece in part.pieces)
    yield chunk(EventKind.ENDING, "", finish(answer))
    count = reported(answer)
    if count is not None and (ask.include_usage or not answer.usage_if_asked):
        yield event(EventKind.ENDING, {**_base(answer, ask, "text_completion", []), "usage": count})
    if answer.done:
        yield Event(EventKind.ENDING, b"[DONE]")
