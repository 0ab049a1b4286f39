"""An upstream that sends rubbish is a failed attempt: another key answers."""

import json

import pytest

from tests.fake_upstream import raw, sse
from tests.gateway import CHAT, HELLO, MESSAGES, chat, encoded, outcomes

ASKS = {
    "openai": (CHAT, chat()),
    "anthropic": ("/v1/messages", {"model": "gpt-4o", "max_tokens": 9, "messages": MESSAGES}),
}
WHOLE = [
    ("openai", "anthropic", {"choices": True}),
    ("openai", "anthropic", {"choices": [{"message": [1], "finish_reason": "stop"}]}),
    ("openai", "anthropic", {"choices": [{"message": {"content": "x", "tool_calls": True}}]}),
    ("anthropic", "openai", {"content": [{"type": "text", "text": "x", "citations": True}]}),
    ("gemini", "openai", {"candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": "\ud800"}]}),
    ("gemini", "anthropic", {"candidates": [{"content": True}]}),
]
STREAMED = [
    ("openai", "openai", {"choices": True}),
    ("openai", "openai", {"choices": [{"delta": [1]}]}),
    ("openai", "anthropic", {"choices": [{"delta": [1]}]}),
    ("gemini", "openai", {"candidates": True}),
]


@pytest.mark.parametrize(
    ("dialect", "client", "payload", "streamed"), [(*row, False) for row in WHOLE] + [(*row, True) for row in STREAMED]
)
def test_another_key_answers(gateway, up, dialect, client, payload, streamed):
    text = json.dumps(payload)
    up.script("k-1", sse(f"data: {text}\n\n".encode()) if streamed else raw(text))
    world = gateway.serving(up, "k-1", "k-2", upstream={"dialect": dialect})
    path, body = ASKS[client]
    got = gateway.post(world, {**body, "stream": streamed}, path=path)
    assert got.status_code == 200
    assert HELLO.split()[0].encode() in got.content
    assert [key for key, _ in outcomes(gateway.only_record(world))] == ["k1", "k2"]


def test_what_can_be_parsed_but_not_walked_is_refused(gateway, up):
    world = gateway.serving(up, "k-1", upstream={"dialect": "anthropic"})
    tool = {"type": "function", "function": {"name": "f", "parameters": {"items": "DEEP"}}}
    body = encoded(chat(tools=[tool])).replace(b'"DEEP"', b'{"items":' * 990 + b"{}" + b"}" * 990)
    got = gateway.post(world, body)
    assert (got.status_code, got.json()["error"]["param"]) == (400, "body")
    assert "nested too deeply" in got.json()["error"]["message"]
    assert up.requests == []
