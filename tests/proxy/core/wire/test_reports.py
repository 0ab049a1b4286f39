"""Faults that users of other gateways suffered in translation; the number is the row of the report."""

import json
from typing import Any

from keys.core.dialect import Dialect
from proxy.core.sse import Framer
from proxy.core.wire import reading
from proxy.core.wire.translate import answer_from_form, answer_to_form, from_form, to_form
from proxy.core.wire.translate_stream import StreamTranslator
from tests.proxy.core.wire.stream_samples import ANTHROPIC_EVENTS, OPENAI_EVENTS, USAGE, chat, gemini, sse, tool

OPENAI, ANTHROPIC, GEMINI = Dialect.OPENAI, Dialect.ANTHROPIC, Dialect.GEMINI
Body = dict[str, Any]

ASK: Body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
WEATHER: Body = {"name": "weather", "input_schema": {"type": "object", "properties": {}}}
CALL: Body = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}


def to_openai(**more: Any) -> Body:
    return from_form(OPENAI, to_form(ANTHROPIC, ASK | more), model="relay-model")[0]


def messages_stream(source: Dialect, stream: bytes) -> list[Body]:
    """What a Messages client gets, as payloads."""
    translate = StreamTranslator(source, ANTHROPIC, to_form(ANTHROPIC, ASK), model="m", seed="s", created=1)
    framer = Framer()
    out = [part for event in framer.feed(stream) + framer.close() for part in translate.feed(event)]
    events = Framer().feed(b"".join(out + translate.close()))
    return [payload for event in events if (payload := reading.event_payload(event)) is not None]


def arguments(events: list[Body]) -> dict[int, Body]:
    """The JSON of each tool block, by index."""
    pieces: dict[int, str] = {}
    for event in events:
        if event["type"] == "content_block_delta" and event["delta"]["type"] == "input_json_delta":
            pieces[event["index"]] = pieces.get(event["index"], "") + event["delta"]["partial_json"]
    return {index: json.loads(text) for index, text in pieces.items()}


def test_row_8_openai_usage_counts_the_cache_once() -> None:
    answer: Body = {
        "id": "msg_1",
        "type": "message",
        "model": "c",
        "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn",
        "usage": {
            "input_tokens": 25,
            "cache_creation_input_tokens": 1447,
            "cache_read_input_tokens": 0,
            "output_tokens": 206,
        },
    }
    form = answer_to_form(ANTHROPIC, answer, seed="s")
    usage = answer_from_form(OPENAI, form, to_form(OPENAI, ASK), model="m", created=1)["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (1472, 206, 1678)


def test_row_36_a_stream_without_done_ends_properly() -> None:
    stream = sse(OPENAI, [chat({"content": "Hi"}), chat({}, "stop"), chat(None, usage=USAGE)])
    without_done = stream.removesuffix(b"data: [DONE]\n\n")
    events = messages_stream(OPENAI, without_done)
    assert [event["type"] for event in events][-2:] == ["message_delta", "message_stop"]
    assert events[-2]["usage"]["output_tokens"] == 12


def test_row_37_a_usage_chunk_without_choices_passes() -> None:
    events = messages_stream(OPENAI, sse(OPENAI, [chat({"content": "Hi"}), chat(None, usage=USAGE), chat({}, "stop")]))
    assert events[-2]["usage"]["cache_read_input_tokens"] == 10


def test_row_40_alternating_tool_deltas_reach_their_own_block() -> None:
    events = messages_stream(OPENAI, sse(OPENAI, OPENAI_EVENTS))
    assert arguments(events) == {2: {"city": "Oslo"}, 3: {"city": "Rome"}}
    starts = [
        event["content_block"]["id"]
        for event in events
        if event["type"] == "content_block_start" and event["index"] > 1
    ]
    assert starts == ["call_1", "call_2"]
    order = [event["index"] for event in events if "index" in event]
    assert order == sorted(order)


def test_row_41_a_gemini_call_brings_its_arguments() -> None:
    call = {"functionCall": {"name": "weather", "args": {"city": "Oslo"}}}
    events = messages_stream(GEMINI, sse(GEMINI, [gemini(call, finishReason="STOP")]))
    assert arguments(events) == {0: {"city": "Oslo"}}
    assert events[-2]["delta"]["stop_reason"] == "tool_use"


def test_row_42_tool_results_stand_right_behind_their_calls() -> None:
    turns = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [CALL]},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "and?"},
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "cold"},
            ],
        },
    ]
    roles = [(turn["role"], turn["content"]) for turn in to_openai(messages=turns)["messages"]]
    assert roles == [("user", "Hi"), ("assistant", None), ("tool", "cold"), ("user", "and?")]


def test_row_43_an_image_in_a_tool_result_reaches_the_upstream() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "see"}, image]}
    turns = [*ASK["messages"], {"role": "assistant", "content": [CALL]}, {"role": "user", "content": [result]}]
    tool_turn, user_turn = to_openai(messages=turns)["messages"][-2:]
    assert tool_turn == {"role": "tool", "tool_call_id": "toolu_1", "content": "see"}
    assert user_turn["content"][1] == {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
    form = to_form(ANTHROPIC, ASK | {"messages": turns})
    parts = from_form(GEMINI, form, model="gemini-2.5-pro")[0]["contents"][-1]["parts"]
    assert parts[1] == {"inlineData": {"mimeType": "image/png", "data": "QUJD"}}


def test_row_44_stop_sequences_become_stop() -> None:
    assert to_openai(stop_sequences=["END"])["stop"] == ["END"]


def test_row_45_a_tool_call_is_a_tool_use_stop() -> None:
    for reason in ("tool_calls", "stop"):
        message = {"role": "assistant", "content": None, "tool_calls": tool(0, "{}", "call_1")["tool_calls"]}
        answer = {"id": "c", "choices": [{"message": message, "finish_reason": reason}]}
        form = answer_to_form(OPENAI, answer, seed="s")
        written = answer_from_form(ANTHROPIC, form, to_form(ANTHROPIC, ASK), model="m", created=1)
        assert written["stop_reason"] == "tool_use"
        events = messages_stream(OPENAI, sse(OPENAI, [chat(tool(0, "{}", "call_1")), chat({}, reason)]))
        assert events[-2]["delta"]["stop_reason"] == "tool_use"


MARK: Body = {"cache_control": {"type": "ephemeral"}}


def test_row_46_all_cache_marks_arrive() -> None:
    marked: Body = {
        "system": [{"type": "text", "text": "Be brief.", **MARK}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi", **MARK}]}],
        "tools": [WEATHER | MARK],
    }
    body = to_openai(**marked)
    assert body["messages"][0]["content"][0]["cache_control"] == {"type": "ephemeral"}
    assert body["messages"][1]["content"][0]["cache_control"] == {"type": "ephemeral"}
    assert body["tools"][0]["cache_control"] == {"type": "ephemeral"}
    # And back, from a chat client to Messages.
    again = from_form(ANTHROPIC, to_form(OPENAI, body), model="claude-sonnet-4-5")[0]
    assert json.dumps(again).count('"cache_control": {"type": "ephemeral"}') == 3
    # Where marks are refused, that they are gone is said.
    assert "cache_control" in from_form(GEMINI, to_form(ANTHROPIC, ASK | marked), model="g")[1]


def test_row_46_a_mark_on_a_chat_message_counts_for_its_content() -> None:
    chat_body = {"messages": [{"role": "user", "content": "Hi", **MARK}], "tools": []}
    body = from_form(ANTHROPIC, to_form(OPENAI, chat_body), model="claude-sonnet-4-5")[0]
    assert body["messages"][0]["content"] == [{"type": "text", "text": "Hi", **MARK}]


def test_row_47_a_gemini_signature_comes_back_through_any_client() -> None:
    call = {"functionCall": {"name": "weather", "args": {"city": "Oslo"}}, "thoughtSignature": "c2lnbmF0dXJl"}
    answer = gemini(call, finishReason="STOP")
    for client in (OPENAI, ANTHROPIC, Dialect.RESPONSES):
        form = answer_to_form(GEMINI, answer, seed="s")
        ask = ASK if client is not Dialect.RESPONSES else {"model": "m", "input": "Hi"}
        shown = answer_from_form(client, form, to_form(client, ask), model="m", created=1)
        body = from_form(GEMINI, to_form(client, second_turn(client, shown)), model="gemini-3-pro")[0]
        (part,) = body["contents"][1]["parts"]
        assert part["thoughtSignature"] == "c2lnbmF0dXJl"
        assert part["functionCall"] == call["functionCall"]
        (response,) = body["contents"][2]["parts"]
        assert response == {"functionResponse": {"name": "weather", "response": {"output": "cold"}}}


def second_turn(client: Dialect, shown: Body) -> Body:
    """What a client sends that keeps nothing of a call but id, name and arguments."""
    match client:
        case Dialect.OPENAI:
            (call,) = shown["choices"][0]["message"]["tool_calls"]
            plain = {"id": call["id"], "type": "function", "function": call["function"]}
            turns = [
                {"role": "assistant", "content": None, "tool_calls": [plain]},
                {"role": "tool", "tool_call_id": call["id"], "content": "cold"},
            ]
            return ASK | {"messages": ASK["messages"] + turns}
        case Dialect.ANTHROPIC:
            (block,) = shown["content"]
            result = {"type": "tool_result", "tool_use_id": block["id"], "content": "cold"}
            turns = [{"role": "assistant", "content": [block]}, {"role": "user", "content": [result]}]
            return ASK | {"messages": ASK["messages"] + turns}
        case _:
            (item,) = shown["output"]
            output = {"type": "function_call_output", "call_id": item["call_id"], "output": "cold"}
            return {"model": "m", "input": [{"role": "user", "content": "Hi"}, item, output]}


def test_row_48_no_parallel_calls_when_the_client_forbids_them() -> None:
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    body = to_openai(tools=[WEATHER], tool_choice=choice)
    assert body["parallel_tool_calls"] is False
    assert body["tool_choice"] == "auto"
    assert "parallel_tool_calls" not in to_openai(tools=[WEATHER])


def test_a_translated_stream_repeats_input_and_cache_tokens_at_its_end() -> None:
    usage = messages_stream(OPENAI, sse(OPENAI, OPENAI_EVENTS))[-2]["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"], usage["output_tokens"]) == (20, 10, 12)


def test_a_broken_stream_gets_no_stop() -> None:
    cut = sse(ANTHROPIC, ANTHROPIC_EVENTS[:-2])
    translate = StreamTranslator(ANTHROPIC, OPENAI, to_form(OPENAI, ASK), model="m", seed="s", created=1)
    out = [part for event in Framer().feed(cut) for part in translate.feed(event)]
    assert not translate.complete
    assert translate.close() == []
    assert b'"finish_reason":"' not in b"".join(out)
    assert b"[DONE]" not in b"".join(out)


def test_a_system_message_inside_a_conversation_stays_in_its_place() -> None:
    turns = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "system", "content": [{"type": "text", "text": "Now be rude."}]},
        {"role": "user", "content": "Hi"},
    ]
    roles = [turn["role"] for turn in to_openai(system="Be nice.", messages=turns)["messages"]]
    assert roles == ["system", "user", "assistant", "system", "user"]
    form = to_form(ANTHROPIC, ASK | {"system": "Be nice.", "messages": turns})
    contents = from_form(GEMINI, form, model="g")[0]["contents"]
    assert [part["text"] for part in contents[2]["parts"]] == ["Now be rude.", "Hi"]


def test_what_agents_add_is_dropped_and_listed() -> None:
    agent: Body = {
        "context_management": {"edits": []} | {"x": 1},
        "output_config": {"effort": "high", "task_budget": 5},
        "tools": [WEATHER | {"defer_loading": True}, {"type": "web_search_20250305", "name": "web_search"}],
    }
    form = to_form(ANTHROPIC, ASK | agent)
    body, dropped = from_form(OPENAI, form, model="gpt-4o")
    assert dropped == (
        "context_management",
        "output_config.task_budget",
        "tools.defer_loading",
        "tools.web_search_20250305",
        "thinking",
    )
    assert [entry["function"]["name"] for entry in body["tools"]] == ["weather"]
