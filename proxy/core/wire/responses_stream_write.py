"""Responses events, written: one output item per part, one after the other."""

from abc import ABC, abstractmethod

from billing.core.usage import Usage
from keys.core.dialect import Dialect
from proxy.core.wire import custom, signatures
from proxy.core.wire.deltas import Add, Begin, Cite, Finish, Open, PartDelta, Queue, Shown, Sign
from proxy.core.wire.form import Answer, Body, Citation, Signature, ToolCall
from proxy.core.wire.jsontext import dumps
from proxy.core.wire.responses_answer import annotation, call_item, closed, envelope, message, output_text


class ResponsesWriter:
    """Writes events with their running number. Keeps the items: the end repeats them all."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self._queue = Queue()
        self._sequence = 0
        self._response: Body = {}
        self._output: list[Body] = []
        self._item: _Item | None = None

    @property
    def sequence(self) -> int:
        """Number of the next event."""
        return self._sequence

    @property
    def response_id(self) -> str:
        return str(self._response.get("id") or "")

    def begin(self, delta: Begin) -> list[bytes]:
        shown = self._shown
        response_id = delta.id or f"resp_{shown.seed}"
        self._response = envelope(response_id, shown.model, delta.created or shown.created, shown.request)
        names = ("response.created", "response.in_progress")
        return [self._event(name, {"response": self._response}) for name in names]

    def _event(self, name: str, body: Body) -> bytes:
        payload = {"type": name, "sequence_number": self._sequence} | body
        self._sequence += 1
        return b"event: " + name.encode() + b"\ndata: " + dumps(payload) + b"\n\n"

    def part(self, delta: PartDelta) -> list[bytes]:
        return [event for ready in self._queue.take(delta) for event in self._step(ready)]

    def _step(self, delta: PartDelta) -> list[bytes]:
        if isinstance(delta, Open):
            seed = f"{self._shown.seed}_{len(self._output)}"
            self._item = _item(delta, seed, self._shown.request.custom_tools)
            return self._numbered(self._item.opening())
        item = self._item
        if item is None:
            return []
        match delta:
            case Add():
                return self._numbered(item.add(delta.text))
            case Sign():
                item.signature = delta.signature
                return []
            case Cite():
                return self._numbered(item.cite(delta.citation))
            case _:
                events = self._numbered(item.closing())
                self._output.append(item.done())
                self._item = None
                return events

    def _numbered(self, events: list[tuple[str, Body]]) -> list[bytes]:
        place = {"output_index": len(self._output)}
        return [self._event(name, place | body) for name, body in events]

    def end(self, finish: Finish, usage: Usage | None) -> list[bytes]:
        answer = Answer("", "", (), finish.stop, finish.stop_sequence, usage)
        response = closed(self._response, self._output, answer)
        return [self._event(f"response.{response['status']}", {"response": response})]


class _Item(ABC):
    """One output item as it grows."""

    def __init__(self, item_id: str) -> None:
        self.id = item_id
        self.text = ""
        self.signature: Signature | None = None
        self._pieces: list[str] = []

    def add(self, text: str) -> list[tuple[str, Body]]:
        self._pieces.append(text)
        return self._grown(text)

    def cite(self, _citation: Citation) -> list[tuple[str, Body]]:
        return []

    def opening(self) -> list[tuple[str, Body]]:
        return [("response.output_item.added", {"item": self._started()})]

    def closing(self) -> list[tuple[str, Body]]:
        self.text = "".join(self._pieces)
        return [*self._ended(), ("response.output_item.done", {"item": self.done()})]

    @abstractmethod
    def _started(self) -> Body:
        """The item before anything is in it."""

    @abstractmethod
    def _grown(self, text: str) -> list[tuple[str, Body]]:
        """The events that some more text brings."""

    @abstractmethod
    def _ended(self) -> list[tuple[str, Body]]:
        """The events that end what is in it."""

    @abstractmethod
    def done(self) -> Body:
        """The finished item."""


class _Message(_Item):
    """A message with one part: text, or a refusal."""

    def __init__(self, seed: str, kind: str) -> None:
        super().__init__(f"msg_{seed}")
        self._seed = seed
        self._refusal = kind == "refusal"
        self._marks: list[Citation] = []
        self._place: Body = {"item_id": self.id, "content_index": 0}

    def _part(self) -> Body:
        if self._refusal:
            return {"type": "refusal", "refusal": self.text}
        return output_text(self.text, [annotation(mark, len(self.text)) for mark in self._marks])

    def _started(self) -> Body:
        return message(self._seed, [], "in_progress")

    def opening(self) -> list[tuple[str, Body]]:
        return [*super().opening(), ("response.content_part.added", self._place | {"part": self._part()})]

    def _grown(self, text: str) -> list[tuple[str, Body]]:
        if self._refusal:
            return [("response.refusal.delta", self._place | {"delta": text})]
        return [("response.output_text.delta", self._place | {"delta": text, "logprobs": []})]

    def cite(self, citation: Citation) -> list[tuple[str, Body]]:
        mark = annotation(citation, sum(map(len, self._pieces)))
        self._marks.append(Citation(citation.url, citation.title, "", mark["start_index"], mark["end_index"]))
        place: Body = self._place | {"annotation_index": len(self._marks) - 1, "annotation": mark}
        return [("response.output_text.annotation.added", place)]

    def _ended(self) -> list[tuple[str, Body]]:
        if self._refusal:
            said = ("response.refusal.done", self._place | {"refusal": self.text})
        else:
            said = ("response.output_text.done", self._place | {"text": self.text, "logprobs": []})
        return [said, ("response.content_part.done", self._place | {"part": self._part()})]

    def done(self) -> Body:
        return message(self._seed, [self._part()])


class _Reasoning(_Item):
    """A reasoning item. Its summary part begins with the first text; a thought may be signed and nothing else."""

    def __init__(self, seed: str) -> None:
        super().__init__(f"rs_{seed}")
        self._begun = False
        self._place: Body = {"item_id": self.id, "summary_index": 0}

    def _part(self) -> Body:
        return {"type": "summary_text", "text": self.text}

    def _started(self) -> Body:
        return {"id": self.id, "type": "reasoning", "summary": []}

    def _grown(self, text: str) -> list[tuple[str, Body]]:
        grown = ("response.reasoning_summary_text.delta", self._place | {"delta": text})
        if self._begun:
            return [grown]
        self._begun = True
        return [("response.reasoning_summary_part.added", self._place | {"part": self._part()}), grown]

    def _ended(self) -> list[tuple[str, Body]]:
        if not self._begun:
            return []
        return [
            ("response.reasoning_summary_text.done", self._place | {"text": self.text}),
            ("response.reasoning_summary_part.done", self._place | {"part": self._part()}),
        ]

    def done(self) -> Body:
        shown = signatures.show(self.signature, Dialect.RESPONSES) if self.signature is not None else None
        return self._started() | {"summary": [self._part()] if self._begun else [], "encrypted_content": shown}


class _Call(_Item):
    """A function call."""

    def __init__(self, delta: Open, seed: str) -> None:
        super().__init__(f"fc_{seed}")
        self._seed = seed
        self._call = delta

    def _written(self, status: str) -> Body:
        call = ToolCall(self._call.call_id, self._call.name, self.text, self._call.signature)
        return call_item(call, self._seed, frozenset(), status)

    def _started(self) -> Body:
        return self._written("in_progress")

    def _grown(self, text: str) -> list[tuple[str, Body]]:
        return [("response.function_call_arguments.delta", {"item_id": self.id, "delta": text})]

    def _ended(self) -> list[tuple[str, Body]]:
        self.text = self.text or "{}"
        done = {"item_id": self.id, "name": self._call.name, "arguments": self.text}
        return [("response.function_call_arguments.done", done)]

    def done(self) -> Body:
        return self._written("completed")


class _CustomCall(_Item):
    """A call of a free-text tool: through another dialect it comes as JSON, and is unwrapped as a whole."""

    def __init__(self, delta: Open, seed: str) -> None:
        super().__init__(f"ctc_{seed}")
        self._seed = seed
        self._call = delta

    def _written(self, status: str) -> Body:
        call = ToolCall(self._call.call_id, self._call.name, self.text, self._call.signature, custom=True)
        return call_item(call, self._seed, frozenset(), status)

    def _started(self) -> Body:
        return self._written("in_progress")

    def _grown(self, _text: str) -> list[tuple[str, Body]]:
        return []

    def _ended(self) -> list[tuple[str, Body]]:
        self.text = self.text if self._call.custom else custom.unwrapped(self.text)
        place: Body = {"item_id": self.id}
        return [
            ("response.custom_tool_call_input.delta", place | {"delta": self.text}),
            ("response.custom_tool_call_input.done", place | {"input": self.text}),
        ]

    def done(self) -> Body:
        return self._written("completed")


def _item(delta: Open, seed: str, custom_tools: frozenset[str]) -> _Item:
    if delta.kind == "thinking":
        return _Reasoning(seed)
    if delta.kind != "tool":
        return _Message(seed, delta.kind)
    is_custom = delta.custom or delta.name in custom_tools
    return _CustomCall(delta, seed) if is_custom else _Call(delta, seed)
