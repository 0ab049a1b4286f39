"""A chat completions request as a form. Understands the members that common relays add (cache marks, reasoning)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from keys.core.dialect import Dialect
from proxy.core.wire import checks, signatures
from proxy.core.wire.form import (
    Body,
    CacheMark,
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
    ToolChoice,
    ToolResult,
    Untranslatable,
)

_KNOWN: Final = frozenset(
    {
        "model",
        "messages",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "max_tokens",
        "max_completion_tokens",
        "stop",
        "temperature",
        "top_p",
        "top_k",
        "seed",
        "frequency_penalty",
        "presence_penalty",
        "reasoning_effort",
        "reasoning",
        "thinking",
        "response_format",
        "verbosity",
        "user",
        "safety_identifier",
        "prompt_cache_key",
        "stream",
        "stream_options",
        "n",
        "modalities",
        "audio",
        "functions",
        "function_call",
    }
)
_ONE: Final = 1


def read(body: Body) -> Request:
    """Read a request. Raises Untranslatable."""
    drops = Drops()
    _refuse(body)
    drops.extend(body, _KNOWN)
    user = body.get("safety_identifier") or body.get("user")
    return Request(
        source=Dialect.OPENAI,
        model=str(body.get("model") or ""),
        messages=_messages(checks.list_at(body, "messages"), drops),
        tools=tuple(_tools(checks.list_at(body, "tools"), drops)),
        tool_choice=tool_choice(body.get("tool_choice"), drops),
        parallel=body.get("parallel_tool_calls"),
        max_tokens=checks.number_at(body, "max_completion_tokens") or checks.number_at(body, "max_tokens"),
        stop=checks.stops(body.get("stop"), "stop"),
        sampling=Sampling(*(checks.number_at(body, name) for name in Sampling.__dataclass_fields__)),
        reasoning=_reasoning(body),
        format=_format(checks.object_at(body, "response_format")),
        verbosity=body.get("verbosity"),
        user=user if isinstance(user, str) else None,
        cache_key=body.get("prompt_cache_key"),
        stream=body.get("stream") is True,
        include_usage=checks.object_at(body, "stream_options").get("include_usage") is True,
        dropped=drops.listed(),
    )


def _refuse(body: Body) -> None:
    """What changes the answer's whole shape cannot be left out quietly."""
    if body.get("n") not in (None, _ONE):
        raise Untranslatable("n", "must be 1 when the model is served by an upstream of another dialect")
    for name in ("functions", "function_call"):
        if body.get(name):
            raise Untranslatable(name, "is not translated; use 'tools' and 'tool_choice'")
    if body.get("audio") or "audio" in (body.get("modalities") or []):
        raise Untranslatable("modalities", "must be text when the model is served by an upstream of another dialect")


def _messages(messages: list[Any], drops: Drops) -> tuple[Message, ...]:
    found: list[Message] = []
    names: dict[str, str] = {}  # of the tools called so far, by call id
    for index, entry in enumerate(messages):
        at = f"messages[{index}]"
        message = checks.object_in(entry, at)
        if message.get("name"):
            drops.add("messages.name")
        role = message.get("role")
        match role:
            case "system" | "developer" | "user":
                parts = tuple(_content(message, at))
                found.append(Message(role, _marked(parts, checks.cache_mark(message))))
            case "assistant":
                turn = _assistant(message, at)
                names |= {part.id: part.name for part in turn.parts if isinstance(part, ToolCall)}
                found.append(turn)
            case "tool":
                _add_result(found, _result(message, at, names))
            case _:
                raise Untranslatable(f"{at}.role", f"cannot be translated: {role!r}")
    return tuple(found)


def _add_result(found: list[Message], result: ToolResult) -> None:
    """Results of one turn form one message."""
    last = found[-1] if found else None
    if last is not None and last.role == "user" and all(isinstance(part, ToolResult) for part in last.parts):
        found[-1] = Message("user", (*last.parts, result))
    else:
        found.append(Message("user", (result,)))


def _result(message: Body, at: str, names: Mapping[str, str]) -> ToolResult:
    call_id, _ = signatures.split_id(checks.text_at(message, "tool_call_id", f"{at}.tool_call_id"))
    parts = tuple(part for part in _content(message, at) if isinstance(part, Text | Media))
    return ToolResult(call_id, names.get(call_id, call_id), parts, cache=checks.cache_mark(message))


def _assistant(message: Body, at: str) -> Message:
    for name in ("function_call", "audio"):
        if message.get(name):
            raise Untranslatable(f"{at}.{name}", "cannot be translated")
    parts: list[Part] = [*_thinking(message), *_content(message, at)]
    if message.get("refusal"):
        parts.append(Refusal(str(message["refusal"])))
    for index, entry in enumerate(checks.list_at(message, "tool_calls", f"{at}.tool_calls")):
        where = f"{at}.tool_calls[{index}]"
        parts.append(call(checks.object_in(entry, where), where))
    return Message("assistant", _marked(tuple(parts), checks.cache_mark(message)))


def call(entry: Body, at: str) -> ToolCall:
    """A tool call of a message, with the signature it may carry."""
    call_id, signature = signatures.split_id(checks.text_at(entry, "id", f"{at}.id"))
    if signature is None:
        google = (entry.get("extra_content") or {}).get("google") or {}
        signature = signatures.read(google.get("thought_signature"), Dialect.GEMINI)
    if entry.get("type") == "custom":
        custom = checks.object_at(entry, "custom", f"{at}.custom")
        return ToolCall(call_id, str(custom.get("name")), str(custom.get("input") or ""), signature, custom=True)
    function = checks.object_at(entry, "function", f"{at}.function")
    name = checks.text_at(function, "name", f"{at}.function.name")
    return ToolCall(call_id, name, checks.json_text(function.get("arguments") or ""), signature)


def _thinking(message: Body) -> list[Thinking]:
    """Thoughts: OpenRouter's `reasoning_details` first (they are signed), else the plain text."""
    details = checks.list_at(message, "reasoning_details")
    found = [thought for entry in details if isinstance(entry, dict) and (thought := _detail(entry)) is not None]
    text = message.get("reasoning_content") or message.get("reasoning")
    return found or ([Thinking(text)] if isinstance(text, str) and text else [])


def _detail(entry: Body) -> Thinking | None:
    if entry.get("type") == "reasoning.encrypted":
        signature = signatures.read(entry.get("data"), Dialect.OPENAI)
        return Thinking("", signature) if signature else None
    text = entry.get("text") or entry.get("summary") or ""
    signature = signatures.read(entry.get("signature"), Dialect.OPENAI)
    return Thinking(str(text), signature) if text or signature else None


def _content(message: Body, at: str) -> list[Part]:
    content = message.get("content")
    if content is None:
        return []
    if isinstance(content, str):
        return [Text(content)] if content else []
    found = []
    for index, entry in enumerate(checks.list_at(message, "content", f"{at}.content")):
        where = f"{at}.content[{index}]"
        part = checks.object_in(entry, where)
        found.append(_part(part, where, checks.cache_mark(part)))
    return found


def _part(part: Body, at: str, cache: CacheMark | None) -> Part:
    match part.get("type"):
        case "text":
            return Text(checks.text_at(part, "text", f"{at}.text"), cache)
        case "refusal":
            return Refusal(checks.text_at(part, "refusal", f"{at}.refusal"))
        case "image_url":
            image = part.get("image_url")
            image = {"url": image} if isinstance(image, str) else checks.object_in(image, f"{at}.image_url")
            url = checks.text_at(image, "url", f"{at}.image_url.url")
            return checks.media_of_url(url, "image", f"{at}.image_url.url", detail=checks.detail(image), cache=cache)
        case "input_audio":
            audio = checks.object_at(part, "input_audio", f"{at}.input_audio")
            data = checks.text_at(audio, "data", f"{at}.input_audio.data")
            return Media("audio", f"audio/{audio.get('format')}", data, cache=cache, at=f"{at}.input_audio")
        case "file":
            return _file(checks.object_at(part, "file", f"{at}.file"), f"{at}.file", cache)
        case other:
            raise Untranslatable(f"{at}.type", f"cannot be translated: {other!r}")


def _file(file: Body, at: str, cache: CacheMark | None) -> Media:
    data = file.get("file_data")
    if not isinstance(data, str):
        raise Untranslatable(f"{at}.file_id", "names a file that lives at another provider; send its data")
    name = file.get("filename")
    if data.startswith(("data:", "http")):
        return checks.media_of_url(data, "document", f"{at}.file_data", name=name, cache=cache)
    media_type = checks.type_of_name(name or "") or "application/pdf"
    return Media("document", media_type, data, name=name, cache=cache, at=f"{at}.file_data")


def _marked(parts: tuple[Part, ...], cache: CacheMark | None) -> tuple[Part, ...]:
    """A mark on the message stands for one on its last part."""
    if cache is None or not parts or not isinstance(parts[-1], Text | Media | ToolCall | ToolResult):
        return parts
    return (*parts[:-1], replace(parts[-1], cache=cache))


def _tools(entries: list[Any], drops: Drops) -> list[Tool]:
    found = []
    for index, entry in enumerate(entries):
        at = f"tools[{index}]"
        tool = checks.object_in(entry, at)
        match tool.get("type", "function"):
            case "function":
                function = checks.object_at(tool, "function", f"{at}.function")
                found.append(
                    Tool(
                        checks.text_at(function, "name", f"{at}.function.name"),
                        function.get("description") or "",
                        checks.clean_schema(function.get("parameters"), f"{at}.function.parameters", drops),
                        function.get("strict"),
                        checks.cache_mark(tool) or checks.cache_mark(function),
                    )
                )
            case "custom":
                custom = checks.object_at(tool, "custom", f"{at}.custom")
                name = checks.text_at(custom, "name", f"{at}.custom.name")
                if custom.get("format"):
                    drops.add("tools.custom.format")
                found.append(Tool(name, custom.get("description") or "", custom=True))
            case other:
                drops.add(f"tools.{other}")
    return found


def tool_choice(value: Any, drops: Drops) -> ToolChoice | None:
    """`tool_choice` of chat completions and of Responses, which differ only in nesting."""
    match value:
        case None:
            return None
        case "auto" | "none":
            return ToolChoice(value)
        case "required":
            return ToolChoice("any")
        case {"type": "allowed_tools"}:
            allowed = checks.object_in(value.get("allowed_tools", value), "tool_choice.allowed_tools")
            tools = checks.list_at(allowed, "tools", "tool_choice.tools")
            names = tuple(_name(tool) for tool in tools if isinstance(tool, dict))
            mode = "any" if allowed.get("mode") == "required" else "auto"
            return ToolChoice(mode, tuple(name for name in names if name))
        case {"type": "function" | "custom"}:
            return ToolChoice("any", (_name(value),))
        case _:
            drops.add("tool_choice")
            return None


def _name(tool: Body) -> str:
    inner = tool.get(str(tool.get("type")))
    name = inner.get("name") if isinstance(inner, dict) else tool.get("name")
    return name if isinstance(name, str) else ""


def _reasoning(body: Body) -> Reasoning | None:
    """OpenAI's effort, OpenRouter's `reasoning`, DeepSeek's `thinking`."""
    nested = checks.object_at(body, "reasoning")
    effort = checks.word_at(body, "reasoning_effort") or checks.word_at(nested, "effort", "reasoning.effort")
    budget = checks.number_at(nested, "max_tokens", "reasoning.max_tokens")
    switch = checks.object_at(body, "thinking").get("type")
    if nested.get("enabled") is False or switch == "disabled":
        effort = "none"
    elif effort is None and (nested.get("enabled") or switch == "enabled"):
        effort = "medium"
    if effort is None and budget is None:
        return None
    return Reasoning(effort, budget, False if nested.get("exclude") else None)


def _format(value: Body) -> Format | None:
    match value.get("type"):
        case "json_object":
            return Format()
        case "json_schema":
            schema = checks.object_at(value, "json_schema", "response_format.json_schema")
            inner = checks.object_at(schema, "schema", "response_format.json_schema.schema")
            return Format(inner, schema.get("name") or "answer", schema.get("strict"))
        case _:
            return None
