"""Runs translated streams for tests."""

from typing import Any

from keys.core.dialect import Dialect
from proxy.core.sse import Framer
from proxy.core.wire import reading
from proxy.core.wire.translate import to_form
from proxy.core.wire.translate_stream import StreamTranslator
from tests.proxy.core.wire.stream_samples import sse

OPENAI, RESPONSES, ANTHROPIC, GEMINI = Dialect.OPENAI, Dialect.RESPONSES, Dialect.ANTHROPIC, Dialect.GEMINI
Body = dict[str, Any]
ASKS: dict[Dialect, Body] = {
    OPENAI: {"messages": [], "stream": True, "stream_options": {"include_usage": True}},
    RESPONSES: {"input": "Hi"},
    ANTHROPIC: {"messages": []},
    GEMINI: {"contents": []},
}


def started(source: Dialect, target: Dialect, ask: Body | None = None) -> StreamTranslator:
    request = to_form(target, ASKS[target] | (ask or {}))
    return StreamTranslator(source, target, request, model="shown", seed="s", created=5)


def run(source: Dialect, target: Dialect, stream: bytes | list[Body], ask: Body | None = None) -> list[Body]:
    """The client's payloads; the stream must have ended properly."""
    translate, framer = started(source, target, ask), Framer()
    stream = sse(source, stream) if isinstance(stream, list) else stream
    out = [part for event in framer.feed(stream) + framer.close() for part in translate.feed(event)]
    out += translate.close()
    assert translate.complete
    return [found for event in Framer().feed(b"".join(out)) if (found := reading.event_payload(event)) is not None]


def deltas(payloads: list[Body]) -> list[Body]:
    """The deltas of a chat stream that hold something."""
    found = [choice["delta"] for payload in payloads for choice in payload["choices"]]
    return [delta for delta in found if delta and "role" not in delta]


def reason(payloads: list[Body]) -> str:
    return next(str(choice["finish_reason"]) for p in payloads for choice in p["choices"] if choice["finish_reason"])
