"""Between a client's dialect and an upstream's: the request once, then the answer, whole or as a stream."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from keys.core.dialect import Dialect
from proxy.core.answer import Answer, Passage, Translation, streamed_bytes
from proxy.core.endpoints import Endpoint
from proxy.core.passages import ArrayPassage, BytesPassage
from proxy.core.pieces import ArrayCutter, BytesCutter
from proxy.core.sse import Event
from proxy.core.wire.form import Request
from proxy.core.wire.jsontext import dumps
from proxy.core.wire.reading import Kind, event_payload, has_usage, is_whole, kind
from proxy.core.wire.translate import answer_from_form, answer_to_form, from_form, to_form
from proxy.core.wire.translate_stream import StreamTranslator
from routing.core.identity import signatures_in

# The operations that can be translated, by dialect, and what each is called at an upstream.
OPERATIONS: Final[Mapping[Dialect, str]] = {
    Dialect.OPENAI: "chat/completions",
    Dialect.RESPONSES: "responses",
    Dialect.ANTHROPIC: "messages",
    Dialect.GEMINI: "generateContent",
}
STREAMED_GEMINI: Final = "streamGenerateContent"


@dataclass(frozen=True, slots=True)
class Written:
    """A request in the upstream's dialect, and what it could not take, in the client's names."""

    body: bytes
    form: Request
    dropped: tuple[str, ...]


def read_form(endpoint: Endpoint, payload: Mapping[str, Any], *, model: str, stream: bool) -> Request:
    """Read the client's request into the internal form. Raises Untranslatable naming the field."""
    form = to_form(endpoint.dialect, dict(payload))
    return replace(form, model=model, stream=stream)


def write_for(dialect: Dialect, form: Request, model: str) -> Written:
    """Write a request for an upstream. Raises Untranslatable naming the field."""
    # Usage is always asked for; whether the client sees it is the way back's affair.
    body, dropped = from_form(dialect, replace(form, include_usage=form.stream), model=model)
    return Written(dumps(body), form, dropped)


def operation_of(dialect: Dialect, *, stream: bool) -> str:
    """Return the path, behind the base address, of generating text at an upstream."""
    return STREAMED_GEMINI if dialect is Dialect.GEMINI and stream else OPERATIONS[dialect]


def passage_of(answer: Answer) -> Passage:
    """Return what carries an answer's stream to the client."""
    if isinstance(answer.framer, BytesCutter):
        return BytesPassage(answer)
    if isinstance(answer.framer, ArrayCutter) and answer.as_array and answer.translation is None:
        return ArrayPassage(answer, answer.framer)
    return Passage(answer) if answer.translation is None else TranslatedPassage(answer, answer.translation)


def whole_answer(translation: Translation, payload: Mapping[str, Any]) -> tuple[bytes, tuple[str, ...]]:
    """Return an upstream's whole answer in the client's dialect, and the hashed signatures as the client sees them.

    Raises BrokenAnswer.
    """
    answer = answer_to_form(translation.source, dict(payload), seed=translation.seed)
    shown = answer_from_form(
        translation.target, answer, translation.form, model=translation.model, created=translation.created
    )
    return dumps(shown), signatures_in(shown)


class TranslatedPassage(Passage):
    """A stream on its way from one dialect to another. The end comes from `last`, once the upstream has said all."""

    __slots__ = ("_translator",)

    def __init__(self, answer: Answer, translation: Translation) -> None:
        super().__init__(answer)
        self._translator = StreamTranslator(
            translation.source,
            translation.target,
            translation.form,
            model=translation.model,
            seed=translation.seed,
            created=translation.created,
        )

    def take(self, events: Sequence[Event]) -> bytes:
        """Return the client's events for the upstream's."""
        parts: list[bytes] = []
        for event in events:
            if self.error is not None:
                break
            parts.extend(self._translated(event))
        return self._noted(parts)

    def last(self) -> bytes:
        """Return the end of the client's stream; nothing when the upstream gave none."""
        return self._noted(self._translator.close())

    def broken(self, status: int, code: str, message: str, request_id: str) -> bytes:
        """Return the event that tells the client, in the numbering of its stream."""
        return self._translator.error(status, code, message)

    def _noted(self, parts: Sequence[bytes]) -> bytes:
        """Remember the signatures as the client will send them back, which is not as the upstream wrote them."""
        for part in parts:
            if b"ignature" in part or b"encrypted_content" in part:
                self.marks.update(signatures_in(event_payload(Event(part)) or {}))
        return b"".join(parts)

    def _translated(self, event: Event) -> list[bytes]:
        what = kind(self._dialect, event)
        if what is Kind.ERROR or not is_whole(event):
            self.error = event
            return []
        if has_usage(event.raw) and self._meter is not None and (payload := event_payload(event)) is not None:
            self._meter.feed(payload)
        parts = self._translator.feed(event)
        if self._translator.failed is not None:
            self.error = event
            return []
        if what in (Kind.CONTENT, Kind.FINISH, Kind.END):
            self.content = self.content or what is Kind.CONTENT
            self.output += streamed_bytes(self._dialect, event.raw)
            self.finished = self.finished or what is not Kind.CONTENT
            self.ended = self.ended or what is Kind.END
        return parts
