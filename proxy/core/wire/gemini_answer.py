"""Whole generateContent answers, from and to the form."""

from typing import Any

from billing.core.usage import read_usage
from keys.core.dialect import Dialect
from proxy.core.wire import checks, signatures, stops
from proxy.core.wire.form import (
    Answer,
    Body,
    BrokenAnswer,
    Citation,
    Media,
    Part,
    Refusal,
    Request,
    Stop,
    Text,
    Thinking,
    ToolCall,
    Untranslatable,
)
from proxy.core.wire.gemini import unwrapped
from proxy.core.wire.gemini_read import media as read_media
from proxy.core.wire.gemini_write import arguments_of, write_media
from proxy.core.wire.usage_write import gemini_usage


def read(payload: Body) -> Answer:
    """Read an answer. A blocked prompt is an answer without parts that was filtered. Raises BrokenAnswer."""
    payload = unwrapped(payload)
    candidates = payload.get("candidates")
    candidate = candidates[0] if isinstance(candidates, list) and candidates else None
    parts: list[Part] = []
    if isinstance(candidate, dict):
        parts = candidate_parts(candidate, str(payload.get("responseId") or ""))
        stop = stops.from_gemini(candidate.get("finishReason") or "STOP", stops.has_calls(parts))
    elif (payload.get("promptFeedback") or {}).get("blockReason"):
        stop = Stop.FILTER
    else:
        raise BrokenAnswer("the upstream's answer has no candidate")
    return Answer(
        id=str(payload.get("responseId") or ""),
        model=str(payload.get("modelVersion") or ""),
        parts=tuple(parts),
        stop=stop,
        usage=read_usage(Dialect.GEMINI, payload),
    )


def candidate_parts(candidate: Body, seed: str) -> list[Part]:
    """What a candidate says; texts in a row are one."""
    found: list[Part] = []
    content = candidate.get("content") or {}
    for index, part in enumerate(content.get("parts") or []):
        said = read_part(part, seed, index)
        last = found[-1] if found else None
        if isinstance(said, Text) and isinstance(last, Text):
            found[-1] = Text(last.text + said.text, signature=said.signature or last.signature)
        elif isinstance(said, Thinking) and isinstance(last, Thinking):
            found[-1] = Thinking(last.text + said.text, said.signature or last.signature)
        elif said is not None:
            found.append(said)
    marks = citations(candidate)
    place = next((at for at in range(len(found) - 1, -1, -1) if isinstance(found[at], Text)), None)
    text = found[place] if place is not None else None
    if marks and place is not None and isinstance(text, Text):
        found[place] = Text(text.text, citations=marks, signature=text.signature)
    return found


def read_part(part: Any, seed: str, index: int) -> Part | None:
    """One part of an answer; None for empty ones and the provider's own tools. Raises BrokenAnswer."""
    if not isinstance(part, dict):
        return None
    signature = signatures.read(part.get("thoughtSignature"), Dialect.GEMINI)
    call = part.get("functionCall")
    if isinstance(call, dict):
        call_id = call.get("id") or signatures.own_id(seed, index)
        return ToolCall(str(call_id), str(call.get("name") or ""), checks.json_text(call.get("args") or {}), signature)
    if part.get("thought"):
        return Thinking(str(part.get("text") or ""), signature)
    if part.get("text"):
        return Text(str(part["text"]), signature=signature)
    if "inlineData" in part or "fileData" in part:
        try:
            return read_media(part, "candidates.content")
        except Untranslatable as problem:
            raise BrokenAnswer(str(problem)) from problem
    return None


def citations(candidate: Body) -> tuple[Citation, ...]:
    """The web sources of grounded text. Offsets count bytes here and are left out."""
    grounding = candidate.get("groundingMetadata")
    chunks = grounding.get("groundingChunks") if isinstance(grounding, dict) else None
    webs = (chunk.get("web") for chunk in chunks or [] if isinstance(chunk, dict))
    return tuple(
        Citation(web["uri"], web.get("title") or "") for web in webs if isinstance(web, dict) and web.get("uri")
    )


def write(answer: Answer, _request: Request) -> Body:
    """Write an answer."""
    candidate: Body = {
        "content": {
            "parts": [held for part in answer.parts if (held := write_part(part)) is not None],
            "role": "model",
        },
        "finishReason": stops.TO_GEMINI.get(answer.stop, "STOP"),
        "index": 0,
    }
    if marks := [mark for part in answer.parts if isinstance(part, Text) for mark in part.citations]:
        candidate["groundingMetadata"] = grounding(marks)
    body: Body = {"candidates": [candidate], "modelVersion": answer.model, "responseId": answer.id}
    if answer.usage is not None:
        body["usageMetadata"] = gemini_usage(answer.usage)
    return body


def write_part(part: Part) -> Body | None:
    """One part, with the signature it came with."""
    match part:
        case Text() | Refusal():
            return {"text": part.text}
        case Thinking():
            shown = signatures.show(part.signature, Dialect.GEMINI) if part.signature is not None else None
            return {"text": part.text, "thought": True} | ({"thoughtSignature": shown} if shown else {})
        case ToolCall():
            return {"functionCall": {"id": part.id, "name": part.name, "args": arguments_of(part)}}
        case Media():
            return write_media(part)
        case _:
            return None


def grounding(marks: list[Citation]) -> Body:
    """Web sources as grounding."""
    return {"groundingChunks": [{"web": {"uri": mark.url, "title": mark.title}} for mark in marks]}
