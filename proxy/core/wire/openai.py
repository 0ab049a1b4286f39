"""OpenAI chat completions (and the older completions, speech and transcription streams) as seen on the wire."""

from typing import Any, Final

from proxy.core.sse import Event
from proxy.core.wire.kinds import Kind, Payload, any_substance, opened

DONE: Final = b"data: [DONE]\n\n"
_TEXT: Final = b'"content":"'
_QUOTE: Final = ord('"')


def kind(event: Event) -> Kind:
    """Say what a chat chunk means."""
    raw = event.raw
    at = raw.find(_TEXT)
    if (
        at >= 0
        and raw[at + len(_TEXT)] != _QUOTE
        and b'"finish_reason":null' in raw
        and b'"error"' not in raw
        and raw.startswith(b"data:")
        and event.complete
    ):
        return Kind.CONTENT
    payload = opened(event)
    return payload if isinstance(payload, Kind) else _kind_of(payload)


def _kind_of(payload: Payload) -> Kind:
    choices = payload.get("choices")
    if not choices:
        return _kind_without_choices(payload)
    kinds = {_kind_of_choice(choice) for choice in choices if isinstance(choice, dict)}
    return next((kind for kind in (Kind.ERROR, Kind.FINISH, Kind.CONTENT) if kind in kinds), Kind.QUIET)


def _kind_without_choices(payload: Payload) -> Kind:
    name = payload.get("type")
    if isinstance(name, str) and name.endswith((".done", ".completed")):
        return Kind.END  # speech, transcription and image streams
    if payload.get("usage"):
        return Kind.USAGE
    return Kind.QUIET if "choices" in payload else Kind.CONTENT


def _kind_of_choice(choice: dict[str, Any]) -> Kind:
    reason = choice.get("finish_reason")
    if reason == "error" or choice.get("error"):
        return Kind.ERROR
    if reason:
        return Kind.FINISH
    delta = choice.get("delta") or choice.get("message") or {}
    return Kind.CONTENT if choice.get("text") or any_substance(delta) else Kind.QUIET


def is_usage_only(payload: Payload) -> bool:
    """True for the extra chunk that `stream_options.include_usage` brings: usage and no choices."""
    return bool(payload.get("usage")) and not payload.get("choices") and "choices" in payload


def has_content(payload: Payload) -> bool:
    """True when a whole answer says something: a message with substance, or a list of results."""
    choices = payload.get("choices")
    if not isinstance(choices, list):
        return bool(payload)
    return any(
        choice.get("text") or any_substance(choice.get("message") or {})
        for choice in choices
        if isinstance(choice, dict)
    )
