"""Same dialect in and out: bytes pass as they are; a model name is exchanged where an alias or a rule says so."""

import json

import pytest

from tests.fake_upstream import answer, raw, sse, stream
from tests.gateway import HELLO, MESSAGES, chat, outcomes
from tests.proxy.asking import ask

ODD = (
    b'\n{ "messages" :[{"role":"user","content":"\\u0041\\ud83d\\ude82 \\/ \xe4\xbd\xa0"}],\t"model" : "gpt-4o" ,\r\n'
    b'  "temperature": 1.0, "seed": 123456789012345678901234567890, "top_p":1e-1 , "n":-0.0,\n'
    b'"metadata":{"a":1,"a":2,"":null}, "x_unknown": [ {} , [ ] , 0.10 ], "user":"u","user":"v" } \n'
)
ODD_ANSWER = (
    b'\n \t{"id" : "x","object":"chat.completion" , "choices":[{"index":0,"message":{"role":"assistant",'
    b'"content":"\\u0041 \xe4\xbd\xa0 \\/"},"finish_reason":"stop"}] ,"usage":{"prompt_tokens":3,'
    b'"completion_tokens":1},"x_unknown":{"b":1.0,"a":12345678901234567890123,"b":2}, "model":"gpt-4o-2024-08-06" }\n\n'
)


def test_a_request_passes_byte_for_byte(gateway, up):
    world = gateway.serving(up, "k-1")
    gateway.post(world, ODD, headers={"content-type": "application/json; charset=utf-8"})
    assert up.last.body == ODD
    assert up.last.header("content-type") == "application/json; charset=utf-8"


def test_each_attempt_gets_the_same_bytes(gateway, up):
    up.script("k-1", raw(b"", status=500))
    gateway.post(gateway.serving(up, "k-1", "k-2"), ODD)
    assert [seen.body for seen in up.requests] == [ODD, ODD]


def test_an_answer_passes_byte_for_byte(gateway, up):
    up.script("k-1", raw(ODD_ANSWER))
    got = gateway.post(gateway.serving(up, "k-1"), ODD)
    assert (got.status_code, got.content) == (200, ODD_ANSWER)
    record = gateway.record(got)
    assert (record.input_tokens, record.output_tokens) == (3, 1)


def test_the_usage_option_is_the_only_edit_of_a_stream(gateway, up):
    body = b' {"stream" : true, "model":"gpt-4o","messages":[ ] , "temperature":1.0 }'
    gateway.post(gateway.serving(up, "k-1"), body)
    assert up.last.body == body.removesuffix(b" }") + b',"stream_options":{"include_usage":true} }'


def test_a_stream_passes_byte_for_byte(gateway, up):
    pieces = (
        b": hello\n\n",
        b'data: {"id":"a", "choices" : [{"index":0,"delta":{"role":"assistant","content":"\\u0041"}}] ,"x":1.0}\n\n',
        b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"model":"other"}\r\n\r\n',
        b"data: [DONE]\n\n",
    )
    up.script("k-1", sse(*pieces))
    got = gateway.post(gateway.serving(up, "k-1"), chat(stream=True))
    assert got.content == b"".join(pieces)
    assert got.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert got.headers["x-accel-buffering"] == "no"
    assert got.headers["cache-control"] == "no-cache"


class TestAliases:
    ALIASES = {"aliases": {"gpt-4o": "openai/gpt-4o-2024"}}

    @pytest.mark.parametrize("stream_asked", [False, True])
    def test_the_upstream_gets_its_name_and_the_client_its_own(self, gateway, up, stream_asked):
        world = gateway.serving(up, "k-1", upstream=self.ALIASES)
        said = ask(gateway, world, stream=stream_asked)
        assert (said.text, said.models) == (HELLO, {"gpt-4o"})
        assert up.last.json["model"] == "openai/gpt-4o-2024"
        record = gateway.record(said)
        assert (record.model_requested, record.model_served) == ("gpt-4o", "openai/gpt-4o-2024")

    def test_only_the_name_changes_in_the_body(self, gateway, up):
        world = gateway.serving(up, "k-1", upstream=self.ALIASES)
        gateway.post(world, ODD)
        assert up.last.body == ODD.replace(b'"model" : "gpt-4o"', b'"model" : "openai/gpt-4o-2024"')

    def test_a_dated_name_that_was_not_sent_stays(self, gateway, up):
        """Only the exact name that was sent is turned back."""
        up.script("k-1", answer(model="gpt-4o-2024-08-06"))
        world = gateway.serving(up, "k-1", upstream=self.ALIASES)
        assert ask(gateway, world).models == {"gpt-4o-2024-08-06"}

    def test_without_an_alias_nothing_is_renamed(self, gateway, up):
        up.script("k-1", answer(model="openai/gpt-4o-2024"))
        assert ask(gateway, gateway.serving(up, "k-1")).models == {"openai/gpt-4o-2024"}

    def test_a_name_inside_the_text_stays(self, gateway, up):
        text = '"model":"openai/gpt-4o-2024"'
        up.default(stream([text]))
        world = gateway.serving(up, "k-1", upstream=self.ALIASES)
        assert [ask(gateway, world, stream=flag).text for flag in (False, True)] == [text, text]

    def test_anthropic(self, gateway, up):
        world = gateway.serving(up, "k-1", upstream={"dialect": "anthropic", "aliases": {"claude": "anthropic/claude"}})
        with gateway.anthropic(world) as client:
            got = client.messages.create(model="claude", max_tokens=9, messages=MESSAGES)
            events = list(client.messages.create(model="claude", max_tokens=9, messages=MESSAGES, stream=True))
        assert (got.model, events[0].message.model) == ("claude", "claude")
        assert [seen.json["model"] for seen in up.requests] == ["anthropic/claude"] * 2

    def test_responses(self, gateway, up):
        world = gateway.serving(up, "k-1", upstream={"dialect": "openai-responses", **self.ALIASES})
        with gateway.openai(world) as client:
            got = client.responses.create(model="gpt-4o", input="hi")
            events = list(client.responses.create(model="gpt-4o", input="hi", stream=True))
        assert (got.model, events[0].response.model, events[-1].response.model) == ("gpt-4o", "gpt-4o", "gpt-4o")
        assert [seen.json["model"] for seen in up.requests] == ["openai/gpt-4o-2024"] * 2

    def test_gemini_has_the_name_in_the_path(self, gateway, up):
        aliases = {"dialect": "gemini", "aliases": {"gemini-pro": "google/gemini-pro@1"}}
        world = gateway.serving(f"{up.url}/v1beta", "k-1", upstream=aliases)
        client = gateway.gemini(world)
        got = client.models.generate_content(model="gemini-pro", contents="hi")
        parts = list(client.models.generate_content_stream(model="gemini-pro", contents="hi"))
        client.close()
        assert (got.model_version, {part.model_version for part in parts}) == ("gemini-pro", {"gemini-pro"})
        assert [seen.target for seen in up.requests] == [
            "/v1beta/models/google/gemini-pro%401:generateContent",
            "/v1beta/models/google/gemini-pro%401:streamGenerateContent?alt=sse",
        ]


def test_a_rule_sets_parameters(gateway, up):
    world = gateway.serving(up, "k-1")
    world.tenant.routes.get().rules.update(set={"model": "gpt-4.1", "temperature": 0.5, "max_tokens": 7})
    gateway.refresh()
    said = ask(gateway, world, temperature=1.0)
    assert (up.last.json["model"], up.last.json["temperature"], up.last.json["max_tokens"]) == ("gpt-4.1", 0.5, 7)
    assert said.models == {"gpt-4o"}


@pytest.mark.parametrize("field", ["api_base", "base_url", "api_key", "extra_headers", "organization"])
def test_a_body_cannot_say_where_to_call(gateway, up, field):
    """Report 51: such fields are the upstream's to ignore; nothing is dialled and no header is made of them."""
    world = gateway.serving(up, "k-1")
    got = gateway.post(world, chat(**{field: "http://169.254.169.254/latest"}))
    assert (got.status_code, outcomes(gateway.record(got))) == (200, [("k1", "served")])
    assert [(seen.key, seen.path) for seen in up.requests] == [("k-1", "/v1/chat/completions")]


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/embeddings"])
def test_other_operations_of_the_dialect(gateway, up, path):
    world = gateway.serving(up, "k-1")
    body = {"model": "gpt-4o", "prompt": "hi"} if "completions" in path else {"model": "gpt-4o", "input": ["a", "b"]}
    got = gateway.post(world, body, path=path)
    assert (got.status_code, up.last.path, json.loads(up.last.body)) == (200, path, body)
    record = gateway.record(got)
    assert (record.status, record.endpoint) == ("finished", path.removeprefix("/v1/"))
    assert record.input_tokens is not None


@pytest.mark.parametrize(
    ("base", "path"),
    [
        ("{url}", "/v1/chat/completions"),
        ("{url}/v1/", "/v1/chat/completions"),
        ("{url}/api/v4", "/api/v4/chat/completions"),
        ("{url}/custom#", "/custom/chat/completions"),
        ("{url}/openai", "/openai/v1/chat/completions"),
    ],
)
def test_the_base_address_is_completed(gateway, up, base, path):
    world = gateway.serving(base.format(url=up.url), "k-1")
    assert gateway.post(world).status_code == 200
    assert up.last.path == path


@pytest.mark.parametrize(
    "text", ["\ud83d", "a\udc00b", "\u0000", "\u2028", "\U0001f682"], ids=["cut", "low", "nul", "line", "emoji"]
)
def test_odd_characters_harm_nothing(gateway, up, text):
    """JavaScript clients cut emoji in two; the record is written all the same."""
    world = gateway.serving(up, "k-1")
    messages = [{"role": "system", "content": text}, {"role": "user", "content": text}]
    body = json.dumps(chat(messages=messages, user=text)).encode()
    got = gateway.post(world, body, headers={"x-session-id": "s-1"})
    assert (got.status_code, up.last.body) == (200, body)
    assert gateway.record(got).status == "finished"
