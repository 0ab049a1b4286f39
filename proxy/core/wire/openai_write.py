"""A form as a chat completions request."""

from dataclasses import replace
from typing import Any

from proxy.core.wire import checks, signatures
from proxy.core.wire.form import (
    Body,
    CacheMark,
    Drops,
    Media,
    Message,
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
from proxy.core.wire.traits import Traits

_AUDIO_FORMATS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mp3": "mp3", "audio/mpeg": "mp3"}
_EFFORTS = ((16_384, "high"), (4096, "medium"), (1, "low"))


def write(form: Request, model: str, traits: Traits, drops: Drops) -> Body:
    """Write a request. Raises Untranslatable."""
    body: Body = {"model": model, "messages": _Messages(form, traits, drops).written()}
    _write_tools(body, form, traits, drops)
    if form.max_tokens is not None:
        body["max_completion_tokens" if traits.completion_tokens else "max_tokens"] = form.max_tokens
    if form.stop:
        body["stop"] = list(form.stop)
    write_sampling(body, form, traits, drops)
    if form.sampling.seed is not None:
        body["seed"] = form.sampling.seed
    if (effort := effort_of(form, traits, drops)) is not None:
        body["reasoning_effort"] = effort
    if form.format is not None:
        body["response_format"] = _format(form)
    for name, value in (("verbosity", form.verbosity), ("user", form.user), ("prompt_cache_key", form.cache_key)):
        if value is not None:
            body[name] = value
    if form.stream:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    return body


def write_sampling(body: Body, form: Request, traits: Traits, drops: Drops) -> None:
    """What OpenAI's two dialects share; reasoning models refuse all of it."""
    for name in ("temperature", "top_p", "frequency_penalty", "presence_penalty"):
        value = getattr(form.sampling, name)
        if value is not None and traits.sampling:
            body[name] = value
        elif value is not None:
            drops.add(field_name(form.source, name))
    if form.sampling.top_k is not None:
        drops.add(field_name(form.source, "top_k"))


def effort_of(form: Request, traits: Traits, drops: Drops) -> str | None:
    """The reasoning effort: as asked, or as near to a token budget as the word allows."""
    wanted = form.reasoning
    if wanted is None:
        return None
    if not traits.reasoning:
        if not wanted.off:
            drops.add(field_name(form.source, "reasoning"))
        return None
    if wanted.effort is None and wanted.budget is not None:
        return next((word for least, word in _EFFORTS if wanted.budget >= least), "medium")
    return {"max": "xhigh"}.get(wanted.effort or "", wanted.effort)


def _format(form: Request) -> Body:
    wanted = form.format
    if wanted is None or wanted.schema is None:
        return {"type": "json_object"}
    schema: Body = {"name": wanted.name, "schema": wanted.schema}
    if wanted.strict is not None:
        schema["strict"] = wanted.strict
    return {"type": "json_schema", "json_schema": schema}


def _write_tools(body: Body, form: Request, traits: Traits, drops: Drops) -> None:
    if not form.tools:
        return
    body["tools"] = [_marked(_tool(tool), tool.cache, traits, drops) for tool in form.tools]
    if form.parallel is not None:
        body["parallel_tool_calls"] = form.parallel
    choice = form.tool_choice
    if choice is None:
        return
    if len(choice.names) == 1 and choice.mode == "any":
        kind = "custom" if choice.names[0] in form.custom_tools else "function"
        body["tool_choice"] = {"type": kind, kind: {"name": choice.names[0]}}
    elif choice.names:
        # Only the allowed tools are shown: `allowed_tools` is known to few relays.
        body["tools"] = [tool for tool in body["tools"] if tool[tool["type"]]["name"] in choice.names]
        body["tool_choice"] = "required" if choice.mode == "any" else "auto"
    else:
        body["tool_choice"] = "required" if choice.mode == "any" else choice.mode


def _tool(tool: Tool) -> Body:
    if tool.custom:
        return {"type": "custom", "custom": _described({"name": tool.name}, tool)}
    function = _described({"name": tool.name}, tool)
    function["parameters"] = tool.schema or {"type": "object", "properties": {}}
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def _described(body: Body, tool: Tool) -> Body:
    return body | ({"description": tool.description} if tool.description else {})


def _marked(body: Body, cache: CacheMark | None, traits: Traits, drops: Drops) -> Body:
    if cache is None:
        return body
    if not traits.cache_markers:
        drops.add("cache_control")
        return body
    return body | {"cache_control": {"type": "ephemeral"} | ({"ttl": cache.ttl} if cache.ttl else {})}


class _Messages:
    """Writes the conversation, message by message."""

    def __init__(self, form: Request, traits: Traits, drops: Drops) -> None:
        self._form = form
        self._traits = traits
        self._drops = drops
        self._found: list[Body] = []

    def written(self) -> list[Body]:
        for message in self._form.messages:
            if message.role == "assistant":
                self._assistant(message)
            elif message.role == "user":
                self._user(message)
            else:
                texts = [part for part in message.parts if isinstance(part, Text)]
                if texts:
                    self._found.append({"role": self._system_role(message.role), "content": self._plain(texts, "\n\n")})
        return self._found

    def _system_role(self, role: str) -> str:
        # Few relays know `developer`, all know `system`.
        return "developer" if role == "developer" and self._traits.completion_tokens else "system"

    def _user(self, message: Message) -> None:
        """Tool results come first: nothing may stand between them and the calls they answer."""
        pictures: list[Body] = []
        for result in (part for part in message.parts if isinstance(part, ToolResult)):
            self._found.append(self._result(result))
            pictures += self._pictures(result)
        rest = [part for part in message.parts if isinstance(part, Text | Media)]
        content = [*pictures, *(self._part(part) for part in rest)]
        if not content:
            return
        only = rest[0] if len(content) == 1 and rest else None
        plain = isinstance(only, Text) and "cache_control" not in content[0]
        self._found.append({"role": "user", "content": content[0]["text"] if plain else content})

    def _result(self, result: ToolResult) -> Body:
        if result.is_error:
            self._drops.add(field_name(self._form.source, "is_error"))
        texts = [part for part in result.parts if isinstance(part, Text)]
        if result.cache is not None and texts:
            texts[-1] = replace(texts[-1], cache=result.cache)
        return {
            "role": "tool",
            "tool_call_id": signatures.safe_id(result.call_id),
            "content": self._plain(texts, "\n") if texts else "",
        }

    def _pictures(self, result: ToolResult) -> list[Body]:
        """A tool message holds text only: what it shows follows as the user's, with a word on where it belongs."""
        media = [self._part(part) for part in result.parts if isinstance(part, Media)]
        if not media:
            return []
        return [{"type": "text", "text": f"Attached to the result of tool call {result.call_id}:"}, *media]

    def _assistant(self, message: Message) -> None:
        turn: Body = {"role": "assistant"}
        texts = [part for part in message.parts if isinstance(part, Text)]
        calls = [part for part in message.parts if isinstance(part, ToolCall)]
        refusals = [part.text for part in message.parts if isinstance(part, Refusal)]
        turn["content"] = self._plain(texts, "") if texts else None
        self._write_thinking(turn, message)
        if refusals:
            turn["refusal"] = "".join(refusals)
        if calls:
            turn["tool_calls"] = [self._call(call) for call in calls]
        if any(isinstance(part, Media) for part in message.parts):
            raise Untranslatable("messages", "holds media in an assistant's turn, which chat completions cannot")
        if len(turn) > 2 or turn["content"] is not None:  # noqa: PLR2004  (role and content)
            self._found.append(turn)

    def _write_thinking(self, turn: Body, message: Message) -> None:
        thoughts = [part for part in message.parts if isinstance(part, Thinking)]
        plain = "".join(part.text for part in thoughts)
        if plain and self._traits.thinking_history:
            turn["reasoning_content"] = plain
        elif thoughts:
            self._drops.add(field_name(self._form.source, "thinking"))

    def _call(self, call: ToolCall) -> Body:
        call_id = signatures.safe_id(call.id)
        if call.custom:
            return {"id": call_id, "type": "custom", "custom": {"name": call.name, "input": call.arguments}}
        function = {"name": call.name, "arguments": call.arguments or "{}"}
        return _marked({"id": call_id, "type": "function", "function": function}, call.cache, self._traits, self._drops)

    def _plain(self, texts: list[Text], joint: str) -> Any:
        """One text where nothing is lost by it; many hosts take no list outside the user's turns."""
        if any(text.cache for text in texts) and self._traits.cache_markers:
            return [self._part(text) for text in texts]
        if any(text.cache for text in texts):
            self._drops.add("cache_control")
        return joint.join(text.text for text in texts)

    def _part(self, part: Text | Media) -> Body:
        if isinstance(part, Text):
            return _marked({"type": "text", "text": part.text}, part.cache, self._traits, self._drops)
        return _marked(_media(part), part.cache, self._traits, self._drops)


def _media(media: Media) -> Body:
    match media.kind:
        case "image":
            image: Body = {"url": checks.data_url(media)}
            return {"type": "image_url", "image_url": image | ({"detail": media.detail} if media.detail else {})}
        case "audio" if media.data is not None and media.media_type in _AUDIO_FORMATS:
            return {
                "type": "input_audio",
                "input_audio": {"data": media.data, "format": _AUDIO_FORMATS[media.media_type]},
            }
        case "document" if media.data is not None:
            name = media.name or ("document.pdf" if media.media_type == "application/pdf" else "document")
            return {"type": "file", "file": {"filename": name, "file_data": checks.data_url(media)}}
        case _:
            raise Untranslatable(
                media.at or "messages", "holds media that chat completions cannot carry; send its data"
            )
