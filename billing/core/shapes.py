"""Where each dialect puts its usage, and under which names.

A usage report becomes a `Reading`: whole counts under our own field names, before any arithmetic. Names are data;
what a provider adds to or leaves out of its numbers is decided in `usage.py`.
Sources: the providers' API references and relays' sources, November 2026.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from keys.core.dialect import Dialect

MAX_TOKENS = 100_000_000  # more in one call is a fault of the report
MAX_COST_USD = Decimal(1_000_000)
_USD_PER_TICK = Decimal("1E-10")

_Paths = tuple[tuple[str, ...], ...]


def _paths(*dotted: str) -> _Paths:
    return tuple(tuple(path.split(".")) for path in dotted)


# Each field's names, best first: the first non-zero count wins.
_OPENAI: Mapping[str, _Paths] = {
    "input": _paths("prompt_tokens", "input_tokens"),
    "output": _paths("completion_tokens", "output_tokens"),
    "total": _paths("total_tokens"),
    "cached": _paths(
        "prompt_tokens_details.cached_tokens",
        "input_tokens_details.cached_tokens",
        "input_token_details.cached_tokens",
        "cached_tokens",  # Moonshot
        "prompt_cache_hit_tokens",  # DeepSeek
        "cache_read_input_tokens",  # Anthropic's name in OpenAI's shape
        "prompt_tokens_details.cache_read_input_tokens",
        "num_cached_tokens",
    ),
    "missed": _paths("prompt_cache_miss_tokens"),
    "write": _paths(
        "prompt_tokens_details.cache_write_tokens",  # OpenRouter
        "input_tokens_details.cache_write_tokens",
        "prompt_tokens_details.cached_creation_tokens",  # new-api
        "input_tokens_details.cached_creation_tokens",
        "prompt_tokens_details.cache_creation_input_tokens",  # DashScope
        "prompt_tokens_details.cache_creation_tokens",  # LiteLLM
        "cache_creation_input_tokens",
        "cached_creation_tokens",
        "cache_write_tokens",
    ),
    "write_5m": _paths(
        "prompt_tokens_details.cache_creation.ephemeral_5m_input_tokens",
        "prompt_tokens_details.cache_creation_token_details.ephemeral_5m_input_tokens",
        "cache_creation.ephemeral_5m_input_tokens",
        "claude_cache_creation_5_m_tokens",  # new-api
    ),
    "write_1h": _paths(
        "prompt_tokens_details.cache_creation.ephemeral_1h_input_tokens",
        "prompt_tokens_details.cache_creation_token_details.ephemeral_1h_input_tokens",
        "cache_creation.ephemeral_1h_input_tokens",
        "claude_cache_creation_1_h_tokens",
    ),
    "reasoning": _paths(
        "completion_tokens_details.reasoning_tokens",
        "output_tokens_details.reasoning_tokens",
        "output_tokens_details.thinking_tokens",
        "reasoning_tokens",  # SGLang, Perplexity
    ),
}
_ANTHROPIC: Mapping[str, _Paths] = {
    "input": _paths("input_tokens"),
    "output": _paths("output_tokens"),
    "cached": _paths("cache_read_input_tokens"),
    "write": _paths("cache_creation_input_tokens"),
    "write_5m": _paths("cache_creation.ephemeral_5m_input_tokens"),
    "write_1h": _paths("cache_creation.ephemeral_1h_input_tokens"),
    "reasoning": _paths("output_tokens_details.thinking_tokens", "output_tokens_details.reasoning_tokens"),
}
_GEMINI: Mapping[str, _Paths] = {
    "input": _paths("promptTokenCount", "prompt_token_count"),
    "tool": _paths("toolUsePromptTokenCount", "tool_use_prompt_token_count"),
    "output": _paths("candidatesTokenCount", "candidates_token_count", "responseTokenCount"),
    "total": _paths("totalTokenCount", "total_token_count"),
    "cached": _paths("cachedContentTokenCount", "cached_content_token_count"),
    "reasoning": _paths("thoughtsTokenCount", "thoughts_token_count"),
}
_OPENING_EVENTS = ("message_start", "response.created", "response.queued", "response.in_progress")


@dataclass(frozen=True, slots=True)
class Reading:
    """One usage report. `counts` has only valid numbers; `bad` names fields that held anything else but null.

    `opening`: from an event before the answer, where output is provisional and zeros mean "not yet".
    `early`: from a chunk that ends nothing; zeros mean "not yet" as well.
    `exclusive`: the report itself says that its input leaves the caches out.
    `silent`: the kind of answer has no output tokens (embeddings, rerank, a blocked prompt).
    `spoke`: this very payload carries content.
    """

    counts: Mapping[str, int]
    bad: frozenset[str] = frozenset()
    cost_usd: Decimal | None = None
    opening: bool = False
    early: bool = False
    exclusive: bool = False
    silent: bool = False
    spoke: bool = False


def readings(dialect: Dialect, payload: Mapping[str, Any]) -> Iterator[Reading]:
    """Yield the usage reports in one answer or stream event as parsed from JSON, the most authoritative one last."""
    if dialect is Dialect.GEMINI:
        yield from _gemini_readings(payload)
    elif dialect is Dialect.ANTHROPIC:
        yield from _anthropic_readings(payload)
    else:
        yield from _openai_readings(payload)


def count(value: object) -> int | None:
    """Return a believable token count; None for a bool, float, string, negative or absurd number."""
    if type(value) is int and 0 <= value <= MAX_TOKENS:
        return value
    return None


def _openai_readings(payload: Mapping[str, Any]) -> Iterator[Reading]:
    response = _mapping(payload.get("response"))
    choices = _mappings(payload.get("choices"))
    holders = (_mapping(payload.get("x_groq")), *choices, response, payload)  # Groq; Moonshot; Responses; the rest
    early = any("delta" in choice for choice in choices) and not any(choice.get("finish_reason") for choice in choices)
    for usage in _mappings([holder.get("usage") for holder in holders]):
        counts, bad = _counts(usage, _OPENAI)
        cost_usd, bad_cost = _cost(usage)
        yield Reading(
            counts,
            bad | bad_cost,
            cost_usd,
            opening=payload.get("type") in _OPENING_EVENTS,
            early=early,
            exclusive=usage.get("usage_semantic") == "anthropic" or _is_anthropic_shaped(usage),
            silent=not choices and any(isinstance(payload.get(name), list) for name in ("data", "results")),
            spoke=any(_choice_spoke(choice) for choice in choices),
        )


def _anthropic_readings(payload: Mapping[str, Any]) -> Iterator[Reading]:
    message = _mapping(payload.get("message"))
    for usage in _mappings([message.get("usage"), payload.get("usage")]):
        counts, bad = _counts(usage, _ANTHROPIC)
        cost_usd, bad_cost = _cost(usage)
        # Billed, and not in the top level. The other types repeat it, or have another model's price.
        for entry in (one for one in _mappings(usage.get("iterations")) if one.get("type") == "compaction"):
            more, more_bad = _counts(entry, _ANTHROPIC)
            bad |= {f"compaction_{name}" for name in more_bad}
            for name, tokens in more.items():
                counts[f"compaction_{name}"] = counts.get(f"compaction_{name}", 0) + tokens
        yield Reading(counts, bad | bad_cost, cost_usd, opening=payload.get("type") in _OPENING_EVENTS)


def _gemini_readings(payload: Mapping[str, Any]) -> Iterator[Reading]:
    chunk = _mapping(payload.get("response")) or payload  # Cloud Code wraps each chunk
    blocked = bool(_mapping(chunk.get("promptFeedback")).get("blockReason"))
    candidates = _mappings(chunk.get("candidates"))
    for usage in _mappings([chunk.get("usage_metadata"), chunk.get("usageMetadata")]):
        counts, bad = _counts(usage, _GEMINI)
        yield Reading(
            counts,
            bad,
            silent=blocked or "embedding" in chunk or "embeddings" in chunk,
            spoke=any(any(_mappings(_mapping(c.get("content")).get("parts"))) for c in candidates),
        )


def _counts(usage: Mapping[str, Any], names: Mapping[str, _Paths]) -> tuple[dict[str, int], frozenset[str]]:
    counts: dict[str, int] = {}
    bad: set[str] = set()
    for name, paths in names.items():
        for path in paths:
            value = _at(usage, path) if path[0] in usage else None
            if value is None:
                continue
            tokens = count(value)
            if tokens is None:
                bad.add(name)
            else:
                counts[name] = counts.get(name) or tokens
    return counts, frozenset(bad)


def _cost(usage: Mapping[str, Any]) -> tuple[Decimal | None, frozenset[str]]:
    """Return the stated cost in USD, and {"cost"} when one was stated that cannot be believed."""
    unit, stated = _USD_PER_TICK, usage.get("cost_in_usd_ticks")  # xAI
    if stated is None:
        unit, stated = Decimal(1), usage.get("cost")
    if isinstance(stated, dict):  # Perplexity
        stated = stated.get("total_cost")
    if stated is None:
        return None, frozenset()
    fee = _money(stated, unit)
    if fee is None:
        return None, frozenset({"cost"})
    if usage.get("is_byok") is True:  # OpenRouter: `cost` is only its fee
        fee += _money(_at(usage, ("cost_details", "upstream_inference_cost")), unit) or 0
    return fee, frozenset()


def _money(value: object, unit: Decimal) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value <= MAX_COST_USD / unit:  # false for a NaN, too
        return None
    return Decimal(str(value)) * unit


def _is_anthropic_shaped(usage: Mapping[str, Any]) -> bool:
    """True for Anthropic's usage object passed through as it is: no total that could tell, and Anthropic's names."""
    if "prompt_tokens" in usage or "total_tokens" in usage:
        return False
    return "cache_read_input_tokens" in usage or "cache_creation_input_tokens" in usage


def _choice_spoke(choice: Mapping[str, Any]) -> bool:
    said = _mapping(choice.get("message")) or _mapping(choice.get("delta"))
    return bool(choice.get("text") or any(said.get(name) for name in ("content", "reasoning_content", "tool_calls")))


def _at(usage: Mapping[str, Any], path: Iterable[str]) -> object:
    value: Any = usage
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
