"""A form as a generateContent request."""

from typing import Any, Final

from keys.core.dialect import Dialect
from proxy.core.wire import signatures
from proxy.core.wire.form import (
    Body,
    Drops,
    Media,
    Message,
    Part,
    Refusal,
    Request,
    Signature,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    field_name,
)
from proxy.core.wire.jsontext import loads
from proxy.core.wire.traits import Traits

_BUDGETS: Final = {
    "none": 0,
    "minimal": 512,
    "low": 1024,
    "medium": 8192,
    "high": 24_576,
    "xhigh": 24_576,
    "max": 24_576,
}
_LEVELS: Final = {"none": "MINIMAL", "minimal": "MINIMAL", "low": "LOW", "medium": "MEDIUM"}
_SAMPLING: Final = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "seed": "seed",
    "frequency_penalty": "frequencyPenalty",
    "presence_penalty": "presencePenalty",
}


def write(form: Request, _model: str, traits: Traits, drops: Drops) -> Body:
    """Write a request; model and streaming stand in the path. Raises Untranslatable."""
    system, contents = _Contents(form, traits, drops).written()
    body: Body = {"contents": contents}
    if system:
        body["systemInstruction"] = {"parts": system}
    _write_tools(body, form, drops)
    config = _config(form, traits, drops)
    if config:
        body["generationConfig"] = config
    for concept in ("verbosity", "user", "cache_key"):
        if getattr(form, concept) is not None:
            drops.add(field_name(form.source, concept))
    return body


def _config(form: Request, traits: Traits, drops: Drops) -> Body:
    config: Body = {}
    if form.max_tokens is not None:
        config["maxOutputTokens"] = form.max_tokens
    if form.stop:
        config["stopSequences"] = list(form.stop)
    for concept, name in _SAMPLING.items():
        value = getattr(form.sampling, concept)
        if value is not None:
            config[name] = value
    if form.format is not None:
        config["responseMimeType"] = "application/json"
        if form.format.schema is not None:
            config["responseJsonSchema"] = form.format.schema
    if (thinking := _thinking(form, traits, drops)) is not None:
        config["thinkingConfig"] = thinking
    return config


def _thinking(form: Request, traits: Traits, drops: Drops) -> Body | None:
    wanted = form.reasoning
    if wanted is None:
        return None
    if not traits.reasoning:
        if not wanted.off:
            drops.add(field_name(form.source, "reasoning"))
        return None
    config: Body = {}
    if traits.adaptive and wanted.effort is not None:
        config["thinkingLevel"] = _LEVELS.get(wanted.effort, "HIGH")
    else:
        config["thinkingBudget"] = wanted.budget or _BUDGETS.get(wanted.effort or "medium", _BUDGETS["medium"])
    if wanted.visible or (wanted.visible is None and not wanted.off):
        config["includeThoughts"] = True
    return config


def _write_tools(body: Body, form: Request, drops: Drops) -> None:
    if not form.tools:
        return
    functions = []
    for tool in form.tools:
        function: Body = {"name": tool.name, "description": tool.description}
        if tool.schema is not None and tool.schema.get("properties", True):
            function["parametersJsonSchema"] = tool.schema
        functions.append(function)
        if tool.cache is not None:
            drops.add("cache_control")
        if tool.strict:
            drops.add("tools.strict")
    body["tools"] = [{"functionDeclarations": functions}]
    if form.parallel is False:
        drops.add(field_name(form.source, "parallel"))
    choice = form.tool_choice
    if choice is None:
        return
    config: Body = {"mode": choice.mode.upper()}
    if choice.names and choice.mode == "any":
        config["allowedFunctionNames"] = list(choice.names)
    elif choice.names:
        body["tools"] = [{"functionDeclarations": [tool for tool in functions if tool["name"] in choice.names]}]
    body["toolConfig"] = {"functionCallingConfig": config}


class _Contents:
    """Writes turns. System text behind the first turn stays in its place, as the user's."""

    def __init__(self, form: Request, traits: Traits, drops: Drops) -> None:
        self._form = form
        self._traits = traits
        self._drops = drops

    def written(self) -> tuple[list[Body], list[Body]]:
        system: list[Body] = []
        contents: list[Body] = []
        for message in self._form.messages:
            parts = self._parts(message)
            role = "model" if message.role == "assistant" else "user"
            if not parts:
                continue
            if message.role in ("system", "developer") and not contents:
                system += parts
            elif contents and contents[-1]["role"] == role:
                contents[-1]["parts"] += parts
            else:
                contents.append({"role": role, "parts": parts})
        return system, contents

    def _parts(self, message: Message) -> list[Body]:
        """Function responses stand together, right behind their calls; what they show follows them."""
        results = [part for part in message.parts if isinstance(part, ToolResult)]
        found = [self._result(result) for result in results]
        for result in results:
            found += [write_media(part) for part in result.parts if isinstance(part, Media)]
        for part in message.parts:
            if not isinstance(part, ToolResult) and (body := self._part(part)) is not None:
                found.append(body)
        if self._traits.signed_calls:
            _sign_first(found)
        return found

    def _part(self, part: Part) -> Body | None:
        if getattr(part, "cache", None) is not None:
            self._drops.add("cache_control")
        match part:
            case Text():
                return self._signed({"text": part.text}, part.signature) if part.text else None
            case Refusal():
                return {"text": part.text} if part.text else None
            case Media():
                return write_media(part)
            case Thinking():
                return self._thought(part)
            case ToolCall():
                call: Body = {"name": part.name, "args": arguments_of(part)}
                if not part.id.startswith(signatures.OWN_ID):
                    call["id"] = part.id
                return self._signed({"functionCall": call}, part.signature)
            case _:
                return None  # written together, in front

    def _signed(self, body: Body, signature: Signature | None) -> Body:
        if signature is None or signature.origin is not Dialect.GEMINI:
            return body
        return body | {"thoughtSignature": signature.value}

    def _thought(self, part: Thinking) -> Body | None:
        if part.signature is None or part.signature.origin is not Dialect.GEMINI:
            self._drops.add(field_name(self._form.source, "thinking"))
            return None
        return {"text": part.text, "thought": True, "thoughtSignature": part.signature.value}

    def _result(self, result: ToolResult) -> Body:
        if result.cache is not None or any(part.cache for part in result.parts):
            self._drops.add("cache_control")
        text = "\n".join(part.text for part in result.parts if isinstance(part, Text))
        response: Body = {"name": result.name, "response": _response(text, result.is_error)}
        if not result.call_id.startswith(signatures.OWN_ID):
            response["id"] = result.call_id
        return {"functionResponse": response}


def _sign_first(parts: list[Body]) -> None:
    """The first call of a step must be signed; for one made elsewhere Google documents this text."""
    first = next((part for part in parts if "functionCall" in part), None)
    if first is not None:
        first.setdefault("thoughtSignature", signatures.PLACEHOLDER)


def _response(text: str, is_error: bool) -> Body:
    if is_error:
        return {"error": text}
    value = _object(text)
    return value if value else {"output": text}


def arguments_of(call: ToolCall) -> Body:
    """The arguments as an object; text that is none is kept where the model can see it."""
    value = _object(call.arguments)
    return value if value is not None else {"arguments": call.arguments}


def _object(text: str) -> Body | None:
    if not text.strip():
        return {}
    try:
        value: Any = loads(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def write_media(media: Media) -> Body:
    """Inline data, or a file at an address."""
    if media.url is not None:
        file = {"fileUri": media.url} | ({"mimeType": media.media_type} if media.media_type else {})
        return {"fileData": file}
    return {"inlineData": {"mimeType": media.media_type or "application/octet-stream", "data": media.data or ""}}
