"""Body and headers of a failed answer → the structured evidence that rules are matched against.

Only the fields in which providers put their own words are read (code, type, status, reason, message and their
known relatives, at known places). Everything else may be an echo of the client's prompt and is never looked at.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from keys.core.body import Content, Kind, content_of, embedded, parsed, title_of
from keys.core.dialect import Dialect
from keys.core.outcome import Phase, Reply

MAX_WORDING = 2000  # characters of wording that rules look at
HEAD = 180  # where an upstream's own words stand when the rest may be an echo
MAX_TOKEN = 120
MAX_OBJECTS = 24
MAX_DEPTH = 8

Json = Mapping[str, Any]

# Fields whose values name the fault. `error` counts when it is one word.
TOKEN_FIELDS: tuple[str, ...] = ("code", "type", "status", "reason", "error_code", "error_type", "err_code", "errcode")
TOKEN_FIELDS += ("error", "limit_source", "quotaId", "blockReason", "errorCode", "__type")
MESSAGE_FIELDS: tuple[str, ...] = (
    "message",
    "msg",
    "err",
    "error_msg",
    "errmsg",
    "detail",
    "details",
    "error",
    "status_msg",
)
MESSAGE_FIELDS += ("error_message", "error_description", "errorMessage", "Message", "raw", "title", "reason_text")
STATUS_FIELDS: tuple[str, ...] = (
    "code",
    "status",
    "status_code",
    "statusCode",
    "http_status",
    "http_code",
    "error_code",
)
CHILD_FIELDS: tuple[str, ...] = (
    "error",
    "errors",
    "response",
    "detail",
    "details",
    "metadata",
    "innererror",
    "inner_error",
)
CHILD_FIELDS += ("incomplete_details", "status_details", "message", "violations", "base_resp", "cause")
GENERIC_MESSAGES = frozenset({"error", "failed", "false", "none", "null"})

GRPC_STATUS = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "CANCELLED": 499,
    "INTERNAL": 500,
    "UNKNOWN": 500,
    "DATA_LOSS": 500,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}

_HTTP_STATUS = re.compile(r"[1345]\d\d")
_TRAILING_CODE = re.compile(r"\(((?:10|20)\d\d)\)$")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NOT_WORD = re.compile(r"[^a-z0-9:]+")
_QUOTED = re.compile(r"\"[^\"]*\"|`[^`]*`|“[^”]*”|「[^」]*」|『[^』]*』|(?<!\w)'[^'\n]*'(?!\w)")
# Identifiers in the middle of prose are names of the client's making (models, parameters) as often as codes.
_NAMES = re.compile(
    r"(?<=\S )\S{0,80}\w_\w\S{0,80}|(?<=\S )[\w.:/]{1,80}-[\w.:/]{1,80}-[\w.:/-]{1,80}"
    r"|(?<=\bmodel: )[^.,;，。；]{1,80}|(?<=\bmodel )\S{0,80}[\d/:]\S{0,80}"
)
_NOISE = re.compile(r"[\s_`*()|<>\[\]{}\"'–—-]+")
# A complaint about the request: a path into it, or the openings that validators use.
_VALIDATION = re.compile(
    r"\b(?:messages|tools|input|contents|system|functions|tool_calls|response_format|generation_?config"
    r"|generatecontentrequest|body)[\"'`]?[.\[][\"'`]?\w|\bline \d{1,7} column \d{1,7}"
    r"|\b(?:unrecognized|unknown|unexpected|unsupported|invalid|missing(?: required)?) "
    r"(?:request argument|argument|parameter|param|value|type|field|json|schema|name\b|keyword|token in)"
    r"|\bfailed to (?:deserialize|parse)|\b(?:could not|cannot|error) pars|\bextra inputs|\badditional propert"
    r"|\bfield required|\bvalidation error|\binput should be|\bjson (?:parse|decode)",
    re.IGNORECASE,
)
# What a relay writes before the JSON it got, and what a validator writes before the JSON it was given.
_RELAYED = re.compile(
    r"error|exception|status|upstream|provider|response|fail|http|\b[45]\d\d\b|错误|失败", re.IGNORECASE
)
_ECHOED = re.compile(
    r"[\"'`]|invalid|expect|input|value|field|pars|seriali|content|prompt|messages|argument|unknown|model"
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What an upstream said about a failure.

    `status` is the HTTP status, or the one named in the body when HTTP said 2xx; None when there is neither.
    `tokens` are codes, types and reasons in snake_case (`base_resp:1008` and `error_code:17` keep their field).
    `wording` is the message in lower case without quoted parts; `message` as it came. `objects` are the JSON
    objects the error was read from, outermost first. `is_error` is False when nothing in the body says failure.
    """

    status: int | None
    tokens: tuple[str, ...] = ()
    message: str = ""
    wording: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    objects: tuple[Json, ...] = ()
    is_error: bool = False
    kind: Kind = Kind.EMPTY
    documents: tuple[Any, ...] = ()
    dialect: Dialect | None = None

    @property
    def head(self) -> str:
        return self.wording[:HEAD]


def evidence_of(reply: Reply) -> Evidence:
    """Read a reply. Never raises, whatever the body is."""
    content = content_of(reply.body)
    http_failed = reply.status is not None and reply.status // 100 != 2  # noqa: PLR2004 - 2xx
    unusable = http_failed or not reply.usable or reply.phase is not Phase.NONE
    root = _root(content, failed=unusable)
    headers = {name.lower(): str(value) for name, value in reply.headers.items()}
    if root is None:
        message = _plain_message(content) if unusable else ""
        wording = normalised(message) if content.kind is Kind.TEXT else ""
        tokens = _header_tokens(headers) + (_complaint([message]) if wording else ())
        status = reply.status if http_failed else None
        return Evidence(status, tokens, message, wording, headers, (), http_failed, content.kind, content.documents)
    objects = tuple(_objects(root))
    messages = list(dict.fromkeys(text for item in objects for text in _messages(item)))
    message = " | ".join(messages)[:MAX_WORDING]
    complaint = _complaint(messages) or (("validation_error",) if _is_field_list(objects[0]) else ())
    tokens = tuple(dict.fromkeys([*_header_tokens(headers), *_tokens(objects), *_trailing_code(messages), *complaint]))
    return Evidence(
        status=reply.status if http_failed else _stated_status(objects),
        tokens=tokens,
        message=message,
        wording=normalised(message),
        headers=_with_embedded_headers(headers, objects),
        objects=objects,
        is_error=True,
        kind=content.kind,
        documents=content.documents,
        dialect=reply.dialect,
    )


def normalised(message: str, *, whole: bool = False) -> str:
    """Lower-case a message, drop what stands in quotes (names, echoes), and make punctuation blanks.

    `whole` keeps quoted parts and names.
    """
    text = unicodedata.normalize("NFKC", message[:MAX_WORDING])[:MAX_WORDING].replace("’", "'").replace("‘", "'")
    if not whole:
        text = _NAMES.sub(" ", _QUOTED.sub(" ", text).casefold())
    return _NOISE.sub(" ", text.casefold().replace("n't ", " not "))[:MAX_WORDING].strip()


def snake(value: str) -> str:
    """`AccountOverdueError`, `account-overdue error` → `account_overdue_error`."""
    return _NOT_WORD.sub("_", _CAMEL.sub("_", value[:MAX_TOKEN]).lower()).strip("_")


def says_failure(document: Any) -> bool:
    """Tell whether a JSON document of a 2xx answer is an error in itself (and not an answer)."""
    if not isinstance(document, Mapping):
        return False
    base = document.get("base_resp")
    choice = _first(document.get("choices"))
    return bool(
        document.get("error")
        or document.get("type") in ("error", "response.failed")
        or document.get("object") == "error"
        or document.get("success") is False
        or document.get("error_code")
        or (isinstance(document.get("response"), Mapping) and document["response"].get("error"))
        or (isinstance(base, Mapping) and base.get("status_code") not in (0, None, "0"))
        or (isinstance(choice, Mapping) and (choice.get("error") or choice.get("finish_reason") == "error"))
        or (document.get("code") not in (None, 0, 200, "0", "200", "") and _has_message(document))
    )


def _has_message(document: Json) -> bool:
    return any(isinstance(document.get(name), str) for name in ("message", "msg", "error_msg"))


def _root(content: Content, *, failed: bool) -> Any:
    """Choose the document that carries the error; None when there is none to read."""
    documents = content.documents
    if content.kind is Kind.JSON and isinstance(documents[0], list):
        documents = tuple(documents[0][:MAX_OBJECTS])
    for document in reversed(documents):
        if says_failure(document):
            return document
    if not failed or content.kind is Kind.EVENTS:
        return None
    for document in documents:
        if isinstance(document, (Mapping, str)) and document:
            return document
    return None


def _objects(root: Any) -> Iterator[Json]:
    """Yield the objects that describe the error, outermost first, at most MAX_OBJECTS of them."""
    queue: list[tuple[Any, int]] = [(root, 0)]
    count = 0
    while queue and count < MAX_OBJECTS:
        item, depth = queue.pop(0)
        if isinstance(item, str):
            item = {"message": item}
        if not isinstance(item, Mapping) or depth > MAX_DEPTH:
            continue
        yield item
        count += 1
        queue += [(child, depth + 1) for child in _children(item)]


def _children(item: Json) -> Iterator[Any]:
    # A Responses object repeats the client's own `metadata` beside its error.
    answer = "object" in item or "error" in item
    for name in CHILD_FIELDS:
        value = None if answer and name == "metadata" else item.get(name)
        if isinstance(value, Mapping):
            yield value
        elif isinstance(value, list) and name != "message":
            yield from (_entry(entry) for entry in value[:8] if isinstance(entry, Mapping))
    choice = _first(item.get("choices"))
    if isinstance(choice, Mapping) and isinstance(choice.get("error"), Mapping):
        yield choice["error"]
    for name in ("message", "raw", "error"):
        if isinstance(inner := _unwrapped(item.get(name)), (Mapping, list)):
            yield inner if isinstance(inner, Mapping) else _first(inner)


def _entry(entry: Json) -> Json:
    """Of a validator's entry keep the message alone: beside it stand the client's own fields."""
    return {"msg": entry.get("msg")} if "loc" in entry else entry


def _unwrapped(text: Any) -> Any:
    """Parse JSON that a relay put into a message, whole or behind a short opening of its own.

    An opening that speaks of input is a validation error quoting the client: what it quotes is no evidence.
    """
    if not isinstance(text, str) or "{" not in text:
        return None
    found, value = parsed(text)
    if found:
        return value
    start = text.find("{")
    opening = text[: min(start, HEAD + 1)].lower()
    if start > HEAD or _ECHOED.search(opening) or not _RELAYED.search(opening):
        return None
    value = embedded(text, start)
    return value if says_failure(value) else None


def _tokens(objects: tuple[Json, ...]) -> Iterator[str]:
    for item in objects:
        if "status_msg" in item or "status_code" in item:
            yield f"base_resp:{item.get('status_code')}"
        for name in TOKEN_FIELDS:
            yield from _token(name, item.get(name))
        if isinstance(reasons := item.get("reasons"), list) and reasons:
            yield "moderation_reasons"


def _token(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return
    text = str(value).strip()
    if text.lstrip("-").isdigit():
        if name == "error_code":
            yield f"error_code:{text}"
        if _HTTP_STATUS.fullmatch(text) is None:
            yield text
    elif text and len(text) <= MAX_TOKEN and (name != "error" or not any(char.isspace() for char in text)):
        yield snake(text)


def _messages(item: Json) -> Iterator[str]:
    for name in MESSAGE_FIELDS:
        value = item.get(name)
        if not isinstance(value, str) or not (text := value.strip()):
            continue
        if text.lower() in GENERIC_MESSAGES or (name == "error" and "message" in item and " " not in text):
            continue
        one_word = name == "error" and " " not in text and text.isascii()
        if not one_word and _unwrapped(text) is None:
            yield text[:MAX_WORDING]


def _stated_status(objects: tuple[Json, ...]) -> int | None:
    """Find the HTTP status that an error inside a 2xx names, as a number or as a gRPC word."""
    for item in objects:
        for name in STATUS_FIELDS:
            value = item.get(name)
            if isinstance(value, str) and value in GRPC_STATUS:
                return GRPC_STATUS[value]
            digits = str(value)[:9]
            if _HTTP_STATUS.fullmatch(digits) is not None:
                return int(digits)
    return None


def _trailing_code(messages: list[str]) -> list[str]:
    """MiniMax's Anthropic endpoint has its own code at the end of the message: `insufficient balance (1008)`."""
    return [f"base_resp:{found[1]}" for text in messages if (found := _TRAILING_CODE.search(text[-8:]))]


def _complaint(messages: list[str]) -> tuple[str, ...]:
    return ("validation_error",) if any(_VALIDATION.search(text[:120]) for text in messages[:3]) else ()


def _header_tokens(headers: Mapping[str, str]) -> tuple[str, ...]:
    """Bedrock names the error in `x-amzn-errortype`, followed by a URL."""
    kind = headers.get("x-amzn-errortype", "").partition(":")[0]
    return (snake(kind),) if kind else ()


def _with_embedded_headers(headers: Mapping[str, str], objects: tuple[Json, ...]) -> Mapping[str, str]:
    """Add headers of the upstream's upstream that the error object repeats (OpenRouter, Codex events)."""
    merged = dict(headers)
    repeated = [inner for item in objects if isinstance(inner := item.get("headers"), Mapping)]
    for inner in repeated:
        for name, value in list(inner.items())[:50]:
            if isinstance(value, (str, int, float)):
                merged.setdefault(str(name).lower(), str(value))
    return merged


def _plain_message(content: Content) -> str:
    if content.kind is Kind.HTML:
        return title_of(content.text)
    return content.text[:MAX_WORDING] if content.kind is Kind.TEXT else ""


def _is_field_list(root: Json) -> bool:
    """FastAPI's `detail: [{loc, msg, type, input}]`; `input` is the client's text."""
    holder = root.get("detail") or root.get("message")
    inner = holder.get("detail") if isinstance(holder, Mapping) else holder
    entry = _first(inner)
    return isinstance(entry, Mapping) and "loc" in entry


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else None
