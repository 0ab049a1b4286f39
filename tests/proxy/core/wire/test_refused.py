"""What cannot be translated: the field is named."""

from typing import Any

import pytest

from keys.core.dialect import Dialect
from proxy.core.wire.form import BrokenAnswer
from proxy.core.wire.translate import Untranslatable, answer_from_form, answer_to_form, from_form, to_form

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


READING = [
    (OPENAI, chat(n=2), "n"),
    (OPENAI, chat(functions=[{"name": "f"}]), "functions"),
    (OPENAI, chat(function_call="auto"), "function_call"),
    (OPENAI, chat(modalities=["text", "audio"]), "modalities"),
    (OPENAI, chat(audio={"voice": "x"}), "modalities"),
    (OPENAI, chat(stop=7), "stop"),
    (OPENAI, chat(temperature="hot"), "temperature"),
    (OPENAI, chat(max_tokens=True), "max_tokens"),
    (OPENAI, chat(tools={}), "tools"),
    (OPENAI, chat(tools=["x"]), "tools[0]"),
    (OPENAI, chat(tools=[{"type": "function", "function": {}}]), "tools[0].function.name"),
    (OPENAI, chat(response_format="json"), "response_format"),
    (OPENAI, {"messages": "Hi"}, "messages"),
    (OPENAI, chat("Hi"), "messages[0]"),  # type: ignore[arg-type]
    (OPENAI, chat({"role": "function", "content": "x"}), "messages[0].role"),
    (OPENAI, chat({"role": "tool", "content": "x"}), "messages[0].tool_call_id"),
    (OPENAI, chat({"role": "assistant", "function_call": {"name": "f"}}), "messages[0].function_call"),
    (OPENAI, chat({"role": "assistant", "audio": {"id": "a"}}), "messages[0].audio"),
    (
        OPENAI,
        chat({"role": "assistant", "tool_calls": [{"id": "c", "function": {}}]}),
        "messages[0].tool_calls[0].function.name",
    ),
    (OPENAI, chat({"role": "user", "content": 7}), "messages[0].content"),
    (OPENAI, chat(user({"type": "video"})), "messages[0].content[0].type"),
    (OPENAI, chat(user({"type": "text"})), "messages[0].content[0].text"),
    (OPENAI, chat(user({"type": "file", "file": {"file_id": "f"}})), "messages[0].content[0].file.file_id"),
    (
        OPENAI,
        chat(user({"type": "image_url", "image_url": {"url": "data:image/png,x"}})),
        "messages[0].content[0].image_url.url",
    ),
    (RESPONSES, items(previous_response_id="r"), "previous_response_id"),
    (RESPONSES, items(conversation="c"), "conversation"),
    (RESPONSES, items(prompt={"id": "p"}), "prompt"),
    (RESPONSES, items(background=True), "background"),
    (RESPONSES, items({"type": "item_reference", "id": "i"}), "input[0].type"),
    (RESPONSES, items({"type": "compaction_trigger"}), "input[0].type"),
    (RESPONSES, items({"content": "x"}), "input[0].type"),
    (RESPONSES, items({"role": "critic", "content": "x"}), "input[0].role"),
    (RESPONSES, items({"role": "user", "content": 7}), "input[0].content"),
    (
        RESPONSES,
        items({"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}),
        "input[0].content[0].file_id",
    ),
    (
        RESPONSES,
        items({"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}),
        "input[0].content[0].file_id",
    ),
    (RESPONSES, items({"role": "user", "content": [{"type": "input_video"}]}), "input[0].content[0].type"),
    (RESPONSES, {"input": 7}, "input"),
    (ANTHROPIC, chat(container="c"), "container"),
    (ANTHROPIC, chat({"role": "tool", "content": "x"}), "messages[0].role"),
    (ANTHROPIC, chat({"role": "user", "content": 7}), "messages[0].content"),
    (ANTHROPIC, chat(user({"type": "novelty"})), "messages[0].content[0].type"),
    (
        ANTHROPIC,
        chat(user({"type": "image", "source": {"type": "file", "file_id": "f"}})),
        "messages[0].content[0].source",
    ),
    (GEMINI, parts(cachedContent="c"), "cachedContent"),
    (GEMINI, parts(generationConfig={"candidateCount": 2}), "generationConfig.candidateCount"),
    (GEMINI, parts(generation_config={"response_modalities": ["IMAGE"]}), "generationConfig.responseModalities"),
    (GEMINI, parts({"text": "Hi"}, role="critic"), "contents[0].role"),
    (GEMINI, parts({"toolCall": {}}), "contents[0].parts[0]"),
    (GEMINI, parts({"fileData": {"fileUri": "gs://a/b"}}), "contents[0].parts[0].fileData.fileUri"),
    (
        GEMINI,
        parts({"file_data": {"file_uri": "https://generativelanguage.googleapis.com/v1beta/files/a"}}),
        "contents[0].parts[0].fileData.fileUri",
    ),
    (
        GEMINI,
        parts({"functionResponse": {"name": "f", "response": {}, "parts": [{"text": "x"}]}}),
        "contents[0].parts[0].functionResponse.parts[0]",
    ),
]


@pytest.mark.parametrize(("dialect", "body", "field"), READING, ids=[f"{row[0]}: {row[2]}" for row in READING])
def test_reading_names_the_field(dialect: Dialect, body: Body, field: str) -> None:
    with pytest.raises(Untranslatable) as caught:
        to_form(dialect, body)
    assert caught.value.field == field
    assert field in str(caught.value)


SOUND = {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "wav"}}
VIDEO = {"inlineData": {"mimeType": "video/mp4", "data": "QUJD"}}
FLAC = {"inlineData": {"mimeType": "audio/flac", "data": "QUJD"}}
PDF_AT = {"type": "document", "source": {"type": "url", "url": "https://a.example/b.pdf"}}
SAID = {"inlineData": {"mimeType": "image/png", "data": "QUJD"}}

WRITING = [
    (OPENAI, chat(user(SOUND)), ANTHROPIC, "messages[0].content[0].input_audio"),
    (OPENAI, chat(user(SOUND)), RESPONSES, "messages[0].content[0].input_audio"),
    (GEMINI, parts(VIDEO), OPENAI, "contents[0].parts[0].inlineData"),
    (GEMINI, parts(FLAC), OPENAI, "contents[0].parts[0].inlineData"),
    (ANTHROPIC, chat(user(PDF_AT)), OPENAI, "messages[0].content[0].source.url"),
    (GEMINI, parts(SAID, role="model"), OPENAI, "messages"),
    (GEMINI, parts(SAID, role="model"), RESPONSES, "messages"),
]


@pytest.mark.parametrize(("source", "body", "target", "field"), WRITING)
def test_writing_names_the_field(source: Dialect, body: Body, target: Dialect, field: str) -> None:
    form = to_form(source, body)
    with pytest.raises(Untranslatable) as caught:
        from_form(target, form, model="m")
    assert caught.value.field == field


HI = {"role": "user", "content": "Hi"}
BROKEN = [
    (OPENAI, {"choices": []}),
    (OPENAI, {"choices": [{"message": None}]}),
    (OPENAI, {"choices": [{"message": {"content": "x"}, "finish_reason": "error"}]}),
    (OPENAI, {"choices": [{"message": {"tool_calls": [{"id": "c", "function": {}}]}}]}),
    (RESPONSES, {"output": None}),
    (RESPONSES, {"output": [], "status": "failed"}),
    (RESPONSES, {"output": [], "status": "cancelled"}),
    (RESPONSES, {"output": [{"type": "message", "content": [{"type": "novelty"}]}], "status": "completed"}),
    (ANTHROPIC, {"content": None}),
    (GEMINI, {"candidates": []}),
    (GEMINI, {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]}),
    (GEMINI, {"candidates": [{"finishReason": "STOP", "content": {"parts": [{"fileData": {"fileUri": "gs://x"}}]}}]}),
]


@pytest.mark.parametrize(("dialect", "payload"), BROKEN)
def test_a_broken_answer_is_no_answer(dialect: Dialect, payload: Body) -> None:
    with pytest.raises(BrokenAnswer):
        answer_to_form(dialect, payload, seed="s")


@pytest.mark.parametrize("client", [ANTHROPIC, RESPONSES])
def test_a_picture_is_no_part_of_a_text_answer(client: Dialect) -> None:
    form = answer_to_form(GEMINI, {"candidates": [{"content": {"parts": [SAID]}, "finishReason": "STOP"}]}, seed="s")
    request = to_form(client, chat(HI) if client is ANTHROPIC else items(HI))
    with pytest.raises(BrokenAnswer):
        answer_from_form(client, form, request, model="m", created=1)
    shown = answer_from_form(OPENAI, form, request, model="m", created=1)
    assert shown["choices"][0]["message"]["images"][0]["image_url"]["url"] == "data:image/png;base64,QUJD"
