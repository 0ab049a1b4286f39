"""A form as a Responses request."""

from typing import Any

from keys.core.dialect import Dialect
from proxy.core.wire import checks, signatures
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
from proxy.core.wire.openai_write import effort_of, write_sampling
from proxy.core.wire.traits import Traits


def write(form: Request, model: str, traits: Traits, drops: Drops) -> Body:
    """Write a request. Nothing of it is stored at the provider. Raises Untranslatable."""
    body: Body = {"model": model, "input": _Items(form, traits, drops).written(), "store": False}
    _write_tools(body, form, traits, drops)
    if form.max_tokens is not None:
        body["max_output_tokens"] = form.max_tokens
    write_sampling(body, form, traits, drops)
    for concept in ("frequency_penalty", "presence_penalty"):
        if body.pop(concept, None) is not None:
            drops.add(field_name(form.source, concept))
    if form.sampling.seed is not None:
        drops.add(field_name(form.source, "seed"))
    if form.stop:
        drops.add(field_name(form.source, "stop"))
    _write_reasoning(body, form, traits, drops)
    _write_text(body, form)
    for name, value in (("user", form.user), ("prompt_cache_key", form.cache_key)):
        if value is not None:
            body[name] = value
    if form.stream:
        body["stream"] = True
    return body


def _write_reasoning(body: Body, form: Request, traits: Traits, drops: Drops) -> None:
    effort = effort_of(form, traits, drops)
    if effort is None and (form.reasoning is None or not traits.reasoning):
        return
    reasoning: Body = {"effort": effort} if effort is not None else {}
    if form.reasoning is not None and form.reasoning.visible:
        reasoning["summary"] = "auto"
    if reasoning:
        body["reasoning"] = reasoning
    if effort not in (None, "none"):
        # Without it the next turn could not give the thoughts back.
        body["include"] = ["reasoning.encrypted_content"]


def _write_text(body: Body, form: Request) -> None:
    text: Body = {}
    if form.format is not None and form.format.schema is not None:
        text["format"] = {"type": "json_schema", "name": form.format.name, "schema": form.format.schema}
        if form.format.strict is not None:
            text["format"]["strict"] = form.format.strict
    elif form.format is not None:
        text["format"] = {"type": "json_object"}
    if form.verbosity is not None:
        text["verbosity"] = form.verbosity
    if text:
        body["text"] = text


def _write_tools(body: Body, form: Request, traits: Traits, drops: Drops) -> None:
    if not form.tools:
        return
    body["tools"] = [_marked(_tool(tool), tool.cache, traits, drops) for tool in form.tools]
    if form.parallel is not None:
        body["parallel_tool_calls"] = form.parallel
    choice = form.tool_choice
    if choice is None:
        return
    kinds = {tool["name"]: tool["type"] for tool in body["tools"]}
    mode = "required" if choice.mode == "any" else choice.mode
    named = [{"type": kinds.get(name, "function"), "name": name} for name in choice.names]
    if len(named) == 1 and mode == "required":
        body["tool_choice"] = named[0]
    elif named:
        body["tool_choice"] = {"type": "allowed_tools", "mode": mode, "tools": named}
    else:
        body["tool_choice"] = mode


def _tool(tool: Tool) -> Body:
    described = {"description": tool.description} if tool.description else {}
    if tool.custom:
        return {"type": "custom", "name": tool.name, **described}
    schema = tool.schema or {"type": "object", "properties": {}}
    # Left out, `strict` would default to true here, unlike anywhere else.
    return {"type": "function", "name": tool.name, **described, "parameters": schema, "strict": tool.strict or False}


def _marked(body: Body, cache: CacheMark | None, traits: Traits, drops: Drops) -> Body:
    if cache is None:
        return body
    if not traits.cache_markers:
        drops.add("cache_control")
        return body
    return body | {"cache_control": {"type": "ephemeral"} | ({"ttl": cache.ttl} if cache.ttl else {})}


class _Items:
    """Writes the conversation as items."""

    def __init__(self, form: Request, traits: Traits, drops: Drops) -> None:
        self._form = form
        self._traits = traits
        self._drops = drops
        self._found: list[Body] = []

    def written(self) -> list[Body]:
        for message in self._form.messages:
            if message.role == "assistant":
                self._assistant(message)
            else:
                self._other(message)
        return self._found

    def _other(self, message: Message) -> None:
        for result in (part for part in message.parts if isinstance(part, ToolResult)):
            self._found.append(self._result(result))
        rest = [part for part in message.parts if isinstance(part, Text | Media)]
        if rest:
            only = rest[0]
            plain = len(rest) == 1 and isinstance(only, Text) and only.cache is None
            content: Any = only.text if plain and isinstance(only, Text) else [self._part(part) for part in rest]
            self._found.append({"type": "message", "role": message.role, "content": content})

    def _result(self, result: ToolResult) -> Body:
        if result.is_error:
            self._drops.add(field_name(self._form.source, "is_error"))
        only = result.parts[0] if len(result.parts) == 1 else None
        output: Any = [self._part(part) for part in result.parts]
        if not result.parts:
            output = ""
        elif isinstance(only, Text) and only.cache is None:
            output = only.text
        kind = "custom_tool_call_output" if result.custom else "function_call_output"
        item = {"type": kind, "call_id": signatures.safe_id(result.call_id), "output": output}
        return _marked(item, result.cache, self._traits, self._drops)

    def _assistant(self, message: Message) -> None:
        """Parts keep their order; texts in a row are one message."""
        texts: list[Body] = []
        for part in message.parts:
            if isinstance(part, Text):
                texts.append({"type": "output_text", "text": part.text, "annotations": []})
                if part.cache is not None:
                    self._drops.add("cache_control")
                continue
            if isinstance(part, Refusal):
                texts.append({"type": "refusal", "refusal": part.text})
                continue
            self._say(texts)
            texts = []
            self._step(part)
        self._say(texts)

    def _say(self, content: list[Body]) -> None:
        if not content:
            return
        plain = len(content) == 1 and "text" in content[0]
        said: Any = content[0]["text"] if plain else content
        self._found.append({"type": "message", "role": "assistant", "content": said})

    def _step(self, part: Part) -> None:
        match part:
            case ToolCall():
                kind = "custom_tool_call" if part.custom else "function_call"
                said = {"input": part.arguments} if part.custom else {"arguments": part.arguments or "{}"}
                item = {"type": kind, "call_id": signatures.safe_id(part.id), "name": part.name, **said}
                self._found.append(_marked(item, part.cache, self._traits, self._drops))
            case Thinking():
                self._think(part)
            case _:
                raise Untranslatable("messages", "holds media in an assistant's turn, which Responses cannot")

    def _think(self, part: Thinking) -> None:
        if part.signature is None or part.signature.origin is not Dialect.RESPONSES:
            self._drops.add(field_name(self._form.source, "thinking"))
            return
        summary = [{"type": "summary_text", "text": part.text}] if part.text else []
        self._found.append({"type": "reasoning", "summary": summary, "encrypted_content": part.signature.value})

    def _part(self, part: Text | Media) -> Body:
        body = {"type": "input_text", "text": part.text} if isinstance(part, Text) else _media(part)
        return _marked(body, part.cache, self._traits, self._drops)


def _media(media: Media) -> Body:
    match media.kind:
        case "image":
            return {"type": "input_image", "image_url": checks.data_url(media), "detail": media.detail or "auto"}
        case "document" if media.url is not None:
            return {"type": "input_file", "file_url": media.url}
        case "document":
            name = media.name or ("document.pdf" if media.media_type == "application/pdf" else "document")
            return {"type": "input_file", "filename": name, "file_data": checks.data_url(media)}
        case _:
            raise Untranslatable(media.at or "messages", "holds media that Responses cannot carry")
