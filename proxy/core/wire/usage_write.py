"""Token counts in the words of each dialect. What is unknown is left out where the dialect allows it."""

from billing.core.usage import Usage
from proxy.core.wire.form import Body


def _sum(*counts: int | None) -> int:
    return sum(count or 0 for count in counts)


def openai_usage(usage: Usage) -> Body:
    """Chat completions: prompt tokens with all cached ones, completion tokens with reasoning."""
    body: Body = {
        "prompt_tokens": usage.input_tokens or 0,
        "completion_tokens": usage.output_tokens or 0,
        "total_tokens": _sum(usage.input_tokens, usage.output_tokens),
        "prompt_tokens_details": _input_details(usage),
    }
    if usage.reasoning_tokens is not None:
        body["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return body


def responses_usage(usage: Usage) -> Body:
    """Responses: the same meaning under other names."""
    return {
        "input_tokens": usage.input_tokens or 0,
        "input_tokens_details": _input_details(usage),
        "output_tokens": usage.output_tokens or 0,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": _sum(usage.input_tokens, usage.output_tokens),
    }


def _input_details(usage: Usage) -> Body:
    written = {"cache_write_tokens": usage.cache_write_tokens} if usage.cache_write_tokens is not None else {}
    return {"cached_tokens": usage.cached_read_tokens or 0, **written}


def anthropic_usage(usage: Usage | None) -> Body:
    """Messages: input tokens without cached reads and writes. The dialect has no way to say unknown: zeros."""
    if usage is None:
        return {"input_tokens": 0, "output_tokens": 0}
    read, written = usage.cached_read_tokens or 0, usage.cache_write_tokens or 0
    body: Body = {
        "input_tokens": max(0, (usage.input_tokens or 0) - read - written),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": usage.output_tokens or 0,
    }
    if usage.cache_write_1h_tokens is not None:
        hour = usage.cache_write_1h_tokens
        body["cache_creation"] = {
            "ephemeral_5m_input_tokens": max(0, written - hour),
            "ephemeral_1h_input_tokens": hour,
        }
    if usage.reasoning_tokens is not None:
        body["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return body


def gemini_usage(usage: Usage) -> Body:
    """generateContent: thoughts stand beside the candidates, not in them."""
    thoughts = usage.reasoning_tokens or 0
    body: Body = {
        "promptTokenCount": usage.input_tokens or 0,
        "candidatesTokenCount": max(0, (usage.output_tokens or 0) - thoughts),
        "totalTokenCount": _sum(usage.input_tokens, usage.output_tokens),
    }
    if usage.cached_read_tokens:
        body["cachedContentTokenCount"] = usage.cached_read_tokens
    if thoughts:
        body["thoughtsTokenCount"] = thoughts
    return body
