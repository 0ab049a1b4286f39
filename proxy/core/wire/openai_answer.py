"""Whole chat completions, from and to the form."""

from typing import Any, Final

from billing.core.usage import read_usage
from keys.core.dialect import Dialect
from proxy.core.wire import checks, custom, signatures, stops
from proxy.core.wire.form import (
    Answer,
    Body,
    BrokenAnswer,
    Citation,
    Media,
    Part,
    Refusal,
    Request,
    Signature,
    Text,
    Thinking,
    ToolCall,
)
from proxy.core.wire.openai_read import call as read_call
from proxy.core.wire.usage_write import openai_usage

# Names that OpenRouter's clients know.
_FORMATS: Final = {
    Dialect.ANTHROPIC: "anthropic-claude-v1",
    Dialect.GEMINI: "google-gemini-v1",
    Dialect.RESPONSES: "openai-responses-v1",
}


def read(payload: Body) -> Answer:
    """Read an answer. Raises BrokenAnswer, Untranslatable for a tool call without its parts."""
    choices = payload.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise BrokenAnswer("the upstream's answer has no message")
    parts: list[Part] = []
    details = message.get("reasoning_details")
    thought = thinking_text(message) or "".join(detail_text(entry) for entry in details or [])
    signature = next((found for entry in details or [] if (found := detail_signature(entry)) is not None), None)
    if thought or signature:
        parts.append(Thinking(thought, signature))
    if text := content_text(message.get("content")):
        marks = (checks.url_citation(mark) for mark in message.get("annotations") or [] if isinstance(mark, dict))
        parts.append(Text(text, citations=tuple(mark for mark in marks if mark is not None)))
    if message.get("refusal"):
        parts.append(Refusal(str(message["refusal"])))
    for index, entry in enumerate(message.get("tool_calls") or []):
        parts.append(read_call({"id": signatures.own_id(str(payload.get("id")), index)} | _filled(entry), "tool_calls"))
    matched = choice.get("stop_reason") if isinstance(choice.get("stop_reason"), str) else None
    return Answer(
        id=str(payload.get("id") or ""),
        model=str(payload.get("model") or ""),
        parts=tuple(parts),
        stop=stops.from_openai(choice.get("finish_reason"), stops.has_calls(parts)),
        stop_sequence=matched,
        usage=read_usage(Dialect.OPENAI, payload),
        created=payload["created"] if isinstance(payload.get("created"), int) else 0,
    )


def _filled(entry: Any) -> Body:
    return {name: value for name, value in entry.items() if value} if isinstance(entry, dict) else {}


def thinking_text(message: Body) -> str:
    """Thoughts in any of the members that hosts use."""
    text = message.get("reasoning_content") or message.get("reasoning")
    return text if isinstance(text, str) else ""


def detail_text(entry: Any) -> str:
    """The text of one of OpenRouter's reasoning details."""
    text = (entry.get("text") or entry.get("summary")) if isinstance(entry, dict) else None
    return text if isinstance(text, str) else ""


def detail_signature(entry: Any) -> Signature | None:
    """Its signature."""
    if not isinstance(entry, dict):
        return None
    return signatures.read(entry.get("signature") or entry.get("data"), Dialect.OPENAI)


def content_text(content: Any) -> str:
    """The text of a message; a few hosts answer with a list of parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def write(answer: Answer, request: Request) -> Body:
    """Write an answer for the client that sent the request."""
    message = _message(answer, request.custom_tools)
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": stops.TO_OPENAI[answer.stop],
    }
    body: Body = {
        "id": answer.id,
        "object": "chat.completion",
        "created": answer.created,
        "model": answer.model,
        "choices": [choice],
    }
    if answer.usage is not None:
        body["usage"] = openai_usage(answer.usage)
    return body


def _message(answer: Answer, custom_tools: frozenset[str]) -> Body:
    texts = [part for part in answer.parts if isinstance(part, Text)]
    thoughts = [part for part in answer.parts if isinstance(part, Thinking)]
    refusals = [part.text for part in answer.parts if isinstance(part, Refusal)]
    calls = [part for part in answer.parts if isinstance(part, ToolCall)]
    message: Body = {
        "role": "assistant",
        "content": "".join(part.text for part in texts) if texts else None,
        "refusal": "".join(refusals) or None,
    }
    if plain := "".join(part.text for part in thoughts):
        message["reasoning_content"] = plain
    if details := [detail(part.signature, part.text) for part in thoughts if part.signature is not None]:
        message["reasoning_details"] = details
    if calls:
        message["tool_calls"] = [write_call(part, custom_tools) for part in calls]
    if annotations := _annotations(texts):
        message["annotations"] = annotations
    if images := [part for part in answer.parts if isinstance(part, Media)]:
        message["images"] = [{"type": "image_url", "image_url": {"url": checks.data_url(part)}} for part in images]
    return message


def detail(signature: Signature, text: str) -> Body:
    """A signed thought as OpenRouter's clients keep it and send it back."""
    shown = signatures.show(signature, Dialect.OPENAI)
    body: Body = {"format": _FORMATS.get(signature.origin, "unknown"), "index": 0}
    if signature.redacted or (not text and signature.origin is Dialect.RESPONSES):
        return body | {"type": "reasoning.encrypted", "data": shown}
    return body | {"type": "reasoning.text", "text": text, "signature": shown}


def write_call(part: ToolCall, custom_tools: frozenset[str]) -> Body:
    """A tool call. A signature of Gemini's stands where Google's own compatible endpoint puts it, and in the id."""
    call_id = signatures.sign_id(part.id, part.signature, Dialect.OPENAI)
    if part.custom or part.name in custom_tools:
        text = part.arguments if part.custom else custom.unwrapped(part.arguments)
        return {"id": call_id, "type": "custom", "custom": {"name": part.name, "input": text}}
    body: Body = {
        "id": call_id,
        "type": "function",
        "function": {"name": part.name, "arguments": part.arguments or "{}"},
    }
    if part.signature is not None and part.signature.origin is Dialect.GEMINI:
        body["extra_content"] = {"google": {"thought_signature": part.signature.value}}
    return body


def _annotations(texts: list[Text]) -> list[Body]:
    found, offset = [], 0
    for part in texts:
        found += [annotation(mark, offset, offset + len(part.text)) for mark in part.citations]
        offset += len(part.text)
    return found


def annotation(mark: Citation, start: int, end: int) -> Body:
    """A url_citation. Without offsets of its own it covers the text from `start` to `end`."""
    inner = {
        "url": mark.url,
        "title": mark.title,
        "start_index": start if mark.start is None else start + mark.start,
        "end_index": end if mark.end is None else start + mark.end,
    }
    return {"type": "url_citation", "url_citation": inner}
