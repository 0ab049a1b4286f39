"""Everything but generation: model lists, token counts, embeddings, images, sound, moderation, ranking."""

from collections.abc import Callable, Mapping
from typing import Any

from tests.fake import gemini_wire, openai_wire, responses_wire
from tests.fake.content import Answer, Ask
from tests.fake.paths import Kind

SOUND = b"ID3\x04\x00fake-sound"
VECTOR = [0.25, -0.5, 0.125]


def plain(ask: Ask, answer: Answer, models: tuple[str, ...], headers: Mapping[str, str]) -> Any:
    """Return the JSON payload, or bytes for sound. Header names are lower-case."""
    if ask.kind in (Kind.MODELS, Kind.MODEL):
        return _models(ask, models, headers)
    return MAKERS.get(Kind(ask.kind), _other)(ask, answer)


def _models(ask: Ask, models: tuple[str, ...], headers: Mapping[str, str]) -> dict[str, Any]:
    if "anthropic-version" in headers:
        rows: list[dict[str, Any]] = [
            {"type": "model", "id": name, "display_name": name, "created_at": "2026-01-01T00:00:00Z"} for name in models
        ]
        whole = {"data": rows, "has_more": False, "first_id": models[0], "last_id": models[-1]} if models else {}
    elif "x-goog-api-key" in headers:
        rows = [_gemini_model(name) for name in models]
        whole = {"models": rows}
    else:
        rows = [{"id": name, "object": "model", "created": openai_wire.CREATED, "owned_by": "fake"} for name in models]
        whole = {"object": "list", "data": rows}
    if ask.kind == Kind.MODELS:
        return whole
    return next((row for row in rows if ask.item in (row.get("id"), row.get("displayName"))), rows[0] if rows else {})


def _gemini_model(name: str) -> dict[str, Any]:
    return {
        "name": f"models/{name}",
        "displayName": name,
        "inputTokenLimit": 1_048_576,
        "outputTokenLimit": 65_536,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
    }


def _asked_inputs(ask: Ask) -> int:
    body = ask.body if isinstance(ask.body, dict) else {}
    given = body.get("input", "")
    return len(given) if isinstance(given, list) else 1


def _input(answer: Answer) -> int:
    return answer.tokens.input if answer.tokens else 0


def _embeddings(ask: Ask, answer: Answer) -> Any:
    data = [{"object": "embedding", "index": index, "embedding": VECTOR} for index in range(_asked_inputs(ask))]
    count = {"prompt_tokens": _input(answer), "total_tokens": _input(answer)}
    return {"object": "list", "data": data, "model": answer.model or ask.model, "usage": count}


def _gemini_embed_many(ask: Ask, _answer: Answer) -> Any:
    asked = ask.body.get("requests", []) if isinstance(ask.body, dict) else []
    return {"embeddings": [{"values": VECTOR} for _ in asked]}


def _images(_ask: Ask, answer: Answer) -> Any:
    count = {"input_tokens": _input(answer), "output_tokens": 1056, "total_tokens": _input(answer) + 1056}
    return {"created": openai_wire.CREATED, "data": [{"b64_json": "iVBORw0KGgo="}], "usage": count}


def _moderation(ask: Ask, answer: Answer) -> Any:
    result = {"flagged": False, "categories": {}, "category_scores": {}, "category_applied_input_types": {}}
    return {"id": ask.identity(answer, "modr-"), "model": answer.model or ask.model, "results": [result]}


def _rerank(ask: Ask, answer: Answer) -> Any:
    asked = ask.body.get("documents", []) if isinstance(ask.body, dict) else []
    results = [{"index": index, "relevance_score": 1 / (1 + index)} for index in range(len(asked))]
    return {"id": ask.identity(answer, "rerank-"), "results": results, "usage": {"total_tokens": _input(answer)}}


def _response_item(ask: Ask, answer: Answer) -> Any:
    return responses_wire.whole(answer, ask)


def _other(ask: Ask, _answer: Answer) -> Any:
    return {"ok": True, "number": ask.number}


MAKERS: dict[Kind, Callable[[Ask, Answer], Any]] = {
    Kind.MESSAGES_TOKENS: lambda _ask, answer: {"input_tokens": _input(answer)},
    Kind.GEMINI_TOKENS: lambda _ask, answer: {"totalTokens": _input(answer)},
    Kind.RESPONSE_TOKENS: lambda _ask, answer: {"object": "response.input_tokens", "input_tokens": _input(answer)},
    Kind.RESPONSE_ITEM: _response_item,
    Kind.RESPONSE_INPUT: lambda _ask, _answer: {"object": "list", "data": [], "has_more": False},
    Kind.EMBEDDINGS: _embeddings,
    Kind.GEMINI_EMBED: lambda _ask, _answer: {"embedding": {"values": VECTOR}},
    Kind.GEMINI_EMBED_MANY: _gemini_embed_many,
    Kind.IMAGES: _images,
    Kind.TRANSCRIPTION: lambda _ask, _answer: {"text": "fake words"},
    Kind.SPEECH: lambda _ask, _answer: SOUND,
    Kind.MODERATION: _moderation,
    Kind.RERANK: _rerank,
    Kind.COMPLETION: lambda ask, answer: openai_wire.completion(answer, ask),
    Kind.CHAT: lambda ask, answer: openai_wire.whole(answer, ask),
    Kind.RESPONSES: _response_item,
    Kind.GEMINI: lambda ask, answer: gemini_wire.whole(answer, ask),
}
