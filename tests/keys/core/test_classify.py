"""The corpus, the table of scopes, and what does not depend on wording: faults, phases, statuses, unusable answers."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from keys.core.classify import SCOPES, classify
from keys.core.outcome import Cause, Outcome, Phase, Reply, Scope, Verdict
from keys.core.rulebook import DEFAULT_RULES
from keys.core.wording import WordingRule

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
CORPUS = Path(__file__).parents[2] / "corpus" / "upstream_errors.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in CORPUS.read_text().splitlines()]

# The contract overrules the corpus on two waits. Both cases state half a minute that brings nothing: a daily quota
# is renewed at midnight in California, and a limit of zero never (so nothing is stated and the policy's hour holds).
OTHER_WAITS: Mapping[str, float | None] = {"gemini-429-minute-and-day": 72000.0, "gemini-429-limit-zero": None}


def reply_of(row: Mapping[str, Any]) -> Reply:
    """A 200 that is not JSON cannot be an answer; everything else is left to the classifier."""
    body = (
        row["body"].encode() if isinstance(row["body"], str) else json.dumps(row["body"], ensure_ascii=False).encode()
    )
    usable = True
    if row["status"] == 200:
        try:
            json.loads(body)
        except ValueError:
            usable = False
    headers = {name.lower(): value for name, value in row["headers"].items()}
    return Reply(row["status"], headers, body, Phase(row["stream_phase"]), row.get("exception"), usable)


def judged(status: int | None, body: Any = "", **fields: Any) -> Outcome:
    data = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
    return classify(Reply(status, body=data, **fields), now=NOW)


@pytest.mark.parametrize("row", [pytest.param(row, id=row["id"]) for row in ROWS])
def test_corpus(row: dict[str, Any]) -> None:
    outcome = classify(reply_of(row), now=NOW)
    assert outcome.cause == row["class"]
    # `failover` of the corpus: may another key be tried before content. A prompt that is too long stops at keys with
    # the same window and may go on to a larger one, so the classifier says NEXT and the loop chooses the keys.
    if outcome.cause is Cause.CONTEXT_TOO_LONG:
        assert row["failover"] is False
        assert (outcome.verdict, outcome.scope) == (Verdict.NEXT, Scope.REQUEST)
    else:
        assert (outcome.verdict is Verdict.NEXT) == row["failover"]
    if row["id"] in OTHER_WAITS:
        assert outcome.wait_s == OTHER_WAITS[row["id"]]
    elif row["retry_after_s"] is not None:
        assert outcome.wait_s == pytest.approx(row["retry_after_s"])
    assert outcome.status == row["status"]
    assert outcome.phase == row["stream_phase"]


def test_the_corpus_is_met_to_99_per_cent() -> None:
    assert len(OTHER_WAITS) / len(ROWS) < 0.01


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("openai-429-insufficient-quota-code-null", "account"),
        ("openai-429-credit-balance-exhausted", "account"),
        ("openai-429-rpm", "key"),
        ("openai-429-request-too-large", "request size"),
        ("azure-429-86400", "request size"),
        ("openrouter-402-can-only-afford", "request size"),
        ("newapi-403-preconsume", "request size"),
        ("newapi-403-user-quota", "account"),
        ("newapi-403-token-quota", "key"),
        ("newapi-401-token-named-quota", "key"),
        ("openrouter-402-key-limit", "key"),
        ("openrouter-403-key-limit-daily", "key"),
        ("openrouter-403-budget-resets-at", "account"),
        ("openrouter-429-free-per-day", "account"),
        ("openrouter-429-upstream", "key shared_pool"),
        ("cohere-429-trial-month", "key"),
        ("gemini-429-minute-and-day", "key_model per_day"),
        ("gemini-429-limit-zero", "key_model limit_zero"),
        ("gemini-429-help-only", "account"),
        ("cloudcode-429-quota", "key_model"),
        ("groq-429-tpd", "key_model"),
        ("groq-429-tpm", "key"),
        ("azure-foundry-429-rpd", "key_model"),
        ("dashscope-403-free-tier-only", "key_model"),
        ("ark-429-set-limit", "key_model"),
        ("crs-403-dedicated-opus", "key_model"),
        ("zhipu-429-1308", "account"),
        ("chatgpt-429-usage-limit-long", "account"),
        ("anthropic-429-unified-reset-only", "account"),
        ("openai-401-incorrect-key", "key"),
        ("newapi-403-ip", "key_model"),
        ("anthropic-404-model", "key_model"),
        ("anthropic-sse-overloaded-first", "key"),
        ("anthropic-400-roles", "request"),
        ("net-pool-timeout", "none local"),
    ],
)
def test_scope_and_reason(case: str, expected: str) -> None:
    outcome = classify(reply_of(next(row for row in ROWS if row["id"] == case)), now=NOW)
    assert " ".join(filter(None, (outcome.scope, outcome.reason))) == expected


def test_every_cause_has_a_scope() -> None:
    assert set(SCOPES) == set(Cause)


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        (100, Cause.SERVER_ERROR),
        (301, Cause.SERVER_ERROR),
        (304, Cause.SERVER_ERROR),
        (307, Cause.SERVER_ERROR),
        (400, Cause.BAD_REQUEST),
        (401, Cause.AUTH_INVALID),
        (402, Cause.INSUFFICIENT_BALANCE),
        (403, Cause.PERMISSION_DENIED),
        (404, Cause.MODEL_UNAVAILABLE),
        (405, Cause.BAD_REQUEST),
        (408, Cause.TIMEOUT),
        (409, Cause.BAD_REQUEST),
        (413, Cause.BAD_REQUEST),
        (422, Cause.BAD_REQUEST),
        (429, Cause.RATE_LIMITED),
        (451, Cause.BAD_REQUEST),
        (498, Cause.OVERLOADED),
        (499, Cause.CONNECTION),
        (500, Cause.SERVER_ERROR),
        (501, Cause.SERVER_ERROR),
        (502, Cause.SERVER_ERROR),
        (503, Cause.OVERLOADED),
        (504, Cause.TIMEOUT),
        (520, Cause.SERVER_ERROR),
        (522, Cause.TIMEOUT),
        (524, Cause.TIMEOUT),
        (529, Cause.OVERLOADED),
        (599, Cause.SERVER_ERROR),
        (999, Cause.SERVER_ERROR),
    ],
)
def test_a_bare_status(status: int, cause: Cause) -> None:
    outcome = judged(status)
    assert (outcome.cause, outcome.evidence, outcome.scope) == (cause, f"status:{status}", SCOPES[cause])
    assert outcome.verdict is (Verdict.STOP if cause is Cause.BAD_REQUEST else Verdict.NEXT)
    assert outcome.wait_s is None


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ("refused", Cause.CONNECTION),
        ("dns", Cause.CONNECTION),
        ("tls", Cause.CONNECTION),
        ("reset", Cause.CONNECTION),
        ("closed", Cause.CONNECTION),
        ("connect_timeout", Cause.TIMEOUT),
        ("silence", Cause.TIMEOUT),
        ("read_timeout", Cause.TIMEOUT),
        ("httpx.ReadTimeout", Cause.TIMEOUT),
        ("aiohttp.ServerDisconnectedError: Server disconnected", Cause.CONNECTION),
        ("[Errno 110] Connection timed out", Cause.TIMEOUT),
        ("something else", Cause.CONNECTION),
    ],
)
def test_a_fault_is_a_connection_or_a_timeout(fault: str, cause: Cause) -> None:
    for phase in Phase:
        outcome = judged(None if phase is Phase.NONE else 200, fault=fault, phase=phase)
        assert (outcome.cause, outcome.scope, outcome.evidence) == (cause, Scope.KEY, "fault")
        assert outcome.verdict is (Verdict.STOP if phase is Phase.MID_STREAM else Verdict.NEXT)


@pytest.mark.parametrize("fault", ["blocked_address", "httpx.PoolTimeout"])
def test_our_own_faults_touch_no_key(fault: str) -> None:
    outcome = judged(None, fault=fault)
    assert (outcome.scope, outcome.reason, outcome.verdict) == (Scope.NONE, "local", Verdict.NEXT)


def test_no_answer_at_all_is_a_connection() -> None:
    assert judged(None).cause is Cause.CONNECTION


def test_an_event_without_a_status_is_read() -> None:
    outcome = judged(None, {"error": {"code": "insufficient_quota"}}, phase=Phase.BEFORE_CONTENT)
    assert outcome.cause is Cause.QUOTA_EXHAUSTED


def test_a_fault_text_is_redacted() -> None:
    outcome = judged(None, fault="ConnectError: https://g.example/v1beta/m:generateContent?key=AIzaSyEXAMPLE123456")
    assert outcome.message == "ConnectError: [redacted]"


def test_message_is_whole_then_redacted_then_cut() -> None:
    outcome = judged(401, {"error": {"message": "Incorrect  API\nkey: sk-live-1234567890abcdef. " + "x" * 900}})
    assert outcome.message.startswith("Incorrect API key: [redacted]. xxx")
    assert len(outcome.message) == 500


ANSWER = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]}


@pytest.mark.parametrize(
    "body",
    [
        ANSWER,
        {**ANSWER, "error": None, "code": 0, "base_resp": {"status_code": 0, "status_msg": ""}},
        {**ANSWER, "code": 200, "message": "ok"},
        {"type": "message", "content": [{"type": "text", "text": "insufficient_quota: invalid api key"}]},
        {"candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": "SAFETY"}]},
        {"candidates": [{"finishReason": "MAX_TOKENS"}], "usageMetadata": {}},
        {"choices": [{"message": {"content": "half"}, "finish_reason": "content_filter"}]},
        {"totalTokens": 12, "usageMetadata": {}},
        {"embedding": {"values": [0.1]}},
        {
            "object": "response",
            "status": "incomplete",
            "incomplete_details": {"reason": "content_filter"},
            "error": None,
        },
        [{"candidates": [{"content": {"parts": [{"text": "x"}]}}]}],
        "a text of /v1/audio/transcriptions, no quota exceeded",
        "",
        b"\xff\xf3\x00binary",
        '"a JSON string"',
        "12",
    ],
)
def test_a_usable_answer_is_served(body: Any) -> None:
    outcome = judged(200, body)
    assert (outcome.cause, outcome.verdict, outcome.message) == (Cause.SERVED, Verdict.ANSWERED, "")


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ({"choices": []}, Cause.SERVER_ERROR),
        ({"choices": None}, Cause.SERVER_ERROR),
        ([], Cause.SERVER_ERROR),
        ({"usageMetadata": {"promptTokenCount": 3}}, Cause.SERVER_ERROR),
        ({"candidates": [{"content": {"role": "model"}, "finishReason": "STOP"}]}, Cause.SERVER_ERROR),
        ({"candidates": [None]}, Cause.SERVER_ERROR),
        ({"candidates": [{"finishReason": "PROHIBITED_CONTENT"}]}, Cause.CONTENT_FILTERED),
        ({"promptFeedback": {"blockReason": "OTHER"}}, Cause.CONTENT_FILTERED),
        ({"error": {"code": 429, "message": "Provider returned error"}}, Cause.RATE_LIMITED),
        ({"error": {"message": "x", "status": "UNAVAILABLE"}}, Cause.OVERLOADED),
        ({"choices": [{"finish_reason": "error", "error": {"code": 503, "message": "x"}}]}, Cause.OVERLOADED),
        (
            {"object": "response", "status": "failed", "error": {"code": "server_error", "message": "x"}},
            Cause.SERVER_ERROR,
        ),
        ({"type": "error", "error": {"type": "authentication_error", "message": "x"}}, Cause.AUTH_INVALID),
        ({"success": False, "message": "nope"}, Cause.SERVER_ERROR),
    ],
)
def test_a_200_may_be_a_failure(body: Any, cause: Cause) -> None:
    assert judged(200, body).cause is cause


@pytest.mark.parametrize(
    "body", ["<html>insufficient balance</html>", "insufficient_quota", "{broken", "\xff", "  ", "null", "3"]
)
def test_an_unusable_200_without_an_error_object_is_a_server_error(body: str) -> None:
    outcome = judged(200, body, usable=False)
    assert (outcome.cause, outcome.verdict, outcome.scope) == (Cause.SERVER_ERROR, Verdict.NEXT, Scope.KEY)


@pytest.mark.parametrize(
    ("event", "cause"),
    [
        ({"choices": [{"delta": {}, "finish_reason": "content_filter"}]}, Cause.CONTENT_FILTERED),
        (
            {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "content_filter"}}},
            Cause.CONTENT_FILTERED,
        ),
        (
            {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "max_output_tokens"}}},
            Cause.SERVER_ERROR,
        ),
        ({"candidates": [{"finishReason": "SAFETY", "content": {"parts": [{"text": "x"}]}}]}, Cause.CONTENT_FILTERED),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, Cause.OVERLOADED),
        (
            {"type": "response.failed", "response": {"error": {"code": "rate_limit_exceeded", "message": "x"}}},
            Cause.RATE_LIMITED,
        ),
        ({"choices": "nonsense"}, Cause.SERVER_ERROR),
        ({"choices": [None]}, Cause.SERVER_ERROR),
    ],
)
@pytest.mark.parametrize("phase", [Phase.BEFORE_CONTENT, Phase.MID_STREAM])
def test_an_event_of_a_stream(event: Any, cause: Cause, phase: Phase) -> None:
    outcome = judged(200, event, phase=phase)
    assert outcome.cause is cause
    stop = phase is Phase.MID_STREAM or cause is Cause.CONTENT_FILTERED
    assert outcome.verdict is (Verdict.STOP if stop else Verdict.NEXT)


def test_a_relay_that_maps_statuses_keeps_the_real_one_in_param() -> None:
    def remapped(param: Any) -> Outcome:
        error = {"message": "x", "type": "upstream_error", "param": param, "code": "bad_response_status_code"}
        return judged(500, {"error": error})

    assert remapped("429").cause is Cause.RATE_LIMITED
    assert remapped(504).cause is Cause.TIMEOUT
    assert [remapped(status).cause for status in ("401", "402", "403")] == [Cause.SERVER_ERROR] * 3
    assert remapped("model").cause is remapped(None).cause is Cause.SERVER_ERROR


def test_a_window_named_beats_the_stated_wait_and_a_wait_beats_nothing() -> None:
    def limited(message: str, seconds: str) -> Outcome:
        return judged(429, {"error": {"message": message}}, headers={"retry-after": seconds})

    assert limited("Rate limit: 10 requests per minute", "7200").cause is Cause.RATE_LIMITED
    assert limited("Rate limit: 10 requests per day", "5").cause is Cause.QUOTA_EXHAUSTED
    assert limited("Rate limit exceeded", "3600").cause is Cause.RATE_LIMITED
    assert limited("Rate limit exceeded", "3601").cause is Cause.QUOTA_EXHAUSTED
    assert limited("Rate limit exceeded", "2678400").cause is Cause.QUOTA_EXHAUSTED
    assert limited("Rate limit exceeded", "31536000").cause is Cause.RATE_LIMITED
    assert limited("Quota exceeded", "30").cause is Cause.RATE_LIMITED
    assert limited("Quota exceeded", "4000").wait_s == 4000


@pytest.mark.parametrize(
    ("headers", "cause"),
    [
        ({"anthropic-ratelimit-unified-7d-status": "rejected"}, Cause.QUOTA_EXHAUSTED),
        ({"anthropic-ratelimit-unified-5h-status": "allowed"}, Cause.RATE_LIMITED),
        ({"anthropic-ratelimit-unified-status": "rejected"}, Cause.RATE_LIMITED),
        ({"x-codex-secondary-used-percent": "100"}, Cause.QUOTA_EXHAUSTED),
    ],
)
def test_a_full_window_in_the_headers_is_a_quota(headers: dict[str, str], cause: Cause) -> None:
    assert judged(429, {"error": {"type": "rate_limit_error", "message": "x"}}, headers=headers).cause is cause


def test_headers_repeated_in_the_body_are_read_where_the_answer_has_none() -> None:
    error = {"message": "Rate limit exceeded", "metadata": {"headers": {"Retry-After": 5, "X-Other": [1]}}}
    assert judged(429, {"error": error}).wait_s == 5
    assert judged(429, {"error": error}, headers={"retry-after": "9"}).wait_s == 9


def test_what_lies_too_deep_is_not_read() -> None:
    body: dict[str, Any] = {"code": "insufficient_quota"}
    for _ in range(12):
        body = {"error": body}
    assert judged(400, body).cause is Cause.BAD_REQUEST
    assert judged(400, {"error": {"message": "[1, 2]", "details": [3, {"error": "[]"}]}}).cause is Cause.BAD_REQUEST


def test_a_daily_quota_is_measured_by_the_upstreams_clock() -> None:
    body = {"error": {"status": "RESOURCE_EXHAUSTED", "details": [{"violations": [{"quotaId": "RequestsPerDay"}]}]}}
    outcome = judged(429, body, headers={"date": "Mon, 05 Jan 2026 07:00:00 GMT"})
    assert (outcome.wait_s, outcome.reason, outcome.scope) == (3600, "per_day", Scope.ACCOUNT)


def test_an_operators_row_comes_first() -> None:
    row = WordingRule("operator", Cause.QUOTA_EXHAUSTED, message=("come back*monday",), scope=Scope.KEY, reason="own")
    reply = Reply(503, body=b'{"error":{"message":"Busy. Come back on Monday."}}')
    assert classify(reply, now=NOW).cause is Cause.OVERLOADED
    outcome = classify(reply, now=NOW, rules=DEFAULT_RULES.with_first([row]))
    assert (outcome.cause, outcome.scope, outcome.reason, outcome.evidence) == (
        Cause.QUOTA_EXHAUSTED,
        Scope.KEY,
        "own",
        "operator",
    )
