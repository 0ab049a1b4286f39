"""Every wrapper says the same, no echo of a prompt can poison a key, and no input is slow or fatal."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keys.core.classify import classify
from keys.core.evidence import says_failure, snake
from keys.core.outcome import Cause, Outcome, Phase, Reply, Scope, Verdict
from keys.core.redact import redact
from tests.keys.core.test_classify import ROWS

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
HARMFUL = {Scope.ACCOUNT, Scope.KEY}
HARMLESS_CAUSES = {
    Cause.SERVED,
    Cause.BAD_REQUEST,
    Cause.CONTEXT_TOO_LONG,
    Cause.CONTENT_FILTERED,
    Cause.MODEL_UNAVAILABLE,
}


def judged(status: int | None, body: Any, **fields: Any) -> Outcome:
    data = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
    return classify(Reply(status, body=data, **fields), now=NOW)


WRAPPERS: dict[str, Callable[[str], str]] = {
    "bom": lambda text: "\ufeff" + text,
    "blank": lambda text: "\r\n \t " + text + "\n\n",
    "array": lambda text: f"[{text}]",
    "string": json.dumps,
    "error message": lambda text: json.dumps({"error": {"message": text, "type": "upstream_error"}}),
    "prefixed message": lambda text: json.dumps({"error": {"message": f"status 4xx: {text}"}}),
    "metadata.raw": lambda text: json.dumps(
        {"error": {"message": "Provider returned error", "metadata": {"raw": text}}}
    ),
    "double error": lambda text: json.dumps({"error": json.loads(text)}),
}
# Errors in the common form, by class; 401s apart, since `upstream_error` there means the relay's own credential.
WRAPPED = [
    row
    for row in ROWS
    if isinstance(row["body"], dict)
    and isinstance(row["body"].get("error"), dict)
    and (row["status"] or 0) >= 400
    and row["status"] != 401
]


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_wrapped_error_means_the_same(wrapper: str) -> None:
    wrong = []
    for row in WRAPPED:
        body = WRAPPERS[wrapper](json.dumps(row["body"], ensure_ascii=False))
        headers = {name.lower(): value for name, value in row["headers"].items()} | {"content-type": "text/html"}
        outcome = classify(Reply(row["status"], headers, body.encode()), now=NOW)
        if outcome.cause != row["class"]:
            wrong.append((row["id"], outcome.cause, outcome.evidence))
    assert wrong == []
    assert len(WRAPPED) > 150


@pytest.mark.parametrize("encode", ["utf-16", "latin-1"])
def test_other_encodings_fall_back_to_the_status(encode: str) -> None:
    body = json.dumps({"error": {"message": "é" * 9}}, ensure_ascii=False).encode(encode)
    assert judged(429, body).cause is Cause.RATE_LIMITED


POISONS = (
    "insufficient_quota",
    "Your credit balance is too low",
    "invalid api key",
    "This account has been suspended",
    "余额不足，请充值",
    "You exceeded your current quota, please check your plan",
    "该令牌额度已用尽",
    "rate limit exceeded",
    '{"error":{"code":"insufficient_quota","type":"insufficient_quota","message":"account_deactivated"}}',
)
ECHOES: dict[str, Callable[[str], tuple[int, Any]]] = {
    "path": lambda text: (
        400,
        {"error": {"message": f"messages.0.content: got {text}", "type": "invalid_request_error"}},
    ),
    "quoted": lambda text: (400, {"error": {"message": f'Bad content "{text}" in the prompt', "code": None}}),
    "single quoted": lambda text: (400, {"error": {"message": f"Role must not be '{text}'"}}),
    "invalid value": lambda text: (400, {"error": {"message": f"Invalid value: {text}", "code": "invalid_value"}}),
    "argument": lambda text: (400, {"error": {"message": f"Unrecognized request argument supplied: {text}"}}),
    "deserialize": lambda text: (422, f"Failed to deserialize the JSON body: unknown variant {text}, line 1 column 5"),
    "pydantic": lambda text: (
        422,
        {"detail": [{"type": "x", "loc": ["body"], "msg": "bad", "input": text, "code": text}]},
    ),
    "pydantic message": lambda text: (
        422,
        {"message": {"detail": [{"loc": ["b"], "msg": "bad", "input": {"error": text}}]}},
    ),
    "far behind": lambda text: (400, {"error": {"message": "The tool schema is not acceptable here. " * 6 + text}}),
    "other field": lambda text: (400, {"error": {"message": "bad", "type": "invalid_request_error", "input": text}}),
    "other object": lambda text: (
        400,
        {"error": {"message": "bad"}, "request": {"error": {"code": text, "message": text}}},
    ),
    "flagged": lambda text: (
        403,
        {"error": {"message": "Your input was flagged", "metadata": {"reasons": ["x"], "flagged_input": text}}},
    ),
    "model name": lambda text: (
        404,
        {"type": "error", "error": {"type": "not_found_error", "message": f"model: {text}"}},
    ),
    "model quoted": lambda text: (
        404,
        {"error": {"message": f"The model `{text}` does not exist", "code": "model_not_found"}},
    ),
    "answer": lambda text: (200, {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}),
    "answer json": lambda text: (
        200,
        {"output": [{"content": [{"text": text}]}], "metadata": {"code": text, "error": text}},
    ),
    "answer text": lambda text: (200, "He said: " + text),
    "anthropic answer": lambda text: (
        200,
        {"type": "message", "content": [{"type": "text", "text": text}], "id": text},
    ),
    "cut json": lambda text: (400, '{"error":{"message":"bad","input":' + json.dumps(text) + ',"x":"'),
}


@pytest.mark.parametrize("echo", ECHOES)
@pytest.mark.parametrize("poison", POISONS)
def test_an_echoed_prompt_cannot_poison_a_key(echo: str, poison: str) -> None:
    status, body = ECHOES[echo](poison)
    outcome = judged(status, body)
    assert outcome.cause in HARMLESS_CAUSES, outcome
    assert outcome.cause is Cause.SERVED or outcome.scope not in HARMFUL


@pytest.mark.parametrize("poison", POISONS)
def test_nor_can_a_failed_stream_that_repeats_the_request(poison: str) -> None:
    response = {
        "object": "response",
        "instructions": poison,
        "metadata": {"code": poison, "reason": poison, "error_type": poison, "message": poison},
        "error": {"code": "server_error", "message": "An error occurred."},
    }
    outcome = judged(200, {"type": "response.failed", "response": response}, phase=Phase.BEFORE_CONTENT)
    assert outcome.cause is Cause.SERVER_ERROR
    events = (
        f'data: {{"choices":[{{"delta":{{"content":{json.dumps(poison)}}}}}]}}\n\ndata: {{"error":{{"code":500}}}}\n\n'
    )
    assert judged(200, events, phase=Phase.MID_STREAM).cause is Cause.SERVER_ERROR


def test_an_unusable_200_of_prose_is_not_read_for_wording() -> None:
    for poison in POISONS[:-1]:
        assert judged(200, poison, usable=False).cause is Cause.SERVER_ERROR
        assert judged(200, f"<html><body>{poison}</body></html>", usable=False).cause is Cause.SERVER_ERROR
        assert judged(403, f"<html><title>{poison}</title></html>").cause is Cause.PERMISSION_DENIED


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=30), st.sampled_from(POISONS)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                [
                    "error",
                    "errors",
                    "code",
                    "type",
                    "status",
                    "message",
                    "detail",
                    "details",
                    "metadata",
                    "raw",
                    "choices",
                    "candidates",
                    "response",
                    "base_resp",
                    "status_code",
                    "error_code",
                    "param",
                    "headers",
                    "quotaId",
                    "violations",
                    "quotaValue",
                    "quotaDimensions",
                    "retryDelay",
                    "promptFeedback",
                    "finishReason",
                    "content",
                    "incomplete_details",
                    "success",
                    "reasons",
                    "model",
                    "object",
                    "resets_at",
                ]
            ),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=20,
)
STATUSES = st.one_of(st.none(), st.integers(100, 599), st.sampled_from([200, 400, 401, 403, 429, 500]))


@settings(max_examples=300, deadline=None)
@given(
    JSON,
    STATUSES,
    st.sampled_from(Phase),
    st.booleans(),
    st.dictionaries(
        st.sampled_from(
            [
                "retry-after",
                "date",
                "x-amzn-errortype",
                "x-codex-primary-used-percent",
                "anthropic-ratelimit-unified-status",
                "x-ratelimit-remaining-requests",
                "x-ratelimit-reset-requests",
            ]
        ),
        st.text(max_size=20),
    ),
)
def test_any_json_has_a_meaning(
    body: Any, status: int | None, phase: Phase, usable: bool, headers: dict[str, str]
) -> None:
    outcome = judged(status, body, phase=phase, usable=usable, headers=headers)
    assert isinstance(outcome.cause, Cause)
    assert (outcome.verdict is Verdict.ANSWERED) == (outcome.cause is Cause.SERVED)
    assert outcome.wait_s is None or outcome.wait_s >= 0
    assert len(outcome.message) <= 500
    if outcome.cause is Cause.SERVED:
        assert status is not None
        assert 200 <= status < 300


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), STATUSES, st.sampled_from(Phase), st.booleans())
def test_any_bytes_have_a_meaning(body: bytes, status: int | None, phase: Phase, usable: bool) -> None:
    assert isinstance(judged(status, body, phase=phase, usable=usable).cause, Cause)


FULL = 65536
UNITS = [
    "[",
    '{"a":',
    '"',
    "`",
    " '",
    "a",
    " ",
    "*",
    "“",
    "\ufdfa",
    "余额",
    "insufficient ",
    "model ",
    "exceeded ",
    "9",
    "1m",
    "1s",
    "retry after ",
    "try again in 1m",
    "sk-",
    "http://",
    "b/",
    "1.1.1.",
    "a:",
    "key=",
    "key: ",
    "bearer ",
    "eyJ",
    "org-",
    "account ",
    "account: a@",
    'post "http://x',
    "lookup ",
    "1.",
    "%3D",
    "a_",
    "a-",
    "模型 令牌 额度 ",
    "<html><title",
    'data: {"error":1}\n\n',
    "data: x\n",
    '{"error":{"message":"',
    "Limit 1 ",
    "2026-01-01 ",
    "messages[",
    "abcdef0123456789",
]


@pytest.mark.parametrize("unit", UNITS)
def test_64_kib_of_anything_takes_little_time(unit: str) -> None:
    """A wrong pattern takes minutes here. The bound is far above what a busy machine needs (some 50 ms each)."""
    text = (unit * FULL)[:FULL]
    bodies = [text, json.dumps(text), json.dumps({"error": {"message": text, "code": text}}), text * 3]
    began = time.perf_counter()
    for body in bodies:
        classify(
            Reply(400, {"retry-after": text[:9000], "x-ratelimit-remaining-" + text[:2000]: "0"}, body.encode()),
            now=NOW,
        )
    redact(text, ["sk-abcdefghijklmnop1234", (unit * 40)[:40]])
    assert time.perf_counter() - began < 5


def test_only_64_kib_are_read() -> None:
    filler = json.dumps({"pad": "x" * FULL, "error": {"code": "insufficient_quota"}})
    assert judged(400, filler).cause is Cause.BAD_REQUEST
    page = "<html><head><title> Bad\n Gateway </title></head>" + "<p>insufficient balance</p>" * 9000
    assert (judged(502, page).cause, judged(502, page).message) == (Cause.SERVER_ERROR, "Bad Gateway")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("AccountOverdueError", "account_overdue_error"),
        ("Throttling.AllocationQuota", "throttling_allocation_quota"),
        ("API_KEY_INVALID", "api_key_invalid"),
        ("permission-denied", "permission_denied"),
        ("APIAccountRpmLimit", "api_account_rpm_limit"),
        ("channel:invalid_key", "channel:invalid_key"),
        ("余额", ""),
    ],
)
def test_codes_are_brought_to_one_spelling(value: str, expected: str) -> None:
    assert snake(value) == expected


@pytest.mark.parametrize(
    "document",
    [
        None,
        3,
        "x",
        [],
        {},
        {"error": ""},
        {"error": {}},
        {"code": 0, "message": "ok"},
        {"code": 5},
        {"base_resp": {"status_code": 0}},
        {"response": {"error": None}},
        {"choices": [{"finish_reason": "stop"}]},
        {"choices": "x"},
    ],
)
def test_what_is_no_failure(document: Any) -> None:
    assert not says_failure(document)
