"""Whole responses, from and to the form."""

from typing import Any

from billing.core.usage import read_usage
from keys.core.dialect import Dialect
from proxy.core.wire import checks, custom, signatures, stops
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
    Untranslatable,
)
from proxy.core.wire.responses_read import content as read_content
from proxy.core.wire.usage_write import responses_usage


def read(payload: Body) -> Answer:
    """Read an answer. Raises BrokenAnswer."""
    output = payload.get("output")
    if not isinstance(output, list):
        raise BrokenAnswer("the upstream's answer has no output")
    parts: list[Part] = []
    for item in output:
        if isinstance(item, dict):
            parts += item_parts(item)
    created = payload.get("created_at")
    return Answer(
        id=str(payload.get("id") or ""),
        model=str(payload.get("model") or ""),
        parts=tuple(parts),
        stop=stops.from_responses(payload, stops.has_calls(parts)),
        usage=read_usage(Dialect.RESPONSES, payload),
        created=int(created) if isinstance(created, int | float) else 0,
    )


def item_parts(item: Body) -> list[Part]:
    """The parts of one output item; items of the provider's own tools have none."""
    match item.get("type"):
        case "message":
            try:
                return read_content(item.get("content"), "output.content")
            except Untranslatable as problem:
                raise BrokenAnswer(str(problem)) from problem
        case "reasoning":
            signature = signatures.read(item.get("encrypted_content"), Dialect.RESPONSES)
            text = thought_text(item)
            return [Thinking(text, signature)] if text or signature else []
        case "function_call" | "custom_tool_call" as kind:
            is_custom = kind == "custom_tool_call"
            arguments = checks.json_text(item.get("input" if is_custom else "arguments") or "")
            call_id = str(item.get("call_id") or item.get("id") or "")
            return [ToolCall(call_id, str(item.get("name") or ""), arguments, custom=is_custom)]
        case _:
            return []


def thought_text(item: Body) -> str:
    """Summary or text of a reasoning item."""
    parts = item.get("summary") or item.get("content") or []
    return "\n\n".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))


def write(answer: Answer, request: Request) -> Body:
    """Write an answer. Raises BrokenAnswer for what a response cannot hold."""
    output = [item(part, f"{answer.id}_{index}", request.custom_tools) for index, part in enumerate(answer.parts)]
    body = envelope(answer.id, answer.model, answer.created, request)
    return closed(body, output, answer)


def envelope(response_id: str, model: str, created: int, request: Request) -> Body:
    """A response in progress, with what its readers expect to find."""
    return {
        "id": response_id,
        "object": "response",
        "created_at": created,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": request.max_tokens,
        "metadata": {},
        "model": model,
        "output": [],
        "parallel_tool_calls": request.parallel is not False,
        "previous_response_id": None,
        "reasoning": {"effort": request.reasoning.effort if request.reasoning else None, "summary": None},
        "store": False,
        "temperature": request.sampling.temperature,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": request.sampling.top_p,
        "truncation": "disabled",
        "usage": None,
    }


def closed(body: Body, output: list[Body], answer: Answer) -> Body:
    """The response when it has ended."""
    reason = stops.TO_RESPONSES.get(answer.stop)
    return body | {
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "output": output,
        "usage": responses_usage(answer.usage) if answer.usage is not None else None,
    }


def item(part: Part, seed: str, custom_tools: frozenset[str]) -> Body:
    """One part as an output item of its own."""
    match part:
        case Text():
            return message(
                seed, [output_text(part.text, [annotation(mark, len(part.text)) for mark in part.citations])]
            )
        case Refusal():
            return message(seed, [{"type": "refusal", "refusal": part.text}])
        case Thinking():
            summary = [{"type": "summary_text", "text": part.text}] if part.text else []
            shown = signatures.show(part.signature, Dialect.RESPONSES) if part.signature is not None else None
            return {"id": f"rs_{seed}", "type": "reasoning", "summary": summary, "encrypted_content": shown}
        case ToolCall():
            return call_item(part, seed, custom_tools)
        case _:
            raise BrokenAnswer("the upstream answered with media, which is not translated")


def message(seed: str, content: list[Body], status: str = "completed") -> Body:
    """A message item."""
    return {"id": f"msg_{seed}", "type": "message", "status": status, "role": "assistant", "content": content}


def output_text(text: str, annotations: list[Any]) -> Body:
    """A text part."""
    return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": []}


def annotation(mark: Citation, length: int) -> Body:
    """A url_citation; without offsets it covers the whole text."""
    return {
        "type": "url_citation",
        "url": mark.url,
        "title": mark.title,
        "start_index": mark.start or 0,
        "end_index": length if mark.end is None else mark.end,
    }


def call_item(part: ToolCall, seed: str, custom_tools: frozenset[str], status: str = "completed") -> Body:
    """A tool call item, of the kind the client's tool has."""
    call_id = signatures.sign_id(part.id, part.signature, Dialect.RESPONSES)
    if part.custom or part.name in custom_tools:
        text = part.arguments if part.custom else custom.unwrapped(part.arguments)
        kind, said = "custom_tool_call", {"input": text}
    else:
        kind, said = "function_call", {"arguments": part.arguments}
    prefix = "ctc" if kind == "custom_tool_call" else "fc"
    return {"id": f"{prefix}_{seed}", "type": kind, "status": status, "call_id": call_id, "name": part.name, **said}
