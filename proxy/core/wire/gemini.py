"""Gemini generateContent as seen on the wire, Cloud Code's wrapper `{"response": …}` included."""

import re
from typing import Any, Final

from proxy.core.sse import Event
from proxy.core.wire.kinds import Kind, Payload, any_substance, opened

# A chunk that begins with its candidates cannot be an error.
_HEADS: Final = (b'data: {"candidates":', b'data: {"candidates" :')
_TEXT: Final = re.compile(rb'"text"\s*:\s*"(?!")')


def kind(event: Event) -> Kind:
    """Say what a chunk means.

    END is a chunk with a finish reason, whatever else it holds; with several candidates there are several. A blocked
    prompt is an ERROR: it is the whole answer and has no content.
    """
    raw = event.raw
    if _TEXT.search(raw) and b'"finishReason"' not in raw and raw.startswith(_HEADS) and event.complete:
        return Kind.CONTENT
    payload = opened(event)
    if isinstance(payload, Kind):
        return Kind.QUIET if payload is Kind.END else payload  # [DONE] does not belong here
    return _kind_of(unwrapped(payload))


def unwrapped(payload: Payload) -> Payload:
    """The answer itself, out of Cloud Code's wrapper."""
    inner = payload.get("response")
    return inner if isinstance(inner, dict) and "candidates" not in payload else payload


def _kind_of(payload: Payload) -> Kind:
    candidates = [candidate for candidate in payload.get("candidates") or [] if isinstance(candidate, dict)]
    if any(candidate.get("finishReason") for candidate in candidates):
        return Kind.END
    if any(candidate_has_content(candidate) for candidate in candidates):
        return Kind.CONTENT
    if candidates:
        return Kind.QUIET
    feedback = payload.get("promptFeedback")
    if isinstance(feedback, dict) and feedback.get("blockReason"):
        return Kind.ERROR
    if payload.get("usageMetadata"):
        return Kind.USAGE
    return Kind.QUIET if "candidates" in payload or not payload else Kind.CONTENT


def candidate_has_content(candidate: dict[str, Any]) -> bool:
    """True when a part holds more than an empty text."""
    content = candidate.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    return any(
        any_substance({name: value for name, value in part.items() if name != "thought"})
        for part in parts or []
        if isinstance(part, dict)
    )


def has_content(payload: Payload) -> bool:
    """True when a whole answer has a part; answers of other endpoints (tokens, embeddings) count too."""
    payload = unwrapped(payload)
    if not any(name in payload for name in ("candidates", "promptFeedback")):
        return bool(payload) and set(payload) - {"usageMetadata", "modelVersion", "responseId"} != set()
    return any(
        candidate_has_content(candidate) for candidate in payload.get("candidates") or [] if isinstance(candidate, dict)
    )
