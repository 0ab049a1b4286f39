"""Translated parts of upstreams that are not as tidy as the samples."""

import json
from typing import Any

import pytest

from proxy.core.wire.deltas import Add, Close, Open, Queue
from tests.proxy.core.wire.running import ANTHROPIC, GEMINI, OPENAI, RESPONSES, Body, deltas, run
from tests.proxy.core.wire.stream_samples import chat, gemini, response, tool

CHAT_STREAMS: list[tuple[str, list[Body], list[tuple[str, str]]]] = [
    (
        "both at index 0",
        [chat(tool(0, '{"a":1}', "c1")), chat(tool(0, '{"b":2}', "c2"))],
        [("c1", '{"a":1}'), ("c2", '{"b":2}')],
    ),
    ("id repeated", [chat(tool(0, '{"a"', "c1")), chat(tool(0, ":1}", "c1"))], [("c1", '{"a":1}')]),
    (
        "no index",
        [
            chat({"tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{"}}]}),
            chat({"tool_calls": [{"function": {"arguments": "}"}}, "odd"]}),
        ],
        [("c1", "{}")],
    ),
    (
        "name later",
        [
            chat({"tool_calls": [{"index": 0, "id": "c1", "function": {"arguments": '{"a"'}}]}),
            chat({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ":1}"}}]}),
        ],
        [("c1", '{"a":1}')],
    ),
    ("no arguments", [chat(tool(0, "", "c1"))], [("c1", "{}")]),
    (
        "arguments as an object",
        [chat({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "f", "arguments": {"a": 1}}}]})],
        [("c1", '{"a":1}')],
    ),
]


@pytest.mark.parametrize(
    ("events", "expected"), [row[1:] for row in CHAT_STREAMS], ids=[row[0] for row in CHAT_STREAMS]
)
def test_tool_calls_as_hosts_really_send_them(events: list[Body], expected: list[tuple[str, str]]) -> None:
    payloads = run(OPENAI, ANTHROPIC, [*events, chat({}, "tool_calls")])
    ids = [p["content_block"]["id"] for p in payloads if p["type"] == "content_block_start"]
    pieces: dict[int, str] = {}
    for payload in payloads:
        if payload["type"] == "content_block_delta":
            pieces[payload["index"]] = pieces.get(payload["index"], "") + payload["delta"]["partial_json"]
    assert list(zip(ids, pieces.values(), strict=True)) == expected


def test_a_call_without_an_id_gets_one() -> None:
    events = [
        chat({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "{}"}}]}),
        chat({}, "tool_calls"),
    ]
    (call, _) = deltas(run(OPENAI, OPENAI, events))
    assert call["tool_calls"][0]["id"].startswith("call_pm_")


MIXED: list[Body] = [
    chat({"reasoning": "a", "content": ""}),
    chat(
        {
            "content": "b",
            "annotations": [{"type": "url_citation", "url_citation": {"url": "u"}}, {"type": "file"}, 7],
        }
    ),
    chat({"reasoning_details": [{"type": "reasoning.text", "text": "c", "signature": "s1"}]}),
    chat({"refusal": "No."}),
    chat({"content": [{"type": "text", "text": "d"}]}),
    chat({"annotations": [{"url": "v"}]}),
    chat({"content": "second choice"}) | {"choices": [{"index": 1, "delta": {"content": "x"}}, "odd"]},
    chat({}, "stop"),
]


def test_thoughts_texts_and_refusals_take_turns() -> None:
    payloads = run(OPENAI, ANTHROPIC, MIXED)
    blocks = [p["content_block"]["type"] for p in payloads if p["type"] == "content_block_start"]
    assert blocks == ["thinking", "text", "thinking", "text", "text"]
    assert [p["delta"]["type"] for p in payloads if p["type"] == "content_block_delta"] == [
        "thinking_delta",
        "text_delta",
        "citations_delta",
        "thinking_delta",
        "signature_delta",
        "text_delta",
        "text_delta",
        "citations_delta",
    ]
    assert payloads[-2]["delta"]["stop_reason"] == "refusal"
    chat_deltas = deltas(run(OPENAI, OPENAI, MIXED))
    assert [next(iter(delta)) for delta in chat_deltas] == [
        "reasoning_content",
        "content",
        "annotations",
        "reasoning_content",
        "reasoning_details",
        "refusal",
        "content",
        "annotations",
    ]
    assert chat_deltas[4]["reasoning_details"][0]["text"] == "c"
    items = run(OPENAI, RESPONSES, MIXED)[-1]["response"]["output"]
    assert [item["type"] for item in items] == ["reasoning", "message", "reasoning", "message", "message"]
    assert items[1]["content"][0]["annotations"][0]["url"] == "u"
    assert items[3]["content"] == [{"type": "refusal", "refusal": "No."}]
    parts = [part for p in run(OPENAI, GEMINI, MIXED) for part in p["candidates"][0]["content"]["parts"]]
    assert [part["text"] for part in parts] == ["a", "b", "c", "", "No.", "d", ""]
    assert run(OPENAI, GEMINI, MIXED)[-1]["candidates"][0]["groundingMetadata"]["groundingChunks"][1] == {
        "web": {"uri": "v", "title": ""}
    }


FREE_TEXT: dict[Any, Body] = {
    OPENAI: {"tools": [{"type": "custom", "custom": {"name": "weather"}}]},
    RESPONSES: {"tools": [{"type": "custom", "name": "weather"}]},
}


def test_a_call_of_a_free_text_tool_is_unwrapped() -> None:
    events = [chat(tool(0, '{"inp', "c1")), chat(tool(0, 'ut":"*** Begin"}')), chat({}, "tool_calls")]
    item = run(OPENAI, RESPONSES, events, FREE_TEXT[RESPONSES])[-1]["response"]["output"][0]
    assert (item["type"], item["input"], item["call_id"]) == ("custom_tool_call", "*** Begin", "c1")
    opened, said = deltas(run(OPENAI, OPENAI, events, FREE_TEXT[OPENAI]))
    assert opened["tool_calls"][0]["custom"] == {"name": "weather", "input": ""}
    assert said["tool_calls"][0] == {"index": 0, "custom": {"input": "*** Begin"}}
    broken = [chat(tool(0, '{"x":1}', "c1")), chat({}, "tool_calls")]
    assert run(OPENAI, RESPONSES, broken, FREE_TEXT[RESPONSES])[-1]["response"]["output"][0]["input"] == '{"x":1}'


def test_a_free_text_call_of_the_upstream_stays_one() -> None:
    item: Body = {"type": "custom_tool_call", "call_id": "c1", "name": "weather", "input": ""}
    events = [
        response("output_item.added", output_index=0, item=item),
        response("custom_tool_call_input.delta", output_index=0, delta="*** "),
        response("custom_tool_call_input.delta", output_index=0, delta="Begin"),
        response("output_item.done", output_index=0, item=item | {"input": "*** Begin"}),
        response("completed", response={"status": "completed"}),
    ]
    assert run(RESPONSES, RESPONSES, events, FREE_TEXT[RESPONSES])[-1]["response"]["output"][0]["input"] == "*** Begin"
    pieces = deltas(run(RESPONSES, OPENAI, events, FREE_TEXT[OPENAI]))
    assert [piece["tool_calls"][0]["custom"]["input"] for piece in pieces] == ["", "*** ", "Begin"]


def test_responses_that_send_only_whole_items() -> None:
    output = [
        {"type": "reasoning", "summary": [{"text": "Hm."}], "encrypted_content": "gAAA"},
        {"type": "reasoning", "summary": [], "encrypted_content": "gBBB"},
        {
            "type": "message",
            "content": [
                {"type": "output_text", "text": "x", "annotations": [{"url": "u"}]},
                {"type": "refusal", "refusal": "No."},
            ],
        },
        {"type": "web_search_call", "id": "w"},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
    ]
    done = [response("output_item.done", output_index=index, item=item) for index, item in enumerate(output)]
    end = response("completed", response={"id": "r", "status": "completed", "output": output})
    streamed, at_once = run(RESPONSES, ANTHROPIC, [*done, end]), run(RESPONSES, ANTHROPIC, [end])
    blocks = ["thinking", "thinking", "text", "text", "tool_use"]
    assert [p["content_block"]["type"] for p in streamed if p["type"] == "content_block_start"] == blocks
    assert [p for p in streamed if p["type"] != "message_start"] == [p for p in at_once if p["type"] != "message_start"]
    assert streamed[-2]["delta"]["stop_reason"] == "tool_use"


def test_responses_events_that_bring_nothing_or_late_arguments() -> None:
    item: Body = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": ""}
    events = [
        response("reasoning_summary_text.delta", output_index=0, delta="a"),
        response("reasoning_summary_part.added", output_index=0, summary_index=1),
        response("reasoning_summary_text.delta", output_index=0, delta="b"),
        response("refusal.delta", output_index=1, content_index=0, delta="No."),
        response("output_text.delta", output_index=2, content_index=0, delta=""),
        response("output_text.delta", output_index=2, content_index=0, delta="x"),
        response("output_text.annotation.added", output_index=2, content_index=0, annotation={"url": "u"}),
        response("output_text.annotation.added", output_index=2, content_index=0, annotation={"file_id": "f"}),
        response("audio.delta", delta="x"),
        response("function_call_arguments.delta", output_index=9, delta="x"),
        response("output_item.added", output_index=3, item=item),
        response("output_item.done", output_index=3, item=item | {"arguments": '{"a":1}'}),
        response("output_item.added", output_index=4, item=item | {"call_id": "c2"}),
        response("completed", response={"status": "completed"}),
    ]
    payloads = run(RESPONSES, OPENAI, events)
    found = deltas(payloads)
    assert "".join(delta.get("reasoning_content", "") for delta in found) == "a\n\nb"
    assert [delta["refusal"] for delta in found if "refusal" in delta] == ["No."]
    calls = [delta["tool_calls"][0] for delta in found if "tool_calls" in delta]
    assert [call["function"]["arguments"] for call in calls] == ["", '{"a":1}', "", "{}"]


def test_blocks_that_hold_something_from_the_start() -> None:
    def block(index: int, **block: Any) -> Body:
        return {"type": "content_block_start", "index": index, "content_block": block}

    events: list[Body] = [
        block(0, type="redacted_thinking", data="secret"),
        block(1, type="thinking", thinking="a", signature="s"),
        block(2, type="text", text="b", citations=[{"url": "u"}, {"file_id": "f"}]),
        block(3, type="tool_use", id="t", name="f", input={"a": 1}),
        block(4, type="server_tool_use", id="w"),
        {"type": "content_block_delta", "index": 4, "delta": {"partial_json": "{}"}},
        {"type": "content_block_stop", "index": 4},
        {"type": "content_block_delta", "index": 2, "delta": {"type": "citations_delta", "citation": {"url": "v"}}},
        {"type": "novelty"},
        {"type": "message_delta", "delta": {}},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
    ]
    found = deltas(run(ANTHROPIC, OPENAI, events))
    assert found[0]["reasoning_details"][0]["type"] == "reasoning.encrypted"
    assert found[2]["reasoning_details"][0]["text"] == "a"
    assert found[3] == {"content": "b"}
    assert [delta["annotations"][0]["url_citation"]["url"] for delta in found if "annotations" in delta] == ["u", "v"]
    assert json.loads(found[6]["tool_calls"][0]["function"]["arguments"]) == {"a": 1}


def test_gemini_details() -> None:
    grounding = {"groundingChunks": [{"web": {"uri": "u", "title": "T"}}, {"web": {}}, {"maps": {}}]}
    events = [
        gemini({"text": "hm", "thought": True, "thoughtSignature": "c2ln"}, {}, usage={"promptTokenCount": 3}),
        {"response": gemini({"text": "x"}, groundingMetadata=grounding)},
        {"candidates": [], "usageMetadata": {"promptTokenCount": 3}},
        gemini(finishReason="STOP"),
    ]
    found = deltas(run(GEMINI, OPENAI, events))
    assert found[1]["reasoning_details"][0]["signature"] == "pm1.g.c2ln"
    assert found[3]["annotations"][0]["url_citation"]["title"] == "T"


def test_the_queue_lets_one_part_through_at_a_time() -> None:
    queue = Queue()
    one, two, three = ("tool", 1, 0), ("tool", 2, 0), ("tool", 3, 0)
    opened = {key: Open(key, "tool") for key in (one, two, three)}
    assert queue.take(opened[one]) == [opened[one]]
    assert (
        queue.take(opened[two])
        == queue.take(Add(two, "b"))
        == queue.take(Close(two))
        == queue.take(opened[three])
        == []
    )
    assert queue.take(Add(one, "a")) == [Add(one, "a")]
    assert queue.take(Close(one)) == [Close(one), opened[two], Add(two, "b"), Close(two), opened[three]]
    assert queue.take(Close(three)) == [Close(three)]
