"""A generateContent request as a form. Gemini takes camelCase and snake_case names alike, and so does this."""

import re
from collections.abc import Mapping
from typing import Any, Final

from keys.core.dialect import Dialect
from proxy.core.wire import checks, signatures
from proxy.core.wire.form import (
    Body,
    Drops,
    Format,
    Media,
    Message,
    Part,
    Reasoning,
    Request,
    Sampling,
    Signature,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Untranslatable,
)
from proxy.core.wire.schemas import from_gemini

_KNOWN: Final = frozenset(
    {"model", "contents", "systemInstruction", "generationConfig", "tools", "toolConfig", "cachedContent"}
)
_CONFIG: Final = frozenset(
    {
        "temperature",
        "topP",
        "topK",
        "seed",
        "frequencyPenalty",
        "presencePenalty",
        "maxOutputTokens",
        "stopSequences",
        "candidateCount",
        "thinkingConfig",
        "responseMimeType",
        "responseSchema",
        "responseJsonSchema",
        "responseModalities",
    }
)
_DECLARATION: Final = frozenset({"name", "description", "parameters", "parametersJsonSchema"})
_MODES: Final = {"AUTO": "auto", "ANY": "any", "NONE": "none", "VALIDATED": "auto"}
_UNDERSCORE: Final = re.compile(r"_([a-z])")
_ONE: Final = 1


def camel(body: Mapping[str, Any]) -> Body:
    """The same object with camelCase names. Only for objects whose names are Gemini's own."""
    if not any("_" in name for name in body):
        return dict(body)
    return {_UNDERSCORE.sub(lambda found: found[1].upper(), name): value for name, value in body.items()}


def read(body: Body) -> Request:
    """Read a request; its model and whether it streams stand in the path. Raises Untranslatable."""
    drops = Drops()
    body = camel(body)
    if body.get("cachedContent"):
        raise Untranslatable("cachedContent", "lives at the provider that made it; no other upstream can serve it")
    drops.extend(body, _KNOWN)
    config = camel(checks.object_at(body, "generationConfig"))
    drops.extend(config, _CONFIG, "generationConfig.")
    if config.get("candidateCount") not in (None, _ONE):
        raise Untranslatable("generationConfig.candidateCount", "must be 1 when an upstream of another dialect serves")
    if set(config.get("responseModalities") or ["TEXT"]) != {"TEXT"}:
        raise Untranslatable("generationConfig.responseModalities", "must be TEXT when another dialect serves")
    reader = _Contents(drops)
    return Request(
        source=Dialect.GEMINI,
        model=str(body.get("model") or ""),
        messages=(*reader.system(body.get("systemInstruction")), *reader.read(checks.list_at(body, "contents"))),
        tools=tuple(_tools(body.get("tools"), drops)),
        tool_choice=_choice(body),
        max_tokens=checks.number_at(config, "maxOutputTokens", "generationConfig.maxOutputTokens"),
        stop=checks.stops(config.get("stopSequences"), "generationConfig.stopSequences"),
        sampling=Sampling(
            *(
                checks.number_at(config, name, f"generationConfig.{name}")
                for name in ("temperature", "topP", "topK", "seed", "frequencyPenalty", "presencePenalty")
            )
        ),
        reasoning=_reasoning(camel(checks.object_at(config, "thinkingConfig"))),
        format=_format(config),
        dropped=drops.listed(),
    )


def _reasoning(config: Body) -> Reasoning | None:
    visible = True if config.get("includeThoughts") else None
    level, budget = config.get("thinkingLevel"), config.get("thinkingBudget")
    if isinstance(level, str):
        return Reasoning(level.lower(), None, visible)
    if budget == 0:
        return Reasoning("none")
    if isinstance(budget, int) and budget > 0:
        return Reasoning(None, budget, visible)
    return Reasoning("medium", None, visible) if visible or budget is not None else None


def _format(config: Body) -> Format | None:
    schema = config.get("responseJsonSchema") or from_gemini(config.get("responseSchema"))
    if schema:
        return Format(checks.object_in(schema, "generationConfig.responseSchema"))
    return Format() if config.get("responseMimeType") == "application/json" else None


def _choice(body: Body) -> ToolChoice | None:
    config = camel(checks.object_at(camel(checks.object_at(body, "toolConfig")), "functionCallingConfig"))
    mode = _MODES.get(str(config.get("mode") or ""))
    at = "toolConfig.functionCallingConfig.allowedFunctionNames"
    names = [checks.text_in(name, at) for name in checks.list_at(config, "allowedFunctionNames", at)]
    return ToolChoice(mode, tuple(names)) if mode else None


def _tools(value: Any, drops: Drops) -> list[Tool]:
    found = []
    for index, given in enumerate(_entries(value, "tools")):
        entry = camel(checks.object_in(given, f"tools[{index}]"))
        for name in entry:
            if name != "functionDeclarations":
                drops.add(f"tools.{name}")  # hosted tools
        declarations = checks.list_at(entry, "functionDeclarations", f"tools[{index}].functionDeclarations")
        for place, declared in enumerate(declarations):
            at = f"tools[{index}].functionDeclarations[{place}]"
            function = camel(checks.object_in(declared, at))
            drops.extend(function, _DECLARATION, "tools.functionDeclarations.")
            schema = function.get("parametersJsonSchema") or from_gemini(function.get("parameters"))
            clean = checks.clean_schema(schema, f"{at}.parameters", drops)
            found.append(Tool(checks.text_at(function, "name", f"{at}.name"), function.get("description") or "", clean))
    return found


def _entries(value: Any, at: str) -> list[Any]:
    """A list, or the one thing that stands in its place."""
    return [value] if isinstance(value, dict) else checks.list_in(value, at)


class _Contents:
    """Reads turns. Calls without an id get one here; results are matched to them by id, else by name and order."""

    def __init__(self, drops: Drops) -> None:
        self._drops = drops
        self._open: list[ToolCall] = []  # calls that have no result yet
        self._made = 0

    def system(self, value: Any) -> list[Message]:
        if value is None:
            return []
        if isinstance(value, str):
            return [Message("system", (Text(value),))]
        content = checks.object_in(value, "systemInstruction")
        parts = self._parts(content, "systemInstruction")
        return [Message("system", tuple(parts))] if parts else []

    def read(self, contents: list[Any]) -> list[Message]:
        found: list[Message] = []
        for index, entry in enumerate(contents):
            at = f"contents[{index}]"
            content = checks.object_in(entry, at)
            role = content.get("role") or "user"
            if role not in ("user", "model", "function"):
                raise Untranslatable(f"{at}.role", f"cannot be translated: {role!r}")
            parts = self._parts(content, at)
            parts.sort(key=lambda part: not isinstance(part, ToolResult))
            found.append(Message("assistant" if role == "model" else "user", tuple(parts)))
        return found

    def _parts(self, content: Body, at: str) -> list[Part]:
        found = []
        for index, entry in enumerate(_entries(content.get("parts"), f"{at}.parts")):
            where = f"{at}.parts[{index}]"
            part = self._part(camel(checks.object_in(entry, where)), where)
            if part is not None:
                found.append(part)
        return found

    def _part(self, part: Body, at: str) -> Part | None:
        mark = part.get("thoughtSignature")
        if signatures.is_placeholder(mark):
            self._drops.add("contents.thoughtSignature")
        signature = signatures.read(mark, Dialect.GEMINI)
        found: Part | None = None
        if "functionCall" in part:
            found = self._call(camel(checks.object_in(part["functionCall"], at)), at, signature)
        elif "functionResponse" in part:
            found = self._result(camel(checks.object_in(part["functionResponse"], at)), at)
        elif isinstance(part.get("text"), str):
            text = part["text"]
            if part.get("thought"):
                found = Thinking(text, signature)
            else:
                found = Text(text, signature=signature) if text else None
        elif "inlineData" in part or "fileData" in part:
            found = media(part, at)
        elif "executableCode" in part or "codeExecutionResult" in part:
            self._drops.add("contents.codeExecution")
        elif set(part) - {"thoughtSignature", "thought"}:
            raise Untranslatable(at, f"cannot be translated: {', '.join(sorted(part))}")
        return found

    def _call(self, call: Body, at: str, signature: Signature | None) -> ToolCall:
        name = checks.text_at(call, "name", f"{at}.functionCall.name")
        call_id = call.get("id")
        if not isinstance(call_id, str) or not call_id:
            call_id = signatures.own_id("history", self._made)
            self._made += 1
        found = ToolCall(call_id, name, checks.json_text(call.get("args") or {}), signature)
        self._open.append(found)
        return found

    def _result(self, result: Body, at: str) -> ToolResult:
        name = checks.text_at(result, "name", f"{at}.functionResponse.name")
        given = checks.word_at(result, "id", f"{at}.functionResponse.id")
        matching = [call for call in self._open if (call.id == given if given else call.name == name)]
        if matching:
            self._open.remove(matching[0])
        call_id = matching[0].id if matching else given or signatures.own_id("history", self._made)
        response = result.get("response")
        failed = isinstance(response, dict) and set(response) == {"error"}
        parts: list[Text | Media] = [Text(_said(response))]
        for index, inner in enumerate(checks.list_at(result, "parts", f"{at}.functionResponse.parts")):
            where = f"{at}.functionResponse.parts[{index}]"
            parts.append(media(camel(checks.object_in(inner, where)), where))
        return ToolResult(call_id, name, tuple(parts), failed)


def _said(response: Any) -> str:
    """What a function answered: the text under Gemini's own keys, or the whole object."""
    if isinstance(response, dict) and len(response) == _ONE:
        (key, value), *_ = response.items()
        if key in ("output", "result", "error") and isinstance(value, str):
            return value
    return checks.json_text(response or {})


def _standard(data: str) -> str:
    """Google's SDKs write the URL-safe alphabet of base64; other providers take the standard one alone."""
    plain = data.replace("-", "+").replace("_", "/")
    return plain + "=" * (-len(plain) % 4)


def media(part: Body, at: str) -> Media:
    """Inline data, or a file at a public address."""
    if "inlineData" in part:
        blob = camel(checks.object_in(part["inlineData"], f"{at}.inlineData"))
        media_type = checks.word_at(blob, "mimeType", f"{at}.inlineData.mimeType")
        data = _standard(checks.text_at(blob, "data", f"{at}.inlineData.data"))
        kind = checks.kind_of_type(media_type)
        return Media(kind, media_type, data, name=blob.get("displayName"), at=f"{at}.inlineData")
    if "fileData" not in part:
        raise Untranslatable(at, f"cannot be translated: {', '.join(sorted(part))}")
    file = camel(checks.object_in(part["fileData"], f"{at}.fileData"))
    uri = checks.text_at(file, "fileUri", f"{at}.fileData.fileUri")
    if not uri.startswith(("http://", "https://")) or "generativelanguage.googleapis.com" in uri:
        raise Untranslatable(f"{at}.fileData.fileUri", "names a file that lives at another provider; send its data")
    media_type = checks.word_at(file, "mimeType", f"{at}.fileData.mimeType") or checks.type_of_name(uri)
    return Media(checks.kind_of_type(media_type), media_type, url=uri, at=f"{at}.fileData")
