"""Why an answer ended, in the words of each dialect. A reason that is a failure has no row: it is never made a stop."""

from typing import Final

from proxy.core.wire.form import BrokenAnswer, Part, Refusal, Stop, ToolCall

FROM_OPENAI: Final = {
    "length": Stop.MAX_TOKENS,
    "max_tokens": Stop.MAX_TOKENS,
    "tool_calls": Stop.TOOL_USE,
    "function_call": Stop.TOOL_USE,
    "content_filter": Stop.FILTER,
    "sensitive": Stop.FILTER,
}
TO_OPENAI: Final = {
    Stop.END: "stop",
    Stop.MAX_TOKENS: "length",
    Stop.STOP_SEQUENCE: "stop",
    Stop.TOOL_USE: "tool_calls",
    Stop.FILTER: "content_filter",
    Stop.PAUSE: "stop",
    Stop.CONTEXT: "length",
}
FROM_ANTHROPIC: Final = {
    "end_turn": Stop.END,
    "max_tokens": Stop.MAX_TOKENS,
    "stop_sequence": Stop.STOP_SEQUENCE,
    "tool_use": Stop.TOOL_USE,
    "pause_turn": Stop.PAUSE,
    "compaction": Stop.PAUSE,
    "refusal": Stop.FILTER,
    "model_context_window_exceeded": Stop.CONTEXT,
}
TO_ANTHROPIC: Final = {
    Stop.END: "end_turn",
    Stop.MAX_TOKENS: "max_tokens",
    Stop.STOP_SEQUENCE: "stop_sequence",
    Stop.TOOL_USE: "tool_use",
    Stop.FILTER: "refusal",
    Stop.PAUSE: "pause_turn",
    Stop.CONTEXT: "model_context_window_exceeded",
}
FROM_GEMINI: Final = {
    "STOP": Stop.END,
    "MAX_TOKENS": Stop.MAX_TOKENS,
    "SAFETY": Stop.FILTER,
    "RECITATION": Stop.FILTER,
    "BLOCKLIST": Stop.FILTER,
    "PROHIBITED_CONTENT": Stop.FILTER,
    "SPII": Stop.FILTER,
    "IMAGE_SAFETY": Stop.FILTER,
    "IMAGE_PROHIBITED_CONTENT": Stop.FILTER,
    "IMAGE_RECITATION": Stop.FILTER,
    "MODEL_ARMOR": Stop.FILTER,
}
TO_GEMINI: Final = {
    Stop.MAX_TOKENS: "MAX_TOKENS",
    Stop.CONTEXT: "MAX_TOKENS",
    Stop.FILTER: "SAFETY",
}
# Responses says `incomplete` with one of these.
TO_RESPONSES: Final = {
    Stop.MAX_TOKENS: "max_output_tokens",
    Stop.CONTEXT: "max_output_tokens",
    Stop.FILTER: "content_filter",
}
FROM_RESPONSES: Final = {"content_filter": Stop.FILTER}


def from_openai(reason: object, has_calls: bool) -> Stop:
    """A finish_reason; hosts that say `stop` beside tool calls mean the calls."""
    if reason == "error":
        raise BrokenAnswer("the upstream reports an error as its finish reason")
    return refined(FROM_OPENAI.get(str(reason), Stop.END), has_calls)


def from_anthropic(reason: object) -> Stop:
    """A stop_reason; a new word means that it ended."""
    return FROM_ANTHROPIC.get(str(reason), Stop.END)


def from_gemini(reason: object, has_calls: bool) -> Stop:
    """A finishReason. Raises BrokenAnswer for those that report a failure (MALFORMED_FUNCTION_CALL, OTHER, …)."""
    stop = FROM_GEMINI.get(str(reason))
    if stop is None:
        raise BrokenAnswer(f"the upstream ended with {reason}")
    return refined(stop, has_calls)


def from_responses(response: dict[str, object], has_calls: bool) -> Stop:
    """A response's status and its details. Raises BrokenAnswer when it failed."""
    status = response.get("status")
    if status in ("failed", "cancelled") or response.get("error"):
        raise BrokenAnswer(f"the upstream's response has status {status}")
    details = response.get("incomplete_details")
    if status == "incomplete" or details:
        reason = details.get("reason") if isinstance(details, dict) else None
        return FROM_RESPONSES.get(str(reason), Stop.MAX_TOKENS)
    return refined(Stop.END, has_calls)


def refined(stop: Stop, has_calls: bool) -> Stop:
    """Calls turn a plain end into tool use."""
    return Stop.TOOL_USE if has_calls and stop is Stop.END else stop


def has_calls(parts: tuple[Part, ...] | list[Part]) -> bool:
    """True when a tool is called."""
    return any(isinstance(part, ToolCall) for part in parts)


def anthropic_reason(stop: Stop, parts: tuple[Part, ...]) -> str:
    """A refusal in words is a refusal here whatever the other side called its end."""
    refused = any(isinstance(part, Refusal) for part in parts)
    return "refusal" if refused and stop is Stop.END else TO_ANTHROPIC[stop]
