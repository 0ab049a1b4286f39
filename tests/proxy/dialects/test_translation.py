"""What crosses between dialects besides the answer's text: flags, markers, agents' fields, headers; and what cannot."""

import json
from typing import Any

import pytest

from keys.core.dialect import Dialect
from tests.fake_upstream import answer, raw, thinking, tool_call
from tests.gateway import MESSAGES, chat
from tests.proxy.dialects.conftest import SPEAKERS
from tests.proxy.dialects.speaking import PNG, Question, base64_of
from tests.proxy.dialects.upstreams import Seen

MESSAGE = {"model": "any-model", "max_tokens": 50, "messages": MESSAGES}
EPHEMERAL = {"type": "ephemeral"}
FOREIGN = [d for d in Dialect if d is not Dialect.ANTHROPIC]


def at(gateway, up, dialect, **options):
    return gateway.serving(up, "k-1", upstream={"dialect": str(dialect), **options})


def dropped(got):
    assert got.status_code == 200, got.text
    return [name.strip() for name in got.headers.get("x-pointsman-dropped", "").split(",") if name]


class TestReports:
    def test_42_tool_results_come_before_the_text_behind_them(self, gateway, up):
        turns = [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": "42"},
                    {"type": "text", "text": "and now?"},
                ],
            },
        ]
        gateway.post(at(gateway, up, "openai"), {**MESSAGE, "messages": turns}, path="/v1/messages")
        said = [(m["role"], m.get("content")) for m in up.last.json["messages"]]
        assert said[-2:] == [("tool", "42"), ("user", "and now?")]

    @pytest.mark.parametrize("dialect", FOREIGN)
    def test_43_an_image_inside_a_tool_result_arrives(self, gateway, up, dialect):
        source = {"type": "base64", "media_type": "image/png", "data": base64_of(PNG)}
        result = [{"type": "text", "text": "see"}, {"type": "image", "source": source}]
        turns = [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": result}]},
        ]
        got = gateway.post(at(gateway, up, dialect), {**MESSAGE, "messages": turns}, path="/v1/messages")
        assert got.status_code == 200
        assert base64_of(PNG).encode() in up.last.body

    @pytest.mark.parametrize(
        ("dialect", "field"), [(Dialect.OPENAI, ["stop"]), (Dialect.GEMINI, ["generationConfig", "stopSequences"])]
    )
    def test_44_stop_sequences(self, gateway, up, dialect, field):
        gateway.post(at(gateway, up, dialect), {**MESSAGE, "stop_sequences": ["END", "\n\n"]}, path="/v1/messages")
        found = up.last.json
        for name in field:
            found = found[name]
        assert found == ["END", "\n\n"]

    @pytest.mark.feature("cache markers")
    def test_46_all_cache_markers_arrive(self, gateway, up):
        """Chat completions with Anthropic's markers, as OpenRouter and others take them."""
        body = chat(
            model="claude-x",
            messages=[
                {"role": "system", "content": [{"type": "text", "text": "long", "cache_control": EPHEMERAL}]},
                {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": EPHEMERAL}]},
            ],
            tools=[{"type": "function", "function": {"name": "f", "parameters": {}}, "cache_control": EPHEMERAL}],
        )
        got = gateway.post(at(gateway, up, "anthropic"), body)
        assert up.last.body.count(b'"cache_control":{"type":"ephemeral"}') == 3
        assert dropped(got) == []

    @pytest.mark.feature("cache markers")
    def test_46_an_hour_stays_an_hour(self, gateway, up):
        content = [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
        gateway.post(at(gateway, up, "anthropic"), chat(messages=[{"role": "user", "content": content}]))
        assert b'"ttl":"1h"' in up.last.body

    @pytest.mark.parametrize("dialect", [Dialect.OPENAI, Dialect.RESPONSES])
    def test_48_parallel_calls_stay_forbidden(self, gateway, up, dialect):
        body = {
            **MESSAGE,
            "tools": [{"name": "f", "input_schema": {"type": "object"}}],
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        }
        gateway.post(at(gateway, up, dialect), body, path="/v1/messages")
        assert up.last.json["parallel_tool_calls"] is False


class TestAgents:
    """Fields that coding agents send and other dialects do not know: left out and listed, never refused."""

    @pytest.mark.parametrize("dialect", FOREIGN)
    def test_a_claude_code_request(self, gateway, up, dialect):
        body = {
            **MESSAGE,
            "system": [
                {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.332.abc"},
                {"type": "text", "text": "You are an agent.", "cache_control": EPHEMERAL},
            ],
            "thinking": {"type": "adaptive", "display": "omitted"},
            "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            "output_config": {"effort": "high"},
            "metadata": {"user_id": '{"device_id":"d","account_uuid":"","session_id":"s"}'},
            "tools": [
                {"name": "Bash", "input_schema": {"$schema": "http://json-schema.org/x", "type": "object"}},
                {"name": "Deferred", "input_schema": {"type": "object"}, "defer_loading": True},
            ],
            "messages": [
                *MESSAGES,
                {"role": "system", "content": [{"type": "text", "text": "a reminder", "cache_control": EPHEMERAL}]},
                {"role": "user", "content": "go on"},
            ],
        }
        got = gateway.post(at(gateway, up, dialect), body, path="/v1/messages?beta=true")
        assert {"context_management", "tools.defer_loading"} <= set(dropped(got)) or "defer_loading" in dropped(got)
        seen = Seen(up.last, dialect)
        assert "You are an agent." in seen.system
        assert b"a reminder" in up.last.body
        assert [name for name, _ in seen.tools] == ["Bash", "Deferred"]
        assert b"$schema" not in up.last.body
        assert up.last.query == ""

    @pytest.mark.parametrize("dialect", [Dialect.OPENAI, Dialect.ANTHROPIC, Dialect.GEMINI])
    def test_a_codex_request(self, gateway, up, dialect):
        body = {
            "model": "any-model",
            "store": False,
            "stream": True,
            "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": "0199",
            "client_metadata": {"x": "y"},
            "reasoning": {"effort": "medium", "summary": "auto"},
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [
                {"type": "function", "name": "shell", "parameters": {"type": "object"}, "strict": False},
                {"type": "web_search"},
                {"type": "namespace", "name": "mcp", "tools": [{"type": "function", "name": "g", "parameters": {}}]},
            ],
            "input": [
                {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            ],
        }
        got = gateway.post(at(gateway, up, dialect), body, path="/v1/responses")
        assert b"event: response.completed\n" in got.content
        assert {"include", "client_metadata"} <= set(dropped(got))
        assert any("web_search" in name for name in dropped(got))
        seen = Seen(up.last, dialect)
        assert ("Be brief." in seen.system, seen.said) == (True, "hi")
        assert "shell" in [name for name, _ in seen.tools]

    @pytest.mark.parametrize("dialect", [Dialect.OPENAI, Dialect.RESPONSES, Dialect.ANTHROPIC])
    def test_a_gemini_cli_request(self, gateway, up, dialect):
        call = {"functionCall": {"id": "c1", "name": "ls", "args": {}}}
        body = {
            "contents": [
                {"role": "user", "parts": [{"text": "hi"}]},
                {"role": "model", "parts": [{**call, "thoughtSignature": "skip_thought_signature_validator"}]},
                {
                    "role": "user",
                    "parts": [{"functionResponse": {"id": "c1", "name": "ls", "response": {"output": "a.txt"}}}],
                },
            ],
            "systemInstruction": {"role": "user", "parts": [{"text": "You are a CLI."}]},
            "tools": [{"functionDeclarations": [{"name": "ls", "parametersJsonSchema": {"type": "object"}}]}],
            "generationConfig": {
                "temperature": 1,
                "topP": 0.95,
                "topK": 64,
                "thinkingConfig": {"includeThoughts": True},
            },
        }
        path = "/v1beta/models/any-model:streamGenerateContent?alt=sse"
        got = gateway.post(at(gateway, up, dialect), body, path=path)
        assert got.status_code == 200
        assert b"skip_thought_signature_validator" not in up.last.body
        seen = Seen(up.last, dialect)
        assert seen.results == [(seen.calls[0][0], "a.txt")]


class TestRefusals:
    CASES = [
        ("/v1/responses", {"input": "x", "previous_response_id": "resp_1"}, Dialect.OPENAI, "previous_response_id"),
        (
            "/v1/chat/completions",
            {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]}]},
            Dialect.ANTHROPIC,
            "file",
        ),
        ("/v1/chat/completions", {"messages": "hi"}, Dialect.ANTHROPIC, "messages"),
        ("/v1/chat/completions", {"messages": MESSAGES, "n": 3}, Dialect.ANTHROPIC, "n"),
        ("/v1/messages", {"max_tokens": 5, "messages": [{"role": "user", "content": 5}]}, Dialect.OPENAI, "content"),
        ("/v1beta/models/m:generateContent", {"contents": MESSAGES, "cachedContent": "c/1"}, Dialect.OPENAI, "cached"),
    ]

    @pytest.mark.parametrize(("path", "fields", "dialect", "named"), CASES)
    def test_what_cannot_be_carried_is_a_400_that_names_it(self, gateway, up, path, fields, dialect, named):
        got = gateway.post(at(gateway, up, dialect), {"model": "any-model", **fields}, path=path)
        assert got.status_code == 400, got.text
        error = got.json()["error"]
        assert named in error["message"]
        if "param" in error:
            assert named in error["param"]
        assert up.requests == []
        assert gateway.record(got).status == "failed"

    def test_it_goes_to_an_upstream_that_can_take_it(self, gateway, up):
        world = gateway.serving(up, "k-1", "k-2", upstream={"dialect": "anthropic"})
        world.upstreams[1].dialect = "openai"
        world.upstreams[1].save()
        gateway.refresh()
        got = gateway.post(world, chat(n=3))
        assert (got.status_code, up.keys()) == (200, ["k-2"])


class TestSameDialect:
    """Nothing is translated: signed thinking and markers pass untouched, in either direction."""

    def test_signed_thinking(self, gateway, up):
        history = (
            b'{"model":"any-model","max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":['
            b'{"type":"thinking","thinking":"\\u0061 ","signature":"EqQB+/=="},'
            b'{"type":"redacted_thinking","data":"x+/"},{"type":"tool_use","id":"t","name":"f","input":{"n":1.0,"n2":12345678901234567890}}]},{"role":"user",'
            b'"content":[{"type":"tool_result","tool_use_id":"t","content":"1","cache_control":{"type":"ephemeral"}}]}]}'
        )
        up.default(answer(thinking("hm", "EqQB+/=="), tool_call("f", {"a": 1}), "done"))
        got = gateway.post(at(gateway, up, "anthropic"), history, path="/v1/messages")
        assert up.last.body == history
        assert got.json()["content"][0] == {"type": "thinking", "thinking": "hm", "signature": "EqQB+/=="}

    def test_versions_and_betas_are_the_clients(self, gateway, up):
        headers = {"anthropic-version": "2026-10-21", "anthropic-beta": "a-1,b-2", "x-stainless-lang": "python"}
        gateway.post(at(gateway, up, "anthropic"), MESSAGE, path="/v1/messages?beta=true", headers=headers)
        assert {name: up.last.header(name) for name in headers} == headers
        assert up.last.target == "/v1/messages?beta=true"


class TestHeaders:
    @pytest.mark.parametrize("dialect", list(Dialect))
    def test_of_one_dialect_never_reach_another(self, gateway, up, dialect):
        headers = {
            "anthropic-version": "2026-10-21",
            "anthropic-beta": "context-1m",
            "openai-beta": "x",
            "x-goog-api-client": "y",
            "user-agent": "Agent/1",
        }
        client = Dialect.OPENAI if dialect is not Dialect.OPENAI else Dialect.ANTHROPIC
        body, path = (chat(), "/v1/chat/completions") if client is Dialect.OPENAI else (MESSAGE, "/v1/messages")
        gateway.post(at(gateway, up, dialect), body, path=path, headers=headers)
        seen = {name.lower(): value for name, value in up.last.headers}
        assert seen.get("anthropic-version") == ("2023-06-01" if dialect is Dialect.ANTHROPIC else None)
        assert not {"anthropic-beta", "openai-beta", "x-goog-api-client"} & set(seen)
        assert seen["user-agent"] == "Agent/1"

    @pytest.mark.parametrize("dialect", list(Dialect))
    @pytest.mark.parametrize("speaker", SPEAKERS.values(), ids=SPEAKERS.keys())
    @pytest.mark.parametrize("stream", [False, True])
    def test_the_gateway_key_reaches_no_upstream_in_any_place(self, gateway, up, speaker, dialect, stream):
        world = at(gateway, up, dialect)
        speaker.ask(gateway, world, Question(system="s", tools=["f"]), stream=stream)
        for path, body in (
            ("/v1/chat/completions?key=" + world.secret, chat()),
            (
                "/v1beta/models/m:generateContent?key=" + world.secret + "&a=b",
                {"contents": [{"parts": [{"text": "x"}]}]},
            ),
        ):
            places = {"x-api-key": world.secret, "api-key": world.secret, "x-goog-api-key": world.secret}
            gateway.post(world, body, path=path, headers={**places, "cookie": f"k={world.secret}"})
        assert len(up.requests) == 3
        for seen in up.requests:
            assert [value for _, value in seen.credentials] == ["k-1"]
            sent = json.dumps([seen.target, seen.headers]).encode() + seen.body
            assert world.secret.encode() not in sent
            assert world.secret[-12:].encode() not in sent
            assert not [name for name, _ in seen.headers if name.lower().startswith("x-pointsman")]


def test_a_translated_stream_repeats_input_and_cache_tokens(gateway, up):
    """LangChain reads Anthropic's usage from message_delta alone."""
    up.default(answer("x"))
    got = gateway.post(at(gateway, up, "openai"), {**MESSAGE, "stream": True}, path="/v1/messages")
    events = [json.loads(line[6:]) for line in got.text.split("\n") if line.startswith("data: ")]
    (delta,) = [event for event in events if event["type"] == "message_delta"]
    assert delta["usage"]["input_tokens"] == 25
    assert {"cache_read_input_tokens", "cache_creation_input_tokens"} <= set(delta["usage"])


def test_no_temperature_for_a_claude_that_refuses_it(gateway, up):
    got = gateway.post(at(gateway, up, "anthropic"), chat(model="claude-opus-4-8", temperature=0.2))
    assert "temperature" not in up.last.json
    assert "temperature" in dropped(got)


def test_an_answer_that_is_no_answer_in_its_dialect_moves_on(gateway, up):
    """A 200 that cannot be read is a failed attempt, also where it must be translated."""
    up.script("k-1", raw({"id": "x", "type": "message", "role": "assistant", "content": [], "usage": {}}))
    world = gateway.serving(up, "k-1", "k-2", upstream={"dialect": "anthropic"})
    got: Any = gateway.post(world, chat())
    assert got.json()["choices"][0]["message"]["content"] == "Hello from the fake upstream."
    assert up.keys() == ["k-1", "k-2"]
