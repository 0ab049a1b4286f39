"""What works without a part that cannot be carried: the part is listed."""

from typing import Any

import pytest

from keys.core.dialect import Dialect
from proxy.core.wire.form import Drops
from proxy.core.wire.translate import from_form, to_form

OPENAI, RESPONSES, ANTHROPIC, GEMINI = Dialect.OPENAI, Dialect.RESPONSES, Dialect.ANTHROPIC, Dialect.GEMINI
Body = dict[str, Any]


def chat(*messages: Body, **more: Any) -> Body:
    return {"model": "m", "messages": list(messages), **more}


def user(*content: Body) -> Body:
    return {"role": "user", "content": list(content)}


def items(*entries: Body, **more: Any) -> Body:
    return {"model": "m", "input": list(entries), **more}


def parts(*entries: Body, role: str = "user", **more: Any) -> Body:
    return {"contents": [{"role": role, "parts": list(entries)}], **more}


UNSIGNED = {"type": "thinking", "thinking": "a", "signature": "skip_thought_signature_validator"}
HI = {"role": "user", "content": "Hi"}
DROPPED = [
    (OPENAI, chat(HI, logit_bias={"1": 1}, logprobs=False, metadata={}), ANTHROPIC, ("logit_bias",)),
    (OPENAI, chat({**HI, "name": "Ann"}), ANTHROPIC, ("messages.name",)),
    (
        OPENAI,
        chat(HI, seed=1, presence_penalty=1, frequency_penalty=1),
        ANTHROPIC,
        ("seed", "frequency_penalty", "presence_penalty"),
    ),
    (OPENAI, chat(HI, presence_penalty=1, seed=1, top_k=5), RESPONSES, ("top_k", "presence_penalty", "seed")),
    (OPENAI, chat(HI, verbosity="low", prompt_cache_key="k"), ANTHROPIC, ("verbosity", "prompt_cache_key")),
    (OPENAI, chat(HI, response_format={"type": "json_object"}), ANTHROPIC, ("response_format",)),
    (OPENAI, chat(HI, tools=[{"type": "web_search"}]), ANTHROPIC, ("tools.web_search",)),
    (OPENAI, chat(HI, tool_choice={"type": "novelty"}), ANTHROPIC, ("tool_choice",)),
    (
        OPENAI,
        chat(HI, tools=[{"type": "custom", "custom": {"name": "f", "format": {"type": "grammar"}}}]),
        GEMINI,
        ("tools.custom.format",),
    ),
    (
        OPENAI,
        chat(HI, tools=[{"type": "function", "function": {"name": "f", "strict": True}}]),
        GEMINI,
        ("tools.strict",),
    ),
    (OPENAI, chat(HI, temperature=1.5), ANTHROPIC, ("temperature",)),
    (OPENAI, chat(HI, temperature=0.5, top_p=0.5), ANTHROPIC, ("top_p",)),
    (
        OPENAI,
        chat({**HI, "content": [{"type": "text", "text": "Hi", "prompt_cache_breakpoint": {"mode": "explicit"}}]}),
        GEMINI,
        ("cache_control",),
    ),
    (RESPONSES, items(HI, {"type": "web_search_call", "id": "w"}), OPENAI, ("input.web_search_call",)),
    (
        RESPONSES,
        items({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "namespace": "n"}),
        OPENAI,
        ("input.namespace",),
    ),
    (RESPONSES, items(HI, tools=[{"type": "custom", "name": "f", "format": {}, "x": 1}]), OPENAI, ()),
    (
        RESPONSES,
        items(HI, tools=[{"type": "custom", "name": "f", "format": {"type": "grammar"}}]),
        OPENAI,
        ("tools.format",),
    ),
    (RESPONSES, items(HI, text={"verbosity": "low"}), GEMINI, ("text.verbosity",)),
    (
        ANTHROPIC,
        chat({"role": "assistant", "content": [{"type": "server_tool_use", "id": "s"}, {"type": "text", "text": "x"}]}),
        OPENAI,
        ("messages.server_tool_use",),
    ),
    (ANTHROPIC, chat(HI, metadata={"user_id": "u" * 65}), OPENAI, ("metadata.user_id",)),
    (ANTHROPIC, chat(HI, top_k=4, stop_sequences=["x"]), RESPONSES, ("top_k", "stop_sequences")),
    (
        ANTHROPIC,
        chat({"role": "assistant", "content": [UNSIGNED, {"type": "text", "text": "x"}]}),
        OPENAI,
        ("messages.signature", "messages.thinking"),
    ),
    (
        ANTHROPIC,
        chat(user({"type": "document", "citations": {"enabled": True}, "source": {"type": "text", "data": "x"}})),
        OPENAI,
        ("messages.citations",),
    ),
    (GEMINI, parts({"text": "Hi"}, safetySettings=[{}], labels={}), OPENAI, ("safetySettings",)),
    (
        GEMINI,
        parts({"text": "Hi"}, generationConfig={"speechConfig": {"x": 1}}),
        OPENAI,
        ("generationConfig.speechConfig",),
    ),
    (GEMINI, parts({"executableCode": {"code": "x"}}, {"text": "Hi"}), OPENAI, ("contents.codeExecution",)),
    (
        GEMINI,
        parts({"functionCall": {"name": "f"}, "thoughtSignature": "skip_thought_signature_validator"}, role="model"),
        OPENAI,
        ("contents.thoughtSignature",),
    ),
    (
        GEMINI,
        parts({"text": "Hi"}, tools=[{"functionDeclarations": [{"name": "f", "response": {"type": "OBJECT"}}]}]),
        OPENAI,
        ("tools.functionDeclarations.response",),
    ),
]


@pytest.mark.parametrize(("source", "body", "target", "expected"), DROPPED)
def test_what_is_left_out_is_listed(source: Dialect, body: Body, target: Dialect, expected: tuple[str, ...]) -> None:
    assert from_form(target, to_form(source, body), model="m")[1] == expected


def test_a_list_of_drops_is_safe_in_a_header() -> None:
    drops = Drops()
    drops.add('a\r\nSet-Cookie: x, "y" ä')
    for index in range(100):
        drops.add(f"f{index}")
    drops.add("f0")
    assert drops.listed()[:2] == ("a__Set-Cookie:_x___y___", "f0")
    assert len(drops.listed()) == 40
