"""Builders of usage reports, and of the usage expected from them."""

from decimal import Decimal

from billing.core.usage import Usage, UsageMeter, UsageSource
from keys.core.dialect import Dialect

OPENAI, RESPONSES, ANTHROPIC, GEMINI = Dialect.OPENAI, Dialect.RESPONSES, Dialect.ANTHROPIC, Dialect.GEMINI


def usage(
    tokens: tuple[int | None, ...], *flags: str, source: UsageSource = UsageSource.UPSTREAM, cost: str | None = None
) -> Usage:
    """`tokens` in the order of the dataclass: input, cached, write, write 1 h, output, reasoning."""
    return Usage(*tokens, source, flags, None if cost is None else Decimal(cost))


def chat(content: str | None = "ok", **reported) -> dict:
    return {"object": "chat.completion", "choices": [{"message": {"content": content}}], "usage": reported}


def message(**reported) -> dict:
    return {"type": "message", "content": [{"type": "text", "text": "ok"}], "usage": reported}


def gemini(parts: list | None = None, **reported) -> dict:
    return {"candidates": [{"content": {"parts": parts or []}}], "usageMetadata": reported}


def read(dialect: Dialect, *events: dict, semantics: str = "") -> Usage | None:
    meter = UsageMeter(dialect, semantics)
    for event in events:
        meter.feed(event)
    return meter.result()


def chunk(usage: dict | None, finish: str | None = None, **more) -> dict:
    return {
        "object": "chat.completion.chunk",
        "choices": [{"delta": {"content": "a"}, "finish_reason": finish}],
        "usage": usage,
        **more,
    }


def start(**reported) -> dict:
    return {"type": "message_start", "message": {"usage": reported}}


def delta(**reported) -> dict:
    return {"type": "message_delta", "delta": {}, "usage": reported}
