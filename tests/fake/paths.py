"""Which operation a request's path names, and what of its body an answer depends on."""

import re
from enum import StrEnum
from typing import Any
from urllib.parse import parse_qs, unquote

import orjson

from tests.fake.content import Ask


class Kind(StrEnum):
    CHAT = "chat"
    COMPLETION = "completion"
    RESPONSES = "responses"
    RESPONSE_ITEM = "response_item"
    RESPONSE_INPUT = "response_input"
    RESPONSE_TOKENS = "response_tokens"
    MESSAGES = "messages"
    MESSAGES_TOKENS = "messages_tokens"
    GEMINI = "gemini"
    GEMINI_TOKENS = "gemini_tokens"
    GEMINI_EMBED = "gemini_embed"
    GEMINI_EMBED_MANY = "gemini_embed_many"
    EMBEDDINGS = "embeddings"
    IMAGES = "images"
    TRANSCRIPTION = "transcription"
    SPEECH = "speech"
    MODERATION = "moderation"
    RERANK = "rerank"
    MODELS = "models"
    MODEL = "model"
    OTHER = "other"


# First match wins. Group "item" is an id, group "model" the model's name.
PATHS: tuple[tuple[re.Pattern[str], Kind], ...] = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"/models/(?P<model>.+):(?:streamGenerate|generate)Content$", Kind.GEMINI),
        (r"/models/(?P<model>.+):countTokens$", Kind.GEMINI_TOKENS),
        (r"/models/(?P<model>.+):embedContent$", Kind.GEMINI_EMBED),
        (r"/models/(?P<model>.+):batchEmbedContents$", Kind.GEMINI_EMBED_MANY),
        (r"/chat/completions$", Kind.CHAT),
        (r"/completions$", Kind.COMPLETION),
        (r"/responses/input_tokens$", Kind.RESPONSE_TOKENS),
        (r"/responses/compact$", Kind.RESPONSES),
        (r"/responses$", Kind.RESPONSES),
        (r"/responses/(?P<item>[^/]+)/input_items$", Kind.RESPONSE_INPUT),
        (r"/responses/(?P<item>[^/]+)(?:/cancel)?$", Kind.RESPONSE_ITEM),
        (r"/messages/count_tokens$", Kind.MESSAGES_TOKENS),
        (r"/messages$", Kind.MESSAGES),
        (r"/embeddings$", Kind.EMBEDDINGS),
        (r"/images/(?:generations|edits|variations)$", Kind.IMAGES),
        (r"/audio/transcriptions$", Kind.TRANSCRIPTION),
        (r"/audio/speech$", Kind.SPEECH),
        (r"/moderations$", Kind.MODERATION),
        (r"/rerank$", Kind.RERANK),
        (r"/models$", Kind.MODELS),
        (r"/models/(?P<item>.+)$", Kind.MODEL),
    )
)


def ask_of(*, path: str, query: str, body: bytes, number: int) -> Ask:
    """Read a request. A body that is no JSON object is as good as an empty one."""
    kind, named = Kind.OTHER, {}
    for pattern, found in PATHS:
        if match := pattern.search(path):
            kind, named = found, match.groupdict()
            break
    payload = parsed(body)
    fields = payload if isinstance(payload, dict) else {}
    options = fields.get("stream_options")
    gemini = kind is Kind.GEMINI
    return Ask(
        kind=kind,
        number=number,
        model=unquote(named.get("model") or str(fields.get("model") or "fake-model")),
        stream=path.endswith(":streamGenerateContent") if gemini else fields.get("stream") is True,
        include_usage=isinstance(options, dict) and options.get("include_usage") is True,
        body=payload,
        sse=not gemini or parse_qs(query).get("alt") == ["sse"],
        item=unquote(named.get("item") or ""),
    )


def parsed(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
