"""One streamed answer (a thought, a text, two parallel calls, usage), as each dialect's upstream sends it."""

from typing import Any

from keys.core.dialect import Dialect
from proxy.core.wire.jsontext import dumps

Body = dict[str, Any]


def chat(delta: Body | None = None, finish: str | None = None, **more: Any) -> Body:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_760_000_000, "model": "up"}
    return head | {"choices": choices} | more


def tool(index: int, arguments: str, call_id: str | None = None) -> Body:
    function: Body = {"arguments": arguments}
    entry: Body = {"index": index, "function": function}
    if call_id is not None:
        function["name"] = "weather"
        entry |= {"id": call_id, "type": "function"}
    return {"tool_calls": [entry]}


USAGE: Body = {
    "prompt_tokens": 30,
    "completion_tokens": 12,
    "total_tokens": 42,
    "prompt_tokens_details": {"cached_tokens": 10},
    "completion_tokens_details": {"reasoning_tokens": 4},
}

# The arguments of the two calls alternate, as some hosts really send them.
OPENAI_EVENTS: list[Body] = [
    chat({"role": "assistant", "content": ""}),
    chat({"reasoning_content": "H"}),
    chat({"reasoning_content": "m."}),
    chat({"content": "It is "}),
    chat({"content": "cold. 🙂"}),
    chat(tool(0, "", "call_1")),
    chat(tool(0, '{"city":')),
    chat(tool(1, "", "call_2")),
    chat(tool(1, '{"city":')),
    chat(tool(0, '"Oslo"}')),
    chat(tool(1, '"Rome"}')),
    chat({}, "tool_calls"),
    chat(None, usage=USAGE),
]


def response(kind: str, **more: Any) -> Body:
    return {"type": f"response.{kind}", **more}


def _call(output: int, call_id: str, city: str) -> list[Body]:
    item: Body = {"type": "function_call", "id": f"fc_{output}", "call_id": call_id, "name": "weather", "arguments": ""}
    text = f'{{"city":"{city}"}}'
    return [
        response("output_item.added", output_index=output, item=item),
        response("function_call_arguments.delta", output_index=output, item_id=f"fc_{output}", delta=text[:8]),
        response("function_call_arguments.delta", output_index=output, item_id=f"fc_{output}", delta=text[8:]),
        response("function_call_arguments.done", output_index=output, item_id=f"fc_{output}", arguments=text),
        response("output_item.done", output_index=output, item=item | {"arguments": text}),
    ]


_HEAD: Body = {"id": "resp_1", "object": "response", "created_at": 1_760_000_000, "status": "in_progress", "output": []}
_DONE: Body = _HEAD | {
    "status": "completed",
    "usage": {
        "input_tokens": 30,
        "input_tokens_details": {"cached_tokens": 10},
        "output_tokens": 12,
        "output_tokens_details": {"reasoning_tokens": 4},
        "total_tokens": 42,
    },
}
RESPONSES_EVENTS: list[Body] = [
    response("created", response=_HEAD),
    response("in_progress", response=_HEAD),
    response("output_item.added", output_index=0, item={"type": "reasoning", "id": "rs_1", "summary": []}),
    response(
        "reasoning_summary_part.added", output_index=0, summary_index=0, part={"type": "summary_text", "text": ""}
    ),
    response("reasoning_summary_text.delta", output_index=0, summary_index=0, delta="Hm."),
    response("output_item.done", output_index=0, item={"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA"}),
    response("output_item.added", output_index=1, item={"type": "message", "id": "msg_1", "content": []}),
    response("content_part.added", output_index=1, content_index=0, part={"type": "output_text", "text": ""}),
    response("output_text.delta", output_index=1, content_index=0, delta="It is "),
    response("output_text.delta", output_index=1, content_index=0, delta="cold. 🙂"),
    response("output_text.done", output_index=1, content_index=0, text="It is cold. 🙂"),
    response("output_item.done", output_index=1, item={"type": "message", "id": "msg_1"}),
    *_call(2, "call_1", "Oslo"),
    *_call(3, "call_2", "Rome"),
    response("completed", response=_DONE),
]


def _block(index: int, block: Body, *deltas: Body) -> list[Body]:
    return [
        {"type": "content_block_start", "index": index, "content_block": block},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def _json(text: str) -> Body:
    return {"type": "input_json_delta", "partial_json": text}


ANTHROPIC_EVENTS: list[Body] = [
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "up",
            "content": [],
            "usage": {
                "input_tokens": 15,
                "cache_creation_input_tokens": 5,
                "cache_read_input_tokens": 10,
                "output_tokens": 1,
            },
        },
    },
    {"type": "ping"},
    *_block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "Hm."},
        {"type": "signature_delta", "signature": "sig=="},
    ),
    *_block(
        1,
        {"type": "text", "text": ""},
        {"type": "text_delta", "text": "It is "},
        {"type": "text_delta", "text": "cold. 🙂"},
    ),
    *_block(
        2,
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}},
        _json(""),
        _json('{"city":'),
        _json('"Oslo"}'),
    ),
    *_block(3, {"type": "tool_use", "id": "toolu_2", "name": "weather", "input": {}}, _json('{"city":"Rome"}')),
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 12},
    },
    {"type": "message_stop"},
]


def gemini(*parts: Body, usage: Body | None = None, **more: Any) -> Body:
    candidate = {"content": {"role": "model", "parts": list(parts)}, "index": 0} | more
    return {"candidates": [candidate], "modelVersion": "up", "responseId": "g-1"} | (
        {"usageMetadata": usage} if usage else {}
    )


GEMINI_EVENTS: list[Body] = [
    gemini({"text": "Hm.", "thought": True}, usage={"promptTokenCount": 30, "totalTokenCount": 30}),
    gemini({"text": "It is "}),
    gemini({"text": "cold. 🙂"}),
    gemini(
        {"functionCall": {"name": "weather", "args": {"city": "Oslo"}}, "thoughtSignature": "c2ln"},
        {"functionCall": {"name": "weather", "args": {"city": "Rome"}}},
    ),
    gemini(
        {"text": ""},
        finishReason="STOP",
        usage={
            "promptTokenCount": 30,
            "cachedContentTokenCount": 10,
            "candidatesTokenCount": 8,
            "thoughtsTokenCount": 4,
            "totalTokenCount": 42,
        },
    ),
]


def sse(dialect: Dialect, events: list[Body]) -> bytes:
    """The stream as bytes, with the names and the end that the dialect has."""
    named = dialect in (Dialect.ANTHROPIC, Dialect.RESPONSES)
    parts = [(f"event: {e['type']}\n".encode() if named else b"") + b"data: " + dumps(e) + b"\n\n" for e in events]
    return b"".join(parts) + (b"data: [DONE]\n\n" if dialect is Dialect.OPENAI else b"")


EVENTS: dict[Dialect, list[Body]] = {
    Dialect.OPENAI: OPENAI_EVENTS,
    Dialect.RESPONSES: RESPONSES_EVENTS,
    Dialect.ANTHROPIC: ANTHROPIC_EVENTS,
    Dialect.GEMINI: GEMINI_EVENTS,
}
STREAMS: dict[Dialect, bytes] = {dialect: sse(dialect, events) for dialect, events in EVENTS.items()}
