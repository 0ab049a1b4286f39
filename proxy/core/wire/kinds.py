"""What a stream event means for the relay, and the signs of an error that all dialects share."""

from enum import StrEnum
from typing import Any, Final

from proxy.core.sse import Event
from proxy.core.wire.jsontext import loads


class Kind(StrEnum):
    """FINISH, END and ERROR may stand beside content in the same event; the strongest is reported."""

    QUIET = "quiet"  # says nothing yet: comment, ping, opening, role only, empty delta
    CONTENT = "content"  # text, reasoning, tool call, refusal, audio, anything unrecognised
    USAGE = "usage"  # usage and nothing else
    FINISH = "finish"  # a stop reason; more may follow
    END = "end"  # the dialect's end of the answer
    ERROR = "error"


Payload = dict[str, Any]

# What reading an upstream's members comes to when they are of other types than its dialect's, hold half a character, or
# are nested too deeply.
MISSHAPEN: Final = (AttributeError, TypeError, UnicodeEncodeError, RecursionError)

# Texts that some relays send as data to keep the line open; no SDK could read them.
_QUIET_TEXTS: Final = frozenset({b"ping", b"keep-alive", b"keepalive", b"heartbeat"})
_ANSWER_MEMBERS: Final = ("choices", "candidates", "content", "output", "response", "type", "id")
_REASON_MEMBERS: Final = ("message", "msg", "err", "error_msg", "detail", "status_msg")


def opened(event: Event) -> Payload | Kind:
    """Read an event's JSON object, or say at once what the event is when there is none.

    Data that is not JSON is an error (no SDK can read it): an error text, or half an event.
    """
    data = event.data.strip()
    if not data:
        # llama.cpp writes its errors into a field of that name.
        return Kind.ERROR if event.value(b"error") or event.name == "error" else Kind.QUIET
    if data.startswith(b"[DONE]"):
        return Kind.END
    try:
        payload = loads(data)
    except ValueError:
        return Kind.QUIET if data.lower() in _QUIET_TEXTS else Kind.ERROR
    if event.name == "error" or is_error(payload):
        return Kind.ERROR
    if not isinstance(payload, dict):
        return Kind.CONTENT
    return Kind.QUIET if payload.get("type") in ("ping", "keepalive") else payload


def is_error(payload: Any) -> bool:
    """True for a payload that is an error in any of the shapes providers and relays use (wire reference, 4.1)."""
    if isinstance(payload, list):
        return bool(payload) and is_error(payload[0])
    if not isinstance(payload, dict):
        return False
    return _says_error(payload) or _is_bare_reason(payload)


def _says_error(payload: Payload) -> bool:
    base = payload.get("base_resp")
    return (
        bool(payload.get("error") or payload.get("error_code"))
        or "error" in (payload.get("type"), payload.get("object"))
        or payload.get("success") is False
        or (isinstance(base, dict) and bool(base.get("status_code")))
    )


def _is_bare_reason(payload: Payload) -> bool:
    """A reason, and nothing that an answer would have."""
    if any(name in payload for name in _ANSWER_MEMBERS) or isinstance(payload.get("data"), list):
        return False
    return any(payload.get(name) for name in _REASON_MEMBERS)


def any_substance(values: Any) -> bool:
    """True when a member of the object, its type and role aside, has a value that is not empty."""
    return any(value not in (None, "", [], {}) for name, value in values.items() if name not in {"type", "role"})
