"""Which paths the gateway serves, and what each means."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from keys.core.dialect import Dialect
from proxy.core.errors import Code, Fault


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One operation. `local` ones are answered by the gateway itself.

    `model` and `stored_id` come from the path. `serves`: dialects that an upstream must speak; None = any dialect
    that the request can be translated to.
    """

    name: str
    dialect: Dialect
    local: bool = False
    model: str | None = None
    stored_id: str | None = None
    serves: frozenset[Dialect] | None = None


_OPENAI_ONLY: Final = frozenset({Dialect.OPENAI})

_POST: Final[Mapping[str, Endpoint]] = {
    "/v1/chat/completions": Endpoint("chat/completions", Dialect.OPENAI),
    "/v1/completions": Endpoint("completions", Dialect.OPENAI, serves=_OPENAI_ONLY),
    "/v1/embeddings": Endpoint("embeddings", Dialect.OPENAI, serves=_OPENAI_ONLY),
    "/v1/responses": Endpoint("responses", Dialect.RESPONSES),
    "/v1/messages": Endpoint("messages", Dialect.ANTHROPIC),
}
_GET: Final[Mapping[str, Endpoint]] = {
    "/v1/models": Endpoint("models", Dialect.OPENAI, local=True),
    "/v1beta/models": Endpoint("models", Dialect.GEMINI, local=True),
    "/v1/requests": Endpoint("requests", Dialect.OPENAI, local=True),
}
_GEMINI_CALL: Final = re.compile(r"/v1(?:beta)?/models/([^/:]+(?:/[^/:]+)*):(generateContent|streamGenerateContent)")
_ONE_MODEL: Final = re.compile(r"/(v1|v1beta)/models/([^:]+)")
_ONE_REQUEST: Final = re.compile(r"/v1/requests/([A-Za-z0-9_-]{1,64})")


def dialect_of(path: str, header_names: frozenset[str] = frozenset()) -> Dialect:
    """Return the dialect in which an error about this path must be worded."""
    if path.startswith("/v1beta") or _GEMINI_CALL.fullmatch(path):
        return Dialect.GEMINI
    if path.startswith("/v1/messages") or (path.startswith("/v1/models") and "anthropic-version" in header_names):
        return Dialect.ANTHROPIC
    if path.startswith("/v1/models") and "x-goog-api-key" in header_names:
        return Dialect.GEMINI
    return Dialect.RESPONSES if path.startswith("/v1/responses") else Dialect.OPENAI


def find(method: str, path: str) -> Endpoint | Fault:
    """Return the operation of a path, or why there is none."""
    if len(path) > 1:
        path = path.rstrip("/")
    table = {"POST": _POST, "GET": _GET}.get(method, {})
    if (endpoint := table.get(path)) is not None:
        return endpoint
    if method == "POST" and (match := _GEMINI_CALL.fullmatch(path)):
        return Endpoint(match[2], Dialect.GEMINI, model=match[1])
    if method == "GET" and (match := _ONE_REQUEST.fullmatch(path)):
        return Endpoint("request", Dialect.OPENAI, local=True, stored_id=match[1])
    if method == "GET" and (match := _ONE_MODEL.fullmatch(path)):
        dialect = Dialect.GEMINI if match[1] == "v1beta" else Dialect.OPENAI
        return Endpoint("model", dialect, local=True, model=match[2])
    return _unknown(method, path)


def _unknown(method: str, path: str) -> Fault:
    if method == "GET" and path == "/v1/responses":
        return Fault(Code.UPGRADE_REFUSED, "WebSocket is not offered here; send POST /v1/responses over HTTP.")
    if path in _POST or _GEMINI_CALL.fullmatch(path):
        return Fault(Code.METHOD_NOT_ALLOWED, f"{path[:200]} takes POST, not {method}.")
    if path in _GET:
        return Fault(Code.METHOD_NOT_ALLOWED, f"{path[:200]} takes GET, not {method}.")
    return Fault(Code.NOT_FOUND, f"There is no {method} {path[:200]} here; the README lists the endpoints.")
