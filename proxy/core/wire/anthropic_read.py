"""A Messages request as a form."""

from dataclasses import replace
from typing import Any, Final

from keys.core.dialect import Dialect
from proxy.core.wire import checks, signatures
from proxy.core.wire.form import (
    Body,
    CacheMark,
    Citation,
    Drops,
    Format,
    Media,
    Message,
    Part,
    Reasoning,
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
        "system",
        "max_tokens",
        "stop_sequences",
        "temperature",
        "top_p",
        "top_k",
        "thinking",
        "output_config",
        "tools",
        "tool_choice",
        "metadata",
        "stream",
        "cache_control",
        "container",
    }
)
_TOOL: Final = frozenset({"type", "name", "description", "input_schema", "strict", "cache_control"})
_CHOICES: Final = {"auto": "auto", "any": "any", "none": "none", "tool": "any"}
# Traces of tools that run at the provider.
_HOSTED: Final = ("tool_result", "tool_use", "tool_reference", "browser_state", "fallback")
_LONGEST_USER: Final = 64  # what other providers take as an end user's id


def read(body: Body) -> Request:
    """Read a request. Raises Untranslatable."""
    drops = Drops()
    if body.get("container"):
        raise Untranslatable("container", "lives at the provider that made it; no other upstream can serve it")
    drops.extend(body, _KNOWN)
    choice = checks.object_at(body, "tool_choice")
    output = checks.object_at(body, "output_config")
    drops.extend(output, frozenset({"effort", "format"}), "output_config.")
    return Request(
        source=Dialect.ANTHROPIC,
        model=str(body.get("model") or ""),
        messages=_Conversation(drops).read(body),
        tools=tuple(_tools(checks.list_at(body, "tools"), drops)),
        tool_choice=_choice(choice),
        parallel=False if choice.get("disable_parallel_tool_use") else None,
        max_tokens=checks.number_at(body, "max_tokens"),
        stop=checks.stops(body.get("stop_sequences"), "stop_sequences"),
        sampling=Sampling(*(checks.number_at(body, name) for name in ("temperature", "top_p", "top_k"))),
        reasoning=_reasoning(checks.object_at(body, "thinking"), output),
        format=_format(checks.object_at(output, "format", "output_config.format")),
        user=_user(checks.object_at(body, "metadata"), drops),
        stream=body.get("stream") is True,
        dropped=drops.listed(),
    )


def _user(metadata: Body, drops: Drops) -> str | None:
    user = metadata.get("user_id")
    if isinstance(user, str) and len(user) <= _LONGEST_USER:
        return user
    if user:
        drops.add("metadata.user_id")
    return None


def _reasoning(thinking: Body, output: Body) -> Reasoning | None:
    kind, effort = thinking.get("type"), checks.word_at(output, "effort", "output_config.effort")
    display = checks.word_at(thinking, "display", "thinking.display")
    visible = {"summarized": True, "omitted": False}.get(display or "")
    match kind:
        case "disabled":
            return Reasoning("none")
        case "enabled":
            budget = checks.number_at(thinking, "budget_tokens", "thinking.budget_tokens")
            return Reasoning(effort, budget, visible is not False)
        case None:
            return Reasoning(effort) if effort else None
        case _:
            return Reasoning(effort or "medium", None, visible)


def _format(value: Body) -> Format | None:
    if value.get("type") != "json_schema":
        return None
    return Format(checks.object_at(value, "schema", "output_config.format.schema"), strict=True)


def _choice(choice: Body) -> ToolChoice | None:
    mode = _CHOICES.get(str(choice.get("type")))
    if mode is None:
        return None
    return ToolChoice(mode, (str(choice.get("name")),) if choice["type"] == "tool" else ())


def _tools(entries: list[Any], drops: Drops) -> list[Tool]:
    found = []
    for index, entry in enumerate(entries):
        at = f"tools[{index}]"
        tool = checks.object_in(entry, at)
        kind = tool.get("type")
        if kind not in (None, "custom"):
            drops.add(f"tools.{kind}")
            continue
        drops.extend(tool, _TOOL, "tools.")
        found.append(
            Tool(
                checks.text_at(tool, "name", f"{at}.name"),
                tool.get("description") or "",
                checks.clean_schema(tool.get("input_schema"), f"{at}.input_schema", drops),
                tool.get("strict"),
                checks.cache_mark(tool),
            )
        )
    return found


class _Conversation:
    """Reads system text and messages; knows the names of the tools called so far."""

    def __init__(self, drops: Drops) -> None:
        self._drops = drops
        self._names: dict[str, str] = {}

    def read(self, body: Body) -> tuple[Message, ...]:
        found: list[Message] = []
        system = self._texts(body.get("system"), "system")
        if system:
            found.append(Message("system", tuple(system)))
        for index, entry in enumerate(checks.list_at(body, "messages")):
            at = f"messages[{index}]"
            message = checks.object_in(entry, at)
            role = message.get("role")
            if role not in ("user", "assistant", "system"):
                raise Untranslatable(f"{at}.role", f"cannot be translated: {role!r}")
            parts = self._content(message.get("content"), f"{at}.content")
            # Other providers want results right behind their calls.
            parts.sort(key=lambda part: not isinstance(part, ToolResult))
            found.append(Message(role, tuple(parts)))
        return _marked(found, checks.cache_mark(body))

    def _texts(self, value: Any, at: str) -> list[Text]:
        """Texts, without Claude Code's line of book-keeping, which differs in every conversation."""
        parts = [part for part in self._content(value, at) if isinstance(part, Text)]
        kept = [part for part in parts if not part.text.startswith("x-anthropic-billing-header:")]
        if len(kept) < len(parts):
            self._drops.add("system.x-anthropic-billing-header")
        return kept

    def _content(self, value: Any, at: str) -> list[Part]:
        if value is None:
            return []
        if isinstance(value, str):
            return [Text(value)] if value else []
        if not isinstance(value, list):
            raise Untranslatable(at, "must be a text or a list")
        found: list[Part] = []
        for index, entry in enumerate(value):
            where = f"{at}[{index}]"
            found += self._block(checks.object_in(entry, where), where)
        return found

    def _block(self, block: Body, at: str) -> list[Part]:
        cache = checks.cache_mark(block)
        found: list[Part] = []
        match block.get("type"):
            case "text":
                found = [Text(checks.text_at(block, "text", f"{at}.text"), cache, citations(block))]
            case "image" | "document" | "search_result":
                found = self._source(block, at, cache)
            case "thinking" | "redacted_thinking":
                found = [self._thought(block)]
            case "tool_use":
                found = [self._call(block, at, cache)]
            case "tool_result":
                found = [self._result(block, at, cache)]
            case "compaction":
                found = [Text(str(block.get("content") or ""), cache)]
            case str() as other if other.endswith(_HOSTED):
                self._drops.add(f"messages.{other}")
            case other:
                raise Untranslatable(f"{at}.type", f"cannot be translated: {other!r}")
        return found

    def _thought(self, block: Body) -> Thinking:
        if block["type"] == "redacted_thinking":
            return redacted(block)
        mark = block.get("signature")
        if signatures.is_placeholder(mark):
            self._drops.add("messages.signature")
        return Thinking(str(block.get("thinking") or ""), signatures.read(mark, Dialect.ANTHROPIC))

    def _call(self, block: Body, at: str, cache: CacheMark | None) -> ToolCall:
        call_id, signature = signatures.split_id(checks.text_at(block, "id", f"{at}.id"))
        name = checks.text_at(block, "name", f"{at}.name")
        self._names[call_id] = name
        return ToolCall(call_id, name, checks.json_text(block.get("input") or {}), signature, cache)

    def _result(self, block: Body, at: str, cache: CacheMark | None) -> ToolResult:
        call_id, _ = signatures.split_id(checks.text_at(block, "tool_use_id", f"{at}.tool_use_id"))
        parts = self._content(block.get("content"), f"{at}.content")
        held = tuple(part for part in parts if isinstance(part, Text | Media))
        return ToolResult(call_id, self._names.get(call_id, call_id), held, block.get("is_error") is True, cache)

    def _source(self, block: Body, at: str, cache: CacheMark | None) -> list[Part]:
        if (block.get("citations") or {}).get("enabled"):
            self._drops.add("messages.citations")
        if block["type"] == "search_result":
            parts = self._content(block.get("content"), f"{at}.content")
            heading = f"{block.get('title') or ''} ({block.get('source') or ''})"
            return [Text(heading), *parts]
        source = checks.object_at(block, "source", f"{at}.source")
        kind, name = str(block["type"]), block.get("title")
        match source.get("type"):
            case "base64":
                data = checks.text_at(source, "data", f"{at}.source.data")
                return [Media(kind, source.get("media_type"), data, name=name, cache=cache, at=f"{at}.source")]
            case "url":
                url = checks.text_at(source, "url", f"{at}.source.url")
                return [checks.media_of_url(url, kind, f"{at}.source.url", name=name, cache=cache)]
            case "text":
                return [*([Text(str(name))] if name else []), Text(str(source.get("data") or ""), cache)]
            case "content":
                return self._content(source.get("content"), f"{at}.source.content")
            case _:
                raise Untranslatable(f"{at}.source", "names a file that lives at another provider; send its data")


def redacted(block: Body) -> Thinking:
    """A redacted_thinking block."""
    signature = signatures.read(block.get("data"), Dialect.ANTHROPIC)
    return Thinking("", replace(signature, redacted=True) if signature is not None else None)


def citations(block: Body) -> tuple[Citation, ...]:
    """The web sources of a text block; places in the client's own documents mean nothing elsewhere."""
    return tuple(
        Citation(mark["url"], mark.get("title") or "", mark.get("cited_text") or "")
        for mark in checks.list_at(block, "citations")
        if isinstance(mark, dict) and isinstance(mark.get("url"), str)
    )


def _marked(messages: list[Message], cache: CacheMark | None) -> tuple[Message, ...]:
    """The top-level mark stands for one on the last block."""
    match messages:
        case [*_, Message(role, (*before, Text() as text))] if cache is not None:
            messages[-1] = Message(role, (*before, replace(text, cache=cache)))
    return tuple(messages)
