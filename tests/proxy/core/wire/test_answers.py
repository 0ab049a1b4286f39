"""Whole answers that are not as tidy as the samples."""

from typing import Any

import pytest

from keys.core.dialect import Dialect
from proxy.core.wire.translate import answer_from_form, answer_to_form, to_form
from tests.proxy.core.wire.running import ANTHROPIC, ASKS, GEMINI, OPENAI, RESPONSES, Body


def answered(source: Dialect, payload: Body, target: Dialect, ask: Body | None = None) -> Body:
    form = answer_to_form(source, payload, seed="s")
    return answer_from_form(target, form, to_form(target, ASKS[target] | (ask or {})), model="shown", created=5)


def chat(message: Any, finish: str | None = "stop", **more: Any) -> Body:
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish, **more}]}


def test_what_an_answer_lacks_is_filled() -> None:
    body = answered(OPENAI, chat({"content": "x"}, None), OPENAI)
    assert (body["id"], body["model"], body["created"]) == ("s", "shown", 5)
    assert "usage" not in body
    assert body["choices"][0]["finish_reason"] == "stop"
    assert answered(OPENAI, chat({"content": "x"}), ANTHROPIC)["usage"] == {"input_tokens": 0, "output_tokens": 0}
    assert answered(GEMINI, {"candidates": [{"content": {"parts": [{"text": "x"}]}}]}, RESPONSES)["usage"] is None


def test_calls_without_ids_get_their_own() -> None:
    entry = {"id": None, "function": {"name": "f", "arguments": ""}}
    first, second = answered(OPENAI, chat({"tool_calls": [entry, entry]}), OPENAI)["choices"][0]["message"][
        "tool_calls"
    ]
    assert first["id"] != second["id"]
    assert first["function"] == {"name": "f", "arguments": "{}"}


def test_parts_of_chat_answers() -> None:
    message = {
        "content": [{"type": "text", "text": "x"}],
        "reasoning_details": [
            {"type": "reasoning.text", "text": "Hm."},
            7,
            {"type": "reasoning.encrypted", "data": "s"},
        ],
        "refusal": "No.",
        "annotations": [{"type": "url_citation", "url_citation": {"url": "u"}}, {"type": "file"}],
    }
    body = answered(OPENAI, chat(message, "stop", stop_reason="END"), ANTHROPIC)
    assert [block["type"] for block in body["content"]] == ["thinking", "text", "text"]
    assert body["content"][0] == {"type": "thinking", "thinking": "Hm.", "signature": "pm1.o.s"}
    assert (body["stop_reason"], body["stop_sequence"]) == ("refusal", "END")
    back = answered(ANTHROPIC, body | {"stop_reason": "end_turn"}, RESPONSES)["output"]
    assert [item["type"] for item in back] == ["reasoning", "message", "message"]
    refused = answered(OPENAI, chat({"refusal": "No."}), RESPONSES)["output"][0]["content"]
    assert refused == [{"type": "refusal", "refusal": "No."}]
    assert answered(RESPONSES, {"output": [{"type": "message", "content": refused}], "status": "completed"}, OPENAI)[
        "choices"
    ][0]["message"] == {
        "role": "assistant",
        "content": None,
        "refusal": "No.",
    }
    assert answered(OPENAI, chat({"refusal": "No."}), GEMINI)["candidates"][0]["content"]["parts"] == [{"text": "No."}]


def test_traces_of_the_providers_own_tools_are_left_out() -> None:
    blocks = [{"type": "server_tool_use", "id": "s"}, {"type": "text", "text": "x"}]
    assert len(answered(ANTHROPIC, {"content": blocks, "stop_reason": "end_turn"}, ANTHROPIC)["content"]) == 1
    items = [{"type": "web_search_call"}, "odd", {"type": "reasoning", "summary": []}]
    assert answered(RESPONSES, {"output": items, "status": "completed"}, RESPONSES)["output"] == []
    parts = ["odd", {"executableCode": {}}, {"text": ""}]
    assert (
        answered(GEMINI, {"candidates": [{"content": {"parts": parts}}]}, GEMINI)["candidates"][0]["content"]["parts"]
        == []
    )


def test_free_text_calls() -> None:
    call = {"id": "c1", "function": {"name": "patch", "arguments": '{"input":"*** Begin"}'}}
    tools = {"tools": [{"type": "custom", "name": "patch"}]}
    item = answered(OPENAI, chat({"tool_calls": [call]}), RESPONSES, tools)["output"][0]
    assert (item["type"], item["input"]) == ("custom_tool_call", "*** Begin")
    chat_tools = {"tools": [{"type": "custom", "custom": {"name": "patch"}}]}
    entry = answered(RESPONSES, {"output": [item], "status": "completed"}, OPENAI, chat_tools)["choices"][0]["message"][
        "tool_calls"
    ]
    assert entry == [{"id": "c1", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}]
    broken = {"id": "c1", "function": {"name": "patch", "arguments": "*** Begin"}}
    assert (
        answered(OPENAI, chat({"tool_calls": [broken]}), OPENAI, chat_tools)["choices"][0]["message"]["tool_calls"]
        == entry
    )


def test_gemini_answers() -> None:
    parts = [
        {"text": "a", "thought": True},
        {"text": "b", "thought": True, "thoughtSignature": "c2ln"},
        {"inlineData": {"mimeType": "image/png", "data": "QUJD"}},
    ]
    body = answered(GEMINI, {"response": {"candidates": [{"content": {"parts": parts}}]}}, GEMINI)
    assert body["responseId"] == "s"
    assert body["candidates"][0]["content"]["parts"] == [
        {"text": "ab", "thought": True, "thoughtSignature": "c2ln"},
        {"inlineData": {"mimeType": "image/png", "data": "QUJD"}},
    ]
    blocked = answered(GEMINI, {"promptFeedback": {"blockReason": "SAFETY"}}, OPENAI)
    assert blocked["choices"][0]["finish_reason"] == "content_filter"
    grounded = {
        "content": {"parts": [{"text": "a"}, {"functionCall": {"name": "f"}}]},
        "groundingMetadata": {"groundingChunks": [{"web": {"uri": "u"}}]},
    }
    assert answered(GEMINI, {"candidates": [grounded]}, ANTHROPIC)["content"][0]["citations"][0]["url"] == "u"
    bare = {
        "content": {"parts": [{"functionCall": {"name": "f"}}]},
        "groundingMetadata": {"groundingChunks": [{"web": {"uri": "u"}}]},
    }
    assert len(answered(GEMINI, {"candidates": [bare]}, ANTHROPIC)["content"]) == 1


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            {
                "input_tokens": 3,
                "cache_creation_input_tokens": 9,
                "cache_creation": {"ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 5},
                "output_tokens": 2,
                "output_tokens_details": {"thinking_tokens": 1},
            },
            {"ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 5},
        ),
        ({"input_tokens": 3, "output_tokens": 2}, None),
    ],
)
def test_usage_of_messages_survives_itself(usage: Body, expected: Body | None) -> None:
    payload = {"content": [{"type": "text", "text": "x"}], "stop_reason": "end_turn", "usage": usage}
    shown = answered(ANTHROPIC, payload, ANTHROPIC)["usage"]
    assert shown["input_tokens"] == 3
    assert shown["output_tokens"] == 2
    if expected is not None:
        assert shown["cache_creation"] == expected
        assert shown["output_tokens_details"] == {"thinking_tokens": 1}
        assert answered(ANTHROPIC, payload, RESPONSES)["usage"]["input_tokens_details"]["cache_write_tokens"] == 9
        assert answered(ANTHROPIC, payload, GEMINI)["usageMetadata"]["thoughtsTokenCount"] == 1


@pytest.mark.parametrize(
    ("status", "details", "expected"),
    [
        ("completed", None, "stop"),
        ("incomplete", {"reason": "max_output_tokens"}, "length"),
        ("incomplete", {"reason": "content_filter"}, "content_filter"),
    ],
)
def test_status_of_responses(status: str, details: Body | None, expected: str) -> None:
    payload: Body = {"output": [], "status": status, "incomplete_details": details, "created_at": 7.5}
    body = answered(RESPONSES, payload, OPENAI)
    assert body["choices"][0]["finish_reason"] == expected
    assert body["created"] == 7
    again = answered(RESPONSES, payload, RESPONSES)
    assert (again["status"], again["incomplete_details"]) == (status, details)
