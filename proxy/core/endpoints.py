"""Which paths the gateway serves, and what each means."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from keys.core.dialect import Dialect
from proxy.core.errors import Code, Fault


class Meter(StrEnum):
    """What a call costs, and what its failure says about an upstream key."""

    TOKENS = "tokens"  # what the answer reports; text that reports nothing is estimated
    MEDIA = "media"  # what the answer reports; tokens of sound and pictures cannot be told from their bytes
    COUNT = "count"  # token counting: free, takes no slot, estimated where no upstream tells
    STORED = "stored"  # an object that lives upstream already: free


class Content(StrEnum):
    """What a request's body is."""

    JSON = "json"
    FORM = "form"  # multipart/form-data
    NONE = "none"  # or anything: it passes as it is


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One operation. `local` ones are answered by the gateway itself.

    `model` and `stored_id` come from the path; `default_model` is what the provider takes when none is named.
    `serves`: dialects that an upstream must speak; None = any dialect that the request can be translated to. `path`:
    what stands behind the upstream's base address, where it is not the name.
    """

    name: str
    dialect: Dialect
    local: bool = False
    model: str | None = None
    stored_id: str | None = None
    serves: frozenset[Dialect] | None = None
    method: str = "POST"
    path: str = ""
    meter: Meter = Meter.TOKENS
    content: Content = Content.JSON
    default_model: str = ""

    @property
    def is_free(self) -> bool:
        """Whether nobody pays, and nothing is learnt about keys."""
        return self.meter in (Meter.COUNT, Meter.STORED)

    @property
    def needs_model(self) -> bool:
        return not self.is_free


_OPENAI: Final = frozenset({Dialect.OPENAI})
_RESPONSES: Final = frozenset({Dialect.RESPONSES})
_ANTHROPIC: Final = frozenset({Dialect.ANTHROPIC})
_GEMINI: Final = frozenset({Dialect.GEMINI})


def _openai(name: str, **more: object) -> Endpoint:
    return replace(Endpoint(name, Dialect.OPENAI, serves=_OPENAI), **more)  # type: ignore[arg-type]  # names are fields


_POST: Final[Mapping[str, Endpoint]] = {
    "/v1/chat/completions": Endpoint("chat/completions", Dialect.OPENAI),
    "/v1/completions": _openai("completions"),
    "/v1/embeddings": _openai("embeddings"),
    "/v1/images/generations": _openai("images/generations", meter=Meter.MEDIA),
    "/v1/audio/transcriptions": _openai("audio/transcriptions", meter=Meter.MEDIA, content=Content.FORM),
    "/v1/audio/speech": _openai("audio/speech", meter=Meter.MEDIA),
    "/v1/moderations": _openai("moderations", default_model="omni-moderation-latest"),
    "/v1/rerank": _openai("rerank"),
    "/v1/responses": Endpoint("responses", Dialect.RESPONSES),
    "/v1/responses/compact": Endpoint("responses/compact", Dialect.RESPONSES, serves=_RESPONSES),
    "/v1/responses/input_tokens": Endpoint(
        "responses/input_tokens", Dialect.RESPONSES, serves=_RESPONSES, meter=Meter.COUNT
    ),
    "/v1/messages": Endpoint("messages", Dialect.ANTHROPIC),
    "/v1/messages/count_tokens": Endpoint(
        "messages/count_tokens", Dialect.ANTHROPIC, serves=_ANTHROPIC, meter=Meter.COUNT
    ),
}
_GET: Final[Mapping[str, Endpoint]] = {
    "/v1/models": Endpoint("models", Dialect.OPENAI, local=True),
    "/v1beta/models": Endpoint("models", Dialect.GEMINI, local=True),
    "/v1/requests": Endpoint("requests", Dialect.OPENAI, local=True),
}
_GEMINI_CALLS: Final[Mapping[str, Endpoint]] = {
    "generateContent": Endpoint("generateContent", Dialect.GEMINI),
    "streamGenerateContent": Endpoint("streamGenerateContent", Dialect.GEMINI),
    "countTokens": Endpoint("countTokens", Dialect.GEMINI, serves=_GEMINI, meter=Meter.COUNT),
    "embedContent": Endpoint("embedContent", Dialect.GEMINI, serves=_GEMINI),
    "batchEmbedContents": Endpoint("batchEmbedContents", Dialect.GEMINI, serves=_GEMINI),
}
# What may be done with a stored response: (method, what follows its id) → name.
_STORED: Final[Mapping[tuple[str, str], str]] = {
    ("GET", ""): "responses/{id}",
    ("DELETE", ""): "responses/{id}",
    ("POST", "/cancel"): "responses/{id}/cancel",
    ("GET", "/input_items"): "responses/{id}/input_items",
}
_GEMINI_CALL: Final = re.compile(r"/v1(?:beta)?/models/([^/:]+(?:/[^/:]+)*):([A-Za-z]+)")
_ONE_MODEL: Final = re.compile(r"/(v1|v1beta)/models/([^:]+)")
REQUEST_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ONE_REQUEST: Final = re.compile(f"/v1/requests/({REQUEST_ID.pattern})")
_ONE_RESPONSE: Final = re.compile(r"/v1/(responses/([A-Za-z0-9_.-]{1,512})(/cancel|/input_items)?)")


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
    found = _stored(method, path) or (_gemini(path) if method == "POST" else None)
    if found is not None:
        return found
    if method == "GET" and (match := _ONE_REQUEST.fullmatch(path)):
        return Endpoint("request", Dialect.OPENAI, local=True, stored_id=match[1])
    if method == "GET" and (match := _ONE_MODEL.fullmatch(path)):
        dialect = Dialect.GEMINI if match[1] == "v1beta" else Dialect.OPENAI
        return Endpoint("model", dialect, local=True, model=match[2])
    return _unknown(method, path)


def _gemini(path: str) -> Endpoint | None:
    match = _GEMINI_CALL.fullmatch(path)
    endpoint = _GEMINI_CALLS.get(match[2]) if match else None
    return replace(endpoint, model=match[1]) if match and endpoint else None


def _stored(method: str, path: str) -> Endpoint | None:
    match = _ONE_RESPONSE.fullmatch(path)
    name = _STORED.get((method, match[3] or "")) if match and path not in _POST else None
    if match is None or name is None:
        return None
    return Endpoint(
        name,
        Dialect.RESPONSES,
        stored_id=match[2],
        serves=_RESPONSES,
        method=method,
        path=match[1],
        meter=Meter.STORED,
        content=Content.NONE,
    )


def _unknown(method: str, path: str) -> Fault:
    if method == "GET" and path == "/v1/responses":
        return Fault(Code.UPGRADE_REFUSED, "WebSocket is not offered here; send POST /v1/responses over HTTP.")
    if path in _POST or _gemini(path) is not None:
        return Fault(Code.METHOD_NOT_ALLOWED, f"{path[:200]} takes POST, not {method}.")
    if path in _GET:
        return Fault(Code.METHOD_NOT_ALLOWED, f"{path[:200]} takes GET, not {method}.")
    return Fault(Code.NOT_FOUND, f"There is no {method} {path[:200]} here; the README lists the endpoints.")
