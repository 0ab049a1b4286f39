"""Which conversation a request belongs to, and what ties it to one account or provider.

All of it comes from the client: values are hashed before they are kept, and every stored name holds tenant and line,
so that no client can reach another line's conversation by guessing its id. Sources: DESIGN 6, wire reference 2.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, assert_never

from keys.core.dialect import Dialect
from routing.core.reading import SYSTEM, USER, Block, Message, is_tool_result, map_at, maps_in, text_of
from tenants.core.values import valueclass

# In this order: the first that is there wins.
SESSION_HEADERS = (
    "x-session-id",
    "x-claude-code-session-id",
    "session_id",
    "session-id",
    "conversation_id",
    "conversation-id",
    "x-session-affinity",
    "x-opencode-session",
    "thread-id",
    "x-qwen-code-session-id",
    "x-grok-conv-id",
)
_BODY_IDS = ("prompt_cache_key", "session_id", "sessionId")
_OLD_SESSION_MARK = "_session_"  # user_{hash}_account_{uuid or empty}_session_{uuid}
# Lines that a client writes into its system text for its own book-keeping; they differ between equal conversations.
BOOKKEEPING = ("x-anthropic-billing-header:",)
# What clients write where a signature should stand but they have none.
PLACEHOLDERS = frozenset({"skip_thought_signature_validator", "context_engineering_is_the_way_to_go"})
_SIGNATURE_FIELDS = ("signature", "encrypted_content", "thoughtSignature", "thought_signature")
_SIGNED_DATA_TYPES = ("redacted_thinking", "reasoning.encrypted")  # tuples: see reading.py
_MARK_FIELDS = frozenset({*_SIGNATURE_FIELDS, "extra_content", "data"})
_PIN_FIELDS = frozenset({"file_id", "file", "source", "fileData", "file_data"})
_STORED_OBJECTS = ("file", "vector_store", "conversation")
_OPAQUE = frozenset({"input", "args", "arguments", "text", "partial_json"})  # the model's own words, never ours to read
_USER_ID_MAX = 8192
_PINS_MAX = 64
_SIGNATURES_MAX = 8  # the newest: older ones were accepted by the same provider
_DEPTH_MAX = 10


@valueclass(frozen=True, slots=True)
class Session:
    """What names a conversation, hashed; "" = absent.

    `lone`: the id alone names one conversation. False for an end user's id, who may hold many at once.
    """

    id: str = ""
    fingerprint: str = ""
    lone: bool = True


@valueclass(frozen=True, slots=True)
class HardPin:
    """Something in the request that lives on one account. `field` is shown to the client; `value` is hashed."""

    field: str
    value: str


def digest(*parts: str) -> str:
    """Return 32 hexadecimal characters. Parts are kept apart: ("ab", "c") differs from ("a", "bc")."""
    state = blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        state.update(len(data).to_bytes(8, "big"))
        state.update(data)
    return state.hexdigest()


def session_of(headers: Mapping[str, str], body: Mapping[str, Any], messages: Sequence[Message]) -> Session:
    """Read the conversation's identity. Header names are lower-case; messages are those of the assembled history."""
    name, lone = _session_id(headers, body)
    return Session(digest(name) if name else "", fingerprint(messages), lone)


def fingerprint(messages: Sequence[Message]) -> str:
    """Hash system text and first user text; "" without the latter.

    White space does not count: clients send the same text as one string or as several blocks.
    """
    system: list[str] = []
    for message in messages:
        if message.role == SYSTEM:
            system.append(_essence(text_of(message)))
        elif message.role == USER and not is_tool_result(message):
            first = _essence(text_of(message))
            return digest("".join(system), first) if first else ""
    return ""


def session_keys(session: Session, tenant_id: int, line_id: int, route_id: int) -> tuple[str, ...]:
    """Return the names under which the conversation's pin is stored and looked up, most exact first; none = ().

    A pin is written under each of them.
    """
    if not session.id and not session.fingerprint:
        return ()
    scope = (str(tenant_id), str(line_id), str(route_id))
    exact = digest(*scope, session.id, session.fingerprint)
    if not session.id or not session.lone or not session.fingerprint:
        return (exact,)
    return (exact, digest(*scope, session.id, ""))


def pin_key(tenant_id: int, line_id: int, value: str) -> str:
    """Return the name under which the owner of a hashed id or signature is stored, per line."""
    return digest(str(tenant_id), str(line_id), value)


def hard_pins(body: Mapping[str, Any], blocks: Sequence[Block]) -> tuple[HardPin, ...]:
    """Read the ids of a request that exist on one account only. At most 64, without repeats.

    `blocks` are those of `reading.telling_blocks`.
    """
    named = ((field, value) for field, value in _pinned_ids(body, blocks) if isinstance(value, str) and value)
    return tuple(dict.fromkeys(HardPin(field, digest(value)) for field, value in named))[:_PINS_MAX]


def signatures(blocks: Sequence[Block]) -> tuple[str, ...]:
    """Return the newest signed-thinking marks of a request, hashed, oldest first. `blocks` as above."""
    marks = [mark for block in blocks for mark in _marks(block)]
    return tuple(_digest_of_mark(mark) for mark in marks[-_SIGNATURES_MAX:])


def signatures_in(payload: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the hashed marks that an answer, or one event of a stream, hands out: to be stored with their maker."""
    marks = [mark for part in _parts(payload) for mark in _marks(part)]
    return tuple(dict.fromkeys(_digest_of_mark(mark) for mark in marks))


def owned_ids(dialect: Dialect, payload: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the hashed ids that an answer, or one event of a stream, creates on the account that gave it."""
    return tuple(
        dict.fromkeys(digest(value) for value in _created(dialect, payload) if isinstance(value, str) and value)
    )[:_PINS_MAX]


def _session_id(headers: Mapping[str, str], body: Mapping[str, Any]) -> tuple[str, bool]:
    for name in SESSION_HEADERS:
        value = headers.get(name, "").strip()
        if value:
            return value, True
    for name in _BODY_IDS:
        given = body.get(name)
        if isinstance(given, str) and given.strip():
            return given.strip(), True
    return _user_id(map_at(body, "metadata").get("user_id"))


def _user_id(value: object) -> tuple[str, bool]:
    """Read `metadata.user_id`: Claude Code hides its session in it, in two forms. Others name an end user."""
    if not isinstance(value, str) or not value.strip():
        return "", True
    if value.lstrip().startswith("{") and len(value) <= _USER_ID_MAX:
        try:
            told = json.loads(value)
        except (ValueError, RecursionError):
            told = None
        session = told.get("session_id") if isinstance(told, dict) else None
        if isinstance(session, str) and session:
            return session, True
    _, mark, session = value.rpartition(_OLD_SESSION_MARK)
    return (session, True) if mark and session else (value, False)


def _essence(text: str) -> str:
    if any(mark in text for mark in BOOKKEEPING):
        text = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(BOOKKEEPING))
    return "".join(text.split())


def _pinned_ids(body: Mapping[str, Any], blocks: Sequence[Block]) -> Iterator[tuple[str, object]]:
    yield "previous_response_id", body.get("previous_response_id")
    for field in ("conversation", "container"):
        value = body.get(field)
        yield field, value.get("id") if isinstance(value, dict) else value
    yield "cachedContent", body.get("cachedContent", body.get("cached_content"))
    for tool in maps_in(body.get("tools")):
        yield from _pinned_by_tool(tool)
    for block in blocks:
        if block.get("type") == "item_reference":
            yield "item_reference", block.get("id")
        elif not _PIN_FIELDS.isdisjoint(block):
            yield from _pinned_by_block(block)


def _pinned_by_tool(tool: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    container = tool.get("container")
    if isinstance(container, dict):
        yield from (("file_id", value) for value in _listed(container.get("file_ids")))
    else:
        yield "container", container
    yield from (("vector_store_ids", value) for value in _listed(tool.get("vector_store_ids")))


def _pinned_by_block(block: Block) -> Iterator[tuple[str, object]]:
    for holder in (block, map_at(block, "file"), map_at(block, "source")):
        yield "file_id", holder.get("file_id")
    data = map_at(block, "fileData", "file_data")
    uri = data.get("fileUri", data.get("file_uri"))
    if isinstance(uri, str) and (uri.startswith("files/") or "generativelanguage" in uri):
        yield "fileUri", "files/" + uri.rpartition("files/")[2]  # foreign addresses are bound to no account


def _listed(value: object) -> Iterable[object]:
    return value if isinstance(value, list) else ()


def _digest_of_mark(mark: str) -> str:
    """Google's SDKs hand a signature back in the other alphabet of base64."""
    return digest(mark.replace("-", "+").replace("_", "/").rstrip("="))


def _marks(block: Block) -> Sequence[str]:
    if _MARK_FIELDS.isdisjoint(block):
        return ()
    google = map_at(map_at(block, "extra_content"), "google")
    values = [block.get(field) for field in _SIGNATURE_FIELDS] + [google.get("thought_signature")]
    if block.get("type") in _SIGNED_DATA_TYPES:
        values.append(block.get("data"))
    return [value for value in values if isinstance(value, str) and value and value not in PLACEHOLDERS]


def _parts(value: object, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield every object inside an answer, the model's own words aside."""
    if depth > _DEPTH_MAX:
        return
    if isinstance(value, dict):
        yield value
        inner: Iterable[object] = (item for name, item in value.items() if name not in _OPAQUE)
    else:
        inner = value if isinstance(value, list) else ()
    for item in inner:
        if isinstance(item, dict | list):
            yield from _parts(item, depth + 1)


def _created(dialect: Dialect, payload: Mapping[str, Any]) -> Iterator[object]:
    match dialect:
        case Dialect.RESPONSES:
            answer = map_at(payload, "response") or payload
            if payload.get("object") == "response" or "response" in payload:
                yield from _created_by_response(answer)
        case Dialect.ANTHROPIC:
            for holder in (payload, map_at(payload, "message"), map_at(payload, "delta")):
                yield map_at(holder, "container").get("id")
        case Dialect.GEMINI:
            name = payload.get("name", map_at(payload, "file").get("name"))
            if isinstance(name, str) and name.startswith(("files/", "cachedContents/")):
                yield name
        case Dialect.OPENAI:
            pass
        case _:
            assert_never(dialect)
    if payload.get("object") in _STORED_OBJECTS:
        yield payload.get("id")


def _created_by_response(answer: Mapping[str, Any]) -> Iterator[object]:
    yield answer.get("id")
    yield map_at(answer, "conversation").get("id")
    kept = answer.get("store") is not False
    for item in maps_in(answer.get("output")):
        yield item.get("container_id")
        if kept:
            yield item.get("id")  # a later request may refer to it by item_reference
