"""The one table of errors that the gateway itself sends: code, status and what the client should do about it.

The codes are documented in the README and are the label of the error metric.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Code(StrEnum):
    MALFORMED_BODY = "malformed_body"
    INVALID_REQUEST = "invalid_request"
    INVALID_GATEWAY_KEY = "invalid_gateway_key"
    MODEL_NOT_ALLOWED = "model_not_allowed"
    MODEL_UNPRICED = "model_unpriced"
    DENIED_BY_RULE = "denied_by_rule"
    NOT_FOUND = "not_found"
    MODEL_NOT_FOUND = "model_not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    PINNED_ELSEWHERE = "pinned_elsewhere"
    ANSWER_NOT_KEPT = "answer_not_kept"
    BODY_TOO_LARGE = "body_too_large"
    IDEMPOTENCY_MISMATCH = "idempotency_mismatch"
    UPGRADE_REFUSED = "upgrade_refused"
    LIMIT_REACHED = "limit_reached"
    BUDGET_SPENT = "insufficient_quota"
    UPSTREAM_RATE_LIMITED = "upstream_rate_limited"
    UPSTREAM_FAILED = "upstream_failed"
    UPSTREAM_CREDENTIALS = "upstream_credentials"
    UPSTREAM_EXHAUSTED = "upstream_exhausted"
    UPSTREAM_TIMEOUT = "upstream_timeout"
    UPSTREAM_REFUSED_REQUEST = "upstream_refused_request"
    CONTEXT_TOO_LONG = "context_length_exceeded"
    CONTENT_FILTERED = "content_filter"
    NO_KEY_AVAILABLE = "no_key_available"
    ABORTED = "aborted"
    NOT_READY = "not_ready"
    RECORDING_UNAVAILABLE = "recording_unavailable"
    IDEMPOTENCY_UNAVAILABLE = "idempotency_unavailable"
    INTERNAL = "internal_error"


STATUS: Mapping[Code, int] = {
    Code.MALFORMED_BODY: 400,
    Code.INVALID_REQUEST: 400,
    Code.INVALID_GATEWAY_KEY: 401,
    Code.MODEL_NOT_ALLOWED: 403,
    Code.MODEL_UNPRICED: 403,
    Code.DENIED_BY_RULE: 403,
    Code.NOT_FOUND: 404,
    Code.MODEL_NOT_FOUND: 404,
    Code.METHOD_NOT_ALLOWED: 405,
    Code.PINNED_ELSEWHERE: 409,
    Code.ANSWER_NOT_KEPT: 409,
    Code.BODY_TOO_LARGE: 413,
    Code.IDEMPOTENCY_MISMATCH: 422,
    Code.UPGRADE_REFUSED: 426,
    Code.LIMIT_REACHED: 429,
    Code.BUDGET_SPENT: 429,
    Code.UPSTREAM_RATE_LIMITED: 429,
    Code.UPSTREAM_FAILED: 502,
    Code.UPSTREAM_CREDENTIALS: 502,
    Code.UPSTREAM_EXHAUSTED: 503,
    Code.UPSTREAM_TIMEOUT: 504,
    Code.UPSTREAM_REFUSED_REQUEST: 400,
    Code.CONTEXT_TOO_LONG: 400,
    Code.CONTENT_FILTERED: 400,
    Code.NO_KEY_AVAILABLE: 503,
    Code.ABORTED: 503,
    Code.NOT_READY: 503,
    Code.RECORDING_UNAVAILABLE: 503,
    Code.IDEMPOTENCY_UNAVAILABLE: 503,
    Code.INTERNAL: 500,
}

# Trying again cannot help until a person has done something.
_HOPELESS = frozenset(
    {
        Code.INVALID_GATEWAY_KEY,
        Code.BUDGET_SPENT,
        Code.UPSTREAM_CREDENTIALS,
        Code.UPSTREAM_EXHAUSTED,
        Code.ABORTED,
    }
)
_OF_THE_REQUEST = frozenset({Code.UPSTREAM_REFUSED_REQUEST, Code.CONTEXT_TOO_LONG, Code.CONTENT_FILTERED})
_LONG_WAIT_S = 600.0
_RETRY_MIN_S, _RETRY_MAX_S = 1, 60


@dataclass(frozen=True, slots=True)
class Fault:
    """What a client gets in place of an answer.

    `wait_s` is the real wait, None = not known; the header shows it clamped to 1-60 s. `source` says whose fault it
    is, `gateway` or `upstream`. `body` is an upstream's own error, sent as it is (redacted); else one is worded in
    the client's dialect.
    """

    code: Code
    message: str
    wait_s: float | None = None
    hopeless: bool | None = None  # None = as the code says
    source: str = "gateway"
    param: str | None = None
    status_override: int | None = None
    body: bytes | None = field(default=None, repr=False)
    content_type: str = "application/json"
    refusal_limit: str = ""  # which limit or budget refused, for the record
    refusal_until: datetime | None = None

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.status_override if self.status_override is not None else STATUS[self.code]

    @property
    def is_of_request(self) -> bool:
        """Whether an upstream found the request itself at fault: asked again it would say the same."""
        return self.code in _OF_THE_REQUEST

    @property
    def kind(self) -> str:
        """The `type` in dialects where it is free: the gateway's own, or the upstream's word for a bad request."""
        return "invalid_request_error" if self.is_of_request else "gateway_error"

    def headers(self) -> dict[str, str]:
        """Return the headers that tell a client how to go on."""
        made = {"x-pointsman-error-source": self.source}
        hopeless = self.hopeless if self.hopeless is not None else self.code in _HOPELESS
        if hopeless or (self.wait_s is not None and self.wait_s > _LONG_WAIT_S):
            made["x-should-retry"] = "false"
        if self.wait_s is not None:
            made["retry-after"] = str(retry_after(self.wait_s))
        return made


def retry_after(wait_s: float) -> int:
    """Return whole seconds that every SDK obeys: clamped to 1-60 (longer ones are slept through or ignored)."""
    return min(max(int(-(-wait_s // 1)), _RETRY_MIN_S), _RETRY_MAX_S)


class Refused(Exception):
    """Raised by a room to end a request with a fault."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.code)
        self.fault = fault
