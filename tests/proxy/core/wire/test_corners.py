"""Corners of translation that no other table reaches."""

from typing import Any

import pytest

from keys.core.dialect import Dialect
from proxy.core.wire import jsontext
from proxy.core.wire.translate import from_form, to_form
from tests.proxy.core.wire.running import ANTHROPIC, GEMINI, OPENAI, RESPONSES, Body, deltas, run
from tests.proxy.core.wire.stream_samples import chat, gemini

HI: Body = {"role": "user", "content": "Hi"}


def translate(source: Dialect, body: Body, target: Dialect, model: str = "m") -> Body:
    return from_form(target, to_form(source, body), model=model)[0]


def test_json_beyond_the_fast_parser() -> None:
    assert jsontext.dumps({"a": 10**30, "b": "\ud83d"}) == b'{"a":1000000000000000000000000000000,"b":"\\ud83d"}'
    assert jsontext.loads(b'{"a":"\\ud83d"}') == {"a": "\ud83d"}
    with pytest.raises(ValueError, match="nested too deeply"):
        jsontext.loads(b"[" * 100_000)
    with pytest.raises(ValueError, match="Expecting"):
        jsontext.loads(b"{")


def test_a_lone_surrogate_passes_through_a_translation() -> None:
    body = translate(OPENAI, {"messages": [{"role": "user", "content": "cut \ud83d"}]}, ANTHROPIC)
    assert b"cut \\ud83d" in jsontext.dumps(body)
    call: Body = {"id": "c\ud83d", "function": {"name": "f", "arguments": '{"a":"\\ud83d"}'}}
    turns = [HI, {"role": "assistant", "tool_calls": [call]}]
    written = translate(OPENAI, {"messages": turns}, ANTHROPIC)["messages"][1]["content"][0]
    assert written["input"] == {"a": "\ud83d"}
    assert written["id"].startswith("call_")


@pytest.mark.parametrize("target", [RESPONSES, ANTHROPIC])
def test_no_tokens_at_all_is_the_upstreams_to_judge(target: Dialect) -> None:
    body = translate(OPENAI, {"messages": [HI], "max_tokens": 0}, target)
    assert body["max_tokens" if target is ANTHROPIC else "max_output_tokens"] == 0


def test_strict_tools() -> None:
    function = {"name": "f", "strict": True}
    body = {"messages": [HI], "tools": [{"type": "function", "function": function}]}
    assert translate(OPENAI, body, ANTHROPIC)["tools"][0] == {
        "name": "f",
        "input_schema": {"type": "object", "properties": {}},
        "strict": True,
    }
    assert translate(OPENAI, body, OPENAI)["tools"][0]["function"]["strict"] is True
    assert translate(OPENAI, body, RESPONSES)["tools"][0]["strict"] is True
    assert translate(OPENAI, body, GEMINI)["tools"] == [{"functionDeclarations": [{"name": "f", "description": ""}]}]


def test_free_text_and_functions_side_by_side() -> None:
    tools: list[Body] = [{"type": "custom", "name": "patch"}, {"type": "function", "name": "f", "parameters": {}}]
    written = translate(RESPONSES, {"input": "Hi", "tools": tools}, ANTHROPIC)["tools"]
    assert [tool["name"] for tool in written] == ["patch", "f"]
    assert "input" not in written[1]["input_schema"].get("properties", {})
    chosen = {"input": "Hi", "tools": tools, "tool_choice": {"type": "custom", "name": "patch"}}
    assert translate(RESPONSES, chosen, RESPONSES)["tool_choice"] == {"type": "custom", "name": "patch"}


def test_empty_turns_are_left_out() -> None:
    turns = [
        {"role": "system", "content": ""},
        {"role": "user", "content": ""},
        {"role": "assistant", "content": ""},
        HI,
    ]
    for target in (OPENAI, ANTHROPIC):
        assert len(translate(OPENAI, {"messages": turns}, target)["messages"]) == 1
    assert len(translate(OPENAI, {"messages": turns}, GEMINI)["contents"]) == 1
    items = [
        {"role": "user", "content": ""},
        {"type": "reasoning", "summary": []},
        {"role": "assistant", "content": None},
        HI,
    ]
    assert len(translate(RESPONSES, {"input": items}, RESPONSES)["input"]) == 1
    empty = [{"role": "user", "content": [{"type": "text", "text": ""}]}, HI]
    assert translate(ANTHROPIC, {"messages": empty}, ANTHROPIC)["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]}
    ]
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]}
    assert translate(ANTHROPIC, {"messages": [result]}, ANTHROPIC)["messages"][0]["content"] == [
        {"type": "tool_result", "tool_use_id": "t"}
    ]


def test_files_by_address_and_by_name() -> None:
    part = {"type": "input_file", "file_url": "https://a.example/b.pdf"}
    body = {"input": [{"role": "user", "content": [part]}]}
    assert translate(RESPONSES, body, ANTHROPIC)["messages"][0]["content"][0]["source"]["type"] == "url"
    assert translate(RESPONSES, body, RESPONSES)["input"][0]["content"] == [part]
    plain = {"type": "input_file", "filename": "a.pdf", "file_data": "QUJD"}
    written = translate(RESPONSES, {"input": [{"role": "user", "content": [plain]}]}, OPENAI)["messages"][0]["content"][
        0
    ]
    assert written["file"] == {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD"}


def test_sound_for_chat() -> None:
    blob = {"inlineData": {"mimeType": "audio/mpeg", "data": "QUJD"}}
    written = translate(GEMINI, {"contents": [{"parts": [blob]}]}, OPENAI)["messages"][0]["content"]
    assert written == [{"type": "input_audio", "input_audio": {"data": "QUJD", "format": "mp3"}}]


def test_sampling_that_chat_has_too() -> None:
    config = {"seed": 7, "frequencyPenalty": 0.5}
    written = translate(GEMINI, {"contents": [], "generationConfig": config}, OPENAI)
    assert (written["seed"], written["frequency_penalty"]) == (7, 0.5)
    verbose = translate(OPENAI, {"messages": [HI], "verbosity": "low"}, RESPONSES)
    assert verbose["text"] == {"verbosity": "low"}


def test_effort_that_a_model_has_no_place_for() -> None:
    body = {"messages": [HI], "reasoning_effort": "low"}
    assert from_form(GEMINI, to_form(OPENAI, body), model="gemini-2.0-flash")[1] == ("reasoning_effort",)
    hidden = {"messages": [HI], "reasoning": {"exclude": True, "max_tokens": 2000}}
    assert translate(OPENAI, hidden, RESPONSES, "gpt-5")["reasoning"] == {"effort": "low"}


def test_redacted_thoughts_in_a_history() -> None:
    blocks = [{"type": "redacted_thinking", "data": "secret"}, {"type": "text", "text": "x"}]
    body = {"messages": [HI, {"role": "assistant", "content": blocks}]}
    assert translate(ANTHROPIC, body, ANTHROPIC)["messages"][1]["content"] == blocks
    bare = {"messages": [{"role": "assistant", "content": [{"type": "redacted_thinking"}, blocks[1]]}]}
    assert from_form(ANTHROPIC, to_form(ANTHROPIC, bare), model="m")[1] == ("messages.thinking",)


def test_pieces_of_calls_nobody_began() -> None:
    lost: Body = {"tool_calls": [{"index": 4, "function": {"arguments": "{}"}}]}
    assert deltas(run(OPENAI, OPENAI, [chat(lost), chat({}, "stop")])) == []
    nameless: Body = {"tool_calls": [{"function": {"arguments": "{}"}}]}
    assert deltas(run(OPENAI, OPENAI, [chat(nameless), chat({}, "stop")])) == []


def test_sources_without_a_text_to_belong_to() -> None:
    grounding = {"groundingChunks": [{"web": {"uri": "u"}}]}
    found = run(GEMINI, ANTHROPIC, [gemini(finishReason="STOP", groundingMetadata=grounding)])
    assert [payload["type"] for payload in found] == ["message_start", "message_delta", "message_stop"]


def test_gemini_parts_that_hold_nothing() -> None:
    parts: list[Any] = [{"thoughtSignature": "c2ln"}, {"functionResponse": {"name": "f", "response": None}}]
    written = translate(GEMINI, {"contents": [{"parts": parts}]}, OPENAI)
    assert [turn["content"] for turn in written["messages"]] == ["{}"]
