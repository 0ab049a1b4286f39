"""One way to talk to the gateway through each official SDK, so that a test can be written once for all of them.

A `Question` is put by a `Speaker` in its SDK's own terms, streamed or not; what the SDK made of the answer comes back
as `Heard`. Stop reasons and ids stay the client's own words; token counts are brought to one meaning (see `Counted`).
"""

import base64
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.factories import World
from tests.gateway import NO_CERTIFICATES, Door

MODEL = "any-model"
MAX_TOKENS = 500
SCHEMA: Mapping[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@dataclass(frozen=True)
class Called:
    id: str
    name: str
    arguments: Any


@dataclass(frozen=True)
class Counted:
    """`input` counts all of the prompt, cached parts included; `output` all that was generated."""

    input: int
    output: int
    cached: int


@dataclass(frozen=True)
class Heard:
    """`native` is what the SDK would have the client send back as the assistant's turn."""

    text: str = ""
    thinking: str = ""
    calls: tuple[Called, ...] = ()
    stop: str | None = None
    usage: Counted | None = None
    model: str = ""
    native: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """`answered` and `results` (texts, in the order of its calls) make it the second turn of a tool's use."""

    text: str = "What is the weather?"
    system: str = ""
    image: bytes = b""
    tools: Sequence[str] = ()
    answered: Heard | None = None
    results: Sequence[str] = ()


class Speaker(ABC):
    """A client of one dialect. `more` are arguments of the SDK's own call."""

    name: str

    @abstractmethod
    def ask(self, door: Door, world: World, question: Question, *, stream: bool = False, **more: Any) -> Heard:
        """Raises what the SDK raises."""


class Ears:
    """Keeps the head of the last answer. `options` are those of an HTTP client; the SDKs bring different ones."""

    def __init__(self) -> None:
        self.heard: Mapping[str, str] = {}
        self.options: Any = {
            "verify": NO_CERTIFICATES,
            "trust_env": False,
            "timeout": 20,
            "event_hooks": {"response": [self._hear]},
        }

    def _hear(self, response: Any) -> None:
        self.heard = response.headers


def base64_of(image: bytes) -> str:
    return base64.b64encode(image).decode()


def parsed(arguments: str) -> Any:
    return json.loads(arguments)


def joined(texts: Iterator[str | None] | Sequence[str | None]) -> str:
    return "".join(text for text in texts if text)
