"""openai-python: chat completions and Responses."""

from collections.abc import Mapping
from typing import Any

import openai

from tests.factories import World
from tests.gateway import Door
from tests.proxy.dialects.speaking import (
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
    parsed,
)


def client_of(door: Door, world: World, ears: Ears) -> openai.OpenAI:
    http = openai.DefaultHttpxClient(**ears.options)
    return openai.OpenAI(base_url=f"{door.url}/v1", api_key=world.secret, max_retries=0, http_client=http)


class Chat(Speaker):
    name = "openai chat"

    def ask(self, door: Door, world: World, question: Question, *, stream: bool = False, **more: Any) -> Heard:
        asked: dict[str, Any] = {"model": MODEL, "messages": self.messages(question), **more}
        if question.tools:
            asked["tools"] = [
                {"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in question.tools
            ]
        ears = Ears()
        with client_of(door, world, ears) as client:
            if stream:
                options = {"include_usage": True}
                chunks = list(client.chat.completions.create(**asked, stream=True, stream_options=options))
                return self.gathered(chunks, ears.heard)
            got = client.chat.completions.create(**asked)
            return self.heard(got, ears.heard)

    def messages(self, question: Question) -> list[Any]:
        content: Any = question.text
        if question.image:
            url = f"data:image/png;base64,{base64_of(question.image)}"
            content = [{"type": "text", "text": question.text}, {"type": "image_url", "image_url": {"url": url}}]
        messages: list[Any] = [{"role": "system", "content": question.system}] if question.system else []
        messages.append({"role": "user", "content": content})
        if question.answered is not None:
            messages.append(question.answered.native)
            for call, result in zip(question.answered.calls, question.results, strict=True):
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        return messages

    def heard(self, got: Any, headers: Mapping[str, str]) -> Heard:
        choice = got.choices[0]
        calls = tuple(
            Called(c.id, c.function.name, parsed(c.function.arguments)) for c in choice.message.tool_calls or []
        )
        return Heard(
            text=choice.message.content or "",
            thinking=getattr(choice.message, "reasoning_content", "") or "",
            calls=calls,
            stop=choice.finish_reason,
            usage=counted(got.usage),
            model=got.model,
            native=choice.message.model_dump(exclude_none=True),
            headers=headers,
        )

    def gathered(self, chunks: list[Any], headers: Mapping[str, str]) -> Heard:
        choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
        made: dict[int, dict[str, str]] = {}
        for piece in (piece for choice in choices for piece in choice.delta.tool_calls or []):
            call = made.setdefault(piece.index, {"id": "", "name": "", "arguments": ""})
            call["id"] += piece.id or ""
            call["name"] += piece.function.name or ""
            call["arguments"] += piece.function.arguments or ""
        calls = [made[index] for index in sorted(made)]
        text = joined([choice.delta.content for choice in choices])
        native: dict[str, Any] = {"role": "assistant", "content": text or None}
        if calls:
            native["tool_calls"] = [
                {
                    "id": call["id"],
                    "type": "function",
                    "function": {"name": call["name"], "arguments": call["arguments"]},
                }
                for call in calls
            ]
        stops = [choice.finish_reason for choice in choices if choice.finish_reason]
        assert len(stops) <= 1, stops
        usages = [chunk.usage for chunk in chunks if chunk.usage]
        return Heard(
            text=text,
            thinking=joined([getattr(choice.delta, "reasoning_content", None) for choice in choices]),
            calls=tuple(Called(call["id"], call["name"], parsed(call["arguments"])) for call in calls),
            stop=stops[0] if stops else None,
            usage=counted(usages[-1]) if usages else None,
            model=one({chunk.model for chunk in chunks}),
            native=native,
            headers=headers,
        )


def counted(usage: Any) -> Counted | None:
    if usage is None:
        return None
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    details = usage.prompt_tokens_details
    return Counted(usage.prompt_tokens, usage.completion_tokens, (details.cached_tokens if details else 0) or 0)


def one(values: set[str]) -> str:
    (value,) = values
    return value


class Responses(Speaker):
    name = "openai responses"

    def ask(self, door: Door, world: World, question: Question, *, stream: bool = False, **more: Any) -> Heard:
        asked: dict[str, Any] = {"model": MODEL, "input": self.items(question), "store": False, **more}
        if question.system:
            asked["instructions"] = question.system
        if question.tools:
            asked["tools"] = [
                {"type": "function", "name": name, "parameters": SCHEMA, "strict": False} for name in question.tools
            ]
        ears = Ears()
        with client_of(door, world, ears) as client:
            if not stream:
                return self.heard(client.responses.create(**asked), ears.heard)
            events = list(client.responses.create(**asked, stream=True))
            return self.gathered(events, ears.heard)

    def items(self, question: Question) -> list[Any]:
        content: list[Any] = [{"type": "input_text", "text": question.text}]
        if question.image:
            url = f"data:image/png;base64,{base64_of(question.image)}"
            content.append({"type": "input_image", "image_url": url, "detail": "auto"})
        items: list[Any] = [{"role": "user", "content": content}]
        if question.answered is not None:
            items += question.answered.native
            for call, result in zip(question.answered.calls, question.results, strict=True):
                items.append({"type": "function_call_output", "call_id": call.id, "output": result})
        return items

    def heard(self, got: Any, headers: Mapping[str, str]) -> Heard:
        thoughts = [part.text for item in got.output if item.type == "reasoning" for part in item.summary]
        calls = [item for item in got.output if item.type == "function_call"]
        reason = got.incomplete_details.reason if got.incomplete_details else None
        usage = got.usage
        if usage is not None:
            assert usage.total_tokens == usage.input_tokens + usage.output_tokens
        return Heard(
            text=got.output_text,
            thinking=joined(thoughts),
            calls=tuple(Called(call.call_id, call.name, parsed(call.arguments)) for call in calls),
            stop=f"{got.status}:{reason}" if reason else got.status,
            usage=usage and Counted(usage.input_tokens, usage.output_tokens, usage.input_tokens_details.cached_tokens),
            model=got.model,
            native=[item.model_dump(exclude_none=True) for item in got.output],
            headers=headers,
        )

    def gathered(self, events: list[Any], headers: Mapping[str, str]) -> Heard:
        """The last event holds the whole answer; the pieces must say the same."""
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert events[0].type == "response.created"
        ends = [event for event in events if event.type in ("response.completed", "response.incomplete")]
        assert ends == events[-1:], [event.type for event in events]
        heard = self.heard(ends[0].response, headers)
        assert joined([e.delta for e in events if e.type == "response.output_text.delta"]) == heard.text
        pieces: dict[int, str] = {}
        for event in events:
            if event.type == "response.function_call_arguments.delta":
                pieces[event.output_index] = pieces.get(event.output_index, "") + event.delta
        assert [parsed(pieces[index]) for index in sorted(pieces)] == [call.arguments for call in heard.calls]
        return heard
