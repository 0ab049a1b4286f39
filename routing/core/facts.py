"""What is known about a request before anything is decided: one frozen value for all dialects."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, assert_never

from keys.core.dialect import Dialect
from routing.core.identity import HardPin, Session, digest, hard_pins, session_of, signatures
from routing.core.reading import (
    SYSTEM,
    Block,
    Message,
    is_image,
    is_tool_result,
    map_at,
    maps_in,
    media_size,
    messages_of,
    telling_blocks,
)
from tenants.core.values import valueclass

BYTES_PER_TOKEN = 4
IMAGE_TOKENS = 1000  # what an image is taken to fill of a context window
MODEL_NAME_MAX = 512
GEMINI_STREAM = "streamGenerateContent"
CONVERSING = frozenset({"chat/completions", "completions", "responses", "messages", "generateContent", GEMINI_STREAM})

_THINKING_OFF = ("none", "disabled", "off")
_MAX_TOKENS_FIELDS = ("max_completion_tokens", "max_tokens", "max_output_tokens")


@valueclass(frozen=True, slots=True)
class Caller:
    """Who asks. `batch`: the line's class, or an item of a batch."""

    tenant_id: int
    line_id: int
    line: str  # slug
    key_name: str
    batch: bool = False


@valueclass(frozen=True, slots=True)
class Inbound:
    """How it was asked.

    `headers` have lower-case names. `operation` is the last part of the path (`chat/completions`, `embeddings`,
    `streamGenerateContent`, ...). `model` is the name in the path (Gemini), else None. `stored_id` is an id in the
    path that lives on one account (`GET /v1/responses/{id}`). `serves` names the dialects an upstream may have to
    serve this operation; None = any, by translation.
    """

    dialect: Dialect
    operation: str
    headers: Mapping[str, str]
    body_bytes: int
    model: str | None = None
    stored_id: str | None = None
    serves: frozenset[Dialect] | None = None


@valueclass(frozen=True, slots=True)
class Facts:
    """`input_tokens` is body bytes ÷ 4. `window_tokens` leaves base64 media out: what a context window must hold.

    `max_tokens` None = not stated. `turn`: the last message hands a tool's result back. `signatures` are hashed marks
    of signed thinking, oldest first.
    """

    tenant_id: int
    line_id: int
    line: str
    key_name: str
    dialect: Dialect
    model: str
    operation: str = ""
    stream: bool = False
    tool_count: int = 0
    image: bool = False
    thinking: bool = False
    turn: bool = False
    batch: bool = False
    input_tokens: int = 0
    window_tokens: int = 0
    max_tokens: int | None = None
    body_bytes: int = 0
    session: Session = field(default_factory=Session)
    pins: tuple[HardPin, ...] = ()
    signatures: tuple[str, ...] = ()
    serves: frozenset[Dialect] | None = None

    @property
    def tools(self) -> bool:
        return self.tool_count > 0

    @property
    def converses(self) -> bool:
        """Whether the request is a turn of a conversation; counting its tokens, or embedding, is none."""
        return self.operation in CONVERSING


def read_facts(caller: Caller, inbound: Inbound, body: Mapping[str, Any]) -> Facts:
    """Read a request whose history is already assembled. Never raises; what is unreadable counts as absent."""
    messages = messages_of(inbound.dialect, body)
    blocks = telling_blocks(messages)
    image, media, images = _media(blocks)
    pins = hard_pins(body, blocks)
    if inbound.stored_id:
        pins = (HardPin("id", digest(inbound.stored_id)), *pins)
    text_bytes = max(inbound.body_bytes - media, 0)
    return Facts(
        tenant_id=caller.tenant_id,
        line_id=caller.line_id,
        line=caller.line,
        key_name=caller.key_name,
        dialect=inbound.dialect,
        model=_model(inbound, body),
        operation=inbound.operation,
        stream=inbound.operation == GEMINI_STREAM if inbound.dialect is Dialect.GEMINI else body.get("stream") is True,
        tool_count=_tool_count(body),
        image=image,
        thinking=_thinking(inbound.dialect, body),
        turn=in_turn(messages),
        batch=caller.batch,
        input_tokens=inbound.body_bytes // BYTES_PER_TOKEN,
        window_tokens=text_bytes // BYTES_PER_TOKEN + images * IMAGE_TOKENS,
        max_tokens=_max_tokens(inbound.dialect, body),
        body_bytes=inbound.body_bytes,
        session=session_of(inbound.headers, body, messages),
        pins=pins,
        signatures=signatures(blocks),
        serves=inbound.serves,
    )


def in_turn(messages: Sequence[Message]) -> bool:
    """Tell whether the last message, system reminders aside, is a tool's result."""
    spoken = next((message for message in reversed(messages) if message.role != SYSTEM), None)
    return spoken is not None and is_tool_result(spoken)


def _model(inbound: Inbound, body: Mapping[str, Any]) -> str:
    """Return the model's name, `models/` left out where Gemini writes it. Absurdly long names count as absent."""
    model = inbound.model if inbound.model is not None else body.get("model")
    if not isinstance(model, str) or len(model) > MODEL_NAME_MAX:
        return ""
    return model.removeprefix("models/") if inbound.dialect is Dialect.GEMINI else model


def _media(blocks: Sequence[Block]) -> tuple[bool, int, int]:
    """Return whether there is an image, the length of all base64 data, and the number of blocks that hold some."""
    image, size, count = False, 0, 0
    for block in blocks:
        held = media_size(block)
        pictured = is_image(block)
        image = image or pictured
        size += held
        count += held > 0 or pictured
    return image, size, count


def _tool_count(body: Mapping[str, Any]) -> int:
    """Count tools; a Gemini tool or a namespace counts as many as it declares."""
    count = len(list(maps_in(body.get("functions"))))  # chat, before 2024
    for tool in maps_in(body.get("tools")):
        declared = tool.get("functionDeclarations", tool.get("function_declarations"))
        if declared is None and tool.get("type") == "namespace":
            declared = tool.get("tools")
        count += len(declared) if isinstance(declared, list) else 1
    return count


def _thinking(dialect: Dialect, body: Mapping[str, Any]) -> bool:
    match dialect:
        case Dialect.ANTHROPIC:
            return _is_on(map_at(body, "thinking").get("type"))
        case Dialect.GEMINI:
            config = map_at(_generation(body), "thinkingConfig", "thinking_config")
            budget = config.get("thinkingBudget", config.get("thinking_budget"))
            return bool(config) and budget != 0
        case Dialect.RESPONSES:
            reasoning = map_at(body, "reasoning")
            return bool(reasoning) and reasoning.get("effort") not in _THINKING_OFF
        case Dialect.OPENAI:
            return _chat_thinking(body)
        case _:
            assert_never(dialect)


def _chat_thinking(body: Mapping[str, Any]) -> bool:
    """OpenAI and its relays have at least four spellings."""
    reasoning = map_at(body, "reasoning")  # OpenRouter
    asked = bool(reasoning) and reasoning.get("enabled") is not False and reasoning.get("effort") not in _THINKING_OFF
    return (
        asked
        or _is_on(body.get("reasoning_effort"))
        or _is_on(map_at(body, "thinking").get("type"))  # DeepSeek, Zhipu
        or body.get("enable_thinking") is True  # Qwen
    )


def _is_on(value: object) -> bool:
    return isinstance(value, str) and value not in _THINKING_OFF


def _generation(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return map_at(body, "generationConfig", "generation_config")


def _max_tokens(dialect: Dialect, body: Mapping[str, Any]) -> int | None:
    if dialect is Dialect.GEMINI:
        config = _generation(body)
        values = [config.get("maxOutputTokens", config.get("max_output_tokens"))]
    else:
        values = [body.get(name) for name in _MAX_TOKENS_FIELDS]
    return next((value for value in values if isinstance(value, int) and not isinstance(value, bool)), None)
