"""What is read from a request, in each dialect."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keys.core.dialect import Dialect
from routing.core.facts import Caller, Inbound, read_facts
from routing.core.identity import HardPin, digest
from tests.routing.core.build import read

CHAT, RESPONSES, ANTHROPIC, GEMINI = Dialect.OPENAI, Dialect.RESPONSES, Dialect.ANTHROPIC, Dialect.GEMINI


def test_the_caller_and_the_size() -> None:
    caller = Caller(1, 2, "bot", "prod", batch=True)
    found = read_facts(caller, Inbound(CHAT, "chat/completions", {}, 4003), {"model": "gpt-4o"})
    assert (found.tenant_id, found.line_id, found.line, found.key_name, found.batch) == (1, 2, "bot", "prod", True)
    assert (found.input_tokens, found.body_bytes, found.model) == (1000, 4003, "gpt-4o")
    assert (found.stream, found.tools, found.image, found.thinking, found.turn) == (False,) * 5
    assert found.max_tokens is None


@pytest.mark.parametrize(
    ("dialect", "body", "inbound", "expected"),
    [
        (CHAT, {"model": "models/x"}, {}, "models/x"),
        (CHAT, {"model": 5}, {}, ""),
        (CHAT, {}, {}, ""),
        (CHAT, {"model": "x" * 513}, {}, ""),
        (GEMINI, {}, {"model": "gemini-2.5-pro"}, "gemini-2.5-pro"),
        (GEMINI, {"model": "ignored"}, {"model": "models/gemini-2.5-pro"}, "gemini-2.5-pro"),
    ],
)
def test_model(dialect: Dialect, body: dict[str, Any], inbound: dict[str, Any], expected: str) -> None:
    assert read(dialect, body, **inbound).model == expected


@pytest.mark.parametrize(
    ("dialect", "body", "operation", "expected"),
    [
        (CHAT, {"stream": True}, "chat/completions", True),
        (CHAT, {"stream": "true"}, "chat/completions", False),
        (ANTHROPIC, {"stream": False}, "messages", False),
        (GEMINI, {}, "streamGenerateContent", True),
        (GEMINI, {"stream": True}, "generateContent", False),
    ],
)
def test_stream(dialect: Dialect, body: dict[str, Any], operation: str, expected: bool) -> None:
    assert read(dialect, body, operation=operation).stream is expected


@pytest.mark.parametrize(
    ("dialect", "body", "expected"),
    [
        (CHAT, {"max_tokens": 5, "max_completion_tokens": 7}, 7),
        (CHAT, {"max_tokens": 5}, 5),
        (CHAT, {"max_tokens": "5"}, None),
        (CHAT, {"max_tokens": True}, None),
        (RESPONSES, {"max_output_tokens": 6}, 6),
        (ANTHROPIC, {"max_tokens": 0}, 0),
        (GEMINI, {"generationConfig": {"maxOutputTokens": 9}}, 9),
        (GEMINI, {"generation_config": {"max_output_tokens": 9}}, 9),
        (GEMINI, {"generationConfig": []}, None),
    ],
)
def test_max_tokens(dialect: Dialect, body: dict[str, Any], expected: int | None) -> None:
    assert read(dialect, body).max_tokens == expected


@pytest.mark.parametrize(
    ("dialect", "body", "expected"),
    [
        (CHAT, {"tools": [{"type": "function"}, {"type": "function"}]}, 2),
        (CHAT, {"functions": [{"name": "f"}]}, 1),
        (CHAT, {"tools": []}, 0),
        (CHAT, {"tools": "x"}, 0),
        (RESPONSES, {"tools": [{"type": "namespace", "tools": [{}, {}, {}]}, {"type": "web_search"}]}, 4),
        (GEMINI, {"tools": [{"functionDeclarations": [{}, {}]}, {"googleSearch": {}}]}, 3),
    ],
)
def test_tools(dialect: Dialect, body: dict[str, Any], expected: int) -> None:
    found = read(dialect, body)
    assert (found.tool_count, found.tools) == (expected, expected > 0)


@pytest.mark.parametrize(
    ("dialect", "body", "expected"),
    [
        (CHAT, {"reasoning_effort": "low"}, True),
        (CHAT, {"reasoning_effort": "none"}, False),
        (CHAT, {"reasoning": {"effort": "high"}}, True),
        (CHAT, {"reasoning": {"enabled": False}}, False),
        (CHAT, {"thinking": {"type": "enabled"}}, True),
        (CHAT, {"thinking": {"type": "disabled"}}, False),
        (CHAT, {"enable_thinking": True}, True),
        (CHAT, {"reasoning_effort": ["low"]}, False),
        (RESPONSES, {"reasoning": {"effort": "medium"}}, True),
        (RESPONSES, {"reasoning": {"effort": "none"}}, False),
        (RESPONSES, {"reasoning": None}, False),
        (ANTHROPIC, {"thinking": {"type": "adaptive", "display": "omitted"}}, True),
        (ANTHROPIC, {"thinking": {"type": "disabled"}}, False),
        (ANTHROPIC, {}, False),
        (GEMINI, {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}}, True),
        (GEMINI, {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}}, False),
        (GEMINI, {"generationConfig": {}}, False),
    ],
)
def test_thinking(dialect: Dialect, body: dict[str, Any], expected: bool) -> None:
    assert read(dialect, body).thinking is expected


IMAGES = [
    (CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:AAAA"}}]}]}),
    (RESPONSES, {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:AAAA"}]}]}),
    (
        RESPONSES,
        {
            "input": [
                {"type": "computer_call_output", "output": {"type": "computer_screenshot", "image_url": "data:AAAA"}}
            ]
        },
    ),
    (
        ANTHROPIC,
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "content": [{"type": "image", "source": {"type": "base64", "data": "data:AAAA"}}],
                        }
                    ],
                }
            ]
        },
    ),
    (GEMINI, {"contents": [{"parts": [{"inlineData": {"mimeType": "image/png", "data": "data:AAAA"}}]}]}),
]


@pytest.mark.parametrize(("dialect", "body"), IMAGES)
def test_images_are_seen_also_inside_tool_results_and_left_out_of_the_window(
    dialect: Dialect, body: dict[str, Any]
) -> None:
    found = read(dialect, body, size=409)
    assert found.image
    assert (found.input_tokens, found.window_tokens) == (102, 1100)


def test_images_are_not_looked_for_at_any_depth() -> None:
    block: dict[str, Any] = {"type": "image"}
    for _ in range(4):
        block = {"type": "tool_result", "content": [block]}
    assert read(ANTHROPIC, {"messages": [{"role": "user", "content": [block]}]}).image
    deeper = {"type": "tool_result", "content": [block]}
    assert not read(ANTHROPIC, {"messages": [{"role": "user", "content": [deeper]}]}).image


def test_a_gemini_sound_is_no_image() -> None:
    body = {"contents": [{"parts": [{"inlineData": {"mimeType": "audio/wav", "data": "A" * 200}}]}]}
    found = read(GEMINI, body, size=400)
    assert (found.image, found.window_tokens) == (False, 1050)


@pytest.mark.parametrize(
    ("dialect", "body", "expected"),
    [
        (CHAT, {"messages": [{"role": "user", "content": "x"}, {"role": "tool", "content": "y"}]}, True),
        (CHAT, {"messages": [{"role": "tool", "content": "y"}, {"role": "user", "content": "x"}]}, False),
        (CHAT, {"messages": [{"role": "tool", "content": "y"}, {"role": "system", "content": "x"}]}, True),
        (CHAT, {"messages": []}, False),
        (RESPONSES, {"input": [{"type": "function_call_output", "output": "y"}]}, True),
        (RESPONSES, {"input": [{"type": "custom_tool_call_output", "output": "y"}]}, True),
        (RESPONSES, {"input": "hello"}, False),
        (ANTHROPIC, {"messages": [{"role": "user", "content": [{"type": "tool_result"}, {"type": "text"}]}]}, True),
        (ANTHROPIC, {"messages": [{"role": "user", "content": "x"}]}, False),
        (
            ANTHROPIC,
            {
                "messages": [
                    {"role": "user", "content": [{"type": "tool_result"}]},
                    {"role": "system", "content": [{"type": "text", "text": "reminder"}]},
                ]
            },
            True,
        ),
        (GEMINI, {"contents": [{"role": "user", "parts": [{"functionResponse": {"name": "f"}}]}]}, True),
        (GEMINI, {"contents": [{"role": "user", "parts": [{"text": "x"}]}]}, False),
    ],
)
def test_turn(dialect: Dialect, body: dict[str, Any], expected: bool) -> None:
    assert read(dialect, body).turn is expected


def test_an_id_in_the_path_is_a_hard_pin() -> None:
    found = read(RESPONSES, {}, stored_id="resp_1")
    assert found.pins == (HardPin("id", digest("resp_1")),)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "role",
                    "content",
                    "type",
                    "text",
                    "parts",
                    "tools",
                    "source",
                    "data",
                    "id",
                    "output",
                    "metadata",
                    "image_url",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
FIELDS = st.sampled_from(
    [
        "messages", "input", "contents", "system", "tools", "metadata", "thinking", "reasoning", "generationConfig",
        "systemInstruction", "instructions", "prompt", "conversation", "container", "cachedContent", "model",
    ]
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(Dialect), st.dictionaries(FIELDS, JSON, max_size=6))
def test_no_body_makes_reading_fail(dialect: Dialect, body: dict[str, Any]) -> None:
    assert read(dialect, body).dialect is dialect
