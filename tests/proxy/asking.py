"""One question through the official OpenAI SDK, streamed or not, as the tests of the corridor ask it."""

from dataclasses import dataclass
from typing import Any

import httpx

from tests.factories import World
from tests.gateway import MESSAGES, Door


@dataclass(frozen=True)
class Said:
    """What the SDK made of the answer. `usages` are those of all chunks, or of the whole answer."""

    text: str
    finish: str | None
    models: set[str]
    usages: list[Any]
    headers: httpx.Headers


def ask(door: Door, world: World, *, stream: bool = False, **fields: Any) -> Said:
    """Ask; raises what the SDK raises. Every chunk must have a choice, as clients index it without looking."""
    with door.openai(world) as client:
        asked: Any = {"model": "gpt-4o", "messages": MESSAGES, "stream": stream, **fields}
        raw = client.chat.completions.with_raw_response.create(**asked)
        parsed: Any = raw.parse()
        headers = httpx.Headers(raw.headers)
        if not stream:
            choice = parsed.choices[0]
            return Said(choice.message.content, choice.finish_reason, {parsed.model}, [parsed.usage], headers)
        chunks = list(parsed)
    wants_usage = bool((fields.get("stream_options") or {}).get("include_usage"))
    choices = [chunk.choices[0] for chunk in chunks if chunk.choices or not wants_usage]
    return Said(
        text="".join(choice.delta.content or "" for choice in choices),
        finish=choices[-1].finish_reason,
        models={chunk.model for chunk in chunks},
        usages=[chunk.usage for chunk in chunks if chunk.usage],
        headers=headers,
    )
