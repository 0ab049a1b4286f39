"""Free-text tools for dialects that only know JSON arguments: the text becomes the one member of an object."""

from dataclasses import replace
from typing import Final

from proxy.core.wire.form import Message, Part, Request, Tool, ToolCall, ToolResult
from proxy.core.wire.jsontext import dumps, loads

_MEMBER: Final = "input"


def without_custom(form: Request) -> Request:
    """The same request with free-text tools, and calls of them, as functions."""
    if not form.custom_tools and not any(_is_custom(part) for turn in form.messages for part in turn.parts):
        return form
    messages = tuple(Message(turn.role, tuple(_call(part) for part in turn.parts)) for turn in form.messages)
    return replace(form, tools=tuple(_tool(tool) for tool in form.tools), messages=messages)


def unwrapped(arguments: str) -> str:
    """The text of a call that was made through such a function; other arguments stay as they are."""
    try:
        value = loads(arguments.encode("utf-8", "surrogatepass"))
    except ValueError:
        return arguments
    text = value.get(_MEMBER) if isinstance(value, dict) else None
    return text if isinstance(text, str) else arguments


def _tool(tool: Tool) -> Tool:
    if not tool.custom:
        return tool
    schema = {
        "type": "object",
        "properties": {_MEMBER: {"type": "string", "description": "The whole input of the tool, as plain text."}},
        "required": [_MEMBER],
        "additionalProperties": False,
    }
    return replace(tool, schema=schema, custom=False)


def _is_custom(part: object) -> bool:
    return isinstance(part, ToolCall) and part.custom


def _call(part: Part) -> Part:
    if isinstance(part, ToolCall) and part.custom:
        return replace(part, arguments=dumps({_MEMBER: part.arguments}).decode(), custom=False)
    return replace(part, custom=False) if isinstance(part, ToolResult) and part.custom else part
