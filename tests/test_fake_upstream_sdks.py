"""The official SDKs read the fake upstream, in all four dialects."""

import http.client
import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import errors as genai_errors
from google.genai import types as genai_types

from tests.fake_upstream import (
    FakeUpstream,
    Tokens,
    UsagePlace,
    answer,
    sse_error_after,
    sse_error_first,
    status,
    stream,
    thinking,
    tool_call,
)

MESSAGES: Any = [{"role": "user", "content": "hi"}]
COUNTED = Tokens(input=100, output=20, cached_read=60, cache_write=10, cache_write_1h=4, reasoning=5)


@pytest.fixture
def up() -> Iterator[FakeUpstream]:
    with FakeUpstream(models=("fake-model", "other-model")) as server:
        yield server


def openai_client(up: FakeUpstream, key: str = "key-1") -> openai.OpenAI:
    return openai.OpenAI(api_key=key, base_url=up.base_url, max_retries=0)


def anthropic_client(up: FakeUpstream, key: str = "key-1") -> anthropic.Anthropic:
    return anthropic.Anthropic(api_key=key, base_url=up.url, max_retries=0)


def gemini_client(up: FakeUpstream, key: str = "key-1") -> genai.Client:
    return genai.Client(api_key=key, http_options=genai_types.HttpOptions(base_url=up.url, api_version="v1beta"))


def post(
    up: FakeUpstream, body: dict[str, Any] | None = None, *, path: str = "/v1/chat/completions", key: str = "key-1"
) -> tuple[int, dict[str, str], bytes]:
    """One plain request without an SDK: status, headers (lower-case), body."""
    connection = http.client.HTTPConnection("127.0.0.1", up.port, timeout=5)
    try:
        content = json.dumps({"model": "m", "messages": MESSAGES, **(body or {})})
        connection.request("POST", path, content, {"Authorization": f"Bearer {key}"})
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


class TestOpenAI:
    def test_a_whole_chat_answer(self, up: FakeUpstream) -> None:
        up.script("key-1", answer("Hi there", tokens=COUNTED))
        with openai_client(up) as client:
            got = client.chat.completions.create(model="gpt-x", messages=MESSAGES)
        assert (got.choices[0].message.content, got.choices[0].finish_reason, got.model) == (
            "Hi there",
            "stop",
            "gpt-x",
        )
        assert got.usage is not None
        assert got.usage.prompt_tokens_details is not None
        assert (got.usage.prompt_tokens, got.usage.completion_tokens, got.usage.total_tokens) == (100, 20, 120)
        assert got.usage.prompt_tokens_details.cached_tokens == 60

    @pytest.mark.parametrize(("asked", "expected"), [(True, 120), (False, None)])
    def test_a_stream_reports_usage_only_when_asked(self, up: FakeUpstream, asked: bool, expected: int | None) -> None:
        up.script("key-1", stream(["Hel", "lo ", "世界"], tokens=COUNTED))
        with openai_client(up) as client:
            chunks = list(
                client.chat.completions.create(
                    model="m", messages=MESSAGES, stream=True, stream_options={"include_usage": asked}
                )
            )
        assert [c.choices[0].delta.content for c in chunks if c.choices] == ["", "Hel", "lo ", "世界", None]
        assert (chunks[-1].usage.total_tokens if chunks[-1].usage else None) == expected

    @pytest.mark.parametrize(
        ("place", "expected"),
        [
            (UsagePlace.OWN_CHUNK, [False, False, False, True, "[DONE]"]),
            (UsagePlace.FINISH, [False, False, True, "[DONE]"]),
            (UsagePlace.EVERY, [True, True, True, "[DONE]"]),
            (UsagePlace.AFTER_DONE, [False, False, False, "[DONE]", True]),
            (UsagePlace.NEVER, [False, False, False, "[DONE]"]),
        ],
    )
    def test_where_usage_stands(self, up: FakeUpstream, place: UsagePlace, expected: list[object]) -> None:
        up.script("key-1", stream(["a"], usage_place=place, usage_if_asked=False))
        body = post(up, {"stream": True})[2]
        rows = [line.removeprefix(b"data: ") for line in body.split(b"\n\n") if line]
        found = [row.decode() if row == b"[DONE]" else bool(json.loads(row).get("usage")) for row in rows]
        assert found == expected

    def test_parallel_tool_calls_interleave(self, up: FakeUpstream) -> None:
        calls = (tool_call("a", {"x": 1}, call_id="c1"), tool_call("b", {"y": "two"}))
        up.script("key-1", answer(*calls, interleaved=True))
        with openai_client(up) as client:
            chunks = list(client.chat.completions.create(model="m", messages=MESSAGES, stream=True))
        deltas = [c.choices[0].delta.tool_calls[0] for c in chunks if c.choices and c.choices[0].delta.tool_calls]
        assert [delta.index for delta in deltas] == [0, 1, 0, 1, 0, 1]
        assert [delta.id for delta in deltas if delta.id] == ["c1", "call_1"]
        arguments = [
            "".join((d.function.arguments or "") for d in deltas if d.index == i and d.function) for i in (0, 1)
        ]
        assert [json.loads(text) for text in arguments] == [{"x": 1}, {"y": "two"}]

    def test_responses_whole_and_streamed(self, up: FakeUpstream) -> None:
        content = answer(thinking("let me see"), "Hello you", tool_call("f", {"a": 1}), tokens=COUNTED)
        up.script("key-1", content, content)
        with openai_client(up) as client:
            whole = client.responses.create(model="m", input="hi")
            with client.responses.stream(model="m", input="hi") as events:
                kinds = [event.type for event in events]
                final = events.get_final_response()
        for got in (whole, final):
            assert got.output_text == "Hello you"
            assert [item.type for item in got.output] == ["reasoning", "message", "function_call"]
            assert got.usage is not None
            assert (got.usage.input_tokens, got.usage.output_tokens) == (100, 20)
        assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")

    def test_the_other_endpoints(self, up: FakeUpstream) -> None:
        with openai_client(up) as client:
            assert [model.id for model in client.models.list()] == ["fake-model", "other-model"]
            assert client.models.retrieve("other-model").id == "other-model"
            assert len(client.embeddings.create(model="e", input=["a", "b"], encoding_format="float").data) == 2
            assert client.images.generate(model="i", prompt="x").data is not None
            assert client.moderations.create(input="x").results[0].flagged is False
            assert client.audio.speech.create(model="s", input="x", voice="alloy").content.startswith(b"ID3")
            assert client.audio.transcriptions.create(model="w", file=("a.wav", b"x")).text == "fake words"
            assert client.completions.create(model="m", prompt="x").choices[0].text.startswith("Hello")
            assert client.responses.retrieve("resp_7").id == "resp_7"
            assert client.responses.input_tokens.count(model="m", input="x").input_tokens == 25

    def test_an_error_status_raises_the_sdk_error(self, up: FakeUpstream) -> None:
        up.script("key-1", status(429, "slow down", retry_after=3))
        with openai_client(up) as client, pytest.raises(openai.RateLimitError) as caught:
            client.chat.completions.create(model="m", messages=MESSAGES)
        assert caught.value.code == "rate_limit_exceeded"
        assert caught.value.response.headers["retry-after"] == "3"
        assert caught.value.request_id == "req_up_1"

    @pytest.mark.parametrize(
        ("scripted", "seen"),
        [(sse_error_first("busy"), 0), (sse_error_after(0, "busy"), 1), (sse_error_after(2, "busy"), 3)],
    )
    def test_an_error_inside_a_stream(self, up: FakeUpstream, scripted: Any, seen: int) -> None:
        up.script("key-1", scripted)
        got: list[object] = []
        with openai_client(up) as client, pytest.raises(openai.APIError, match="busy"):
            got.extend(client.chat.completions.create(model="m", messages=MESSAGES, stream=True))
        up.script("key-1", scripted)
        rows = post(up, {"stream": True})[2].removesuffix(b"\n\n").split(b"\n\n")
        assert [b"busy" in row for row in rows] == [False] * seen + [True]

    def test_a_failed_response_is_a_plain_event(self, up: FakeUpstream) -> None:
        up.script("key-1", sse_error_after(1, "busy", code="server_error"))
        with openai_client(up) as client:
            events = list(client.responses.create(model="m", input="hi", stream=True))
        assert events[-1].type == "response.failed"
        assert events[-1].response.error is not None
        assert events[-1].response.error.code == "server_error"


class TestAnthropic:
    def test_a_whole_message(self, up: FakeUpstream) -> None:
        up.script("key-1", answer(thinking("hm", "sig"), "Hi", tool_call("f", {"a": 1}), tokens=COUNTED))
        with anthropic_client(up) as client:
            got = client.messages.create(model="claude-x", max_tokens=9, messages=MESSAGES)
        assert [block.type for block in got.content] == ["thinking", "text", "tool_use"]
        assert (got.stop_reason, got.model) == ("tool_use", "claude-x")
        usage = got.usage
        assert (usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (30, 60, 10)
        assert usage.output_tokens == 20
        assert usage.cache_creation is not None
        assert usage.cache_creation.ephemeral_1h_input_tokens == 4

    def test_a_streamed_message(self, up: FakeUpstream) -> None:
        up.script("key-1", answer(thinking("hm hm", "sig"), "Hi you", tool_call("f", {"a": 1}), tokens=COUNTED))
        with (
            anthropic_client(up) as client,
            client.messages.stream(model="m", max_tokens=9, messages=MESSAGES) as events,
        ):
            got = events.get_final_message()
        thought, text, call = got.content
        assert thought.type == "thinking"
        assert (thought.thinking, thought.signature) == ("hm hm", "sig")
        assert text.type == "text"
        assert text.text == "Hi you"
        assert call.type == "tool_use"
        assert call.input == {"a": 1}
        assert (got.stop_reason, got.usage.output_tokens) == ("tool_use", 20)

    def test_models_and_token_count(self, up: FakeUpstream) -> None:
        with anthropic_client(up) as client:
            assert [model.id for model in client.models.list()] == ["fake-model", "other-model"]
            assert client.messages.count_tokens(model="m", messages=MESSAGES).input_tokens == 25

    def test_errors(self, up: FakeUpstream) -> None:
        up.script("key-1", status(529, "Overloaded"), sse_error_first("Overloaded"))
        with anthropic_client(up) as client:
            with pytest.raises(anthropic.APIStatusError) as whole:
                client.messages.create(model="m", max_tokens=9, messages=MESSAGES)
            with pytest.raises(anthropic.APIStatusError) as streamed:
                list(client.messages.create(model="m", max_tokens=9, messages=MESSAGES, stream=True))
        assert (whole.value.status_code, streamed.value.status_code) == (529, 200)
        assert "overloaded_error" in str(whole.value)
        assert "overloaded_error" in str(streamed.value)


class TestGemini:
    def test_whole_and_streamed(self, up: FakeUpstream) -> None:
        content = answer(thinking("hm"), "Hi you", tool_call("f", {"a": 1}, signature="c2ln"), tokens=COUNTED)
        up.script("key-1", content, content)
        client = gemini_client(up)
        whole = client.models.generate_content(model="gemini-x", contents="hi")
        chunks = list(client.models.generate_content_stream(model="gemini-x", contents="hi"))
        assert up.last.path == "/v1beta/models/gemini-x:streamGenerateContent"
        assert whole.candidates is not None
        assert whole.candidates[0].content is not None
        parts = whole.candidates[0].content.parts or []
        assert [bool(part.thought) for part in parts] == [True, False, False]
        assert whole.function_calls is not None
        assert whole.function_calls[0].args == {"a": 1}
        assert parts[2].thought_signature == b"sig"
        texts = [part.text for c in chunks for k in c.candidates or [] if k.content for part in k.content.parts or []]
        assert [text for text in texts if text] == ["hm", "Hi ", "you"]
        for usage in (whole.usage_metadata, chunks[-1].usage_metadata):
            assert usage is not None
            assert (usage.prompt_token_count, usage.candidates_token_count, usage.thoughts_token_count) == (100, 15, 5)
            assert usage.cached_content_token_count == 60

    def test_the_stream_without_sse_is_a_json_array(self, up: FakeUpstream) -> None:
        up.script("key-1", stream(["a", "b"]))
        code, headers, body = post(up, path="/v1beta/models/g:streamGenerateContent")
        assert (code, headers["content-type"]) == (200, "application/json")
        assert len(json.loads(body)) == 3

    def test_models_counts_embeddings_errors(self, up: FakeUpstream) -> None:
        client = gemini_client(up)
        assert [model.name for model in client.models.list()] == ["models/fake-model", "models/other-model"]
        assert client.models.count_tokens(model="g", contents="x").total_tokens == 25
        embedded = client.models.embed_content(model="g", contents=["a", "b"]).embeddings
        assert embedded is not None
        assert len(embedded) == 2
        up.script("key-1", status(503, "try later"), sse_error_first("try later", status=503))
        for call in (client.models.generate_content, client.models.generate_content_stream):
            with pytest.raises(genai_errors.ServerError) as caught:
                list(call(model="g", contents="x"))
            assert (caught.value.code, caught.value.status) == (503, "UNAVAILABLE")
