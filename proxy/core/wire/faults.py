"""Error bodies and error events in each dialect, with the members that its SDKs read (wire reference, 3 and 4)."""

from dataclasses import dataclass
from typing import Any, Final, assert_never

from keys.core.dialect import Dialect
from proxy.core.wire.jsontext import dumps

GATEWAY_ERROR: Final = "gateway_error"

# https://docs.anthropic.com/en/api/errors and google.rpc.Code, November 2026.
_ANTHROPIC_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_GEMINI_STATUSES: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    413: "INVALID_ARGUMENT",
    422: "INVALID_ARGUMENT",
    426: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_RPC: Final = "type.googleapis.com/google.rpc."
_SERVER_ERRORS: Final = 500


@dataclass(frozen=True, slots=True)
class FaultContext:
    """What an error may tell besides its text. Each dialect takes what it has a place for.

    `retry_s` is the real wait (Gemini: RetryInfo); `daily` adds the per-day QuotaFailure that ends Gemini CLI's
    retries. The rest describes the Responses stream that fails: its id, model, creation time (unix seconds) and the
    number of its next event.
    """

    request_id: str = ""
    param: str | None = None
    retry_s: float | None = None
    daily: bool = False
    response_id: str = ""
    model: str = ""
    created: int = 0
    sequence: int = 0


_NO_CONTEXT: Final = FaultContext()


def error_body(
    dialect: Dialect,
    status: int,
    code: str,
    message: str,
    type_: str = GATEWAY_ERROR,
    context: FaultContext = _NO_CONTEXT,
) -> bytes:
    """The body of an HTTP error. Anthropic's and Gemini's own types follow the status; `type_` is OpenAI's."""
    match dialect:
        case Dialect.OPENAI | Dialect.RESPONSES:
            error = {"message": message, "type": type_, "param": context.param, "code": code}
            return dumps({"error": error})
        case Dialect.ANTHROPIC:
            return dumps(_anthropic(status, code, message, context))
        case Dialect.GEMINI:
            return dumps(_gemini(status, code, message, context))
        case _:
            assert_never(dialect)


def error_event(
    dialect: Dialect,
    status: int,
    code: str,
    message: str,
    type_: str = GATEWAY_ERROR,
    context: FaultContext = _NO_CONTEXT,
) -> bytes:
    """The event that ends a broken stream. It never looks like a regular end."""
    match dialect:
        case Dialect.OPENAI | Dialect.GEMINI:
            return b"data: " + error_body(dialect, status, code, message, type_, context) + b"\n\n"
        case Dialect.ANTHROPIC:
            return b"event: error\ndata: " + error_body(dialect, status, code, message, type_, context) + b"\n\n"
        case Dialect.RESPONSES:
            return b"event: response.failed\ndata: " + dumps(_response_failed(code, message, context)) + b"\n\n"
        case _:
            assert_never(dialect)


def _anthropic(status: int, code: str, message: str, context: FaultContext) -> dict[str, Any]:
    fallback = "api_error" if status >= _SERVER_ERRORS else "invalid_request_error"
    error = {
        "type": _ANTHROPIC_TYPES.get(status, fallback),
        "message": message,
        "code": code,
        "details": {"error_code": code},
    }
    return {"type": "error", "error": error, "request_id": context.request_id or None}


def _gemini(status: int, code: str, message: str, context: FaultContext) -> dict[str, Any]:
    info = {"@type": _RPC + "ErrorInfo", "reason": code.upper(), "domain": "pointsman"}
    details: list[dict[str, Any]] = [info]
    if context.request_id:
        details.append({"@type": _RPC + "RequestInfo", "requestId": context.request_id})
    if context.daily:
        violation = {"quotaMetric": "pointsman/budget", "quotaId": "BudgetPerDayPerProject"}
        details.append({"@type": _RPC + "QuotaFailure", "violations": [violation]})
    if context.retry_s is not None:
        details.append({"@type": _RPC + "RetryInfo", "retryDelay": f"{max(0, round(context.retry_s))}s"})
    fallback = "INTERNAL" if status >= _SERVER_ERRORS else "INVALID_ARGUMENT"
    name = _GEMINI_STATUSES.get(status, fallback)
    return {"error": {"code": status, "message": message, "status": name, "details": details}}


def _response_failed(code: str, message: str, context: FaultContext) -> dict[str, Any]:
    response = {
        "id": context.response_id or "resp_" + (context.request_id or "failed"),
        "object": "response",
        "created_at": context.created,
        "status": "failed",
        "error": {"code": code, "message": message},
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": context.model,
        "output": [],
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "usage": None,
    }
    return {"type": "response.failed", "sequence_number": context.sequence, "response": response}
