"""One view of a request's conversation, whatever its dialect: who said what, in blocks.

Bodies come from clients: nothing here trusts a type, nothing raises. They are parsed JSON, so objects are dicts; asking
for that is five times as fast as asking for a Mapping, and a long conversation asks thousands of times.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias, assert_never

from keys.core.dialect import Dialect
from tenants.core.values import valueclass

Block: TypeAlias = Mapping[str, Any]

SYSTEM = "system"
USER = "user"
ASSISTANT = "assistant"
TOOL = "tool"

_ROLES = {
    "system": SYSTEM,
    "developer": SYSTEM,
    "user": USER,
    "assistant": ASSISTANT,
    "model": ASSISTANT,
    "tool": TOOL,
    "function": TOOL,
}
# Tuples, not sets: a client may send a list where a name should stand, which a set cannot look up.
_IMAGE_TYPES = ("image", "image_url", "input_image", "computer_screenshot")
_NESTED = ("content", "output", "parts")  # where a tool's answer keeps its own blocks
_PLAIN_TYPES = ("text", "input_text", "output_text")
_MEDIA_FIELDS = frozenset(
    {"source", "image_url", "inlineData", "inline_data", "input_audio", "file", "file_data", "fileData"}
)
_DEPTH_MAX = 4


@valueclass(frozen=True, slots=True)
class Message:
    """`role` is system, user, assistant or tool. A string content is one text block."""

    role: str
    blocks: tuple[Block, ...]


def messages_of(dialect: Dialect, body: Mapping[str, Any]) -> tuple[Message, ...]:
    """Return the conversation in order, the top-level system text first."""
    match dialect:
        case Dialect.OPENAI:
            return tuple(_chat(body))
        case Dialect.RESPONSES:
            return tuple(_responses(body))
        case Dialect.ANTHROPIC:
            return tuple(_anthropic(body))
        case Dialect.GEMINI:
            return tuple(_gemini(body))
        case _:
            assert_never(dialect)


def text_of(message: Message) -> str:
    """Return the message's own text, blocks joined by line breaks; not what tools returned inside it."""
    texts = (block.get("text") for block in message.blocks)
    return "\n".join(text for text in texts if isinstance(text, str))


def telling_blocks(messages: Iterable[Message]) -> list[Block]:
    """Return the blocks, those nested in tool results included, that may hold more than plain text."""
    found: list[Block] = []
    for message in messages:
        _gather(message.blocks, found, 0)
    return found


def blocks_of(content: object) -> tuple[Block, ...]:
    """Read a content field: a string, one block, or a list of either."""
    if isinstance(content, str):
        return ({"type": "text", "text": content},)
    if isinstance(content, dict):
        return (content,)
    if not isinstance(content, list):
        return ()
    return tuple(
        item if isinstance(item, dict) else {"type": "text", "text": item}
        for item in content
        if isinstance(item, dict | str)
    )


def maps_in(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list; nothing for anything else."""
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))


def map_at(value: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """Return the first of the named fields that is an object, else an empty one."""
    for name in names:
        found = value.get(name)
        if isinstance(found, dict):
            return found
    return {}


def is_tool_result(message: Message) -> bool:
    """Tell whether the message hands tool results back to the model, perhaps with text beside them."""
    return message.role == TOOL or any(
        block.get("type") == "tool_result" or "functionResponse" in block or "function_response" in block
        for block in message.blocks
    )


def is_image(block: Block) -> bool:
    if block.get("type") in _IMAGE_TYPES:
        return True
    if _MEDIA_FIELDS.isdisjoint(block):
        return False
    data = map_at(block, "inlineData", "inline_data", "fileData", "file_data")
    kind = data.get("mimeType", data.get("mime_type"))
    return isinstance(kind, str) and kind.startswith("image/")


def media_size(block: Block) -> int:
    """Return the length of base64 data held by one block, in characters."""
    if _MEDIA_FIELDS.isdisjoint(block):
        return 0
    source = map_at(block, "source")  # Anthropic; its text documents are no media
    sources: tuple[object, ...] = (
        source.get("data") if source.get("type") == "base64" else None,
        map_at(block, "inlineData", "inline_data").get("data"),  # Gemini
        map_at(block, "image_url").get("url"),  # chat
        block.get("image_url"),  # Responses
        map_at(block, "input_audio").get("data"),
        map_at(block, "file").get("file_data"),
        block.get("file_data"),
    )
    return sum(len(data) for data in sources if isinstance(data, str))


def _gather(blocks: Iterable[Block], found: list[Block], depth: int) -> None:
    for block in blocks:
        if block.get("type") in _PLAIN_TYPES or (len(block) == 1 and "text" in block):
            continue
        found.append(block)
        if depth == _DEPTH_MAX:
            continue
        for name in _NESTED:
            nested = block.get(name)
            if isinstance(nested, list | dict):
                _gather(blocks_of(nested), found, depth + 1)


def _chat(body: Mapping[str, Any]) -> Iterator[Message]:
    for item in maps_in(body.get("messages")):
        yield _spoken(item, "content")
    prompt = body.get("prompt")  # legacy completions
    if isinstance(prompt, str | list):
        yield Message(USER, blocks_of(prompt))


def _responses(body: Mapping[str, Any]) -> Iterator[Message]:
    instructions = body.get("instructions")
    if isinstance(instructions, str):
        yield Message(SYSTEM, blocks_of(instructions))
    given = body.get("input")
    if isinstance(given, str):
        yield Message(USER, blocks_of(given))
    for item in maps_in(given):
        kind = item.get("type")
        if isinstance(kind, str) and (kind.endswith("_output") or kind == "mcp_approval_response"):
            yield Message(TOOL, (item,))
        elif isinstance(item.get("role"), str):
            yield _spoken(item, "content")
        else:
            yield Message(ASSISTANT, (item,))


def _anthropic(body: Mapping[str, Any]) -> Iterator[Message]:
    if body.get("system"):
        yield Message(SYSTEM, blocks_of(body["system"]))
    for item in maps_in(body.get("messages")):
        yield _spoken(item, "content")


def _gemini(body: Mapping[str, Any]) -> Iterator[Message]:
    system = body.get("systemInstruction", body.get("system_instruction"))
    if isinstance(system, str):
        yield Message(SYSTEM, blocks_of(system))
    elif isinstance(system, dict):
        yield Message(SYSTEM, blocks_of(system.get("parts")))
    contents = body.get("contents")
    if isinstance(contents, str | dict):
        contents = [contents]
    for item in contents if isinstance(contents, list) else ():
        if isinstance(item, str):
            yield Message(USER, blocks_of(item))
        elif isinstance(item, dict):
            yield _spoken(item, "parts")


def _spoken(item: Mapping[str, Any], content: str) -> Message:
    role = item.get("role")
    blocks = blocks_of(item.get(content))
    # Chat keeps calls and signed reasoning beside the content.
    for name in ("tool_calls", "reasoning_details"):
        if name in item:
            blocks += tuple(maps_in(item[name]))
    return Message(_ROLES.get(role, USER) if isinstance(role, str) else USER, blocks)
