"""OpenAI Responses as seen on the wire."""

from typing import Any, Final

from proxy.core.sse import Event
from proxy.core.wire.kinds import Kind, Payload, any_substance, opened

_QUIET: Final = frozenset(
    {"response.created", "response.in_progress", "response.queued", "codex.rate_limits", "response.metadata"}
)
_END: Final = frozenset({"response.completed", "response.incomplete", "response.cancelled"})
_HEAD: Final = 64  # bytes in which an event's name stands


def kind(event: Event) -> Kind:
    """Say what a Responses event means. `[DONE]` is not the end here, only noise."""
    raw = event.raw
    if b".delta" in raw[:_HEAD] and b'"delta":""' not in raw and b'"error"' not in raw and event.complete:
        return Kind.CONTENT
    payload = opened(event)
    if isinstance(payload, Kind):
        return Kind.QUIET if payload is Kind.END else payload
    return _kind_of(payload)


def _kind_of(payload: Payload) -> Kind:
    name = payload.get("type")
    if not isinstance(name, str) or name == "response.failed":
        return Kind.CONTENT if name != "response.failed" else Kind.ERROR
    if name in _QUIET:
        return Kind.QUIET
    if name in _END:
        response = payload.get("response")
        failed = isinstance(response, dict) and (response.get("error") or response.get("status") == "failed")
        return Kind.ERROR if failed else Kind.END
    if name.endswith((".delta", ".added", ".done")):
        return Kind.CONTENT if _says_something(payload) else Kind.QUIET
    return Kind.CONTENT


def _says_something(payload: Payload) -> bool:
    if "item" in payload:
        return item_has_content(payload["item"])
    if "part" in payload:
        return any_substance(_without_marks(payload["part"]))
    texts = [payload[name] for name in ("delta", "text", "refusal", "arguments", "input") if name in payload]
    return not texts or any(texts)


def item_has_content(item: Any) -> bool:
    """True for an output item that says something: any but a message or reasoning item that is still empty."""
    if not isinstance(item, dict):
        return True
    if item.get("type") == "message":
        return any(any_substance(_without_marks(part)) for part in item.get("content") or [])
    if item.get("type") == "reasoning":
        return bool(item.get("summary") or item.get("content") or item.get("encrypted_content"))
    return True


def _without_marks(part: Any) -> dict[str, Any]:
    return {name: value for name, value in part.items() if name not in {"annotations", "logprobs"}}


def has_content(payload: Payload) -> bool:
    """True when a whole answer has output; an answer without an `output` list (count, compaction) counts too."""
    output = payload.get("output")
    if not isinstance(output, list):
        return bool(payload)
    return any(item_has_content(item) for item in output)
