"""Responses events, read. Hosts differ in how many of the events they send: what never came as a delta is taken from
the item that is done, or from the whole response at the end.
"""

from typing import Any

from keys.core.dialect import Dialect
from proxy.core.wire import checks, signatures, stops
from proxy.core.wire.deltas import Add, Begin, Broken, Cite, Close, Delta, Finish, Key, Open, Sign
from proxy.core.wire.form import Body, BrokenAnswer, Part, Refusal, Text, Thinking, ToolCall
from proxy.core.wire.responses_answer import item_parts

_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})


class ResponsesReader:
    """Reads parts by output and content index."""

    def __init__(self, _seed: str) -> None:
        self._begun = False
        self._called = False
        self._open: dict[Key, None] = {}
        self._seen: set[Any] = set()  # output indexes of which something was read
        self._filled: set[Key] = set()

    def feed(self, payload: Body) -> list[Delta]:
        name = str(payload.get("type") or "")
        found = self._begin(payload.get("response"))
        if name in _ENDS:
            found += self._end(payload.get("response") or {})
        elif name.endswith(".delta"):
            found += self._delta(name, payload)
        elif name == "response.output_item.added":
            found += self._item_added(payload.get("output_index"), payload.get("item") or {})
        elif name == "response.output_item.done":
            found += self._item_done(payload.get("output_index"), payload.get("item") or {})
        elif name == "response.reasoning_summary_part.added" and payload.get("summary_index"):
            found += self._add("thinking", payload.get("output_index"), 0, "\n\n")
        elif name == "response.output_text.annotation.added":
            citation = checks.url_citation(payload.get("annotation") or {})
            if citation is not None:
                key = ("text", payload.get("output_index") or 0, payload.get("content_index") or 0)
                found.append(Cite(key, citation))
        return found

    def _begin(self, response: Any) -> list[Delta]:
        if self._begun or not isinstance(response, dict):
            return []
        self._begun = True
        created = response.get("created_at")
        return [Begin(str(response.get("id") or ""), int(created) if isinstance(created, int | float) else 0)]

    def _delta(self, name: str, payload: Body) -> list[Delta]:
        output, content = payload.get("output_index"), payload.get("content_index")
        text = str(payload.get("delta") or "")
        match name:
            case "response.output_text.delta":
                return self._add("text", output, content, text)
            case "response.refusal.delta":
                return self._add("refusal", output, content, text)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return self._add("thinking", output, 0, text)
            case "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta":
                key = ("tool", output or 0, 0)
                self._filled.add(key)
                return [Add(key, text)] if key in self._open else []
            case _:
                return []

    def _add(self, kind: str, output: Any, content: Any, text: str) -> list[Delta]:
        key = (kind, output or 0, content or 0)
        if not text:
            return []
        self._seen.add(output)
        if key in self._open:
            return [Add(key, text)]
        self._open[key] = None
        return [Open(key, kind), Add(key, text)]

    def _item_added(self, output: Any, item: Body) -> list[Delta]:
        if item.get("type") not in ("function_call", "custom_tool_call"):
            return []
        self._seen.add(output)
        self._called = True
        key = ("tool", output or 0, 0)
        self._open[key] = None
        call_id = str(item.get("call_id") or item.get("id") or "")
        custom = item["type"] == "custom_tool_call"
        return [Open(key, "tool", call_id, str(item.get("name") or ""), None, custom)]

    def _item_done(self, output: Any, item: Body) -> list[Delta]:
        if output not in self._seen:
            self._seen.add(output)
            return self._whole(output or 0, item_parts(item))
        found: list[Delta] = []
        for key in [key for key in self._open if key[1] == (output or 0)]:
            if key[0] == "tool" and key not in self._filled:
                arguments = checks.json_text(item.get("arguments") or item.get("input") or "")
                found += [Add(key, arguments)] if arguments else []
            signature = signatures.read(item.get("encrypted_content"), Dialect.RESPONSES)
            if key[0] == "thinking" and signature is not None:
                found.append(Sign(key, signature))
            del self._open[key]
            found.append(Close(key))
        return found

    def _whole(self, output: int, parts: list[Part]) -> list[Delta]:
        """Parts that no delta announced."""
        found: list[Delta] = []
        for content, part in enumerate(parts):
            match part:
                case Text() | Refusal():
                    key = ("text" if isinstance(part, Text) else "refusal", output, content)
                    found += [Open(key, key[0]), Add(key, part.text)]
                    found += [Cite(key, mark) for mark in part.citations] if isinstance(part, Text) else []
                case Thinking():
                    key = ("thinking", output, content)
                    found.append(Open(key, "thinking"))
                    found += [Add(key, part.text)] if part.text else []
                    found += [Sign(key, part.signature)] if part.signature is not None else []
                case ToolCall():
                    self._called = True
                    key = ("tool", output, content)
                    found += [Open(key, "tool", part.id, part.name, None, part.custom), Add(key, part.arguments)]
                case _:
                    continue
            found.append(Close(key))
        return found

    def _end(self, response: Body) -> list[Delta]:
        found: list[Delta] = []
        try:
            for output, item in enumerate(response.get("output") or []):
                if not self._seen and isinstance(item, dict):
                    found += self._whole(output, item_parts(item))
            stop = stops.from_responses(response, self._called)
        except BrokenAnswer as problem:
            error = response.get("error")
            said = error.get("message") if isinstance(error, dict) else None
            return [Broken(str(said or problem))]
        return [*found, *(Close(key) for key in self._open), Finish(stop)]
