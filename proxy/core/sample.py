"""A made-up body with given facts: what a dry run is asked about when nobody has a real request at hand."""

from dataclasses import dataclass
from typing import Any, assert_never

from keys.core.dialect import Dialect
from proxy.core.wire.jsontext import dumps
from routing.core.facts import BYTES_PER_TOKEN

_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_PICTURE = f"data:image/png;base64,{_PIXEL}"
_THINKING_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class Sample:
    """`input_tokens` is reached by padding the text; fewer than the bare body has are not. `max_tokens` None = unsaid.

    `tools` is how many are offered.
    """

    dialect: Dialect
    model: str
    stream: bool = False
    tools: int = 0
    image: bool = False
    thinking: bool = False
    input_tokens: int = 0
    max_tokens: int | None = None


def body_of(sample: Sample) -> dict[str, Any]:
    """Return a body from which the gateway reads just these facts."""
    bare = len(dumps(_body(sample, "")))
    return _body(sample, "x" * max(1, sample.input_tokens * BYTES_PER_TOKEN - bare))


def _body(sample: Sample, text: str) -> dict[str, Any]:
    match sample.dialect:
        case Dialect.OPENAI:
            own = _chat(sample, text)
        case Dialect.RESPONSES:
            own = _responses(sample, text)
        case Dialect.ANTHROPIC:
            own = _anthropic(sample, text)
        case Dialect.GEMINI:
            own = _gemini(sample, text)
        case unknown:
            assert_never(unknown)
    stream = {"stream": True} if sample.stream else {}
    return {"model": sample.model, **own, **stream}


def _chat(sample: Sample, text: str) -> dict[str, Any]:
    image = [{"type": "image_url", "image_url": {"url": _PICTURE}}] if sample.image else []
    function = {"name": "f", "parameters": {"type": "object"}}
    return {
        "messages": [{"role": "user", "content": [{"type": "text", "text": text}, *image]}],
        **({"tools": [{"type": "function", "function": function}] * sample.tools} if sample.tools else {}),
        **({"reasoning_effort": "medium"} if sample.thinking else {}),
        **({"max_completion_tokens": sample.max_tokens} if sample.max_tokens is not None else {}),
    }


def _responses(sample: Sample, text: str) -> dict[str, Any]:
    image = [{"type": "input_image", "image_url": _PICTURE}] if sample.image else []
    tool = {"type": "function", "name": "f", "parameters": {"type": "object"}}
    return {
        "input": [{"role": "user", "content": [{"type": "input_text", "text": text}, *image]}],
        **({"tools": [tool] * sample.tools} if sample.tools else {}),
        **({"reasoning": {"effort": "medium"}} if sample.thinking else {}),
        **({"max_output_tokens": sample.max_tokens} if sample.max_tokens is not None else {}),
    }


def _anthropic(sample: Sample, text: str) -> dict[str, Any]:
    source = {"type": "base64", "media_type": "image/png", "data": _PIXEL}
    image = [{"type": "image", "source": source}] if sample.image else []
    tool = {"name": "f", "input_schema": {"type": "object"}}
    return {
        "messages": [{"role": "user", "content": [{"type": "text", "text": text}, *image]}],
        **({"tools": [tool] * sample.tools} if sample.tools else {}),
        **({"thinking": {"type": "enabled", "budget_tokens": _THINKING_TOKENS}} if sample.thinking else {}),
        **({"max_tokens": sample.max_tokens} if sample.max_tokens is not None else {}),
    }


def _gemini(sample: Sample, text: str) -> dict[str, Any]:
    image = [{"inlineData": {"mimeType": "image/png", "data": _PIXEL}}] if sample.image else []
    config: dict[str, Any] = {
        **({"thinkingConfig": {"thinkingBudget": _THINKING_TOKENS}} if sample.thinking else {}),
        **({"maxOutputTokens": sample.max_tokens} if sample.max_tokens is not None else {}),
    }
    return {
        "contents": [{"role": "user", "parts": [{"text": text}, *image]}],
        **({"tools": [{"functionDeclarations": [{"name": "f"}] * sample.tools}]} if sample.tools else {}),
        **({"generationConfig": config} if config else {}),
    }
