"""A token count where no upstream tells one: a quarter of the text's bytes, and a flat figure per picture."""

from collections.abc import Mapping
from typing import Any, assert_never

from keys.core.dialect import Dialect
from proxy.core.errors import Code, Fault
from proxy.core.wire.jsontext import dumps

# What an upstream's failure to count may be worded as; anything else is the client's to hear.
_UPSTREAMS = frozenset(
    {
        Code.UPSTREAM_FAILED,
        Code.UPSTREAM_CREDENTIALS,
        Code.UPSTREAM_EXHAUSTED,
        Code.UPSTREAM_TIMEOUT,
        Code.UPSTREAM_RATE_LIMITED,
        Code.MODEL_NOT_FOUND,
        Code.NO_KEY_AVAILABLE,
    }
)
_NOT_OFFERED = frozenset({404, 405, 501})
ESTIMATED_HEADER = ("x-pointsman-estimated", "true")


def is_upstreams_fault(fault: Fault) -> bool:
    """Whether counting failed for want of an upstream that can; many relays offer none."""
    refused = fault.code is Code.UPSTREAM_REFUSED_REQUEST and fault.status in _NOT_OFFERED
    return refused or fault.code in _UPSTREAMS


def count_body(dialect: Dialect, tokens: int) -> bytes:
    """Return the answer to a token count, as the dialect's SDK reads it."""
    match dialect:
        case Dialect.ANTHROPIC:
            answer: Mapping[str, Any] = {"input_tokens": tokens}
        case Dialect.GEMINI:
            answer = {"totalTokens": tokens}
        case Dialect.OPENAI | Dialect.RESPONSES:
            answer = {"object": "response.input_tokens", "input_tokens": tokens}
        case _:
            assert_never(dialect)
    return dumps(answer)
