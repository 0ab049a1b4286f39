"""Which requests are one conversation, and what binds them to an account."""

import json
from typing import Any

import pytest

from keys.core.dialect import Dialect
from routing.core.identity import (
    HardPin,
    digest,
    owned_ids,
    pin_key,
    session_keys,
    signatures_in,
)
from tests.routing.core.build import read

CHAT, RESPONSES, ANTHROPIC, GEMINI = Dialect.OPENAI, Dialect.RESPONSES, Dialect.ANTHROPIC, Dialect.GEMINI
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}]}


@pytest.mark.parametrize(
    "name",
    [
        "x-session-id",
        "x-claude-code-session-id",
        "session_id",
        "session-id",
        "conversation_id",
        "x-session-affinity",
        "x-opencode-session",
        "thread-id",
        "x-qwen-code-session-id",
        "x-grok-conv-id",
    ],
)
def test_session_headers(name: str) -> None:
    found = read(CHAT, HELLO, {name: " abc "}).session
    assert (found.id, found.lone) == (digest("abc"), True)
    assert read(CHAT, HELLO, {name: " "}).session.id == ""


OLD = "user_0f9a_account__session_7b1c-22"


@pytest.mark.parametrize(
    ("body", "expected", "lone"),
    [
        ({"prompt_cache_key": "abc"}, "abc", True),
        ({"session_id": "abc"}, "abc", True),
        ({"sessionId": "abc"}, "abc", True),
        (
            {"metadata": {"user_id": json.dumps({"device_id": "d", "account_uuid": "", "session_id": "abc"})}},
            "abc",
            True,
        ),
        ({"metadata": {"user_id": OLD}}, "7b1c-22", True),
        ({"metadata": {"user_id": "customer 7"}}, "customer 7", False),
        ({"metadata": {"user_id": '{"device_id": "d"}'}}, '{"device_id": "d"}', False),
        ({"metadata": {"user_id": "{broken"}}, "{broken", False),
    ],
)
def test_session_ids_in_the_body(body: dict[str, Any], expected: str, lone: bool) -> None:
    found = read(ANTHROPIC, body).session
    assert (found.id, found.lone) == (digest(expected), lone)


@pytest.mark.parametrize(
    "body", [{}, {"metadata": []}, {"metadata": {"user_id": 5}}, {"prompt_cache_key": 5}, {"user": "u"}]
)
def test_no_session_id(body: dict[str, Any]) -> None:
    assert read(CHAT, body).session.id == ""


def test_a_header_comes_before_the_body() -> None:
    body = {"prompt_cache_key": "body"}
    assert read(RESPONSES, body, {"session-id": "head"}).session.id == digest("head")


def first(dialect: Dialect, body: dict[str, Any]) -> str:
    return read(dialect, body).session.fingerprint


def test_strings_and_blocks_are_the_same_conversation() -> None:
    plain = {"system": "be brief\n\nnow", "messages": [{"role": "user", "content": "hello there"}]}
    blocks = {
        "system": [{"type": "text", "text": "be brief", "cache_control": {}}, {"type": "text", "text": "now"}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hello "}, {"type": "text", "text": "there"}]}
        ],
    }
    assert first(ANTHROPIC, plain) == first(ANTHROPIC, blocks) != ""


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        (CHAT, {"messages": [{"role": "developer", "content": "S"}, {"role": "user", "content": "U"}]}),
        (CHAT, {"messages": [{"role": "system", "content": [{"text": "S"}]}, {"role": "user", "content": "U"}]}),
        (RESPONSES, {"instructions": "S", "input": "U"}),
        (RESPONSES, {"input": [{"role": "developer", "content": "S"}, {"role": "user", "content": [{"text": "U"}]}]}),
        (ANTHROPIC, {"system": "S", "messages": [{"role": "user", "content": "U"}]}),
        (
            GEMINI,
            {"systemInstruction": {"parts": [{"text": "S"}]}, "contents": [{"role": "user", "parts": [{"text": "U"}]}]},
        ),
        (GEMINI, {"system_instruction": "S", "contents": ["U"]}),
        (GEMINI, {"system_instruction": "S", "contents": {"parts": [{"text": "U"}]}}),
    ],
)
def test_every_dialect_has_the_same_fingerprint(dialect: Dialect, body: dict[str, Any]) -> None:
    assert first(dialect, body) == digest("S", "U")


def test_later_messages_do_not_change_the_fingerprint_and_first_ones_do() -> None:
    start = [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]
    grown = [*start, {"role": "assistant", "content": "A"}, {"role": "system", "content": "T"}, {"role": "user"}]
    assert first(CHAT, {"messages": grown}) == first(CHAT, {"messages": start})
    assert first(CHAT, {"messages": [start[0], {"role": "user", "content": "V"}]}) != first(CHAT, {"messages": start})
    assert first(CHAT, {"messages": start[1:]}) != first(CHAT, {"messages": start})


def test_the_clients_own_bookkeeping_does_not_count() -> None:
    def body(version: str, *, as_block: bool) -> dict[str, Any]:
        line = f"x-anthropic-billing-header: cc_version={version}"
        system: Any = [{"type": "text", "text": line}, {"type": "text", "text": "S"}] if as_block else f"{line}\nS"
        return {"system": system, "messages": [{"role": "user", "content": "U"}]}

    wanted = digest("S", "U")
    assert {first(ANTHROPIC, body(v, as_block=b)) for v in ("2.1.3.abc", "2.1.3.def") for b in (True, False)} == {
        wanted
    }


def test_without_user_text_there_is_no_fingerprint() -> None:
    assert first(CHAT, {"messages": [{"role": "system", "content": "S"}]}) == ""
    assert first(CHAT, {"messages": [{"role": "user", "content": " "}]}) == ""
    assert first(CHAT, {"input": "to embed"}) == ""
    assert first(CHAT, {"prompt": "legacy"}) == digest("", "legacy")


def test_keys_hold_tenant_line_and_route_and_have_a_bounded_length() -> None:
    session = read(CHAT, HELLO, {"x-session-id": "a" * 100_000}).session
    keys = session_keys(session, 1, 2, 3)
    assert [len(key) for key in keys] == [32, 32]
    others = [session_keys(session, *scope) for scope in ((9, 2, 3), (1, 9, 3), (1, 2, 9))]
    assert len({key for each in (keys, *others) for key in each}) == 8


def test_an_id_alone_finds_the_conversation_after_its_text_changed() -> None:
    other = {"messages": [{"role": "user", "content": "compacted"}]}
    before, after = (session_keys(read(CHAT, body, {"x-session-id": "a"}).session, 1, 2, 3) for body in (HELLO, other))
    assert before[0] != after[0]
    assert before[1] == after[1]


def test_an_end_users_id_alone_finds_nothing() -> None:
    session = read(ANTHROPIC, {**HELLO, "metadata": {"user_id": "customer 7"}}).session
    assert len(session_keys(session, 1, 2, 3)) == 1


def test_no_identity_no_keys_and_a_fingerprint_alone_one() -> None:
    assert session_keys(read(CHAT, {}).session, 1, 2, 3) == ()
    assert len(session_keys(read(CHAT, HELLO).session, 1, 2, 3)) == 1
    assert len(session_keys(read(CHAT, {}, {"x-session-id": "a"}).session, 1, 2, 3)) == 1


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(blocks)}]}


@pytest.mark.parametrize(
    ("dialect", "body", "pins"),
    [
        (RESPONSES, {"previous_response_id": "resp_1"}, [("previous_response_id", "resp_1")]),
        (RESPONSES, {"conversation": "conv_1"}, [("conversation", "conv_1")]),
        (RESPONSES, {"conversation": {"id": "conv_1"}}, [("conversation", "conv_1")]),
        (RESPONSES, {"input": [{"type": "item_reference", "id": "rs_1"}]}, [("item_reference", "rs_1")]),
        (
            RESPONSES,
            {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]}]},
            [("file_id", "file-1")],
        ),
        (RESPONSES, {"tools": [{"type": "code_interpreter", "container": "cntr_1"}]}, [("container", "cntr_1")]),
        (
            RESPONSES,
            {"tools": [{"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file-1"]}}]},
            [("file_id", "file-1")],
        ),
        (
            RESPONSES,
            {"tools": [{"type": "file_search", "vector_store_ids": ["vs_1", 5]}]},
            [("vector_store_ids", "vs_1")],
        ),
        (CHAT, user({"type": "file", "file": {"file_id": "file-1"}}), [("file_id", "file-1")]),
        (
            ANTHROPIC,
            user({"type": "document", "source": {"type": "file", "file_id": "file_1"}}),
            [("file_id", "file_1")],
        ),
        (ANTHROPIC, user({"type": "container_upload", "file_id": "file_1"}), [("file_id", "file_1")]),
        (ANTHROPIC, {"container": "container_1"}, [("container", "container_1")]),
        (ANTHROPIC, {"container": {"skills": []}}, []),
        (GEMINI, {"cachedContent": "cachedContents/1"}, [("cachedContent", "cachedContents/1")]),
        (
            GEMINI,
            {
                "contents": [
                    {"parts": [{"fileData": {"fileUri": "https://generativelanguage.googleapis.com/v1beta/files/a"}}]}
                ]
            },
            [("fileUri", "files/a")],
        ),
        (GEMINI, {"contents": [{"parts": [{"fileData": {"fileUri": "https://youtu.be/x"}}]}]}, []),
        (RESPONSES, {"previous_response_id": None, "conversation": 5, "tools": [{"container": {}}]}, []),
    ],
)
def test_hard_pins(dialect: Dialect, body: dict[str, Any], pins: list[tuple[str, str]]) -> None:
    assert read(dialect, body).pins == tuple(HardPin(field, digest(value)) for field, value in pins)


def test_pins_do_not_repeat_and_are_bounded() -> None:
    many = user(*({"type": "file", "file_id": f"file-{number % 100}"} for number in range(300)))
    assert len(read(CHAT, many).pins) == 64
    assert len(read(CHAT, user({"file_id": "a"}, {"file_id": "a"})).pins) == 1


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        (ANTHROPIC, {"messages": [{"role": "assistant", "content": [{"type": "thinking", "signature": "SIG"}]}]}),
        (ANTHROPIC, {"messages": [{"role": "assistant", "content": [{"type": "redacted_thinking", "data": "SIG"}]}]}),
        (RESPONSES, {"input": [{"type": "reasoning", "encrypted_content": "SIG"}]}),
        (GEMINI, {"contents": [{"role": "model", "parts": [{"functionCall": {}, "thoughtSignature": "SIG"}]}]}),
        (GEMINI, {"contents": [{"role": "model", "parts": [{"thought_signature": "SIG"}]}]}),
        (
            CHAT,
            {
                "messages": [
                    {"role": "assistant", "reasoning_details": [{"type": "reasoning.encrypted", "data": "SIG"}]}
                ]
            },
        ),
        (
            CHAT,
            {
                "messages": [
                    {"role": "assistant", "tool_calls": [{"extra_content": {"google": {"thought_signature": "SIG"}}}]}
                ]
            },
        ),
    ],
)
def test_signed_thinking(dialect: Dialect, body: dict[str, Any]) -> None:
    assert read(dialect, body).signatures == (digest("SIG"),)


def test_a_placeholder_is_no_signature() -> None:
    parts = [{"functionCall": {}, "thoughtSignature": "skip_thought_signature_validator"}, {"thoughtSignature": ""}]
    assert read(GEMINI, {"contents": [{"role": "model", "parts": parts}]}).signatures == ()


def test_only_the_newest_signatures_are_kept() -> None:
    blocks = [{"type": "thinking", "signature": f"S{number}"} for number in range(20)]
    found = read(ANTHROPIC, {"messages": [{"role": "assistant", "content": blocks}]}).signatures
    assert found == tuple(digest(f"S{number}") for number in range(12, 20))


@pytest.mark.parametrize(
    "payload",
    [
        {"content": [{"type": "thinking", "thinking": "x", "signature": "SIG"}]},
        {"type": "content_block_delta", "delta": {"type": "signature_delta", "signature": "SIG"}},
        {"type": "content_block_start", "content_block": {"type": "redacted_thinking", "data": "SIG"}},
        {"type": "response.output_item.done", "item": {"type": "reasoning", "encrypted_content": "SIG"}},
        {"candidates": [{"content": {"parts": [{"thoughtSignature": "SIG"}]}}]},
        {"choices": [{"delta": {"reasoning_details": [{"type": "reasoning.encrypted", "data": "SIG"}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"extra_content": {"google": {"thought_signature": "SIG"}}}]}}]},
    ],
)
def test_an_answers_marks_are_those_a_later_request_shows(payload: dict[str, Any]) -> None:
    assert signatures_in(payload) == (digest("SIG"),)


def test_a_models_own_words_are_no_mark() -> None:
    assert signatures_in({"content": [{"type": "tool_use", "input": {"signature": "SIG"}}]}) == ()
    deep: dict[str, Any] = {"signature": "SIG"}
    for _ in range(30):
        deep = {"x": deep}
    assert signatures_in(deep) == ()


@pytest.mark.parametrize(
    ("dialect", "payload", "ids"),
    [
        (
            RESPONSES,
            {"object": "response", "id": "resp_1", "conversation": {"id": "conv_1"}, "output": [{"id": "rs_1"}]},
            ["resp_1", "conv_1", "rs_1"],
        ),
        (
            RESPONSES,
            {"type": "response.completed", "response": {"id": "resp_1", "store": False, "output": [{"id": "rs_1"}]}},
            ["resp_1"],
        ),
        (RESPONSES, {"type": "response.output_text.delta", "item_id": "x"}, []),
        (RESPONSES, {"object": "response", "id": "r", "store": False, "output": [{"container_id": "c"}]}, ["r", "c"]),
        (ANTHROPIC, {"type": "message", "container": {"id": "container_1"}}, ["container_1"]),
        (ANTHROPIC, {"type": "message_delta", "delta": {"container": {"id": "container_1"}}}, ["container_1"]),
        (GEMINI, {"name": "cachedContents/1"}, ["cachedContents/1"]),
        (GEMINI, {"file": {"name": "files/a"}}, ["files/a"]),
        (GEMINI, {"name": "operations/1"}, []),
        (CHAT, {"object": "file", "id": "file-1"}, ["file-1"]),
        (CHAT, {"object": "chat.completion", "id": "chatcmpl-1"}, []),
    ],
)
def test_ids_that_an_answer_creates(dialect: Dialect, payload: dict[str, Any], ids: list[str]) -> None:
    assert owned_ids(dialect, payload) == tuple(digest(value) for value in ids)


def test_owners_are_kept_per_line() -> None:
    assert len({pin_key(1, 2, "x"), pin_key(1, 3, "x"), pin_key(2, 2, "x"), pin_key(1, 2, "y")}) == 4
    assert digest("ab", "c") != digest("a", "bc")
