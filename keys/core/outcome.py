"""What one exchange with an upstream key meant: the words classification speaks."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from keys.core.dialect import Dialect
from tenants.core.values import valueclass


class Cause(StrEnum):
    """The class of an answer. `SERVED` and `ABORTED` aside, the names are the contract's classes."""

    SERVED = "served"
    INSUFFICIENT_BALANCE = "insufficient_balance"
    QUOTA_EXHAUSTED = "quota_exhausted"
    RATE_LIMITED = "rate_limited"
    AUTH_INVALID = "auth_invalid"
    PERMISSION_DENIED = "permission_denied"
    MODEL_UNAVAILABLE = "model_unavailable"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    CONNECTION = "connection"
    TIMEOUT = "timeout"
    CONTEXT_TOO_LONG = "context_too_long"
    BAD_REQUEST = "bad_request"
    CONTENT_FILTERED = "content_filtered"
    ABORTED = "aborted"  # the client left; says nothing about the key


class Verdict(StrEnum):
    """What the failover loop does next."""

    ANSWERED = "answered"
    NEXT = "next"
    STOP = "stop"


class Scope(StrEnum):
    """What the effect of an outcome falls on."""

    NONE = "none"
    REQUEST = "request"
    KEY = "key"
    KEY_MODEL = "key_model"
    ACCOUNT = "account"


class Phase(StrEnum):
    """Where in an answer a failure stood."""

    NONE = "none"  # not a stream, or the HTTP status said it
    BEFORE_CONTENT = "before_content"
    MID_STREAM = "mid_stream"


@valueclass(frozen=True, slots=True)
class Reply:
    """One answer of an upstream as classification reads it.

    `status` is None when there was no HTTP answer. `headers` have lower-case names. `body` is decoded (no
    gzip) and at most 64 KiB; inside a stream it is the error event's data. `fault` names a transport fault
    (`refused`, `dns`, `tls`, `reset`, `closed`, `connect_timeout`, `silence`, `malformed`, `blocked_address`, or a
    library's own text) and is None when there was none. `usable` is False for a 200 that cannot be an answer (HTML,
    empty, not JSON, wrong kind).
    """

    status: int | None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    phase: Phase = Phase.NONE
    fault: str | None = None
    usable: bool = True
    dialect: Dialect | None = None


@valueclass(frozen=True, slots=True)
class Outcome:
    """The meaning of a reply.

    `wait_s` is what the wire states, even when not credible; None = nothing stated. `until_midnight_pacific`
    and the like are resolved by the classifier into `wait_s`. `reason` refines the class (`size`, `per_day`, ...)
    and is empty otherwise. `evidence` names the rule that decided. `message` is the upstream's wording, redacted
    of secrets, at most 500 characters.
    """

    cause: Cause
    verdict: Verdict
    scope: Scope
    wait_s: float | None = None
    reason: str = ""
    evidence: str = ""
    message: str = ""
    status: int | None = None
    phase: Phase = Phase.NONE
