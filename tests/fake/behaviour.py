"""Behaviours: one scripted reaction to one request, and the builders that tests write them with.

A behaviour is a frozen value: what is said (content) and how (delivery). `.but(…)` changes any field of either.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import orjson

from tests.fake import anthropic_wire, delivery, gemini_wire, lists, openai_wire, responses_wire
from tests.fake.content import DEFAULT_TEXT, Answer, Ask, Event, Part, Text, Thinking, Tokens, ToolCall, WireError
from tests.fake.delivery import Delivery, End, Ending, Length, Reply, Step, Write
from tests.fake.paths import Kind

JSON = "application/json"
SSE = "text/event-stream; charset=utf-8"
HTML = "<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center></body></html>"
DEFAULT_TOKENS = Tokens()
STREAMS = {
    Kind.CHAT: openai_wire.events,
    Kind.COMPLETION: openai_wire.completion_events,
    Kind.RESPONSES: responses_wire.events,
    Kind.MESSAGES: anthropic_wire.events,
    Kind.GEMINI: gemini_wire.events,
}


@dataclass(frozen=True, slots=True)
class Raw:
    """Exactly these bytes, whatever was asked. A piece is written by itself."""

    pieces: tuple[bytes, ...]
    status: int = 200
    content_type: str = JSON  # "" = no such header
    streamed: bool = False  # only the default framing depends on it


@dataclass(frozen=True, slots=True)
class Failure:
    """An error status with the error body of the request's dialect."""

    error: WireError


@dataclass(frozen=True, slots=True)
class Nothing:
    """No answer: these bytes of one, then the delivery's ending."""

    sent: bytes = b""


Content = Answer | Raw | Failure | Nothing


@dataclass(frozen=True, slots=True)
class Behaviour:
    content: Content
    how: Delivery = field(default_factory=Delivery)

    def but(self, **changes: Any) -> Self:
        """Return a copy with these fields of the delivery or the content changed; a TypeError names a wrong one."""
        names = {one.name for one in fields(Delivery)}
        how = {name: value for name, value in changes.items() if name in names}
        content = {name: value for name, value in changes.items() if name not in names}
        return replace(self, content=replace(self.content, **content), how=replace(self.how, **how))

    def plan(self, ask: Ask, *, models: tuple[str, ...], headers: Mapping[str, str], method: str) -> Iterator[Step]:
        """Yield the server's steps for this request. Header names are lower-case."""
        if isinstance(self.content, Nothing):
            if self.content.sent:
                yield Write(self.content.sent)
            yield End(self.how.ending)
            return
        reply = _reply(self.content, self.how, ask, models, headers)
        yield from delivery.steps(reply, self.how, head_only=method == "HEAD")


def _reply(
    content: Answer | Raw | Failure, how: Delivery, ask: Ask, models: tuple[str, ...], headers: Mapping[str, str]
) -> Reply:
    named = "request-id" if ask.kind in {Kind.MESSAGES, Kind.MESSAGES_TOKENS} else "x-request-id"
    own = (named, f"req_up_{ask.number}")
    match content:
        case Raw():
            kind = (("content-type", content.content_type),) if content.content_type else ()
            return Reply(content.status, (*kind, own), content.pieces, content.streamed)
        case Failure():
            body = orjson.dumps(_wire(ask).error(content.error))
            return Reply(content.error.status, (("content-type", JSON), own), (body,))
        case Answer():
            return _answer(content, how, ask, own, models, headers)


def _answer(
    content: Answer, how: Delivery, ask: Ask, own: tuple[str, str], models: tuple[str, ...], headers: Mapping[str, str]
) -> Reply:
    stream = STREAMS.get(Kind(ask.kind))
    if stream and (ask.stream if content.streamed is None else content.streamed):
        told: list[Event] = stream(content, ask)
        pieces = delivery.framed(told, how) if ask.sse else delivery.array(told)
        return Reply(200, (("content-type", SSE if ask.sse else JSON), own), pieces, streamed=True)
    if ask.kind == Kind.MESSAGES:
        payload = anthropic_wire.whole(content, ask)
    else:
        payload = lists.plain(ask, content, models, headers)
    if isinstance(payload, bytes):
        return Reply(200, (("content-type", "audio/mpeg"), own), (payload,))
    return Reply(200, (("content-type", JSON), own), (orjson.dumps(payload),))


def _wire(ask: Ask) -> Any:
    if ask.kind.startswith("gemini"):
        return gemini_wire
    return anthropic_wire if ask.kind.startswith("messages") else openai_wire


# What tests write.


def answer(*parts: str | Part, tokens: Tokens | None = DEFAULT_TOKENS, **changes: Any) -> Behaviour:
    """Answer 200 in the request's dialect, streamed when asked. A text is streamed word by word."""
    made = tuple(Text(_words(part)) if isinstance(part, str) else part for part in parts or (DEFAULT_TEXT,))
    return Behaviour(Answer(made, tokens)).but(**changes)


def stream(pieces: Sequence[str], *, tokens: Tokens | None = DEFAULT_TOKENS, **changes: Any) -> Behaviour:
    """Answer with exactly these pieces of text, one stream event each."""
    return Behaviour(Answer((Text(tuple(pieces)),), tokens)).but(**changes)


def tool_call(
    name: str, arguments: Mapping[str, Any] | str = "{}", *, call_id: str = "", pieces: int = 2, signature: str = ""
) -> ToolCall:
    """One part for answer(): a call whose arguments are streamed in so many pieces."""
    text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    size = max(1, -(-len(text) // pieces))
    cut = tuple(text[place : place + size] for place in range(0, len(text), size))
    return ToolCall(name, cut, id=call_id, signature=signature)


def thinking(text: str, signature: str = "c2lnbmVkLXRoaW5raW5n") -> Thinking:
    return Thinking(_words(text), signature)


def status(
    code: int,
    message: str = "",
    *,
    body: Any = None,
    error_code: str = "",
    error_type: str = "",
    retry_after: float | str | None = None,
    **changes: Any,
) -> Behaviour:
    """Answer with an error status.

    body: bytes and str go out as they are, anything else as JSON; None = the error of the request's dialect.
    """
    if body is None:
        wrong = WireError(message or f"{delivery.reason(code)} (scripted)", error_code, error_type, code)
        made = Behaviour(Failure(wrong))
    else:
        made = raw(body, status=code)
    made = made.but(**changes)
    if retry_after is None:
        return made
    return made.but(headers=(*made.how.headers, ("retry-after", str(retry_after))))


def raw(
    body: Any = b"", *, status: int = 200, content_type: str = JSON, headers: Sequence[tuple[str, str]] = (), **how: Any
) -> Behaviour:
    """Answer exactly this: bytes or text as they are, a tuple of bytes piece by piece, else JSON."""
    streamed = content_type.startswith("text/event-stream")
    match body:
        case bytes():
            pieces: tuple[bytes, ...] = (body,)
        case str():
            pieces = (body.encode(),)
        case tuple():
            pieces = body
        case _:
            pieces = (orjson.dumps(body),)
    content = Raw(pieces, status, content_type, streamed)
    return Behaviour(content, Delivery(headers=tuple(headers))).but(**how)


def sse(*pieces: bytes, **how: Any) -> Behaviour:
    """Answer 200 with these raw bytes as text/event-stream, each piece written by itself."""
    return raw(pieces, content_type=SSE, **how)


def html(text: str = HTML, *, status: int = 200) -> Behaviour:
    return raw(text, status=status, content_type="text/html")


def empty(*, content_type: str = JSON) -> Behaviour:
    """Answer 200 with a body of no bytes."""
    return raw(b"", content_type=content_type)


def redirect(location: str, *, status: int = 307) -> Behaviour:
    return raw(b"", status=status, content_type="", headers=[("location", location)])


def sse_error_first(message: str = "Overloaded", **error: Any) -> Behaviour:
    """Answer 200 with a stream whose first event is the dialect's error; error: code, type, status (529)."""
    return answer(error=WireError(message, **{"status": 529, **error}), error_after=-1)


def sse_error_after(events: int, message: str = "Overloaded", **error: Any) -> Behaviour:
    """Answer 200 with a stream that breaks into an error behind so many content events; 0 = behind the opening."""
    return answer(error=WireError(message, **{"status": 529, **error}), error_after=events)


def silent(sent: bytes = b"") -> Behaviour:
    """Read the request and never answer, or only with these bytes of an answer."""
    return Behaviour(Nothing(sent), Delivery(ending=Ending.STALL))


def reset(sent: bytes = b"") -> Behaviour:
    """Read the request, send these bytes, and reset the connection."""
    return Behaviour(Nothing(sent), Delivery(ending=Ending.RESET))


def hang_up(sent: bytes = b"") -> Behaviour:
    """Read the request, send these bytes, and close the connection."""
    return Behaviour(Nothing(sent), Delivery(ending=Ending.CLOSE))


def broken(base: Behaviour, ending: Ending, *, events: int | None = None, size: int | None = None) -> Behaviour:
    """Let an answer end behind so many stream events or body bytes, without its HTTP terminator.

    Ending.CLOSE cuts it, RESET resets, STALL goes silent.
    """
    return base.but(ending=ending, stop_events=events, stop_bytes=size)


def wrong_length(base: Behaviour, off: int) -> Behaviour:
    """State a content-length that is off by so many bytes: > 0 promises more than comes, < 0 less; then close."""
    return base.but(length=Length.STATED, length_off=off, ending=Ending.CLOSE)


def from_corpus(row: Mapping[str, Any]) -> Behaviour:
    """Replay one row of upstream_errors.jsonl; a row that names an exception ends as that exception says.

    Not for rows whose fault lies before the request (DNS, TLS, refused, connect timeout): ValueError.
    """
    fault = str(row.get("exception") or "")
    if row["status"] is None:
        if "reset" in fault:
            return reset()
        if "ReadTimeout" in fault or "limit" in fault:
            return silent()
        raise ValueError(f"{row['id']}: {fault} happens before a request arrives")
    headers = {name.lower(): value for name, value in row["headers"].items()}
    kind = headers.pop("content-type", "")
    headers.pop("content-length", None)
    made = raw(row["body"], status=row["status"], content_type=kind, headers=list(headers.items()))
    if not fault:
        return made
    ending = Ending.CLOSE if "incomplete" in fault else Ending.STALL
    return broken(made, ending, events=1).but(length=Length.CHUNKED)


def _words(text: str) -> tuple[str, ...]:
    """Cut behind each blank; joined again they are the text."""
    return tuple(piece for piece in text.replace(" ", " \0").split("\0") if piece)
