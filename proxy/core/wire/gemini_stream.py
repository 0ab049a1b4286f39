"""generateContent chunks, read and written."""

from typing import Any

from billing.core.usage import Usage
from proxy.core.wire import stops
from proxy.core.wire.deltas import (
    Add,
    Begin,
    Broken,
    Cite,
    Close,
    Delta,
    Finish,
    Key,
    Open,
    PartDelta,
    Shown,
    Sign,
)
from proxy.core.wire.form import Body, BrokenAnswer, Citation, Media, Part, Refusal, Stop, Text, Thinking, ToolCall
from proxy.core.wire.gemini import unwrapped
from proxy.core.wire.gemini_answer import citations, grounding, read_part, write_part
from proxy.core.wire.jsontext import dumps
from proxy.core.wire.usage_write import gemini_usage


class GeminiReader:
    """Reads the first candidate of each chunk. A call comes whole; texts go on from chunk to chunk."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._begun = False
        self._made = 0
        self._called = False
        self._current: Key | None = None

    def feed(self, payload: Body) -> list[Delta]:
        payload = unwrapped(payload)
        found: list[Delta] = []
        if not self._begun:
            self._begun = True
            found.append(Begin(str(payload.get("responseId") or "")))
        candidates = payload.get("candidates") or []
        first = next((entry for entry in candidates if isinstance(entry, dict) and not entry.get("index")), None)
        try:
            if first is not None:
                found += self._candidate(first)
            elif (payload.get("promptFeedback") or {}).get("blockReason"):
                found.append(Finish(Stop.FILTER))
        except BrokenAnswer as problem:
            found.append(Broken(str(problem)))
        return found

    def _candidate(self, candidate: Body) -> list[Delta]:
        found: list[Delta] = []
        for part in (candidate.get("content") or {}).get("parts") or []:
            found += self._part(read_part(part, self._seed, self._made))
        for mark in citations(candidate):
            if self._current is not None and self._current[0] == "text":
                found.append(Cite(self._current, mark))
        reason = candidate.get("finishReason")
        if reason:
            found += [*self._leave(), Finish(stops.from_gemini(reason, self._called))]
        return found

    def _part(self, part: Part | None) -> list[Delta]:
        match part:
            case Text():
                return self._add("text", part.text)
            case Thinking():
                found = self._add("thinking", part.text)
                if part.signature is not None and self._current is not None:
                    found.append(Sign(self._current, part.signature))
                return found
            case ToolCall():
                self._called = True
                key = self._key("tool")
                opened = Open(key, "tool", part.id, part.name, part.signature)
                return [*self._leave(), opened, Add(key, part.arguments), Close(key)]
            case Media():
                raise BrokenAnswer("the upstream answered with media, which is not translated")
            case _:
                return []

    def _add(self, kind: str, text: str) -> list[Delta]:
        found: list[Delta] = []
        if self._current is None or self._current[0] != kind:
            found = self._leave()
            self._current = self._key(kind)
            found.append(Open(self._current, kind))
        return [*found, Add(self._current, text)] if text else found

    def _leave(self) -> list[Delta]:
        found: list[Delta] = [Close(self._current)] if self._current is not None else []
        self._current = None
        return found

    def _key(self, kind: str) -> Key:
        self._made += 1
        return (kind, self._made, 0)


class GeminiWriter:
    """Writes chunks. A call's arguments are gathered: the dialect has no pieces of them."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self._id = ""
        self._calls: dict[Key, tuple[Open, list[str]]] = {}
        self._marks: list[Citation] = []

    def begin(self, delta: Begin) -> list[bytes]:
        self._id = delta.id or self._shown.seed
        return []

    def part(self, delta: PartDelta) -> list[bytes]:
        match delta:
            case Open() if delta.kind == "tool":
                self._calls[delta.key] = (delta, [])
            case Add() if delta.key in self._calls:
                self._calls[delta.key][1].append(delta.text)
            case Add():
                thought = Thinking(delta.text) if delta.key[0] == "thinking" else None
                return [self._chunk([thought or _said(delta)])]
            case Sign():
                return [self._chunk([Thinking("", delta.signature)])]
            case Cite():
                self._marks.append(delta.citation)
            case Close() if delta.key in self._calls:
                opened, pieces = self._calls.pop(delta.key)
                return [self._chunk([ToolCall(opened.call_id, opened.name, "".join(pieces), opened.signature)])]
            case _:
                pass  # texts need no opening and no end
        return []

    def _chunk(self, parts: list[Part], **more: Any) -> bytes:
        held = [body for part in parts if (body := write_part(part)) is not None]
        candidate: Body = {"content": {"parts": held, "role": "model"}, "index": 0} | more.pop("candidate", {})
        body = {"candidates": [candidate], "modelVersion": self._shown.model, "responseId": self._id} | more
        return b"data: " + dumps(body) + b"\n\n"

    def end(self, finish: Finish, usage: Usage | None) -> list[bytes]:
        candidate: Body = {"finishReason": stops.TO_GEMINI.get(finish.stop, "STOP")}
        if self._marks:
            candidate["groundingMetadata"] = grounding(self._marks)
        usage_body = {"usageMetadata": gemini_usage(usage)} if usage is not None else {}
        return [self._chunk([Text("")], candidate=candidate, **usage_body)]


def _said(delta: Add) -> Part:
    return Refusal(delta.text) if delta.key[0] == "refusal" else Text(delta.text)
