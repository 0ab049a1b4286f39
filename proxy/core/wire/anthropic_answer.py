"""Whole messages, from and to the form."""

from billing.core.usage import read_usage
from keys.core.dialect import Dialect
from proxy.core.wire import checks, signatures, stops
from proxy.core.wire.anthropic_read import citations, redacted
from proxy.core.wire.anthropic_write import arguments_of
from proxy.core.wire.form import (
    Answer,
    Body,
    BrokenAnswer,
    Citation,
    Part,
    Refusal,
    Request,
    Text,
    Thinking,
    ToolCall,
)
from proxy.core.wire.usage_write import anthropic_usage


def read(payload: Body) -> Answer:
    """Read an answer. Raises BrokenAnswer."""
    content = payload.get("content")
    if not isinstance(content, list):
        raise BrokenAnswer("the upstream's answer has no content")
    parts = [part for block in content if isinstance(block, dict) and (part := _part(block)) is not None]
    return Answer(
        id=str(payload.get("id") or ""),
        model=str(payload.get("model") or ""),
        parts=tuple(parts),
        stop=stops.from_anthropic(payload.get("stop_reason")),
        stop_sequence=payload.get("stop_sequence"),
        usage=read_usage(Dialect.ANTHROPIC, payload),
    )


def _part(block: Body) -> Part | None:
    match block.get("type"):
        case "text":
            return Text(str(block.get("text") or ""), citations=citations(block))
        case "thinking":
            signature = signatures.read(block.get("signature"), Dialect.ANTHROPIC)
            return Thinking(str(block.get("thinking") or ""), signature)
        case "redacted_thinking":
            return redacted(block)
        case "tool_use":
            arguments = checks.json_text(block.get("input") or {})
            return ToolCall(str(block.get("id") or ""), str(block.get("name") or ""), arguments)
        case _:
            return None  # traces of the provider's own tools


def write(answer: Answer, _request: Request) -> Body:
    """Write an answer. Raises BrokenAnswer for what a message cannot hold."""
    return {
        "id": answer.id,
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": [_block(part) for part in answer.parts],
        "stop_reason": stops.anthropic_reason(answer.stop, answer.parts),
        "stop_sequence": answer.stop_sequence,
        "usage": anthropic_usage(answer.usage),
    }


def _block(part: Part) -> Body:
    match part:
        case Text():
            body: Body = {"type": "text", "text": part.text}
            return body | ({"citations": [citation(mark) for mark in part.citations]} if part.citations else {})
        case Refusal():
            return {"type": "text", "text": part.text}
        case Thinking():
            shown = signatures.show(part.signature, Dialect.ANTHROPIC) if part.signature is not None else ""
            return {"type": "thinking", "thinking": part.text, "signature": shown}
        case ToolCall():
            call_id = signatures.sign_id(part.id, part.signature, Dialect.ANTHROPIC)
            return {"type": "tool_use", "id": call_id, "name": part.name, "input": arguments_of(part)}
        case _:
            raise BrokenAnswer("the upstream answered with media, which a message cannot hold")


def citation(mark: Citation) -> Body:
    """A web source."""
    return {
        "type": "web_search_result_location",
        "url": mark.url,
        "title": mark.title,
        "cited_text": mark.cited,
        "encrypted_index": "",
    }
