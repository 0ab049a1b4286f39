"""Single members of requests on their way from one dialect to another."""

from typing import Any

import pytest

from keys.core.dialect import Dialect
from proxy.core.wire.translate import from_form, to_form, traits_of

OPENAI, RESPONSES, ANTHROPIC, GEMINI = Dialect.OPENAI, Dialect.RESPONSES, Dialect.ANTHROPIC, Dialect.GEMINI
Body = dict[str, Any]
HI: Body = {"role": "user", "content": "Hi"}
SCHEMA: Body = {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}}
FUNCTIONS: list[Body] = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in ("f", "g")]


def chat(*messages: Body, **more: Any) -> Body:
    return {"model": "m", "messages": list(messages), **more}


def translate(source: Dialect, body: Body, target: Dialect, model: str = "m", **traits: Any) -> Body:
    return from_form(target, to_form(source, body), model=model, traits=traits_of(target, model, **traits))[0]


def block(source: Dialect, content: Any, target: Dialect, role: str = "user") -> Any:
    """The content of the only message, translated."""
    body = translate(source, chat({"role": role, "content": content}), target)
    return (body["contents"][0]["parts"]) if target is GEMINI else body["messages"][0]["content"]


CONTENT = [
    (
        OPENAI,
        [{"type": "image_url", "image_url": "https://a.example/b"}],
        GEMINI,
        [{"fileData": {"fileUri": "https://a.example/b"}}],
    ),
    (
        OPENAI,
        [{"type": "input_audio", "input_audio": {"data": "QUJD", "format": "wav"}}],
        GEMINI,
        [{"inlineData": {"mimeType": "audio/wav", "data": "QUJD"}}],
    ),
    (
        OPENAI,
        [{"type": "file", "file": {"file_data": "QUJD", "filename": "a.pdf"}}],
        ANTHROPIC,
        [
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "QUJD"},
                "title": "a.pdf",
            }
        ],
    ),
    (
        OPENAI,
        [{"type": "file", "file": {"file_data": "data:;base64,QUJD"}}],
        ANTHROPIC,
        [{"type": "document", "source": {"type": "base64", "media_type": "application/octet-stream", "data": "QUJD"}}],
    ),
    (
        ANTHROPIC,
        [{"type": "document", "title": "T", "source": {"type": "text", "data": "x"}}],
        GEMINI,
        [{"text": "T"}, {"text": "x"}],
    ),
    (
        ANTHROPIC,
        [{"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "x"}]}}],
        OPENAI,
        "x",
    ),
    (
        ANTHROPIC,
        [{"type": "search_result", "title": "T", "source": "S", "content": [{"type": "text", "text": "x"}]}],
        GEMINI,
        [{"text": "T (S)"}, {"text": "x"}],
    ),
    (ANTHROPIC, [{"type": "compaction", "content": "So far: x"}], OPENAI, "So far: x"),
    (ANTHROPIC, "Hi", GEMINI, [{"text": "Hi"}]),
    (OPENAI, [{"type": "refusal", "refusal": "No."}], ANTHROPIC, [{"type": "text", "text": "No."}]),
]


@pytest.mark.parametrize(("source", "content", "target", "expected"), CONTENT)
def test_content(source: Dialect, content: Any, target: Dialect, expected: Any) -> None:
    assert block(source, content, target) == expected


def test_a_refusal_in_the_history() -> None:
    turns = [HI, {"role": "assistant", "content": None, "refusal": "No."}, HI]
    assert translate(OPENAI, chat(*turns), OPENAI)["messages"][1] == {
        "role": "assistant",
        "content": None,
        "refusal": "No.",
    }
    assert translate(OPENAI, chat(*turns), GEMINI)["contents"][1]["parts"] == [{"text": "No."}]
    said = translate(OPENAI, chat(*turns), RESPONSES)["input"][1]["content"]
    assert said == [{"type": "refusal", "refusal": "No."}]
    again = translate(RESPONSES, {"input": [{"role": "assistant", "content": said}]}, ANTHROPIC)
    assert again["messages"][0]["content"] == [{"type": "text", "text": "No."}]


CHOICES: list[tuple[Any, Body]] = [
    ("auto", {"type": "auto"}),
    ("none", {"type": "none"}),
    ("required", {"type": "any"}),
    ({"type": "function", "function": {"name": "f"}}, {"type": "tool", "name": "f"}),
    (
        {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "g"}}]},
        },
        {"type": "tool", "name": "g"},
    ),
]


@pytest.mark.parametrize(("choice", "expected"), CHOICES)
def test_tool_choice(choice: Any, expected: Body) -> None:
    body = chat(HI, tools=FUNCTIONS, tool_choice=choice)
    assert translate(OPENAI, body, ANTHROPIC)["tool_choice"] == expected
    assert translate(OPENAI, body, OPENAI)["tool_choice"] == (
        choice if "allowed" not in str(choice) else {"type": "function", "function": {"name": "g"}}
    )


def test_allowed_tools_are_the_only_ones_shown() -> None:
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "g"}]}
    body = {
        "input": "Hi",
        "tools": [{"type": "function", "name": name, "parameters": None} for name in "fgh"],
        "tool_choice": allowed,
    }
    assert [tool["name"] for tool in translate(RESPONSES, body, ANTHROPIC)["tools"]] == ["g"]
    chat_body = translate(RESPONSES, body, OPENAI)
    assert [tool["function"]["name"] for tool in chat_body["tools"]] == ["g"]
    assert chat_body["tool_choice"] == "auto"
    gemini = translate(RESPONSES, body, GEMINI)
    assert [tool["name"] for tool in gemini["tools"][0]["functionDeclarations"]] == ["g"]
    assert gemini["toolConfig"] == {"functionCallingConfig": {"mode": "AUTO"}}
    assert translate(RESPONSES, body, RESPONSES)["tool_choice"] == allowed


def test_a_required_choice_among_several() -> None:
    config = {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f", "g"]}}
    declared = [{"name": name, "parameters": {"type": "OBJECT"}} for name in ("f", "g", "h")]
    body = {
        "contents": [{"parts": [{"text": "Hi"}]}],
        "tools": {"function_declarations": declared},
        "tool_config": config,
    }
    assert translate(GEMINI, body, OPENAI)["tool_choice"] == "required"
    assert translate(GEMINI, body, ANTHROPIC)["tool_choice"] == {"type": "any"}
    assert translate(GEMINI, body, RESPONSES)["tool_choice"]["mode"] == "required"
    assert translate(GEMINI, body, GEMINI)["toolConfig"] == config


def test_a_choice_without_tools_is_left_out() -> None:
    body = chat(HI, tool_choice="auto", parallel_tool_calls=True)
    for target in Dialect:
        assert "tool_choice" not in translate(OPENAI, body, target)
        assert "toolConfig" not in translate(OPENAI, body, target)


@pytest.mark.parametrize("target", [ANTHROPIC, GEMINI, OPENAI])
def test_a_free_text_tool_becomes_a_function(target: Dialect) -> None:
    body = {
        "input": [
            HI,
            {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "*** Begin"},
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"},
        ],
        "tools": [{"type": "custom", "name": "patch", "description": "Patches."}],
    }
    written = str(translate(RESPONSES, body, target))
    assert "'required': ['input']" in written
    assert '{"input":"*** Begin"}' in written or "{'input': '*** Begin'}" in written
    assert translate(RESPONSES, body, OPENAI, "gpt-5")["tools"] == [
        {"type": "custom", "custom": {"name": "patch", "description": "Patches."}}
    ]
    assert translate(RESPONSES, body, RESPONSES)["input"][2]["type"] == "custom_tool_call_output"


def test_a_chat_client_has_free_text_tools_too() -> None:
    calls = [{"id": "c1", "type": "custom", "custom": {"name": "patch", "input": "x"}}]
    turns = [
        HI,
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "y"},
    ]
    choice = {"type": "custom", "custom": {"name": "patch"}}
    body = chat(*turns, tools=[{"type": "custom", "custom": {"name": "patch"}}], tool_choice=choice)
    again = translate(OPENAI, body, OPENAI, "gpt-5")
    assert again["messages"][1]["tool_calls"] == calls
    assert again["tool_choice"] == choice
    assert translate(OPENAI, body, ANTHROPIC)["messages"][1]["content"][0]["input"] == {"input": "x"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [("", {}), ("  ", {}), ('{"a":1}', {"a": 1}), ("{broken", {"arguments": "{broken"}), ("[1]", {"arguments": [1]})],
)
def test_arguments_that_are_no_object(arguments: str, expected: Body) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    turns = [HI, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c1", "content": "x"}]
    assert translate(OPENAI, chat(*turns), ANTHROPIC)["messages"][1]["content"][0]["input"] == expected
    args = translate(OPENAI, chat(*turns), GEMINI)["contents"][1]["parts"][0]["functionCall"]["args"]
    assert args == (expected if "arguments" not in expected else {"arguments": arguments})


def test_ids_that_a_provider_would_refuse_are_replaced_alike_in_call_and_result() -> None:
    call_id = "call:" + "x" * 60
    call = {"id": call_id, "type": "function", "function": {"name": "f", "arguments": "{}"}}
    turns = [HI, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": call_id, "content": "x"}]
    body = translate(OPENAI, chat(*turns), ANTHROPIC)
    made = body["messages"][1]["content"][0]["id"]
    assert body["messages"][2]["content"][0]["tool_use_id"] == made
    assert len(made) <= 40
    assert made.replace("_", "").isalnum()


def test_a_result_without_its_call() -> None:
    body = translate(OPENAI, chat(HI, {"role": "tool", "tool_call_id": "c9", "content": ""}), GEMINI)
    assert body["contents"][0]["parts"][1]["functionResponse"] == {"name": "c9", "response": {"output": ""}, "id": "c9"}
    item = {"type": "function_call_output", "call_id": "c9", "output": [], "cache_control": {"type": "ephemeral"}}
    again = translate(RESPONSES, {"input": [item]}, RESPONSES)["input"][0]
    assert (again["output"], again["cache_control"]) == ("", {"type": "ephemeral"})
    said = {"type": "function_call_output", "call_id": "c9", "output": {"a": 1}}
    assert translate(RESPONSES, {"input": [said]}, OPENAI)["messages"][0]["content"] == '{"a":1}'


def test_gemini_results_find_their_calls_by_id_name_and_order() -> None:
    calls = [{"functionCall": {"name": "f", "args": {"n": n}}} for n in (1, 2)] + [
        {"functionCall": {"name": "g", "id": "g1"}}
    ]
    results = [
        {"functionResponse": {"name": "g", "id": "g1", "response": {"error": "no"}}},
        {"functionResponse": {"name": "f", "response": {"result": "one"}}},
        {"functionResponse": {"name": "f", "response": {}}},
        {
            "functionResponse": {
                "name": "h",
                "response": {"a": 1},
                "parts": [{"inlineData": {"mimeType": "image/png", "data": "QUJD"}}],
            }
        },
    ]
    body = {"contents": [{"role": "model", "parts": calls}, {"role": "function", "parts": results}]}
    messages = translate(GEMINI, body, ANTHROPIC)["messages"]
    ids = [part["id"] for part in messages[0]["content"]]
    said = [(part["tool_use_id"], part.get("content"), part.get("is_error")) for part in messages[1]["content"]]
    assert said[:3] == [("g1", "no", True), (ids[0], "one", None), (ids[1], "{}", None)]
    assert len({*ids, said[3][0]}) == 4
    assert [part["type"] for part in said[3][1]] == ["text", "image"]


def test_gemini_takes_short_forms() -> None:
    body = {"systemInstruction": "Be brief.", "contents": [{"parts": {"text": "Hi"}}, {"role": "model", "parts": []}]}
    written = translate(GEMINI, body, OPENAI)
    assert written["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    signed = {"text": "", "thoughtSignature": "c2ln"}
    assert translate(GEMINI, {"contents": [{"role": "model", "parts": [signed]}]}, OPENAI)["messages"] == []


def test_gemini_keeps_signatures_of_its_own() -> None:
    parts = [{"text": "a", "thoughtSignature": "c2ln"}, {"text": "hm", "thought": True, "thoughtSignature": "dGg="}]
    body = {"contents": [{"role": "model", "parts": parts}]}
    assert translate(GEMINI, body, GEMINI)["contents"] == body["contents"]


def test_developer_text() -> None:
    body = {"input": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}]}
    assert translate(RESPONSES, body, OPENAI)["messages"][0]["role"] == "system"
    assert translate(RESPONSES, body, OPENAI, "gpt-5")["messages"][0]["role"] == "developer"
    assert translate(RESPONSES, body, ANTHROPIC)["system"] == [{"type": "text", "text": "Be brief."}]
    assert translate(RESPONSES, body, GEMINI)["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert translate(RESPONSES, body, RESPONSES)["input"][0]["role"] == "developer"


def test_limits_are_named_as_the_target_wants() -> None:
    body = chat(HI, max_completion_tokens=7)
    assert translate(OPENAI, body, OPENAI, "relay")["max_tokens"] == 7
    assert translate(OPENAI, body, OPENAI, "gpt-5-mini")["max_completion_tokens"] == 7
    assert translate(OPENAI, body, RESPONSES)["max_output_tokens"] == 7
    assert translate(OPENAI, body, GEMINI)["generationConfig"] == {"maxOutputTokens": 7}
    assert translate(OPENAI, chat(HI), ANTHROPIC, "claude-opus-4-1")["max_tokens"] == 32_000
    assert translate(OPENAI, chat(HI), ANTHROPIC, "claude-3-haiku")["max_tokens"] == 4096
    assert translate(OPENAI, chat(HI), ANTHROPIC, "claude-3-5-sonnet-20241022")["max_tokens"] == 8192


def test_structured_output() -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
    body = chat(HI, response_format=wanted)
    assert translate(OPENAI, body, OPENAI)["response_format"] == wanted
    assert translate(OPENAI, body, RESPONSES)["text"] == {
        "format": {"type": "json_schema", "name": "n", "schema": SCHEMA}
    }
    closed = translate(OPENAI, body, ANTHROPIC)["output_config"]["format"]["schema"]
    assert closed["additionalProperties"] is closed["properties"]["a"]["additionalProperties"] is False
    loose = chat(HI, response_format={"type": "json_object"})
    assert translate(OPENAI, loose, GEMINI)["generationConfig"] == {"responseMimeType": "application/json"}
    assert translate(OPENAI, loose, RESPONSES)["text"] == {"format": {"type": "json_object"}}
    as_json = {"contents": [], "generationConfig": {"responseMimeType": "application/json"}}
    assert translate(GEMINI, as_json, OPENAI)["response_format"] == {"type": "json_object"}
    assert translate(
        RESPONSES, {"input": "x", "text": {"format": {"type": "json_object"}, "verbosity": "low"}}, OPENAI
    ) == {
        "model": "m",
        "messages": [{"role": "user", "content": "x"}],
        "response_format": {"type": "json_object"},
        "verbosity": "low",
    }


def test_cache_marks_where_they_are_refused() -> None:
    marked = {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}
    called = {"type": "tool_use", "id": "t", "name": "f", "input": {}, "cache_control": {"type": "ephemeral"}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "x", "cache_control": {"type": "ephemeral"}}
    turns = [
        {"role": "user", "content": [marked]},
        {"role": "assistant", "content": [marked, called]},
        {"role": "user", "content": [result]},
    ]
    body = chat(*turns, system=[marked], tools=[{"name": "f", "cache_control": {"type": "ephemeral"}}])
    for target in (OPENAI, RESPONSES, ANTHROPIC):
        traits = traits_of(target, "gpt-4o", cache_markers=False)
        written, dropped = from_form(target, to_form(ANTHROPIC, body), model="gpt-4o", traits=traits)
        assert "cache_control" in dropped
        assert "cache_control" not in str(written)
    assert str(translate(ANTHROPIC, body, OPENAI)).count("cache_control") == 6
    assert str(translate(ANTHROPIC, body, ANTHROPIC)).count("cache_control") == 6
    assert str(translate(ANTHROPIC, body, RESPONSES)).count("cache_control") == 5  # not on what the assistant said
    assert "cache_control" in from_form(GEMINI, to_form(ANTHROPIC, body), model="g")[1]


def test_a_mark_on_the_whole_request_counts_for_its_last_block() -> None:
    body = chat(HI, {"role": "user", "content": "there"}, cache_control={"type": "ephemeral", "ttl": "5m"})
    last = translate(ANTHROPIC, body, OPENAI)["messages"][-1]["content"]
    assert last == [{"type": "text", "text": "there", "cache_control": {"type": "ephemeral", "ttl": "5m"}}]
    assert "cache_control" not in str(translate(ANTHROPIC, chat(cache_control={"type": "ephemeral"}), OPENAI))
