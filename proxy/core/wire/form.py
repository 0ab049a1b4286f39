"""The internal form: one neutral value for a request or an answer, between any two dialects.

Reading a dialect gives a form, writing a form gives another dialect. A form keeps everything that at least two
dialects know. What one side alone knows is listed as dropped when the call works without it; when its loss would
change what is asked, reading or writing raises Untranslatable.
"""

import re
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any

from billing.core.usage import Usage
from keys.core.dialect import Dialect
from tenants.core.values import valueclass

Body = dict[str, Any]


class Untranslatable(ValueError):
    """A request that the other dialect cannot express. `field` is a path in the client's body."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"'{field}' {why}")
        self.field = field
        self.why = why


class BrokenAnswer(ValueError):
    """An upstream's answer that is no answer in its own dialect, or says that generating failed."""


_UNPRINTABLE = re.compile(r"[^!#-+\--~]")  # what a list in a header cannot hold: controls, blanks, commas, quotes
_LONGEST_NAME = 80
_MOST_NAMES = 40


class Drops:
    """Names of what is left out, in order, each once. Clients make up names: what a header cannot hold becomes `_`."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}

    def add(self, name: str) -> None:
        if len(self._names) < _MOST_NAMES:
            self._names.setdefault(_UNPRINTABLE.sub("_", name[:_LONGEST_NAME]))

    def extend(self, body: Mapping[str, Any], known: frozenset[str], prefix: str = "") -> None:
        """List the members that are not known and not empty: False, null and empties ask for nothing."""
        for name, value in body.items():
            if name not in known and value is not None and value is not False and value not in ("", [], {}):
                self.add(prefix + name)

    def listed(self) -> tuple[str, ...]:
        return tuple(self._names)


@valueclass(frozen=True, slots=True)
class Signature:
    """A provider's proof over its own thinking; meaningless anywhere else.

    `redacted`: the thought itself is in it, unreadable (Anthropic's redacted_thinking).
    """

    origin: Dialect
    value: str
    redacted: bool = False


@valueclass(frozen=True, slots=True)
class CacheMark:
    """End of a cacheable prefix. `ttl` is `5m` or `1h`; None = the provider's default."""

    ttl: str | None = None


@valueclass(frozen=True, slots=True)
class Citation:
    """A web source. `start` and `end` are character offsets in the text it belongs to, None when unknown."""

    url: str
    title: str = ""
    cited: str = ""
    start: int | None = None
    end: int | None = None


@valueclass(frozen=True, slots=True)
class Text:
    text: str
    cache: CacheMark | None = None
    citations: tuple[Citation, ...] = ()
    signature: Signature | None = None


@valueclass(frozen=True, slots=True)
class Media:
    """An image, document or sound: base64 `data` with a media type, or a `url`. `at` is its path in the body."""

    kind: str  # image | document | audio | video
    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    name: str | None = None
    detail: str | None = None
    cache: CacheMark | None = None
    at: str = field(default="", compare=False)


@valueclass(frozen=True, slots=True)
class Thinking:
    text: str
    signature: Signature | None = None


@valueclass(frozen=True, slots=True)
class Refusal:
    text: str


@valueclass(frozen=True, slots=True)
class ToolCall:
    """`arguments` is JSON text as the model wrote it; plain text when `custom`."""

    id: str
    name: str
    arguments: str
    signature: Signature | None = None
    cache: CacheMark | None = None
    custom: bool = False


@valueclass(frozen=True, slots=True)
class ToolResult:
    call_id: str
    name: str
    parts: tuple[Text | Media, ...]
    is_error: bool = False
    cache: CacheMark | None = None
    custom: bool = False


Part = Text | Media | Thinking | Refusal | ToolCall | ToolResult


@valueclass(frozen=True, slots=True)
class Message:
    """`role` is system, developer, user or assistant. Tool results are parts of a user's message, first in it."""

    role: str
    parts: tuple[Part, ...]


@valueclass(frozen=True, slots=True)
class Tool:
    """`custom`: takes free text instead of JSON arguments (`schema` None)."""

    name: str
    description: str = ""
    schema: Body | None = None
    strict: bool | None = None
    cache: CacheMark | None = None
    custom: bool = False


@valueclass(frozen=True, slots=True)
class ToolChoice:
    """`mode` is auto, any or none. `names`, when given, are the only tools that may be called."""

    mode: str
    names: tuple[str, ...] = ()


@valueclass(frozen=True, slots=True)
class Reasoning:
    """`effort` is none, minimal, low, medium, high, xhigh or max; `budget` counts tokens. `visible` None = not said."""

    effort: str | None = None
    budget: int | None = None
    visible: bool | None = None

    @property
    def off(self) -> bool:
        return self.effort == "none"


@valueclass(frozen=True, slots=True)
class Format:
    """`schema` None = any JSON object."""

    schema: Body | None = None
    name: str = "answer"
    strict: bool | None = None


@valueclass(frozen=True, slots=True)
class Sampling:
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None


@valueclass(frozen=True, slots=True)
class Request:
    """`source` is the dialect it was read from; `dropped` what reading left out, in that dialect's names."""

    source: Dialect
    model: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel: bool | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    sampling: Sampling = Sampling()
    reasoning: Reasoning | None = None
    format: Format | None = None
    verbosity: str | None = None
    user: str | None = None
    cache_key: str | None = None
    stream: bool = False
    include_usage: bool = False
    dropped: tuple[str, ...] = ()

    @property
    def custom_tools(self) -> frozenset[str]:
        """Names of the tools that take free text."""
        return frozenset(tool.name for tool in self.tools if tool.custom)


class Stop(StrEnum):
    """Why an answer ended, by the provider's own word."""

    END = "end"
    MAX_TOKENS = "max_tokens"
    STOP_SEQUENCE = "stop_sequence"
    TOOL_USE = "tool_use"
    FILTER = "filter"  # refused or cut by the provider
    PAUSE = "pause"  # a hosted tool's turn; the client sends the history again
    CONTEXT = "context"  # the context window is full


@valueclass(frozen=True, slots=True)
class Answer:
    """A whole answer. `created` is unix seconds, 0 when the dialect does not tell."""

    id: str
    model: str
    parts: tuple[Part, ...]
    stop: Stop
    stop_sequence: str | None = None
    usage: Usage | None = None
    created: int = 0


# What a concept is called in the body of the client, for lists and refusals.
FIELD_NAMES: Mapping[Dialect, Mapping[str, str]] = {
    Dialect.OPENAI: {
        "format": "response_format",
        "reasoning": "reasoning_effort",
        "max_tokens": "max_tokens",
        "parallel": "parallel_tool_calls",
        "thinking": "messages.reasoning_content",
        "cache_key": "prompt_cache_key",
        "is_error": "messages.is_error",
    },
    Dialect.RESPONSES: {
        "format": "text.format",
        "verbosity": "text.verbosity",
        "max_tokens": "max_output_tokens",
        "parallel": "parallel_tool_calls",
        "thinking": "input.reasoning",
        "cache_key": "prompt_cache_key",
        "is_error": "input.is_error",
    },
    Dialect.ANTHROPIC: {
        "format": "output_config.format",
        "reasoning": "thinking",
        "effort": "output_config.effort",
        "stop": "stop_sequences",
        "parallel": "tool_choice.disable_parallel_tool_use",
        "user": "metadata.user_id",
        "thinking": "messages.thinking",
        "is_error": "tool_result.is_error",
    },
    Dialect.GEMINI: {
        "format": "generationConfig.responseSchema",
        "reasoning": "generationConfig.thinkingConfig",
        "max_tokens": "generationConfig.maxOutputTokens",
        "stop": "generationConfig.stopSequences",
        "temperature": "generationConfig.temperature",
        "top_p": "generationConfig.topP",
        "top_k": "generationConfig.topK",
        "seed": "generationConfig.seed",
        "frequency_penalty": "generationConfig.frequencyPenalty",
        "presence_penalty": "generationConfig.presencePenalty",
        "tool_choice": "toolConfig.functionCallingConfig",
        "thinking": "contents.thought",
        "is_error": "functionResponse.error",
    },
}


def field_name(source: Dialect, concept: str) -> str:
    """The client's name of a concept."""
    return FIELD_NAMES[source].get(concept, concept)
