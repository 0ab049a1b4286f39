"""A form as a Messages request."""

from typing import Any, Final

from keys.core.dialect import Dialect
from proxy.core.wire import signatures
from proxy.core.wire.form import (
    Body,
    CacheMark,
    Drops,
    Media,
    Message,
    Part,
    Refusal,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Untranslatable,
    field_name,
)
from proxy.core.wire.jsontext import loads
from proxy.core.wire.schemas import closed
from proxy.core.wire.traits import Traits

_BUDGETS: Final = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 24_576, "xhigh": 32_000, "max": 32_000}
_LEAST_BUDGET: Final = 1024
_EFFORTS: Final = {"minimal": "low"}
_WARMEST: Final = 1.0


def write(form: Request, model: str, traits: Traits, drops: Drops) -> Body:
    """Write a request. Raises Untranslatable."""
    most = form.max_tokens if form.max_tokens is not None else traits.max_tokens
    body: Body = {"model": model, "max_tokens": most}
    system, messages = _Conversation(form, traits, drops).written()
    if system:
        body["system"] = system
    body["messages"] = messages
    _write_tools(body, form, traits, drops)
    if form.stop:
        body["stop_sequences"] = list(form.stop)
    _write_thinking(body, form, traits, drops)
    _write_sampling(body, form, traits, drops)
    if form.format is not None and form.format.schema is not None:
        body.setdefault("output_config", {})["format"] = {"type": "json_schema", "schema": closed(form.format.schema)}
    elif form.format is not None:
        drops.add(field_name(form.source, "format"))
    for concept in ("verbosity", "cache_key"):
        if getattr(form, concept) is not None:
            drops.add(field_name(form.source, concept))
    if form.user is not None:
        body["metadata"] = {"user_id": form.user}
    if form.stream:
        body["stream"] = True
    return body


def _write_sampling(body: Body, form: Request, traits: Traits, drops: Drops) -> None:
    """What may be sent depends on the model, and on thinking, which allows no sampling at all."""
    given = {name: getattr(form.sampling, name) for name in ("temperature", "top_p", "top_k")}
    for name in ("seed", "frequency_penalty", "presence_penalty"):
        if getattr(form.sampling, name) is not None:
            drops.add(field_name(form.source, name))
    for name, value in given.items():
        if value is None:
            continue
        both = name == "top_p" and "temperature" in body  # newer models refuse the two together
        if not traits.sampling or "thinking" in body or both:
            drops.add(field_name(form.source, name))
        elif name == "temperature" and value > _WARMEST:
            body[name] = _WARMEST
            drops.add(field_name(form.source, name))
        else:
            body[name] = value


def _write_thinking(body: Body, form: Request, traits: Traits, drops: Drops) -> None:
    wanted = form.reasoning
    if wanted is None or wanted.off:
        return
    forced = body.get("tool_choice", {}).get("type") in ("any", "tool")
    if not traits.reasoning or forced or not _may_think(body["messages"]):
        drops.add(field_name(form.source, "reasoning"))
        return
    if traits.adaptive:
        effort = wanted.effort or ("high" if (wanted.budget or 0) >= _BUDGETS["high"] else "medium")
        body["thinking"] = {"type": "adaptive"} | ({"display": "summarized"} if wanted.visible else {})
        body["output_config"] = {"effort": _EFFORTS.get(effort, effort)}
        return
    budget = wanted.budget or _BUDGETS.get(wanted.effort or "medium", _BUDGETS["medium"])
    budget = max(_LEAST_BUDGET, budget)
    if form.max_tokens is None:
        body["max_tokens"] = max(body["max_tokens"], budget + _LEAST_BUDGET)
    if budget >= body["max_tokens"]:
        budget = body["max_tokens"] // 2  # the answer needs room as well
    if budget < _LEAST_BUDGET:
        drops.add(field_name(form.source, "reasoning"))
        return
    body["thinking"] = {"type": "enabled", "budget_tokens": budget}


def _may_think(messages: list[Body]) -> bool:
    """Inside a turn of tool calls, thinking is refused unless that turn began with a signed thought."""
    said = [message for message in messages if message["role"] == "assistant"]
    if not said or messages[-1]["role"] != "user":
        return not said
    if not any(block["type"] == "tool_result" for block in messages[-1]["content"]):
        return True
    return bool(said[-1]["content"][0]["type"] in ("thinking", "redacted_thinking"))


def _write_tools(body: Body, form: Request, traits: Traits, drops: Drops) -> None:
    choice = form.tool_choice
    allowed = choice.names if choice is not None else ()
    forced = choice is not None and choice.mode == "any" and len(allowed) == 1
    # There is no list of allowed tools: the others are not shown.
    tools = [tool for tool in form.tools if forced or not allowed or tool.name in allowed]
    if not tools:
        return
    body["tools"] = [_marked(_tool(tool), tool.cache, traits, drops) for tool in tools]
    picked: Body = {}
    if forced:
        picked = {"type": "tool", "name": allowed[0]}
    elif choice is not None:
        picked = {"type": choice.mode}
    if form.parallel is False and picked.get("type") != "none":
        picked = (picked or {"type": "auto"}) | {"disable_parallel_tool_use": True}
    if picked:
        body["tool_choice"] = picked


def _tool(tool: Tool) -> Body:
    body: Body = {"name": tool.name}
    if tool.description:
        body["description"] = tool.description
    body["input_schema"] = {"type": "object"} | (tool.schema or {"properties": {}})
    if tool.strict:
        body["strict"] = True
    return body


def _marked(body: Body, cache: CacheMark | None, traits: Traits, drops: Drops) -> Body:
    if cache is None:
        return body
    if not traits.cache_markers:
        drops.add("cache_control")
        return body
    return body | {"cache_control": {"type": "ephemeral"} | ({"ttl": cache.ttl} if cache.ttl else {})}


class _Conversation:
    """Writes system text and messages; turns of one role in a row become one, as the API itself would do."""

    def __init__(self, form: Request, traits: Traits, drops: Drops) -> None:
        self._form = form
        self._traits = traits
        self._drops = drops

    def written(self) -> tuple[list[Body], list[Body]]:
        system: list[Body] = []
        messages: list[Body] = []
        for message in self._form.messages:
            role = "system" if message.role == "developer" else message.role
            blocks = self._blocks(message)
            if not blocks:
                continue
            if role == "system" and not messages:
                system += blocks
            elif messages and messages[-1]["role"] == role and role != "system":
                messages[-1]["content"] += blocks
            else:
                messages.append({"role": role, "content": blocks})
        return system, messages

    def _blocks(self, message: Message) -> list[Body]:
        return [block for part in message.parts if (block := self._block(part)) is not None]

    def _block(self, part: Part) -> Body | None:
        match part:
            case Text() | Refusal():
                # Empty texts are refused.
                cache = part.cache if isinstance(part, Text) else None
                return self._mark({"type": "text", "text": part.text}, cache) if part.text else None
            case Media():
                return self._mark(_media(part), part.cache)
            case Thinking():
                return self._thought(part)
            case ToolCall():
                block = {
                    "type": "tool_use",
                    "id": signatures.safe_id(part.id),
                    "name": part.name,
                    "input": arguments_of(part),
                }
                return self._mark(block, part.cache)
            case _:
                return self._result(part)

    def _thought(self, part: Thinking) -> Body | None:
        if part.signature is None or part.signature.origin is not Dialect.ANTHROPIC:
            self._drops.add(field_name(self._form.source, "thinking"))
            return None
        if part.signature.redacted:
            return {"type": "redacted_thinking", "data": part.signature.value}
        return {"type": "thinking", "thinking": part.text, "signature": part.signature.value}

    def _result(self, part: ToolResult) -> Body:
        block: Body = {"type": "tool_result", "tool_use_id": signatures.safe_id(part.call_id)}
        held = [entry for inner in part.parts if (entry := self._block(inner)) is not None]
        plain = len(held) == 1 and set(held[0]) == {"type", "text"}
        if held:
            block["content"] = held[0]["text"] if plain else held
        if part.is_error:
            block["is_error"] = True
        return self._mark(block, part.cache)

    def _mark(self, block: Body, cache: CacheMark | None) -> Body:
        return _marked(block, cache, self._traits, self._drops)


def arguments_of(call: ToolCall) -> Any:
    """The arguments as an object; text that is none (models do err) is kept where the model can see it."""
    if not call.arguments.strip():
        return {}
    try:
        value = loads(call.arguments.encode("utf-8", "surrogatepass"))
    except ValueError:
        return {"arguments": call.arguments}
    return value if isinstance(value, dict) else {"arguments": value}


def _media(media: Media) -> Body:
    if media.kind not in ("image", "document"):
        raise Untranslatable(media.at or "messages", f"is {media.kind}, which Messages cannot carry")
    source: Body = {"type": "url", "url": media.url}
    if media.url is None:
        source = {"type": "base64", "media_type": media.media_type or "application/octet-stream", "data": media.data}
    body: Body = {"type": media.kind, "source": source}
    if media.kind == "document" and media.name:
        body["title"] = media.name
    return body
