"""What the fake upstream says, apart from dialect and delivery: parts, token counts, errors."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import zip_longest
from typing import Any

import orjson

DEFAULT_TEXT = "Hello from the fake upstream."


@dataclass(frozen=True, slots=True)
class Tokens:
    """Counts as a bill would have them; every dialect derives its own fields."""

    input: int = 25  # all prompt tokens, cached reads and cache writes included
    output: int = 7  # reasoning included
    cached_read: int = 0
    cache_write: int = 0  # its one-hour part included
    cache_write_1h: int = 0
    reasoning: int = 0


@dataclass(frozen=True, slots=True)
class Text:
    pieces: tuple[str, ...]  # one stream event each

    @property
    def whole(self) -> str:
        return "".join(self.pieces)


@dataclass(frozen=True, slots=True)
class Thinking:
    pieces: tuple[str, ...]
    signature: str = "c2lnbmVkLXRoaW5raW5n"

    @property
    def whole(self) -> str:
        return "".join(self.pieces)


@dataclass(frozen=True, slots=True)
class ToolCall:
    name: str
    pieces: tuple[str, ...]  # the arguments' JSON text, as it is streamed
    id: str = ""  # "" = made from the position
    signature: str = ""  # Gemini's thoughtSignature

    @property
    def whole(self) -> str:
        return "".join(self.pieces)

    @property
    def arguments(self) -> Any:
        return orjson.loads(self.whole or "{}")


Part = Text | Thinking | ToolCall


class UsagePlace(StrEnum):
    """Where a streamed chat completion reports its usage."""

    OWN_CHUNK = "own_chunk"
    FINISH = "finish"
    EVERY = "every"
    AFTER_DONE = "after_done"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class WireError:
    """An error object of the request's dialect. "" = the value that the status implies."""

    message: str
    code: str = ""
    type: str = ""
    status: int = 500


@dataclass(frozen=True, slots=True)
class Answer:
    """A 200 in the dialect that the request speaks, streamed when it asks for a stream."""

    parts: tuple[Part, ...]
    tokens: Tokens | None = field(default_factory=Tokens)
    raw_usage: Mapping[str, Any] | None = None  # stands in the usage field as it is
    finish: str = ""  # the dialect's own word; "" = implied by the parts
    model: str = ""  # "" = the model asked for
    id: str = ""  # "" = made from the request's number
    extra: Mapping[str, Any] = field(default_factory=dict)  # merged into the whole answer, or every stream payload
    streamed: bool | None = None  # None = as asked
    usage_place: UsagePlace = UsagePlace.OWN_CHUNK
    usage_if_asked: bool = True  # chat: usage only when stream_options.include_usage is true
    interleaved: bool = False  # argument pieces of parallel tool calls alternate
    pings: bool = True  # Anthropic: a ping behind message_start
    done: bool = True  # chat: the [DONE] event
    complete: bool = True  # False = nothing behind the content: no finish, no end event
    error: WireError | None = None
    error_after: int = 0  # content events before the error; -1 = it stands before any opening event

    def tool_id(self, number: int) -> str:
        call = self.parts[number]
        assert isinstance(call, ToolCall)
        return call.id or f"call_{number}"

    def has_tools(self) -> bool:
        return any(isinstance(part, ToolCall) for part in self.parts)


class EventKind(StrEnum):
    OPENING = "opening"
    CONTENT = "content"
    ENDING = "ending"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event before framing; name "" = no event: line."""

    kind: EventKind
    data: bytes
    name: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """What a request asks for, as far as an answer depends on it."""

    kind: str  # see paths.Kind
    number: int  # of the request at this server, from 1
    model: str
    stream: bool
    include_usage: bool
    body: Any  # parsed JSON, or None
    sse: bool = True  # False = Gemini without alt=sse
    item: str = ""  # an id in the path

    def identity(self, answer: Answer, prefix: str) -> str:
        return answer.id or f"{prefix}fake{self.number}"


def event(kind: EventKind, payload: Mapping[str, Any], name: str = "") -> Event:
    return Event(kind, orjson.dumps(payload), name)


def with_error(events: Iterable[Event], answer: Answer, error: Iterable[Event]) -> list[Event]:
    """Cut the stream where the answer's error stands, and put the error there.

    An answer that is not complete loses what follows its content.
    """
    if answer.error is None:
        return [one for one in events if answer.complete or one.kind is not EventKind.ENDING]
    if answer.error_after < 0:
        return list(error)
    kept: list[Event] = []
    content = 0
    for one in events:
        if one.kind is EventKind.CONTENT:
            content += 1
        if content > answer.error_after or one.kind is EventKind.ENDING:
            break
        kept.append(one)
    return [*kept, *error]


def alternate(rows: Iterable[Iterable[Event]], *, interleaved: bool) -> Iterator[Event]:
    """Yield the rows one behind the other, or their events in turn."""
    if not interleaved:
        for row in rows:
            yield from row
        return
    for turn in zip_longest(*rows):
        yield from (one for one in turn if one is not None)
