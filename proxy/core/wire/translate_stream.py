"""Streams between dialects, event by event."""

from collections.abc import Callable
from typing import Final

from billing.core.usage import Usage, UsageMeter
from keys.core.dialect import Dialect
from proxy.core.sse import Event
from proxy.core.wire.anthropic_stream import AnthropicReader, AnthropicWriter
from proxy.core.wire.deltas import Begin, Broken, Delta, Finish, PartDelta, Parts, Reader, Shown, Writer
from proxy.core.wire.faults import FaultContext, error_event
from proxy.core.wire.form import BrokenAnswer, Request, Stop
from proxy.core.wire.gemini_stream import GeminiReader, GeminiWriter
from proxy.core.wire.kinds import MISSHAPEN, Kind, is_error
from proxy.core.wire.openai_stream import OpenAIReader, OpenAIWriter
from proxy.core.wire.reading import KEEPALIVE, event_payload, has_usage, kind
from proxy.core.wire.responses_stream_read import ResponsesReader
from proxy.core.wire.responses_stream_write import ResponsesWriter

_READERS: Final[dict[Dialect, Callable[[str], Reader]]] = {
    Dialect.OPENAI: OpenAIReader,
    Dialect.RESPONSES: ResponsesReader,
    Dialect.ANTHROPIC: AnthropicReader,
    Dialect.GEMINI: GeminiReader,
}
_WRITERS: Final[dict[Dialect, Callable[[Shown], Writer]]] = {
    Dialect.OPENAI: OpenAIWriter,
    Dialect.RESPONSES: ResponsesWriter,
    Dialect.ANTHROPIC: AnthropicWriter,
    Dialect.GEMINI: GeminiWriter,
}


class StreamTranslator:
    """Turns an upstream's events into a client's.

    `feed` gives what can be sent now; the end (stop reason, usage, terminator) comes from `close`, once the upstream
    has said all it had, because usage may come late. `close` gives nothing when the upstream ended without a stop
    reason or end mark, or said that it failed: a stop is never made up. `complete` tells which; `error` then makes the
    event that ends the client's stream instead.
    """

    def __init__(
        self, source: Dialect, target: Dialect, request: Request, *, model: str, seed: str, created: int
    ) -> None:
        """`model` is the name the client knows, `seed` an id unique to the request, `created` unix seconds."""
        self._source = source
        self._target = target
        self._reader = _READERS[source](seed)
        self._writer = _WRITERS[target](Shown(request, model, seed, created))
        self._model = model
        self._created = created
        self._seed = seed
        self._meter = UsageMeter(source)
        self._parts = Parts()
        self._begun = False
        self._called = False
        self._ended = False  # the dialect's end mark was seen
        self._finish: Finish | None = None
        self.failed: str | None = None  # the upstream's word that it failed

    @property
    def complete(self) -> bool:
        """True when the upstream's answer has its proper end."""
        return self.failed is None and (self._finish is not None or (self._ended and self._begun))

    @property
    def usage(self) -> Usage | None:
        """What the upstream has reported so far."""
        return self._meter.result()

    def feed(self, event: Event) -> list[bytes]:
        """Return the client's events for one of the upstream's; a keep-alive stays one."""
        payload = event_payload(event)
        if payload is None:
            is_end = self._source is Dialect.OPENAI and kind(self._source, event) is Kind.END
            self._ended = self._ended or is_end
            return self._keepalive(event)
        if self._source is Dialect.ANTHROPIC and payload.get("type") == "ping":
            return self._keepalive(event)
        if has_usage(event.raw):
            self._meter.feed(payload)
        if event.name == "error" or is_error(payload):
            self.failed = self.failed or "the upstream sent an error"
            return []
        self._ended = self._ended or payload.get("type") == "message_stop"
        try:
            return [out for delta in self._reader.feed(payload) for out in self._take(delta)]
        except BrokenAnswer as problem:
            return self._take(Broken(str(problem)))
        except MISSHAPEN:
            return self._take(Broken("an event has not the shape of its dialect"))

    def _keepalive(self, event: Event) -> list[bytes]:
        beat = KEEPALIVE[self._target]
        return [beat] if beat and event.raw.strip() and not event.data.startswith(b"[DONE]") else []

    def _take(self, delta: Delta) -> list[bytes]:
        if self.failed is not None:
            return []
        if isinstance(delta, Begin):
            return self._begin(delta)
        if isinstance(delta, Finish):
            self._finish = self._finish or delta
            return self._close_parts()
        if isinstance(delta, Broken):
            self.failed = delta.message
            return []
        return [*self._begin(Begin("")), *self._part(delta)]

    def _begin(self, delta: Begin) -> list[bytes]:
        if self._begun:
            return []
        self._begun = True
        return self._writer.begin(delta)

    def _part(self, delta: PartDelta) -> list[bytes]:
        self._called = self._called or delta.key[0] == "tool"
        return self._writer.part(delta) if self._parts.see(delta) else []

    def _close_parts(self) -> list[bytes]:
        return [event for delta in self._parts.closing() for event in self._part(delta)]

    def close(self) -> list[bytes]:
        """Return the end of the client's stream; nothing unless the answer is `complete`."""
        if not self.complete:
            return []
        finish = self._finish or Finish(Stop.TOOL_USE if self._called else Stop.END)
        events = [*self._begin(Begin("")), *self._close_parts()]
        return [*events, *self._writer.end(finish, self._meter.result())]

    def error(self, status: int, code: str, message: str, type_: str = "gateway_error") -> bytes:
        """Return the event that tells the client that its stream broke."""
        context = FaultContext(model=self._model, created=self._created, request_id=self._seed)
        if isinstance(self._writer, ResponsesWriter):
            writer = self._writer
            context = FaultContext(
                model=self._model,
                created=self._created,
                request_id=self._seed,
                response_id=writer.response_id,
                sequence=writer.sequence,
            )
        return error_event(self._target, status, code, message, type_, context)
