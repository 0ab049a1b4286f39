"""google-genai: generateContent."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import httpx
from google import genai
from google.genai import types

from tests.factories import World
from tests.gateway import Door
from tests.proxy.dialects.speaking import MODEL, SCHEMA, Called, Counted, Ears, Heard, Question, Speaker, joined


@contextmanager
def client_of(door: Door, world: World, ears: Ears, version: str = "v1beta") -> Iterator[genai.Client]:
    with httpx.Client(**ears.options) as http:
        options = types.HttpOptions(base_url=door.url, api_version=version, httpx_client=http)
        yield genai.Client(api_key=world.secret, http_options=options)


class Gemini(Speaker):
    name = "google gemini"

    def ask(self, door: Door, world: World, question: Question, *, stream: bool = False, **more: Any) -> Heard:
        config: dict[str, Any] = dict(more)
        if question.system:
            config["system_instruction"] = question.system
        if question.tools:
            declared = [{"name": name, "parameters_json_schema": SCHEMA} for name in question.tools]
            config["tools"] = [{"function_declarations": declared}]
            config["automatic_function_calling"] = {"disable": True}
        asked: dict[str, Any] = {"model": MODEL, "contents": self.contents(question), "config": config}
        ears = Ears()
        with client_of(door, world, ears) as client:
            if stream:
                return self.heard(list(client.models.generate_content_stream(**asked)), ears.heard)
            return self.heard([client.models.generate_content(**asked)], ears.heard)

    def contents(self, question: Question) -> list[types.Content]:
        parts = [types.Part(text=question.text)]
        if question.image:
            parts.append(types.Part.from_bytes(data=question.image, mime_type="image/png"))
        contents = [types.Content(role="user", parts=parts)]
        if question.answered is not None:
            results = [
                types.Part(function_response=types.FunctionResponse(id=call.id, name=call.name, response={"output": r}))
                for call, r in zip(question.answered.calls, question.results, strict=True)
            ]
            contents += [
                types.Content(role="model", parts=question.answered.native),
                types.Content(role="user", parts=results),
            ]
        return contents

    def heard(self, chunks: Sequence[Any], headers: Mapping[str, str]) -> Heard:
        candidates = [chunk.candidates[0] for chunk in chunks if chunk.candidates]
        parts = [part for one in candidates if one.content for part in one.content.parts or []]
        stops = [one.finish_reason.value for one in candidates if one.finish_reason]
        assert len(stops) <= 1, stops
        usages = [chunk.usage_metadata for chunk in chunks if chunk.usage_metadata]
        usage = usages[-1] if usages else None
        counted = None
        if usage is not None and usage.prompt_token_count is not None:
            output = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
            assert usage.total_token_count == usage.prompt_token_count + output
            counted = Counted(usage.prompt_token_count, output, usage.cached_content_token_count or 0)
        (model,) = {chunk.model_version for chunk in chunks}
        return Heard(
            text=joined([part.text for part in parts if not part.thought]),
            thinking=joined([part.text for part in parts if part.thought]),
            calls=tuple(
                Called(part.function_call.id, part.function_call.name, part.function_call.args)
                for part in parts
                if part.function_call
            ),
            stop=stops[0] if stops else None,
            usage=counted,
            model=model,
            native=[part for part in parts if part.text != "" or part.thought_signature],
            headers=headers,
        )
