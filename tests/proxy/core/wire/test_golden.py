"""Every ordered pair against its file, and all that is written against the SDKs' own types."""

import json
from typing import Any

import pytest
from anthropic.types import Message, RawMessageStreamEvent
from anthropic.types.message_create_params import MessageCreateParams
from google.genai.types import Content, GenerateContentResponse, GenerationConfig, ToolConfig
from google.genai.types import Tool as GeminiTool
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParams
from openai.types.responses import Response, ResponseStreamEvent
from openai.types.responses.response_create_params import ResponseCreateParams
from pydantic import TypeAdapter

from keys.core.dialect import Dialect
from proxy.core.sse import Event, Framer
from proxy.core.wire import reading
from tests.proxy.core.wire.golden_files import PAIRS, path, produce, translated
from tests.proxy.core.wire.stream_samples import STREAMS

pairs = pytest.mark.parametrize(("source", "target"), PAIRS, ids=[f"{one}_to_{other}" for one, other in PAIRS])

_REQUEST_TYPES: dict[Dialect, Any] = {
    Dialect.OPENAI: CompletionCreateParams,
    Dialect.RESPONSES: ResponseCreateParams,
    Dialect.ANTHROPIC: MessageCreateParams,
}
_ANSWER_TYPES: dict[Dialect, Any] = {
    Dialect.OPENAI: ChatCompletion,
    Dialect.RESPONSES: Response,
    Dialect.ANTHROPIC: Message,
    Dialect.GEMINI: GenerateContentResponse,
}
_EVENT_TYPES: dict[Dialect, Any] = {
    Dialect.OPENAI: ChatCompletionChunk,
    Dialect.RESPONSES: ResponseStreamEvent,
    Dialect.ANTHROPIC: RawMessageStreamEvent,
    Dialect.GEMINI: GenerateContentResponse,
}


@pairs
def test_the_pair_is_as_its_file_says(source: Dialect, target: Dialect) -> None:
    assert produce(source, target) == json.loads(path(source, target).read_text(encoding="utf-8"))


@pairs
def test_the_sdk_knows_every_member_of_the_request(source: Dialect, target: Dialect) -> None:
    body = produce(source, target)["request"]
    if target is Dialect.GEMINI:
        Content.model_validate(body["systemInstruction"])
        for content in body["contents"]:
            Content.model_validate(content)
        for tool in body["tools"]:
            GeminiTool.model_validate(tool)
        ToolConfig.model_validate(body["toolConfig"])
        GenerationConfig.model_validate(body["generationConfig"])
    elif target is Dialect.ANTHROPIC:
        # The newest SDK has no sampling parameters; the API version sent with a translation has.
        TypeAdapter(MessageCreateParams).validate_python(
            {name: value for name, value in body.items() if name not in ("temperature", "top_p", "top_k")}
        )
    else:
        TypeAdapter(_REQUEST_TYPES[target]).validate_python(_without_marks(body))


def _without_marks(value: Any) -> Any:
    """Cache marks are known to relays, not to OpenAI's SDK."""
    if isinstance(value, list):
        return [_without_marks(part) for part in value]
    if isinstance(value, dict):
        return {name: _without_marks(part) for name, part in value.items() if name != "cache_control"}
    return value


@pairs
def test_the_sdk_reads_the_answer(source: Dialect, target: Dialect) -> None:
    answer = _ANSWER_TYPES[target].model_validate(produce(source, target)["answer"])
    match target:
        case Dialect.OPENAI:
            (choice,) = answer.choices
            assert choice.message.content == "It is cold."
            assert choice.finish_reason == "tool_calls"
            assert json.loads(choice.message.tool_calls[0].function.arguments) == {"city": "Oslo"}
            assert choice.message.annotations[0].url_citation.url == "https://a.example"
            assert answer.usage.total_tokens == 42
        case Dialect.RESPONSES:
            assert answer.output_text == "It is cold."
            assert json.loads(answer.output[-1].arguments) == {"city": "Oslo"}
            assert answer.usage.input_tokens_details.cached_tokens == 10
        case Dialect.ANTHROPIC:
            assert [block.type for block in answer.content] == ["thinking", "text", "tool_use"]
            assert answer.content[2].input == {"city": "Oslo"}
            assert answer.stop_reason == "tool_use"
            assert answer.usage.input_tokens + answer.usage.cache_read_input_tokens == 30
        case Dialect.GEMINI:
            assert answer.text == "It is cold."
            assert answer.function_calls[0].args == {"city": "Oslo"}
            assert answer.usage_metadata.total_token_count == 42


def _events(stream: bytes) -> list[Event]:
    framer = Framer()
    events = framer.feed(stream)
    assert framer.close() == []
    return events


@pairs
def test_the_sdk_reads_every_event(source: Dialect, target: Dialect) -> None:
    events = [event for event in _events(translated(source, target, [STREAMS[source]])) if event.has_data]
    adapter: TypeAdapter[Any] = TypeAdapter(_EVENT_TYPES[target])
    for event in events:
        payload = reading.event_payload(event)
        assert reading.repaired(target, event) == event.raw
        if payload is not None and payload.get("type") != "ping":
            adapter.validate_python(payload)
            assert event.name == (payload.get("type", "") if target in (Dialect.ANTHROPIC, Dialect.RESPONSES) else "")
    kinds = [reading.kind(target, event) for event in events]
    assert kinds[-1] is reading.Kind.END
    assert reading.Kind.ERROR not in kinds


@pairs
def test_a_stream_cut_anywhere_gives_the_same(source: Dialect, target: Dialect) -> None:
    stream = STREAMS[source]
    whole = translated(source, target, [stream])
    assert translated(source, target, (stream[at : at + 1] for at in range(len(stream)))) == whole


@pairs
def test_line_ends_and_names_make_no_difference(source: Dialect, target: Dialect) -> None:
    stream = STREAMS[source]
    assert translated(source, target, [stream.replace(b"\n", b"\r\n")]) == translated(source, target, [stream])
