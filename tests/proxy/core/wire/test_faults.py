"""Errors in each dialect's words, as its SDK reads them."""

import json

import anthropic
import httpx2
import openai
import pytest
from google.genai import errors as genai_errors
from openai.types.responses import ResponseFailedEvent

from keys.core.dialect import Dialect
from proxy.core.sse import Framer
from proxy.core.wire import reading
from proxy.core.wire.faults import FaultContext, error_body, error_event


def http(status: int, body: bytes) -> httpx2.Response:
    return httpx2.Response(status, content=body, request=httpx2.Request("POST", "http://gateway/v1"))


@pytest.mark.parametrize("dialect", [Dialect.OPENAI, Dialect.RESPONSES])
def test_openai_reads_it(dialect: Dialect) -> None:
    body = error_body(dialect, 429, "insufficient_quota", "Budget spent.", context=FaultContext(param="model"))
    error = openai.OpenAI(api_key="x")._make_status_error_from_response(http(429, body))
    assert isinstance(error, openai.RateLimitError)
    assert (error.code, error.type, error.param) == ("insufficient_quota", "gateway_error", "model")
    assert "Budget spent." in error.message


@pytest.mark.parametrize(
    ("status", "type_"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (413, "request_too_large"),
        (422, "invalid_request_error"),
        (429, "rate_limit_error"),
        (502, "api_error"),
        (503, "api_error"),
        (504, "timeout_error"),
    ],
)
def test_anthropic_reads_it(status: int, type_: str) -> None:
    body = error_body(Dialect.ANTHROPIC, status, "some_code", "No.", context=FaultContext(request_id="req_1"))
    error = anthropic.Anthropic(api_key="x")._make_status_error_from_response(http(status, body))
    assert error.body == {
        "type": "error",
        "error": {"type": type_, "message": "No.", "code": "some_code", "details": {"error_code": "some_code"}},
        "request_id": "req_1",
    }
    assert error.status_code == status


@pytest.mark.parametrize(
    ("status", "name"), [(400, "INVALID_ARGUMENT"), (418, "INVALID_ARGUMENT"), (502, "UNAVAILABLE"), (599, "INTERNAL")]
)
def test_gemini_reads_it(status: int, name: str) -> None:
    body = error_body(Dialect.GEMINI, status, "some_code", "No.")
    error = genai_errors.APIError(status, json.loads(body))
    assert (error.code, error.status, error.message) == (status, name, "No.")


def test_a_spent_budget_ends_gemini_cli() -> None:
    context = FaultContext(request_id="r1", retry_s=3600.4, daily=True)
    details = json.loads(error_body(Dialect.GEMINI, 429, "insufficient_quota", "Spent.", context=context))["error"][
        "details"
    ]
    assert [detail["@type"].rpartition(".")[2] for detail in details] == [
        "ErrorInfo",
        "RequestInfo",
        "QuotaFailure",
        "RetryInfo",
    ]
    assert details[0]["reason"] == "INSUFFICIENT_QUOTA"
    assert "PerDay" in details[2]["violations"][0]["quotaId"]
    assert details[3]["retryDelay"] == "3600s"


@pytest.mark.parametrize("dialect", list(Dialect))
def test_an_error_event_is_one_whole_event_and_reads_as_an_error(dialect: Dialect) -> None:
    raw = error_event(dialect, 502, "upstream_failed", "It broke.\nSorry.")
    (event,) = Framer().feed(raw)
    assert event.raw == raw
    assert reading.kind(dialect, event) is reading.Kind.ERROR
    assert reading.repaired(dialect, event) == raw


def test_a_failed_response_carries_what_codex_and_the_sdk_read() -> None:
    context = FaultContext(response_id="resp_1", model="gpt-5", created=1_760_000_000, sequence=7)
    (event,) = Framer().feed(error_event(Dialect.RESPONSES, 502, "server_error", "Broke.", context=context))
    failed = ResponseFailedEvent.model_validate_json(event.data)
    assert event.name == "response.failed"
    assert failed.sequence_number == 7
    assert failed.response.error is not None
    assert (failed.response.error.code, failed.response.error.message) == ("server_error", "Broke.")
    assert (failed.response.id, failed.response.model, failed.response.status) == ("resp_1", "gpt-5", "failed")
