"""What routing rules set, under the names that the request's own dialect has for it.

A rule is written once for all dialects: `max_tokens` in it means what the condition of that name means.
"""

from collections.abc import Mapping
from typing import Any, Final

from keys.core.dialect import Dialect

_COUNTS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")
# Gemini keeps these inside one object.
_GENERATION: Final = {
    **dict.fromkeys(_COUNTS, "maxOutputTokens"),
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "seed": "seed",
    "stop": "stopSequences",
}


def ruled(dialect: Dialect, payload: Mapping[str, Any], values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the members to set at the top of the body. Where a client's own spelling stands there, that one is set."""
    if not values:
        return values
    match dialect:
        case Dialect.GEMINI:
            return _for_gemini(payload, values)
        case Dialect.RESPONSES:
            count = "max_output_tokens"
        case Dialect.ANTHROPIC:
            count = "max_tokens"
        case Dialect.OPENAI:
            count = "max_completion_tokens" if "max_completion_tokens" in payload else "max_tokens"
    return {count if name in _COUNTS else name: value for name, value in values.items()}


def _for_gemini(payload: Mapping[str, Any], values: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = {_GENERATION[name]: value for name, value in values.items() if name in _GENERATION}
    outer = {name: value for name, value in values.items() if name not in _GENERATION}
    if not inner:
        return outer
    if isinstance(inner.get("stopSequences"), str):
        inner["stopSequences"] = [inner["stopSequences"]]
    name = "generation_config" if "generation_config" in payload else "generationConfig"
    known = payload.get(name)
    kept = dict(known) if isinstance(known, Mapping) else {}
    for snake, camel in (("max_output_tokens", "maxOutputTokens"), ("top_p", "topP"), ("top_k", "topK")):
        if camel in inner:
            kept.pop(snake, None)
    return {**outer, name: {**kept, **inner}}
