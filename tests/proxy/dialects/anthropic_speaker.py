"""anthropic-python: messages."""

from collections.abc import Mapping
from typing import Any

import anthropic

from tests.factories import World
from tests.gateway import Door
from tests.proxy.dialects.speaking import (
    MAX_TOKENS,
    MODEL,
    SCHEMA,
    Called,
    Counted,
    Ears,
    Heard,
    Question,
    Speaker,
    base64_of,
    joined,
)


def client_of(door: Door, world: World, ears: Ears) -> anthropic.Anthropic:
    http = anthropic.DefaultHttpxClient(**ears.options)
    return anthropic.Anthropic(base_url=door.url, api_key=world.secret, max_retries=0, http_client=http)


class Messages(Speaker):
    name = "anthropic messages"

    def ask(self, door: Door, world: World, question: Question, *, stream: bool = False, **more: Any) -> Heard:
        asked: dict[str, Any] = {
            "model": MODEL,
            "max_tokens": MAX_TOKENS,
            "messages": self.messages(question),
            **({"system": question.system} if question.system else {}),
            **more,
        }
        if question.tools:
            asked["tools"] = [{"name": name, "input_schema": SCHEMA} for name in question.tools]
        ears = Ears()
        with client_of(door, world, ears) as client:
            if not stream:
                return self.heard(client.messages.create(**asked), ears.heard)
            with client.messages.stream(**asked) as events:
                kinds = [event.type for event in events]
                heard = self.heard(events.get_final_message(), ears.heard)
            assert kinds.count("message_start") == 1
            assert kinds[-1] == "message_stop", kinds
            return heard

    def messages(self, question: Question) -> list[Any]:
        content: Any = question.text
        if question.image:
            source = {"type": "base64", "media_type": "image/png", "data": base64_of(question.image)}
            content = [{"type": "image", "source": source}, {"type": "text", "text": question.text}]
        messages: list[Any] = [{"role": "user", "content": content}]
        if question.answered is not None:
            results = [
                {"type": "tool_result", "tool_use_id": call.id, "content": result}
                for call, result in zip(question.answered.calls, question.results, strict=True)
            ]
            messages += [
                {"role": "assistant", "content": question.answered.native},
                {"role": "user", "content": results},
            ]
        return messages

    def heard(self, got: Any, headers: Mapping[str, str]) -> Heard:
        usage = got.usage
        counted = None
        if usage.input_tokens is not None:  # a relay may leave out what the SDK's types promise
            cached = usage.cache_read_input_tokens or 0
            all_input = usage.input_tokens + cached + (usage.cache_creation_input_tokens or 0)
            counted = Counted(all_input, usage.output_tokens, cached)
        return Heard(
            text=joined([block.text for block in got.content if block.type == "text"]),
            thinking=joined([block.thinking for block in got.content if block.type == "thinking"]),
            calls=tuple(Called(b.id, b.name, b.input) for b in got.content if b.type == "tool_use"),
            stop=got.stop_reason,
            usage=counted,
            model=got.model,
            native=[block.model_dump(exclude_none=True, exclude={"parsed_output"}) for block in got.content],
            headers=headers,
        )
