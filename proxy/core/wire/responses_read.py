"""A Responses request as a form."""

from typing import Any, Final

from keys.core.dialect import Dialect
from proxy.core.wire import checks, signatures
from proxy.core.wire.form import (
    Body,
    Citation,
    Drops,
    Format,
    Media,
    Message,
    Part,
    Reasoning,
    Refusal,
    Request,
    Sampling,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Untranslatable,
)
from proxy.core.wire.openai_read import tool_choice

_KNOWN: Final = frozenset(
    {
        "model",
        "input",
        "instructions",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "max_output_tokens",
        "temperature",
        "top_p",
        "frequency_penalty",
        "presence_penalty",
        "reasoning",
        "text",
        "user",
        "safety_identifier",
        "prompt_cache_key",
        "stream",
        "previous_response_id",
        "conversation",
        "prompt",
        "background",
    }
)
# What lives at the provider and cannot be sent along.
_STORED: Final = ("previous_response_id", "conversation", "prompt", "background")
_STORED_ITEMS: Final = frozenset({"item_reference", "compaction", "compaction_trigger", "context_compaction"})


def read(body: Body) -> Request:
    """Read a request. Raises Untranslatable."""
    drops = Drops()
    for name in _STORED:
        if body.get(name):
            raise Untranslatable(name, "lives at the provider that made it; no other upstream can serve it")
    drops.extend(body, _KNOWN)
    text = checks.object_at(body, "text")
    user = body.get("safety_identifier") or body.get("user")
    return Request(
        source=Dialect.RESPONSES,
        model=str(body.get("model") or ""),
        messages=_messages(body, drops),
        tools=tuple(_tools(checks.list_at(body, "tools"), drops)),
        tool_choice=tool_choice(body.get("tool_choice"), drops),
        parallel=body.get("parallel_tool_calls"),
        max_tokens=checks.number_at(body, "max_output_tokens"),
        sampling=Sampling(
            temperature=checks.number_at(body, "temperature"),
            top_p=checks.number_at(body, "top_p"),
            frequency_penalty=checks.number_at(body, "frequency_penalty"),
            presence_penalty=checks.number_at(body, "presence_penalty"),
        ),
        reasoning=_reasoning(checks.object_at(body, "reasoning")),
        format=_format(checks.object_at(text, "format", "text.format")),
        verbosity=text.get("verbosity"),
        user=user if isinstance(user, str) else None,
        cache_key=body.get("prompt_cache_key"),
        stream=body.get("stream") is True,
        dropped=drops.listed(),
    )


def _messages(body: Body, drops: Drops) -> tuple[Message, ...]:
    found: list[Message] = []
    instructions = body.get("instructions")
    if isinstance(instructions, str) and instructions:
        found.append(Message("system", (Text(instructions),)))
    given = body.get("input")
    if isinstance(given, str):
        return (*found, Message("user", (Text(given),)))
    reader = _Items(drops)
    for index, entry in enumerate(checks.list_at(body, "input")):
        at = f"input[{index}]"
        reader.add(checks.object_in(entry, at), at)
    return (*found, *reader.messages)


class _Items:
    """Gathers items into turns: what the assistant said and called in a row is one message."""

    def __init__(self, drops: Drops) -> None:
        self.messages: list[Message] = []
        self._names: dict[str, str] = {}
        self._drops = drops

    def add(self, item: Body, at: str) -> None:
        kind = item.get("type") or ("message" if "role" in item else None)
        match kind:
            case "message":
                self._message(item, at)
            case "reasoning":
                self._join("assistant", _thinking(item))
            case "function_call" | "custom_tool_call":
                call = _call(item, at)
                if item.get("namespace"):
                    self._drops.add("input.namespace")
                self._names[call.id] = call.name
                self._join("assistant", [call])
            case "function_call_output" | "custom_tool_call_output":
                self._join("user", [self._result(item, at)])
            case str() if kind in _STORED_ITEMS:
                raise Untranslatable(f"{at}.type", f"'{kind}' can only be served by the provider that made it")
            case str():
                self._drops.add(f"input.{kind}")  # hosted tools' calls and lists
            case _:
                raise Untranslatable(f"{at}.type", "is missing")

    def _message(self, item: Body, at: str) -> None:
        role = item.get("role")
        if role not in ("system", "developer", "user", "assistant"):
            raise Untranslatable(f"{at}.role", f"cannot be translated: {role!r}")
        parts = content(item.get("content"), f"{at}.content")
        if role == "assistant":
            self._join(role, parts)
        else:
            self.messages.append(Message(role, tuple(parts)))

    def _join(self, role: str, parts: list[Part]) -> None:
        last = self.messages[-1] if self.messages else None
        if last is not None and last.role == role and (role == "assistant" or _is_result(last)):
            self.messages[-1] = Message(role, (*last.parts, *parts))
        elif parts:
            self.messages.append(Message(role, tuple(parts)))

    def _result(self, item: Body, at: str) -> ToolResult:
        call_id, _ = signatures.split_id(checks.text_at(item, "call_id", f"{at}.call_id"))
        custom = item.get("type") == "custom_tool_call_output"
        output = item.get("output")
        parts = content(output, f"{at}.output") if isinstance(output, str | list) else [Text(checks.json_text(output))]
        held = tuple(part for part in parts if isinstance(part, Text | Media))
        return ToolResult(
            call_id, self._names.get(call_id, call_id), held, cache=checks.cache_mark(item), custom=custom
        )


def _is_result(message: Message) -> bool:
    return bool(message.parts) and isinstance(message.parts[-1], ToolResult)


def _call(item: Body, at: str) -> ToolCall:
    call_id, signature = signatures.split_id(checks.text_at(item, "call_id", f"{at}.call_id"))
    name = checks.text_at(item, "name", f"{at}.name")
    custom = item.get("type") == "custom_tool_call"
    arguments = item.get("input" if custom else "arguments") or ""
    return ToolCall(call_id, name, checks.json_text(arguments), signature, checks.cache_mark(item), custom)


def _thinking(item: Body) -> list[Part]:
    texts = _texts(item, "summary") or _texts(item, "content")
    signature = signatures.read(item.get("encrypted_content"), Dialect.RESPONSES)
    text = "\n\n".join(texts)
    return [Thinking(text, signature)] if text or signature else []


def _texts(item: Body, name: str) -> list[str]:
    parts = checks.list_at(item, name, f"input.{name}")
    return [checks.word_at(part, "text", f"input.{name}.text") or "" for part in parts if isinstance(part, dict)]


def content(value: Any, at: str) -> list[Part]:
    """The content of a message or of a tool's output."""
    if value is None:
        return []
    if isinstance(value, str):
        return [Text(value)] if value else []
    if not isinstance(value, list):
        raise Untranslatable(at, "must be a text or a list")
    return [_part(checks.object_in(part, f"{at}[{index}]"), f"{at}[{index}]") for index, part in enumerate(value)]


def _part(part: Body, at: str) -> Part:
    cache = checks.cache_mark(part)
    match part.get("type"):
        case "input_text" | "output_text" | "text":
            marks = (checks.url_citation(mark) for mark in checks.list_at(part, "annotations", f"{at}.annotations"))
            citations: tuple[Citation, ...] = tuple(mark for mark in marks if mark is not None)
            return Text(checks.text_at(part, "text", f"{at}.text"), cache, citations)
        case "refusal":
            return Refusal(checks.text_at(part, "refusal", f"{at}.refusal"))
        case "input_image":
            url = part.get("image_url")
            if not isinstance(url, str):
                raise Untranslatable(f"{at}.file_id", "names a file that lives at another provider; send its data")
            return checks.media_of_url(url, "image", f"{at}.image_url", detail=checks.detail(part), cache=cache)
        case "input_file":
            return _file(part, at)
        case other:
            raise Untranslatable(f"{at}.type", f"cannot be translated: {other!r}")


def _file(part: Body, at: str) -> Media:
    cache, name = checks.cache_mark(part), part.get("filename")
    url, data = part.get("file_url"), part.get("file_data")
    if isinstance(url, str):
        return checks.media_of_url(url, "document", f"{at}.file_url", name=name, cache=cache)
    if not isinstance(data, str):
        raise Untranslatable(f"{at}.file_id", "names a file that lives at another provider; send its data")
    if data.startswith("data:"):
        return checks.media_of_url(data, "document", f"{at}.file_data", name=name, cache=cache)
    media_type = checks.type_of_name(name or "") or "application/pdf"
    return Media("document", media_type, data, name=name, cache=cache, at=f"{at}.file_data")


def _tools(entries: list[Any], drops: Drops) -> list[Tool]:
    found = []
    for index, entry in enumerate(entries):
        at = f"tools[{index}]"
        tool = checks.object_in(entry, at)
        match tool.get("type"):
            case "function":
                schema = checks.clean_schema(tool.get("parameters"), f"{at}.parameters", drops)
                drops.extend(tool, frozenset({"type", "name", "description", "parameters", "strict", "cache_control"}))
                name = checks.text_at(tool, "name", f"{at}.name")
                cache = checks.cache_mark(tool)
                found.append(Tool(name, tool.get("description") or "", schema, tool.get("strict") or None, cache))
            case "custom":
                if tool.get("format"):
                    drops.add("tools.format")
                name = checks.text_at(tool, "name", f"{at}.name")
                found.append(Tool(name, tool.get("description") or "", custom=True))
            case other:
                drops.add(f"tools.{other}")
    return found


def _reasoning(value: Body) -> Reasoning | None:
    effort = checks.word_at(value, "effort", "reasoning.effort")
    if not effort and not value.get("summary"):
        return None
    return Reasoning(effort, None, True if value.get("summary") else None)


def _format(value: Body) -> Format | None:
    match value.get("type"):
        case "json_object":
            return Format()
        case "json_schema":
            schema = checks.object_at(value, "schema", "text.format.schema")
            return Format(schema, value.get("name") or "answer", value.get("strict"))
        case _:
            return None
