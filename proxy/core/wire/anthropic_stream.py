"""Messages events, read and written."""

from collections.abc import Iterable
from typing import Any

from billing.core.usage import Usage
from keys.core.dialect import Dialect
from proxy.core.wire import checks, signatures, stops
from proxy.core.wire.anthropic_answer import citation
from proxy.core.wire.anthropic_read import citations, redacted
from proxy.core.wire.deltas import (
    Add,
    Begin,
    Cite,
    Close,
    Delta,
    Finish,
    Key,
    Open,
    PartDelta,
    Queue,
    Shown,
    Sign,
)
from proxy.core.wire.form import Body, Stop
from proxy.core.wire.jsontext import dumps
from proxy.core.wire.usage_write import anthropic_usage

_KINDS = {"text": "text", "thinking": "thinking", "redacted_thinking": "thinking", "tool_use": "tool"}


class AnthropicReader:
    """Reads blocks by their index; blocks of the provider's own tools are not opened, so their deltas fall away."""

    def __init__(self, _seed: str) -> None:
        self._keys: dict[Any, Key] = {}
        self._made = 0

    def feed(self, payload: Body) -> list[Delta]:
        match payload.get("type"):
            case "message_start":
                return [Begin(str((payload.get("message") or {}).get("id") or ""))]
            case "content_block_start":
                return self._open(payload.get("index"), payload.get("content_block") or {})
            case "content_block_delta":
                key = self._keys.get(payload.get("index"))
                return _delta(key, payload.get("delta") or {}) if key is not None else []
            case "content_block_stop":
                key = self._keys.pop(payload.get("index"), None)
                return [Close(key)] if key is not None else []
            case "message_delta":
                delta = payload.get("delta") or {}
                reason = delta.get("stop_reason")
                return [Finish(stops.from_anthropic(reason), delta.get("stop_sequence"))] if reason else []
            case _:
                return []

    def _open(self, index: Any, block: Body) -> list[Delta]:
        kind = _KINDS.get(str(block.get("type")))
        if kind is None:
            return []
        self._made += 1
        key = self._keys[index] = (kind, self._made, 0)
        opened = Open(key, kind)
        if kind == "tool":
            opened = Open(key, kind, str(block.get("id") or ""), str(block.get("name") or ""))
        return [opened, *_initial(key, block)]


def _initial(key: Key, block: Body) -> Iterable[Delta]:
    """What a block holds from its start on; usually nothing."""
    if text := block.get("text") or block.get("thinking"):
        yield Add(key, str(text))
    if block.get("input"):
        yield Add(key, checks.json_text(block["input"]))
    thought = redacted(block) if "data" in block else None
    signature = thought.signature if thought else signatures.read(block.get("signature"), Dialect.ANTHROPIC)
    if signature is not None:
        yield Sign(key, signature)
    for mark in citations(block):
        yield Cite(key, mark)


def _delta(key: Key, delta: Body) -> list[Delta]:
    text = delta.get("text") or delta.get("thinking") or delta.get("partial_json")
    if text:
        return [Add(key, str(text))]
    signature = signatures.read(delta.get("signature"), Dialect.ANTHROPIC)
    if signature is not None:
        return [Sign(key, signature)]
    return [Cite(key, mark) for mark in citations({"citations": [delta.get("citation")]})]


class AnthropicWriter:
    """Writes blocks one after the other. Input and cache tokens come at the end, where they are known."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self._queue = Queue()
        self._index = -1
        self._refused = False
        self._silent = False  # the open call has no arguments so far

    def begin(self, delta: Begin) -> list[bytes]:
        message: Body = {
            "id": delta.id or f"msg_{self._shown.seed}",
            "type": "message",
            "role": "assistant",
            "model": self._shown.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": anthropic_usage(None),
        }
        return [_event("message_start", {"message": message})]

    def part(self, delta: PartDelta) -> list[bytes]:
        return [event for ready in self._queue.take(delta) for event in self._step(ready)]

    def _step(self, delta: PartDelta) -> list[bytes]:
        match delta:
            case Open():
                return [self._open(delta)]
            case Add():
                self._silent = False
                return [self._delta(_text_delta(delta))]
            case Sign():
                shown = signatures.show(delta.signature, Dialect.ANTHROPIC)
                return [self._delta({"type": "signature_delta", "signature": shown})]
            case Cite():
                return [self._delta({"type": "citations_delta", "citation": citation(delta.citation)})]
            case _:
                filled = [self._delta({"type": "input_json_delta", "partial_json": "{}"})] if self._silent else []
                self._silent = False
                return [*filled, _event("content_block_stop", {"index": self._index})]

    def _open(self, delta: Open) -> bytes:
        self._index += 1
        block: Body = {"type": "text", "text": ""}
        if delta.kind == "thinking":
            block = {"type": "thinking", "thinking": "", "signature": ""}
        elif delta.kind == "tool":
            call_id = signatures.sign_id(delta.call_id, delta.signature, Dialect.ANTHROPIC)
            block = {"type": "tool_use", "id": call_id, "name": delta.name, "input": {}}
            self._silent = True
        self._refused = self._refused or delta.kind == "refusal"
        return _event("content_block_start", {"index": self._index, "content_block": block})

    def _delta(self, delta: Body) -> bytes:
        return _event("content_block_delta", {"index": self._index, "delta": delta})

    def end(self, finish: Finish, usage: Usage | None) -> list[bytes]:
        refused = self._refused and finish.stop is Stop.END
        reason = "refusal" if refused else stops.TO_ANTHROPIC[finish.stop]
        delta = {"stop_reason": reason, "stop_sequence": finish.stop_sequence}
        return [
            _event("message_delta", {"delta": delta, "usage": anthropic_usage(usage)}),
            _event("message_stop", {}),
        ]


def _text_delta(delta: Add) -> Body:
    match delta.key[0]:
        case "thinking":
            return {"type": "thinking_delta", "thinking": delta.text}
        case "tool":
            return {"type": "input_json_delta", "partial_json": delta.text}
        case _:
            return {"type": "text_delta", "text": delta.text}


def _event(name: str, body: Body) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + dumps({"type": name} | body) + b"\n\n"
