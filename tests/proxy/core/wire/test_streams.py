"""How translated streams end, and what stands around their parts."""

import pytest
from openai.types.responses import ResponseFailedEvent

from keys.core.dialect import Dialect
from proxy.core.sse import Event, Framer
from proxy.core.wire import reading
from tests.proxy.core.wire.running import ANTHROPIC, GEMINI, OPENAI, RESPONSES, Body, reason, run, started
from tests.proxy.core.wire.stream_samples import ANTHROPIC_EVENTS, STREAMS, USAGE, chat, gemini, response, sse, tool

ENDS: list[tuple[Dialect, list[Body], str]] = [
    (OPENAI, [chat({"content": "x"}, "length")], "length"),
    (OPENAI, [chat({"content": "x"}, "content_filter")], "content_filter"),
    (
        OPENAI,
        [
            chat({"content": "x"}, "stop")
            | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "stop_reason": "END"}]}
        ],
        "stop",
    ),
    (ANTHROPIC, [{"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}], "length"),
    (ANTHROPIC, [{"type": "message_delta", "delta": {"stop_reason": "refusal"}}], "content_filter"),
    (ANTHROPIC, [{"type": "message_delta", "delta": {"stop_reason": "model_context_window_exceeded"}}], "length"),
    (ANTHROPIC, [{"type": "message_delta", "delta": {"stop_reason": "pause_turn"}}], "stop"),
    (ANTHROPIC, [{"type": "message_delta", "delta": {"stop_reason": "novelty"}}], "stop"),
    (GEMINI, [gemini({"text": "x"}, finishReason="MAX_TOKENS")], "length"),
    (GEMINI, [gemini(finishReason="SAFETY")], "content_filter"),
    (GEMINI, [{"promptFeedback": {"blockReason": "SAFETY"}}], "content_filter"),
    (
        RESPONSES,
        [
            response(
                "incomplete", response={"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
            )
        ],
        "length",
    ),
    (
        RESPONSES,
        [response("incomplete", response={"status": "incomplete", "incomplete_details": {"reason": "content_filter"}})],
        "content_filter",
    ),
    (RESPONSES, [response("incomplete", response={"status": "incomplete"})], "length"),
]


@pytest.mark.parametrize(("source", "events", "expected"), ENDS)
def test_stop_reasons(source: Dialect, events: list[Body], expected: str) -> None:
    assert reason(run(source, OPENAI, events)) == expected


@pytest.mark.parametrize(
    ("stop", "anthropic", "status", "gemini_reason"),
    [
        ("max_tokens", "max_tokens", "incomplete", "MAX_TOKENS"),
        ("refusal", "refusal", "incomplete", "SAFETY"),
        ("stop_sequence", "stop_sequence", "completed", "STOP"),
        ("end_turn", "end_turn", "completed", "STOP"),
    ],
)
def test_stop_reasons_in_other_words(stop: str, anthropic: str, status: str, gemini_reason: str) -> None:
    events = [{"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": "END"}}]
    last = run(ANTHROPIC, ANTHROPIC, events)[-2]["delta"]
    assert (last["stop_reason"], last["stop_sequence"]) == (anthropic, "END")
    assert run(ANTHROPIC, RESPONSES, events)[-1]["response"]["status"] == status
    assert run(ANTHROPIC, GEMINI, events)[-1]["candidates"][0]["finishReason"] == gemini_reason


def test_a_matched_stop_sequence_is_told() -> None:
    choice = {"index": 0, "delta": {}, "finish_reason": "stop", "stop_reason": "END"}
    last = run(OPENAI, ANTHROPIC, [chat({"content": "x"}), chat({}) | {"choices": [choice]}])[-2]["delta"]
    assert last == {"stop_reason": "stop_sequence", "stop_sequence": "END"}


def test_done_without_a_finish_is_an_end_too() -> None:
    assert reason(run(OPENAI, OPENAI, [chat({"content": "x"})])) == "stop"
    assert reason(run(OPENAI, OPENAI, [chat(tool(0, "{}", "c"))])) == "tool_calls"
    events = [*ANTHROPIC_EVENTS[:-2], {"type": "message_stop"}]
    assert reason(run(ANTHROPIC, OPENAI, events)) == "tool_calls"


BROKEN: list[tuple[Dialect, list[Body]]] = [
    (OPENAI, [chat({"content": "x"}), chat({}, "error")]),
    (OPENAI, [chat({"content": "x"}), {"error": {"message": "x"}}, chat({}, "stop")]),
    (ANTHROPIC, [*ANTHROPIC_EVENTS[:4], {"type": "error", "error": {"type": "overloaded_error"}}]),
    (GEMINI, [gemini({"text": "x"}, finishReason="MALFORMED_FUNCTION_CALL"), gemini({"text": "more"})]),
    (GEMINI, [gemini({"inlineData": {"mimeType": "image/png", "data": "QUJD"}}, finishReason="STOP")]),
    (RESPONSES, [response("failed", response={"status": "failed", "error": {"message": "Broke."}})]),
    (RESPONSES, [response("cancelled", response={"status": "cancelled"})]),
    (
        RESPONSES,
        [response("output_item.done", output_index=0, item={"type": "message", "content": [{"type": "novelty"}]})],
    ),
]


@pytest.mark.parametrize(("source", "events"), BROKEN)
@pytest.mark.parametrize("target", list(Dialect))
def test_a_failure_is_never_made_a_stop(source: Dialect, target: Dialect, events: list[Body]) -> None:
    translate = started(source, target)
    for event in Framer().feed(sse(source, events)):
        translate.feed(event)
    assert translate.failed
    assert not translate.complete
    assert translate.close() == []


@pytest.mark.parametrize("source", list(Dialect))
@pytest.mark.parametrize("target", list(Dialect))
def test_silence_or_a_cut_is_no_answer(source: Dialect, target: Dialect) -> None:
    assert started(source, target).close() == []
    translate = started(source, target)
    events = Framer().feed(STREAMS[source])
    for event in events[: len(events) // 2]:
        translate.feed(event)
    assert translate.close() == []
    assert not translate.complete


def test_the_error_that_ends_a_responses_stream_goes_on_counting() -> None:
    translate, framer = started(OPENAI, RESPONSES), Framer()
    sent = [part for event in framer.feed(sse(OPENAI, [chat({"content": "x"})])) for part in translate.feed(event)]
    (event,) = Framer().feed(translate.error(502, "server_error", "Broke."))
    failed = ResponseFailedEvent.model_validate_json(event.data)
    assert failed.sequence_number == len(sent)
    assert failed.response.id == "chatcmpl-1"
    assert failed.response.model == "shown"


@pytest.mark.parametrize("target", [OPENAI, ANTHROPIC, GEMINI])
def test_the_error_event_is_in_the_clients_dialect(target: Dialect) -> None:
    (event,) = Framer().feed(started(RESPONSES, target).error(502, "server_error", "Broke."))
    assert reading.kind(target, event) is reading.Kind.ERROR
    assert b"Broke." in event.data


def test_keep_alives_stay_keep_alives() -> None:
    comment, ping = Event(b": processing\n\n"), Event(b'event: ping\ndata: {"type":"ping"}\n\n')
    for source, event in ((OPENAI, comment), (ANTHROPIC, ping), (ANTHROPIC, comment)):
        for target in Dialect:
            beat = reading.KEEPALIVE[target]
            assert started(source, target).feed(event) == ([beat] if beat else [])
    assert started(OPENAI, ANTHROPIC).feed(Event(b"\n")) == []
    assert started(ANTHROPIC, OPENAI).feed(Event(b"data: [DONE]\n\n")) == []


def test_usage_goes_to_chat_clients_that_ask_for_it() -> None:
    stream = [chat({"content": "x"}, "stop"), chat(None, usage=USAGE)]
    asked = run(OPENAI, OPENAI, stream)
    assert asked[-1]["choices"] == []
    assert asked[-1]["usage"]["prompt_tokens"] == 30
    assert all(payload["usage"] is None for payload in asked[:-1])
    for options in (None, {"include_usage": False}):
        assert "usage" not in str(run(OPENAI, OPENAI, stream, {"stream_options": options}))


def test_usage_that_comes_after_done_counts() -> None:
    stream = STREAMS[OPENAI].replace(b"data: [DONE]\n\n", b"")
    late = stream.rpartition(b"data: ")
    moved = late[0] + b"data: [DONE]\n\n" + b"".join(late[1:])
    assert run(OPENAI, ANTHROPIC, moved)[-2]["usage"]["output_tokens"] == 12
    translate = started(OPENAI, ANTHROPIC)
    assert translate.usage is None


@pytest.mark.parametrize("target", [ANTHROPIC, RESPONSES, GEMINI])
def test_no_usage_is_no_number_where_the_dialect_allows_it(target: Dialect) -> None:
    last = run(OPENAI, target, [chat({"content": "x"}, "stop")])
    if target is ANTHROPIC:
        assert last[-2]["usage"] == {"input_tokens": 0, "output_tokens": 0}
    elif target is RESPONSES:
        assert last[-1]["response"]["usage"] is None
    else:
        assert "usageMetadata" not in last[-1]


def test_ids_and_times_are_made_up_only_when_missing() -> None:
    bare = [{"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]}]
    assert (run(OPENAI, OPENAI, bare)[0]["id"], run(OPENAI, OPENAI, bare)[0]["created"]) == ("chatcmpl-s", 5)
    assert run(OPENAI, ANTHROPIC, bare)[0]["message"]["id"] == "msg_s"
    assert run(OPENAI, RESPONSES, bare)[0]["response"]["id"] == "resp_s"
    assert run(OPENAI, GEMINI, bare)[0]["responseId"] == "s"
