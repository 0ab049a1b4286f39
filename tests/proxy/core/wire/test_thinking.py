"""Thinking: how much is asked for, and how signed thoughts find back to who signed them."""

from typing import Any

import pytest

from keys.core.dialect import Dialect
from proxy.core.wire import signatures
from proxy.core.wire.form import Signature
from proxy.core.wire.schemas import closed, from_gemini
from proxy.core.wire.traits import Traits, traits_of
from proxy.core.wire.translate import answer_from_form, answer_to_form, from_form, to_form

OPENAI, RESPONSES, ANTHROPIC, GEMINI = Dialect.OPENAI, Dialect.RESPONSES, Dialect.ANTHROPIC, Dialect.GEMINI
Body = dict[str, Any]
HI: Body = {"role": "user", "content": "Hi"}
OLD, NEW = "claude-sonnet-4-5", "claude-opus-4-7"


def chat(*messages: Body, **more: Any) -> Body:
    return {"model": "m", "messages": list(messages or (HI,)), **more}


ASKED = [
    (OPENAI, chat(reasoning_effort="low"), ANTHROPIC, OLD, {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
    (
        OPENAI,
        chat(reasoning_effort="high", max_tokens=4000),
        ANTHROPIC,
        OLD,
        {"thinking": {"type": "enabled", "budget_tokens": 2000}},
    ),
    (OPENAI, chat(reasoning_effort="none"), ANTHROPIC, OLD, {}),
    (
        OPENAI,
        chat(reasoning={"max_tokens": 3000}),
        ANTHROPIC,
        OLD,
        {"thinking": {"type": "enabled", "budget_tokens": 3000}},
    ),
    (
        OPENAI,
        chat(reasoning={"enabled": True}),
        ANTHROPIC,
        NEW,
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "medium"}},
    ),
    (
        OPENAI,
        chat(reasoning_effort="minimal"),
        ANTHROPIC,
        NEW,
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
    ),
    (
        OPENAI,
        chat(reasoning={"max_tokens": 30_000}),
        ANTHROPIC,
        NEW,
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
    ),
    (OPENAI, chat(reasoning={"enabled": False}), ANTHROPIC, NEW, {}),
    (OPENAI, chat(thinking={"type": "disabled"}), RESPONSES, "gpt-5", {"reasoning": {"effort": "none"}}),
    (
        OPENAI,
        chat(thinking={"type": "enabled"}),
        GEMINI,
        "gemini-2.5-pro",
        {"thinkingConfig": {"thinkingBudget": 8192, "includeThoughts": True}},
    ),
    (OPENAI, chat(reasoning_effort="none"), GEMINI, "gemini-2.5-flash", {"thinkingConfig": {"thinkingBudget": 0}}),
    (
        OPENAI,
        chat(reasoning_effort="high"),
        GEMINI,
        "gemini-3-pro",
        {"thinkingConfig": {"thinkingLevel": "HIGH", "includeThoughts": True}},
    ),
    (
        OPENAI,
        chat(reasoning={"effort": "low", "exclude": True}),
        GEMINI,
        "gemini-3-pro",
        {"thinkingConfig": {"thinkingLevel": "LOW"}},
    ),
    (
        ANTHROPIC,
        chat(thinking={"type": "enabled", "budget_tokens": 20_000}),
        OPENAI,
        "o3",
        {"reasoning_effort": "high"},
    ),
    (
        ANTHROPIC,
        chat(thinking={"type": "enabled", "budget_tokens": 5000}),
        OPENAI,
        "o3",
        {"reasoning_effort": "medium"},
    ),
    (ANTHROPIC, chat(thinking={"type": "enabled", "budget_tokens": 1024}), OPENAI, "o3", {"reasoning_effort": "low"}),
    (ANTHROPIC, chat(thinking={"type": "disabled"}), OPENAI, "o3", {"reasoning_effort": "none"}),
    (ANTHROPIC, chat(thinking={"type": "disabled"}), OPENAI, "gpt-4o", {}),
    (ANTHROPIC, chat(thinking={"type": "disabled"}), GEMINI, "gemini-2.0-flash", {}),
    (ANTHROPIC, chat(output_config={"effort": "max"}), OPENAI, "o3", {"reasoning_effort": "xhigh"}),
    (
        ANTHROPIC,
        chat(thinking={"type": "adaptive", "display": "summarized"}),
        RESPONSES,
        "gpt-5",
        {"reasoning": {"effort": "medium", "summary": "auto"}, "include": ["reasoning.encrypted_content"]},
    ),
    (
        RESPONSES,
        {"input": "Hi", "reasoning": {"summary": "auto"}},
        RESPONSES,
        "gpt-5",
        {"reasoning": {"summary": "auto"}},
    ),
    (
        RESPONSES,
        {"input": "Hi", "reasoning": {"effort": "low", "summary": "auto"}},
        ANTHROPIC,
        NEW,
        {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "low"}},
    ),
    (
        GEMINI,
        {"contents": [{"parts": [{"text": "Hi"}]}], "generationConfig": {"thinkingConfig": {"thinkingLevel": "LOW"}}},
        OPENAI,
        "o3",
        {"reasoning_effort": "low"},
    ),
    (
        GEMINI,
        {"contents": [{"parts": [{"text": "Hi"}]}], "generationConfig": {"thinkingConfig": {"thinkingBudget": -1}}},
        OPENAI,
        "o3",
        {"reasoning_effort": "medium"},
    ),
    (
        GEMINI,
        {"contents": [{"parts": [{"text": "Hi"}]}], "generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}},
        OPENAI,
        "o3",
        {"reasoning_effort": "none"},
    ),
    (
        GEMINI,
        {"contents": [{"parts": [{"text": "Hi"}]}], "generationConfig": {"thinkingConfig": {"includeThoughts": True}}},
        GEMINI,
        "gemini-2.5-pro",
        {"thinkingConfig": {"thinkingBudget": 8192, "includeThoughts": True}},
    ),
]
NAMES = ("thinking", "output_config", "reasoning", "reasoning_effort", "include", "thinkingConfig")


@pytest.mark.parametrize(("source", "body", "target", "model", "expected"), ASKED)
def test_how_much_thinking_is_asked_for(
    source: Dialect, body: Body, target: Dialect, model: str, expected: Body
) -> None:
    written, dropped = from_form(target, to_form(source, body), model=model)
    flat = written | written.get("generationConfig", {})
    assert {name: flat[name] for name in NAMES if name in flat} == expected
    assert dropped == ()


def test_thinking_makes_room_for_the_answer() -> None:
    written, _ = from_form(ANTHROPIC, to_form(OPENAI, chat(reasoning_effort="max")), model=OLD)
    assert written["max_tokens"] > written["thinking"]["budget_tokens"] == 32_000


CALL: Body = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
IN_TURN = [HI, {"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "c1", "content": "x"}]
TOOLS = [{"type": "function", "function": {"name": "f"}}]


@pytest.mark.parametrize(
    ("body", "model"),
    [
        (chat(reasoning_effort="low", tools=TOOLS, tool_choice="required"), OLD),
        (chat(*IN_TURN, reasoning_effort="low"), OLD),
        (chat(HI, {"role": "assistant", "content": "So"}, reasoning_effort="low"), OLD),
        (chat(reasoning_effort="low", max_tokens=1500), OLD),
        (chat(reasoning_effort="low"), "claude-3-5-sonnet"),
    ],
)
def test_thinking_that_would_be_refused_is_not_asked_for(body: Body, model: str) -> None:
    written, dropped = from_form(ANTHROPIC, to_form(OPENAI, body), model=model)
    assert "thinking" not in written
    assert dropped == ("reasoning_effort",)


def test_thinking_goes_on_after_a_turn() -> None:
    turns = [*IN_TURN, {"role": "assistant", "content": "So"}, HI]
    assert "thinking" in from_form(ANTHROPIC, to_form(OPENAI, chat(*turns, reasoning_effort="low")), model=OLD)[0]


def test_sampling_and_thinking_do_not_meet() -> None:
    body = chat(reasoning_effort="low", temperature=0.5, top_k=3)
    assert from_form(ANTHROPIC, to_form(OPENAI, body), model=OLD)[1] == ("temperature", "top_k")
    assert from_form(ANTHROPIC, to_form(OPENAI, chat(temperature=0.5)), model=NEW)[1] == ("temperature",)
    assert from_form(ANTHROPIC, to_form(OPENAI, chat(temperature=0.5, top_k=3)), model=OLD)[0]["top_k"] == 3


ANSWER: Body = {
    "id": "msg_1",
    "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "sig=="},
        {"type": "thinking", "thinking": "", "signature": "omitted=="},
        {"type": "redacted_thinking", "data": "secret=="},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
    ],
    "stop_reason": "tool_use",
}


def replayed(client: Dialect, shown: Body) -> Body:
    """The client's next turn: it gives back what it got, as its SDK does."""
    match client:
        case Dialect.OPENAI:
            message = shown["choices"][0]["message"]
            return chat(HI, message, {"role": "tool", "tool_call_id": "toolu_1", "content": "x"})
        case Dialect.RESPONSES:
            output = {"type": "function_call_output", "call_id": "toolu_1", "output": "x"}
            return {"input": [HI, *shown["output"], output]}
        case _:
            result = {"functionResponse": {"name": "f", "id": "toolu_1", "response": {"output": "x"}}}
            turns = [
                {"role": "user", "parts": [{"text": "Hi"}]},
                shown["candidates"][0]["content"],
                {"role": "user", "parts": [result]},
            ]
            return {"contents": turns}


@pytest.mark.parametrize("client", [OPENAI, RESPONSES, GEMINI])
def test_signed_thoughts_come_back_unchanged_through_any_client(client: Dialect) -> None:
    ask: Body = {"input": "Hi"} if client is RESPONSES else {"contents": [], "messages": []}
    form = answer_to_form(ANTHROPIC, ANSWER, seed="s")
    shown = answer_from_form(client, form, to_form(client, ask), model="m", created=1)
    again, dropped = from_form(ANTHROPIC, to_form(client, replayed(client, shown)), model=OLD)
    assert again["messages"][1]["content"] == ANSWER["content"]
    assert dropped == ()
    # Another provider would refuse them: they stay away from it, and that is said.
    for other in (OPENAI, RESPONSES, GEMINI):
        written, dropped = from_form(other, to_form(client, replayed(client, shown)), model="m")
        assert "sig==" not in str(written)
        assert len(dropped) == 1


def test_a_responses_thought_comes_back_through_messages() -> None:
    item = {
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Hm."}],
        "encrypted_content": "gAAA",
    }
    answer = {"id": "r", "output": [item], "status": "completed"}
    request = to_form(ANTHROPIC, chat())
    form = answer_to_form(RESPONSES, answer, seed="s")
    shown = answer_from_form(ANTHROPIC, form, request, model="m", created=1)
    turns = chat(HI, {"role": "assistant", "content": shown["content"]}, HI)
    again = from_form(RESPONSES, to_form(ANTHROPIC, turns), model="m")[0]["input"][1]
    assert again == {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "Hm."}],
        "encrypted_content": "gAAA",
    }
    plain = answer_from_form(
        OPENAI,
        answer_to_form(RESPONSES, answer | {"output": [item | {"content": []}]}, seed="s"),
        request,
        model="m",
        created=1,
    )
    assert plain["choices"][0]["message"]["reasoning_details"][0]["type"] == "reasoning.encrypted"


def test_unsigned_thoughts_go_only_to_those_who_want_them() -> None:
    turns = chat(HI, {"role": "assistant", "reasoning_content": "Hm.", "content": "x"}, HI)
    kept = from_form(OPENAI, to_form(OPENAI, turns), model="deepseek-reasoner")[0]["messages"][1]
    assert kept["reasoning_content"] == "Hm."
    for target in Dialect:
        assert from_form(target, to_form(OPENAI, turns), model="m")[1] == ("messages.reasoning_content",)


def test_openrouter_details_of_its_own() -> None:
    details = [
        {"type": "reasoning.summary", "summary": "Hm."},
        {"type": "reasoning.encrypted", "data": ""},
        {"type": "reasoning.encrypted", "data": "x"},
        {},
        7,
    ]
    turns = chat(HI, {"role": "assistant", "reasoning_details": details, "content": "x"}, HI)
    assert from_form(ANTHROPIC, to_form(OPENAI, turns), model="m")[1] == ("messages.reasoning_content",)


@pytest.mark.parametrize("client", list(Dialect))
@pytest.mark.parametrize("origin", list(Dialect))
@pytest.mark.parametrize("redacted", [False, True])
def test_a_signature_survives_its_envelope(client: Dialect, origin: Dialect, redacted: bool) -> None:
    signature = Signature(origin, "a+b/c==", redacted and origin is not client)
    shown = signatures.show(signature, client)
    assert signatures.read(shown, client) == signature
    assert (shown == "a+b/c==") == (origin is client)
    call_id = signatures.sign_id("call_1", signature, client)
    assert signatures.split_id(call_id) == ("call_1", None if origin is client else Signature(origin, "a+b/c=="))


def test_what_is_no_signature() -> None:
    assert signatures.read(None, GEMINI) is None
    assert signatures.read("", GEMINI) is None
    assert signatures.read("skip_thought_signature_validator", GEMINI) is None
    assert signatures.read("cG0xL!", GEMINI) == Signature(GEMINI, "cG0xL!")
    assert signatures.read("pm1.x.y", OPENAI) == Signature(OPENAI, "pm1.x.y")
    assert signatures.split_id("call__sig_x_y") == ("call__sig_x_y", None)
    assert signatures.split_id("call__sig_g_A") == ("call", None)


def test_a_signed_call_in_googles_own_place() -> None:
    call = CALL | {"extra_content": {"google": {"thought_signature": "c2ln"}}}
    turns = [HI, {"role": "assistant", "tool_calls": [call]}, IN_TURN[2]]
    part = from_form(GEMINI, to_form(OPENAI, chat(*turns)), model="gemini-3-pro")[0]["contents"][1]["parts"][0]
    assert part["thoughtSignature"] == "c2ln"


@pytest.mark.parametrize(
    ("dialect", "model", "expected"),
    [
        (OPENAI, "openai/o3-mini", Traits(sampling=False, completion_tokens=True)),
        (OPENAI, "gpt-5-chat-latest", Traits()),
        (OPENAI, "gpt-4o", Traits(reasoning=False)),
        (OPENAI, "deepseek-chat", Traits(thinking_history=True)),
        (OPENAI, "whatever", Traits()),
        (RESPONSES, "gpt-5", Traits(sampling=False, completion_tokens=True)),
        (ANTHROPIC, "claude-3-7-sonnet-20250219", Traits(max_tokens=8192)),
        (ANTHROPIC, "claude-3-opus-20240229", Traits(reasoning=False, max_tokens=4096)),
        (ANTHROPIC, "anthropic.claude-sonnet-4-20250514-v1:0", Traits(max_tokens=32_000)),
        (ANTHROPIC, "claude-opus-4-6", Traits(adaptive=True, max_tokens=32_000)),
        (ANTHROPIC, "claude-sonnet-5", Traits(sampling=False, adaptive=True, max_tokens=32_000)),
        (ANTHROPIC, "claude-example", Traits()),
        (GEMINI, "gemini-2.0-flash", Traits(cache_markers=False, reasoning=False)),
        (GEMINI, "gemini-2.5-pro", Traits(cache_markers=False)),
        (GEMINI, "gemini-3-pro-preview", Traits(cache_markers=False, adaptive=True, signed_calls=True)),
        (GEMINI, "tuned", Traits(cache_markers=False)),
    ],
)
def test_traits(dialect: Dialect, model: str, expected: Traits) -> None:
    assert traits_of(dialect, model) == expected


def test_schemas() -> None:
    schema = {
        "type": "ARRAY",
        "nullable": True,
        "min_items": "1",
        "max_length": 5,
        "items": {"any_of": [{"type": "STRING", "example": "x"}, {"nullable": True}]},
        "defs": {"a": {"type": "OBJECT", "propertyOrdering": ["b"], "properties": {"b": {"type": "INTEGER"}}}},
    }
    assert from_gemini(schema) == {
        "type": ["array", "null"],
        "minItems": 1,
        "maxLength": 5,
        "items": {"anyOf": [{"type": "string"}, {}]},
        "defs": {"a": {"type": "object", "properties": {"b": {"type": "integer"}}}},
    }
    assert from_gemini(True) is True
    for odd in ("²", "9" * 5000, "-1", ""):  # no counts: the upstream judges them
        assert from_gemini({"maxItems": odd}) == {"maxItems": odd}
    given = {"anyOf": [{"type": "object"}, True], "type": "object", "additionalProperties": {"type": "object"}}
    assert closed(given) == {
        "anyOf": [{"type": "object", "additionalProperties": False}, True],
        "type": "object",
        "additionalProperties": {"type": "object", "additionalProperties": False},
    }
