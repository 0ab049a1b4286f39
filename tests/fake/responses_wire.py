"""OpenAI Responses as the fake upstream speaks them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.fake import openai_wire
from tests.fake.content import (
    Answer,
    Ask,
    Event,
    EventKind,
    Text,
    Thinking,
    Tokens,
    ToolCall,
    event,
    with_error,
)

error = openai_wire.error


def usage(tokens: Tokens) -> dict[str, Any]:
    return {
        "input_tokens": tokens.input,
        "input_tokens_details": {"cached_tokens": tokens.cached_read, "cache_write_tokens": tokens.cache_write},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.input + tokens.output,
    }


def reported(answer: Answer) -> dict[str, Any] | None:
    if answer.raw_usage is not None:
        return dict(answer.raw_usage)
    return usage(answer.tokens) if answer.tokens else None


def whole(answer: Answer, ask: Ask) -> dict[str, Any]:
    items = [_item(answer, number) for number in range(len(answer.parts))]
    return _response(answer, ask, answer.finish or "completed", items)


def _response(answer: Answer, ask: Ask, status: str, items: list[Any]) -> dict[str, Any]:
    body = ask.body if isinstance(ask.body, dict) else {}
    return {
        "id": ask.item or ask.identity(answer, "resp_"),
        "object": "response",
        "created_at": openai_wire.CREATED,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "instructions": body.get("instructions"),
        "model": answer.model or ask.model,
        "output": items,
        "parallel_tool_calls": True,
        "previous_response_id": body.get("previous_response_id"),
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools", []),
        "usage": reported(answer) if status in {"completed", "incomplete"} else None,
        "metadata": {},
        **answer.extra,
    }


def _item(answer: Answer, number: int, *, empty: bool = False) -> dict[str, Any]:
    status = "in_progress" if empty else "completed"
    match answer.parts[number]:
        case Text() as part:
            content = [] if empty else [_text(part.whole)]
            return {
                "id": f"msg_{number}", "type": "message", "role": "assistant", "status": status, "content": content,
            }  # fmt: skip
        case Thinking() as part:
            summary = [] if empty else [{"type": "summary_text", "text": part.whole}]
            item = {"id": f"rs_{number}", "type": "reasoning", "summary": summary}
            return item if empty else {**item, "encrypted_content": part.signature}
        case ToolCall() as part:
            return {
                "id": f"fc_{number}", "type": "function_call", "call_id": answer.tool_id(number), "name": part.name,
                "arguments": "" if empty else part.whole, "status": status,
            }  # fmt: skip


def _text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


@dataclass(slots=True)
class _Script:
    """Numbers the events."""

    number: int = -1

    def __call__(self, kind: EventKind, name: str, /, **fields: Any) -> Event:
        self.number += 1
        return event(kind, {"type": name, "sequence_number": self.number, **fields}, name)


def events(answer: Answer, ask: Ask) -> list[Event]:
    return with_error(_events(answer, ask), answer, list(_failure(answer, ask)))


def _failure(answer: Answer, ask: Ask) -> Iterator[Event]:
    """A flat error event before the opening, response.failed behind it, as the vendor does."""
    if answer.error is None:
        return
    inner = error(answer.error)["error"]
    if answer.error_after < 0:
        yield event(EventKind.ERROR, {"type": "error", "sequence_number": 0, "error": inner}, "error")
        return
    failed = {**_response(answer, ask, "failed", []), "error": {"code": inner["code"], "message": inner["message"]}}
    payload = {"type": "response.failed", "sequence_number": 99, "response": failed}
    yield event(EventKind.ERROR, payload, "response.failed")


def _events(answer: Answer, ask: Ask) -> Iterator[Event]:
    say = _Script()
    opened = _response(answer, ask, "in_progress", [])
    yield say(EventKind.OPENING, "response.created", response=opened)
    yield say(EventKind.OPENING, "response.in_progress", response=opened)
    for number, part in enumerate(answer.parts):
        item = _item(answer, number, empty=True)
        kind = EventKind.CONTENT if isinstance(part, ToolCall) else EventKind.OPENING
        yield say(kind, "response.output_item.added", output_index=number, item=item)
        yield from _part(say, number, part, item["id"])
        done = _item(answer, number)
        yield say(EventKind.OPENING, "response.output_item.done", output_index=number, item=done)
    status = answer.finish or "completed"
    yield say(EventKind.ENDING, f"response.{status}", response=whole(answer, ask))


def _part(say: _Script, number: int, part: Text | Thinking | ToolCall, item: str) -> Iterator[Event]:
    where: dict[str, Any] = {"item_id": item, "output_index": number}
    match part:
        case Text():
            spot = {**where, "content_index": 0}
            yield say(EventKind.OPENING, "response.content_part.added", **spot, part=_text(""))
            for piece in part.pieces:
                yield say(EventKind.CONTENT, "response.output_text.delta", **spot, delta=piece, logprobs=[])
            yield say(EventKind.OPENING, "response.output_text.done", **spot, text=part.whole, logprobs=[])
            yield say(EventKind.OPENING, "response.content_part.done", **spot, part=_text(part.whole))
        case Thinking():
            spot = {**where, "summary_index": 0}
            for piece in part.pieces:
                yield say(EventKind.CONTENT, "response.reasoning_summary_text.delta", **spot, delta=piece)
            yield say(EventKind.OPENING, "response.reasoning_summary_text.done", **spot, text=part.whole)
        case ToolCall():
            for piece in part.pieces:
                yield say(EventKind.CONTENT, "response.function_call_arguments.delta", **where, delta=piece)
            yield say(
                EventKind.OPENING, "response.function_call_arguments.done", **where,
                name=part.name, arguments=part.whole,
            )  # fmt: skip
