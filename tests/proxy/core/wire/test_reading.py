"""What each stream event means, in every dialect."""

import json
from typing import Any

import pytest

from keys.core.dialect import Dialect
from proxy.core.sse import Event, Framer
from proxy.core.wire import reading
from proxy.core.wire.reading import KEEPALIVE, Kind

OPENAI, RESPONSES, ANTHROPIC, GEMINI = Dialect.OPENAI, Dialect.RESPONSES, Dialect.ANTHROPIC, Dialect.GEMINI


def data(payload: Any, name: str = "") -> Event:
    text = payload if isinstance(payload, str) else json.dumps(payload, separators=(",", ":"))
    return Event((f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode())


def spaced(payload: Any) -> Event:
    return Event(b"data: " + json.dumps(payload).encode() + b"\n\n")


def chunk(delta: Any, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice], **more}


def named(payload: dict[str, Any]) -> Event:
    return data(payload, payload["type"])


USAGE = {"prompt_tokens": 1, "completion_tokens": 2}
TOOL = [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": ""}}]

OPENAI_CASES = [
    ("comment", Event(b": OPENROUTER PROCESSING\n\n"), Kind.QUIET),
    ("blank line", Event(b"\n"), Kind.QUIET),
    ("ping event", Event(b"event: ping\ndata:\n\n"), Kind.QUIET),
    ("ping object", data({"type": "ping"}), Kind.QUIET),
    ("ping text", data("ping"), Kind.QUIET),
    ("role only", data(chunk({"role": "assistant", "content": ""})), Kind.QUIET),
    ("role and null content", data(chunk({"role": "assistant", "content": None, "refusal": None})), Kind.QUIET),
    ("empty delta", data(chunk({})), Kind.QUIET),
    ("null delta", data(chunk(None)), Kind.QUIET),
    (
        "filter results",
        data({"choices": [], "prompt_filter_results": [{"prompt_index": 0}], "usage": None}),
        Kind.QUIET,
    ),
    ("role and usage", data(chunk({"role": "assistant", "content": ""}, usage=USAGE)), Kind.QUIET),
    ("text", data(chunk({"content": "Hi"})), Kind.CONTENT),
    ("text, spaced", spaced(chunk({"content": "Hi"})), Kind.CONTENT),
    ("text that quotes an error", data(chunk({"content": '{"error":{"message":"x"}}'})), Kind.CONTENT),
    ("text that quotes a finish", data(chunk({"content": '"finish_reason":"error"'})), Kind.CONTENT),
    ("reasoning", data(chunk({"content": None, "reasoning_content": "hm"})), Kind.CONTENT),
    ("OpenRouter reasoning", data(chunk({"content": "", "reasoning": "hm"})), Kind.CONTENT),
    ("tool call", data(chunk({"tool_calls": TOOL})), Kind.CONTENT),
    ("refusal", data(chunk({"refusal": "No"})), Kind.CONTENT),
    ("audio", data(chunk({"audio": {"data": "aa"}})), Kind.CONTENT),
    ("older completion", data({"choices": [{"text": "Hi", "finish_reason": None}]}), Kind.CONTENT),
    ("older completion, empty", data({"choices": [{"text": "", "finish_reason": None}]}), Kind.QUIET),
    ("unknown object", data({"object": "novelty"}), Kind.CONTENT),
    ("number", data("7"), Kind.CONTENT),
    ("odd choice", data({"choices": ["x"]}), Kind.QUIET),
    ("usage chunk", data({"choices": [], "usage": USAGE}), Kind.USAGE),
    ("finish", data(chunk({}, "stop")), Kind.FINISH),
    ("finish with text", data(chunk({"content": "Hi"}, "length")), Kind.FINISH),
    ("finish with usage", data(chunk({}, "stop", usage=USAGE)), Kind.FINISH),
    ("done", data("[DONE]"), Kind.END),
    ("done, padded", Event(b"data:  [DONE] \n\n"), Kind.END),
    ("speech done", data({"type": "speech.audio.done", "usage": {}}), Kind.END),
    ("speech delta", data({"type": "speech.audio.delta", "audio": "aa"}), Kind.CONTENT),
    ("error object", data({"error": {"message": "x", "code": None}}), Kind.ERROR),
    ("error text", data({"error": "The model has crashed"}), Kind.ERROR),
    ("null error", data(chunk({"content": "Hi"}, error=None)), Kind.CONTENT),
    ("error beside choices", data(chunk({"content": ""}, "error", error={"code": 502})), Kind.ERROR),
    ("finish reason error", data(chunk({"content": ""}, "error")), Kind.ERROR),
    ("choice error", data({"choices": [{"error": {"code": 1}, "delta": {"content": "x"}}]}), Kind.ERROR),
    ("event: error", data({"message": "x"}, "error"), Kind.ERROR),
    ("event: error without data", Event(b"event: error\n\n"), Kind.ERROR),
    ("llama.cpp field", Event(b'error: {"code":500,"message":"x"}\n\n'), Kind.ERROR),
    ("array-wrapped", data([{"error": {"code": 429}}]), Kind.ERROR),
    ("flat type", data({"type": "error", "code": "x"}), Kind.ERROR),
    ("vLLM", data({"object": "error", "message": "x", "code": 400}), Kind.ERROR),
    ("MiniMax", data({"choices": None, "base_resp": {"status_code": 1002}}), Kind.ERROR),
    ("MiniMax fine", data(chunk({"content": "Hi"}, base_resp={"status_code": 0})), Kind.CONTENT),
    ("Baidu", data({"error_code": 18, "error_msg": "x"}), Kind.ERROR),
    ("relay", data({"success": False, "message": "x"}), Kind.ERROR),
    ("SiliconFlow", data({"code": 30001, "message": "x", "data": None}), Kind.ERROR),
    ("FastAPI", data({"detail": "Unauthorized"}), Kind.ERROR),
    ("plain text", data("upstream overloaded"), Kind.ERROR),
    ("half an event", Event(b'data: {"id":"chatcmpl', complete=False), Kind.ERROR),
    (
        "half an event with text",
        Event(b'data: {"choices":[{"finish_reason":null,"delta":{"content":"Hi', complete=False),
        Kind.ERROR,
    ),
]

RESPONSE: dict[str, Any] = {"id": "r", "status": "in_progress", "output": [], "error": None}
RESPONSES_CASES = [
    ("created", named({"type": "response.created", "response": RESPONSE}), Kind.QUIET),
    ("in progress", named({"type": "response.in_progress", "response": RESPONSE}), Kind.QUIET),
    ("queued", named({"type": "response.queued", "response": RESPONSE}), Kind.QUIET),
    ("rate limits", named({"type": "codex.rate_limits"}), Kind.QUIET),
    ("keep-alive", named({"type": "keepalive", "sequence_number": 3}), Kind.QUIET),
    (
        "empty message",
        named({"type": "response.output_item.added", "item": {"type": "message", "content": []}}),
        Kind.QUIET,
    ),
    (
        "empty thought",
        named({"type": "response.output_item.added", "item": {"type": "reasoning", "summary": []}}),
        Kind.QUIET,
    ),
    (
        "encrypted thought",
        named({"type": "response.output_item.added", "item": {"type": "reasoning", "encrypted_content": "g"}}),
        Kind.CONTENT,
    ),
    (
        "function call",
        named({"type": "response.output_item.added", "item": {"type": "function_call", "name": "f"}}),
        Kind.CONTENT,
    ),
    ("odd item", named({"type": "response.output_item.added", "item": None}), Kind.CONTENT),
    (
        "empty part",
        named({"type": "response.content_part.added", "part": {"type": "output_text", "text": "", "logprobs": [1]}}),
        Kind.QUIET,
    ),
    ("text", named({"type": "response.output_text.delta", "delta": "Hi"}), Kind.CONTENT),
    ("empty text", named({"type": "response.output_text.delta", "delta": ""}), Kind.QUIET),
    ("text without a name", data({"type": "response.output_text.delta", "delta": "Hi"}), Kind.CONTENT),
    ("arguments", named({"type": "response.function_call_arguments.delta", "delta": "{"}), Kind.CONTENT),
    ("empty text done", named({"type": "response.output_text.done", "text": ""}), Kind.QUIET),
    ("text done", named({"type": "response.output_text.done", "text": "Hi"}), Kind.CONTENT),
    ("done without text", named({"type": "response.audio.done"}), Kind.CONTENT),
    (
        "message done",
        named(
            {
                "type": "response.output_item.done",
                "item": {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]},
            }
        ),
        Kind.CONTENT,
    ),
    ("search", named({"type": "response.web_search_call.searching"}), Kind.CONTENT),
    ("no type", data({"novelty": 1}), Kind.CONTENT),
    ("completed", named({"type": "response.completed", "response": RESPONSE}), Kind.END),
    ("incomplete", named({"type": "response.incomplete", "response": RESPONSE}), Kind.END),
    ("completed but failed", named({"type": "response.completed", "response": {"status": "failed"}}), Kind.ERROR),
    ("failed", named({"type": "response.failed", "response": RESPONSE}), Kind.ERROR),
    ("nested error", named({"type": "error", "error": {"code": "x"}}), Kind.ERROR),
    ("flat error", named({"type": "error", "code": "server_error", "message": "x"}), Kind.ERROR),
    ("error in text", named({"type": "response.output_text.delta", "delta": '"error"'}), Kind.CONTENT),
    ("done mark", data("[DONE]"), Kind.QUIET),
]


def block(**block: Any) -> Event:
    return named({"type": "content_block_start", "index": 0, "content_block": block})


def delta(**delta: Any) -> Event:
    return named({"type": "content_block_delta", "index": 0, "delta": delta})


ANTHROPIC_CASES = [
    ("ping", named({"type": "ping"}), Kind.QUIET),
    ("ping, unnamed", data({"type": "ping"}), Kind.QUIET),
    ("start", named({"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 3}}}), Kind.QUIET),
    ("start with content", named({"type": "message_start", "message": {"content": [{"type": "text"}]}}), Kind.CONTENT),
    ("empty text block", block(type="text", text="", citations=None), Kind.QUIET),
    ("empty thinking block", block(type="thinking", thinking="", signature=""), Kind.QUIET),
    ("text block", block(type="text", text="Hi"), Kind.CONTENT),
    ("tool block", block(type="tool_use", id="t", name="f", input={}), Kind.CONTENT),
    ("redacted", block(type="redacted_thinking", data="x"), Kind.CONTENT),
    ("text", delta(type="text_delta", text="Hi"), Kind.CONTENT),
    ("text, unnamed", data({"type": "content_block_delta", "delta": {"text": "Hi"}}), Kind.CONTENT),
    ("empty text", delta(type="text_delta", text=""), Kind.QUIET),
    ("thinking", delta(type="thinking_delta", thinking="hm"), Kind.CONTENT),
    ("empty arguments", delta(type="input_json_delta", partial_json=""), Kind.QUIET),
    ("odd delta", named({"type": "content_block_delta", "delta": None}), Kind.CONTENT),
    ("block stop", named({"type": "content_block_stop", "index": 0}), Kind.QUIET),
    ("block stop, spaced", spaced({"type": "content_block_stop", "index": 0}), Kind.QUIET),
    (
        "usage",
        named({"type": "message_delta", "delta": {"stop_reason": None}, "usage": {"output_tokens": 1}}),
        Kind.USAGE,
    ),
    ("nothing new", named({"type": "message_delta", "delta": {}}), Kind.QUIET),
    ("stop reason", named({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}), Kind.FINISH),
    ("stop", named({"type": "message_stop"}), Kind.END),
    ("done mark", data("[DONE]"), Kind.QUIET),
    ("unknown", named({"type": "novelty"}), Kind.CONTENT),
    ("error", named({"type": "error", "error": {"type": "overloaded_error"}}), Kind.ERROR),
    ("error, unnamed", data({"type": "error", "error": {"type": "overloaded_error"}}), Kind.ERROR),
    ("error, OpenAI style", data({"error": {"message": "x"}}), Kind.ERROR),
]


def candidate(*parts: Any, **more: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "index": 0, **more}]}


GEMINI_CASES = [
    ("text", spaced(candidate({"text": "Hi"})), Kind.CONTENT),
    ("thought", data(candidate({"text": "hm", "thought": True})), Kind.CONTENT),
    ("empty text", data(candidate({"text": ""})), Kind.QUIET),
    ("empty thought", data(candidate({"text": "", "thought": True})), Kind.QUIET),
    ("call", data(candidate({"functionCall": {"name": "f", "args": {}}})), Kind.CONTENT),
    ("signature", data(candidate({"text": "", "thoughtSignature": "s"})), Kind.CONTENT),
    ("no parts", data({"candidates": [{"content": {"role": "model"}}]}), Kind.QUIET),
    ("usage", data({"usageMetadata": {"promptTokenCount": 3}}), Kind.USAGE),
    ("empty object", data({}), Kind.QUIET),
    ("unknown", data({"novelty": 1}), Kind.CONTENT),
    ("finish", data(candidate({"text": "Hi"}, finishReason="STOP")), Kind.END),
    ("wrapped", data({"response": candidate({"text": "Hi"})}), Kind.CONTENT),
    ("wrapped finish", data({"response": candidate(finishReason="STOP")}), Kind.END),
    ("blocked prompt", data({"promptFeedback": {"blockReason": "SAFETY"}}), Kind.ERROR),
    ("fine prompt", data({"promptFeedback": {}, "usageMetadata": {"promptTokenCount": 3}}), Kind.USAGE),
    ("error", data({"error": {"code": 503, "status": "UNAVAILABLE"}}), Kind.ERROR),
    ("array error", data([{"error": {"code": 503}}]), Kind.ERROR),
    ("done mark", data("[DONE]"), Kind.QUIET),
    ("comment", Event(b": x\n\n"), Kind.QUIET),
]

CASES = [
    pytest.param(dialect, event, kind, id=f"{dialect}: {name}")
    for dialect, cases in [
        (OPENAI, OPENAI_CASES),
        (RESPONSES, RESPONSES_CASES),
        (ANTHROPIC, ANTHROPIC_CASES),
        (GEMINI, GEMINI_CASES),
    ]
    for name, event, kind in cases
]


@pytest.mark.parametrize(("dialect", "event", "kind"), CASES)
def test_kind(dialect: Dialect, event: Event, kind: Kind) -> None:
    assert reading.kind(dialect, event) is kind


@pytest.mark.parametrize(("dialect", "event", "kind"), CASES)
def test_kind_does_not_depend_on_line_ends(dialect: Dialect, event: Event, kind: Kind) -> None:
    if event.complete:
        assert reading.kind(dialect, Event(event.raw.replace(b"\n", b"\r\n"))) is kind


@pytest.mark.parametrize("dialect", [OPENAI, RESPONSES, ANTHROPIC])
def test_a_keep_alive_is_quiet(dialect: Dialect) -> None:
    (event,) = Framer().feed(KEEPALIVE[dialect])
    assert reading.kind(dialect, event) is Kind.QUIET
    assert reading.repaired(dialect, event) == KEEPALIVE[dialect]


def test_gemini_has_no_keep_alive() -> None:
    assert KEEPALIVE[GEMINI] == b""


@pytest.mark.parametrize(
    ("text", "usage", "only"),
    [
        ('{"choices":[],"usage":{"prompt_tokens":1}}', True, True),
        ('{"choices": [], "usage": {"prompt_tokens": 1}}', True, True),
        ('{"choices":null,"usage":{"prompt_tokens":1}}', True, True),
        ('{"choices":[{"delta":{}}],"usage":{"prompt_tokens":1}}', True, False),
        ('{"choices":[{"delta":{}}],"usage":null}', False, False),
        ('{"choices":[],"usage":null}', False, False),
        ('{"choices":[],"usage": null}', True, False),
        ('{"usage":null,"x":{"usage":{"total":1}}}', True, False),
        ('{"candidates":[],"usageMetadata":{"promptTokenCount":3}}', True, False),
        ('{"choices":[{"delta":{"content":"the \\"usage\\""}}]}', False, False),
        ('{"type":"response.completed","response":{"usage":{}}}', True, False),
        ('"usage" is no JSON', True, False),
        ('["usage"]', True, False),
    ],
)
def test_usage(text: str, usage: bool, only: bool) -> None:
    assert reading.has_usage(text.encode()) is usage
    assert reading.is_usage_only_chunk(text.encode()) is only


@pytest.mark.parametrize(
    ("raw", "whole"),
    [
        (b'data: {"a":1}', True),
        (b"data: [DONE]", True),
        (b"data: [DO", False),
        (b'data: {"a":', False),
        (b"event: message_st", False),
        (b'error: {"code":500}', True),
    ],
)
def test_a_cut_event_is_told_from_a_missing_blank_line(raw: bytes, whole: bool) -> None:
    assert reading.is_whole(Event(raw, complete=False)) is whole
    assert reading.is_whole(Event(raw + b"\n\n"))


@pytest.mark.parametrize(
    ("dialect", "raw", "expected"),
    [
        (OPENAI, b'data: {"a":1}\n\n', None),
        (OPENAI, b": comment\n\n", None),
        (OPENAI, b"event: ping\ndata:\n\n", b""),
        (OPENAI, b"event: ping\ndata: {}\n\n", b""),
        (OPENAI, b'data: {"type":"ping"}\n\n', b""),
        (OPENAI, b'data: {"choices":[{"delta":{"tool":"ping"}}]}\n\n', None),
        (OPENAI, b"id: 7\n\n", b""),
        (OPENAI, b"data:[DONE]\n\n", None),
        (ANTHROPIC, b'event: ping\ndata: {"type":"ping"}\n\n', None),
        (ANTHROPIC, b'data: {"type":"message_stop"}\n\n', b'event: message_stop\ndata: {"type":"message_stop"}\n\n'),
        (ANTHROPIC, b'event:message_stop\ndata:{"type":"message_stop"}\n\n', None),
        (ANTHROPIC, b"data: [DONE]\n\n", b""),
        (ANTHROPIC, b'data: {"x":1}\n\n', None),
        (ANTHROPIC, b"data: text\n\n", None),
        (
            RESPONSES,
            b'data: {"type":"response.queued"}\n\n',
            b'event: response.queued\ndata: {"type":"response.queued"}\n\n',
        ),
        (RESPONSES, b"event: x\ndata:\n\n", b""),
        (RESPONSES, b": comment\n\n", None),
        (GEMINI, b'data: {"a":1}\n\n', None),
        (GEMINI, b'data:{"a":1}\n\n', b'data: {"a":1}\n\n'),
        (GEMINI, b'event: x\r\ndata: {"a":1}\r\n\r\n', b'data: {"a":1}\n\n'),
        (GEMINI, b'data: {\ndata: "a":1}\n\n', b'data: { "a":1}\n\n'),
        (GEMINI, b": comment\n\n", b"\n\n"),
        (GEMINI, b"\n", None),
        (GEMINI, b"data: [DONE]\n\n", b""),
    ],
)
def test_only_what_an_sdk_cannot_take_is_changed(dialect: Dialect, raw: bytes, expected: bytes | None) -> None:
    assert reading.repaired(dialect, Event(raw)) == (raw if expected is None else expected)


@pytest.mark.parametrize("dialect", [OPENAI, RESPONSES, ANTHROPIC, GEMINI])
def test_a_trailing_event_gets_its_blank_line(dialect: Dialect) -> None:
    event = Event(b'data: {"a":1}', complete=False)
    assert reading.repaired(dialect, event) == b'data: {"a":1}\n\n'


@pytest.mark.parametrize(
    ("dialect", "payload", "expected"),
    [
        (OPENAI, {"choices": [{"message": {"role": "assistant", "content": "Hi"}}]}, True),
        (OPENAI, {"choices": [{"message": {"role": "assistant", "content": ""}}]}, False),
        (OPENAI, {"choices": [{"text": "Hi"}]}, True),
        (OPENAI, {"choices": []}, False),
        (OPENAI, {"object": "list", "data": []}, True),
        (OPENAI, {}, False),
        (OPENAI, "text", False),
        (RESPONSES, {"output": [{"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}]}, True),
        (RESPONSES, {"output": [{"type": "message", "content": [{"type": "output_text", "text": ""}]}]}, False),
        (RESPONSES, {"output": []}, False),
        (RESPONSES, {"input_tokens": 3}, True),
        (ANTHROPIC, {"type": "message", "content": [{"type": "text", "text": "Hi"}]}, True),
        (ANTHROPIC, {"type": "message", "content": [{"type": "text", "text": ""}]}, False),
        (ANTHROPIC, {"type": "message", "content": None}, False),
        (ANTHROPIC, {"input_tokens": 3}, True),
        (GEMINI, candidate({"text": "Hi"}), True),
        (GEMINI, candidate(finishReason="STOP"), False),
        (GEMINI, {"candidates": [{"content": {"role": "model"}, "finishReason": "STOP"}]}, False),
        (GEMINI, {"promptFeedback": {"blockReason": "SAFETY"}}, False),
        (GEMINI, {"usageMetadata": {}}, False),
        (GEMINI, {"totalTokens": 3}, True),
        (GEMINI, [candidate(), candidate({"text": "Hi"})], True),
        (GEMINI, [], False),
    ],
)
def test_has_content(dialect: Dialect, payload: Any, expected: bool) -> None:
    assert reading.has_content(dialect, payload) is expected


def test_event_payload() -> None:
    assert reading.event_payload(data({"a": 1})) == {"a": 1}
    assert reading.event_payload(Event(b'data: {"a": NaN}\n\n')) is not None
    assert reading.event_payload(data("[DONE]")) is None
    assert reading.event_payload(data([1])) is None
