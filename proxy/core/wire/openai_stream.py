"""Chat completion chunks, read and written."""

from typing import Any

from billing.core.usage import Usage
from keys.core.dialect import Dialect
from proxy.core.wire import checks, custom, signatures, stops
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
from proxy.core.wire.form import Body, BrokenAnswer, Stop
from proxy.core.wire.jsontext import dumps
from proxy.core.wire.openai import DONE
from proxy.core.wire.openai_answer import annotation, content_text, detail, detail_signature, detail_text, thinking_text
from proxy.core.wire.usage_write import openai_usage


class OpenAIReader:
    """Reads the first choice of each chunk. Tool calls stay open until the finish: they may alternate."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._begun = False
        self._made = 0
        self._current: Key | None = None  # the open text, thought or refusal
        self._calls: dict[Any, Key] = {}  # by the index the host gives
        self._ids: dict[Key, str] = {}
        self._pending: dict[Key, tuple[str, str]] = {}  # id and arguments of calls whose name has not come yet
        self._open_calls: list[Key] = []

    def feed(self, payload: Body) -> list[Delta]:
        found: list[Delta] = []
        if not self._begun:
            self._begun = True
            created = payload.get("created")
            found.append(Begin(str(payload.get("id") or ""), created if isinstance(created, int) else 0))
        for choice in payload.get("choices") or []:
            if isinstance(choice, dict) and not choice.get("index"):
                found += self._choice(choice)
        return found

    def _choice(self, choice: Body) -> list[Delta]:
        delta = choice.get("delta") or choice.get("message") or {}
        found = self._said(delta)
        for entry in delta.get("tool_calls") or []:
            if isinstance(entry, dict):
                found += self._call(entry)
        reason = choice.get("finish_reason")
        if reason:
            found += self._finish(reason, choice)
        return found

    def _said(self, delta: Body) -> list[Delta]:
        found: list[Delta] = []
        details = delta.get("reasoning_details") or []
        thought = thinking_text(delta) or "".join(detail_text(entry) for entry in details)
        if thought:
            found += self._add("thinking", thought)
        for signature in filter(None, map(detail_signature, details)):
            key, opened = self._switch("thinking")
            found += [*opened, Sign(key, signature)]
        if text := content_text(delta.get("content")):
            found += self._add("text", text)
        if isinstance(delta.get("refusal"), str) and delta["refusal"]:
            found += self._add("refusal", delta["refusal"])
        for mark in delta.get("annotations") or []:
            citation = checks.url_citation(mark) if isinstance(mark, dict) else None
            if citation is not None:
                key, opened = self._switch("text")
                found += [*opened, Cite(key, citation)]
        return found

    def _add(self, kind: str, text: str) -> list[Delta]:
        key, opened = self._switch(kind)
        return [*opened, Add(key, text)]

    def _switch(self, kind: str) -> tuple[Key, list[Delta]]:
        """Go on with the open part of this kind, or begin one."""
        if self._current is not None and self._current[0] == kind:
            return self._current, []
        found = self._leave()
        key = self._current = self._key(kind)
        return key, [*found, Open(key, kind)]

    def _leave(self) -> list[Delta]:
        found: list[Delta] = [Close(self._current)] if self._current is not None else []
        self._current = None
        return found

    def _key(self, kind: str) -> Key:
        self._made += 1
        return (kind, self._made, 0)

    def _call(self, entry: Body) -> list[Delta]:
        found = self._leave()
        function = entry.get("function") or entry.get("custom") or {}
        key = self._call_key(entry)
        piece = checks.json_text(function.get("arguments") or function.get("input") or "")
        if key in self._open_calls:
            return [*found, Add(key, piece)] if piece else found
        call_id, waited = self._pending.pop(key, ("", ""))
        call_id, piece = call_id or str(entry.get("id") or ""), waited + piece
        if not function.get("name"):
            self._pending[key] = (call_id, piece)
            return found
        own, signature = signatures.split_id(call_id or signatures.own_id(self._seed, key[1]))
        google = ((entry.get("extra_content") or {}).get("google") or {}).get("thought_signature")
        signature = signature or signatures.read(google, Dialect.GEMINI)
        self._open_calls.append(key)
        found.append(Open(key, "tool", own, str(function["name"]), signature, entry.get("type") == "custom"))
        return [*found, Add(key, piece)] if piece else found

    def _call_key(self, entry: Body) -> Key:
        """Which call a piece belongs to: by index. A new id under a known index is a new call."""
        index, call_id = entry.get("index"), entry.get("id") or ""
        key = self._calls.get(index)
        if key is None and index is None and not call_id and self._open_calls:
            return self._open_calls[-1]
        if key is None or (call_id and self._ids.get(key) not in ("", call_id)):
            key = self._calls[index] = self._key("tool")
            self._ids[key] = call_id
        return key

    def _finish(self, reason: object, choice: Body) -> list[Delta]:
        found = self._leave()
        found += [Close(key) for key in self._open_calls]
        try:
            stop = stops.from_openai(reason, bool(self._open_calls))
        except BrokenAnswer as problem:
            return [Broken(str(problem))]
        matched = choice.get("stop_reason")
        if isinstance(matched, str) and stop is Stop.END:
            return [*found, Finish(Stop.STOP_SEQUENCE, matched)]
        return [*found, Finish(stop)]


class OpenAIWriter:
    """Writes chunks. The usage chunk goes only to clients that asked for it."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self._head: Body = {}
        self._indexes: dict[Key, int] = {}
        self._wrapped: dict[Key, list[str]] = {}  # free-text calls that came as JSON, unwrapped as a whole
        self._free: set[Key] = set()  # free-text calls
        self._silent: set[Key] = set()  # calls without arguments so far
        self._length = 0  # of the text so far, for citations
        self._thoughts: dict[Key, list[str]] = {}  # a signature is worth nothing without its whole text

    def begin(self, delta: Begin) -> list[bytes]:
        self._head = {
            "id": delta.id or f"chatcmpl-{self._shown.seed}",
            "object": "chat.completion.chunk",
            "created": delta.created or self._shown.created,
            "model": self._shown.model,
        }
        return [self._chunk({"role": "assistant", "content": "", "refusal": None})]

    def _chunk(self, delta: Body, reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        usage = {"usage": None} if self._shown.request.include_usage else {}
        return b"data: " + dumps(self._head | {"choices": [choice]} | usage) + b"\n\n"

    def part(self, delta: PartDelta) -> list[bytes]:
        found: list[bytes] = []
        match delta:
            case Open() if delta.kind == "tool":
                found = [self._open_call(delta)]
            case Add() if delta.key in self._indexes:
                found = self._add_arguments(delta)
            case Add():
                found = [self._chunk(self._add(delta))]
            case Sign():
                found = [
                    self._chunk(
                        {"reasoning_details": [detail(delta.signature, "".join(self._thoughts.pop(delta.key, [])))]}
                    )
                ]
            case Cite():
                found = [self._chunk({"annotations": [annotation(delta.citation, 0, self._length)]})]
            case Close() if delta.key in self._indexes:
                found = self._close_call(delta.key)
            case _:
                pass  # texts need no opening and no end
        return found

    def _add(self, delta: Add) -> Body:
        text = delta.text
        match delta.key[0]:
            case "thinking":
                self._thoughts.setdefault(delta.key, []).append(text)
                return {"reasoning_content": text}
            case "refusal":
                return {"refusal": text}
            case _:
                self._length += len(text)
                return {"content": text}

    def _open_call(self, delta: Open) -> bytes:
        index = self._indexes[delta.key] = len(self._indexes)
        call_id = signatures.sign_id(delta.call_id, delta.signature, Dialect.OPENAI)
        self._silent.add(delta.key)
        entry: Body = {"index": index, "id": call_id}
        if delta.custom or delta.name in self._shown.request.custom_tools:
            self._free.add(delta.key)
            if not delta.custom:
                self._wrapped[delta.key] = []
            return self._chunk(
                {"tool_calls": [entry | {"type": "custom", "custom": {"name": delta.name, "input": ""}}]}
            )
        entry |= {"type": "function", "function": {"name": delta.name, "arguments": ""}}
        if delta.signature is not None and delta.signature.origin is Dialect.GEMINI:
            entry["extra_content"] = {"google": {"thought_signature": delta.signature.value}}
        return self._chunk({"tool_calls": [entry]})

    def _add_arguments(self, delta: Add) -> list[bytes]:
        self._silent.discard(delta.key)
        if delta.key in self._wrapped:
            self._wrapped[delta.key].append(delta.text)
            return []
        return [self._arguments(delta.key, delta.text)]

    def _close_call(self, key: Key) -> list[bytes]:
        if key in self._wrapped:
            return [self._arguments(key, custom.unwrapped("".join(self._wrapped.pop(key))))]
        return [self._arguments(key, "{}")] if key in self._silent and key not in self._free else []

    def _arguments(self, key: Key, text: str) -> bytes:
        piece = {"custom": {"input": text}} if key in self._free else {"function": {"arguments": text}}
        return self._chunk({"tool_calls": [{"index": self._indexes[key], **piece}]})

    def end(self, finish: Finish, usage: Usage | None) -> list[bytes]:
        found = [self._chunk({}, stops.TO_OPENAI[finish.stop])]
        if self._shown.request.include_usage and usage is not None:
            found.append(b"data: " + dumps(self._head | {"choices": [], "usage": openai_usage(usage)}) + b"\n\n")
        return [*found, DONE]
