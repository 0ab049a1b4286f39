"""Reading a client's body member by member: the expected shape, or Untranslatable with the path."""

import re
from collections.abc import Mapping
from typing import Any, Final

from proxy.core.wire.form import Body, CacheMark, Citation, Drops, Media, Untranslatable
from proxy.core.wire.jsontext import dumps

_DATA_URL: Final = re.compile(r"data:([^;,]*)(?:;[^;,]+)*?;base64,", re.IGNORECASE)
_TYPES: Final = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "pdf": "application/pdf",
}
_KINDS: Final = ("image", "audio", "video")


def list_at(body: Mapping[str, Any], name: str, at: str = "") -> list[Any]:
    """A list, [] when absent or null."""
    return list_in(body.get(name), at or name)


def list_in(value: Any, at: str) -> list[Any]:
    """A list, [] for null."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise Untranslatable(at, "must be a list")
    return value


def object_in(value: Any, at: str) -> Body:
    """An object."""
    if not isinstance(value, dict):
        raise Untranslatable(at, "must be an object")
    return value


def object_at(body: Mapping[str, Any], name: str, at: str = "") -> Body:
    """An object, {} when absent or null."""
    value = body.get(name)
    return {} if value is None else object_in(value, at or name)


def text_at(body: Mapping[str, Any], name: str, at: str) -> str:
    """A text that must be there."""
    return text_in(body.get(name), at)


def text_in(value: Any, at: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise Untranslatable(at, "must be a text")
    return value


def word_at(body: Mapping[str, Any], name: str, at: str = "") -> str | None:
    """A text, None when absent or null."""
    return None if body.get(name) is None else text_at(body, name, at or name)


def number_at(body: Mapping[str, Any], name: str, at: str = "") -> Any:
    """A number, None when absent or null."""
    value = body.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise Untranslatable(at or name, "must be a number")
    return value


def stops(value: Any, at: str) -> tuple[str, ...]:
    """Stop sequences: a text or a list of them."""
    if value is None:
        return ()
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(text, str) for text in values):
        raise Untranslatable(at, "must be a text or a list of texts")
    return tuple(values)


def cache_mark(body: Mapping[str, Any]) -> CacheMark | None:
    """`cache_control` as Anthropic, OpenRouter and others write it, or OpenAI's `prompt_cache_breakpoint`."""
    mark = body.get("cache_control")
    if isinstance(mark, dict):
        ttl = mark.get("ttl")
        return CacheMark(ttl if ttl in ("5m", "1h") else None)
    mark = body.get("prompt_cache_breakpoint")
    return CacheMark("1h") if isinstance(mark, dict) else None


def media_of_url(url: str, kind: str, at: str, **more: Any) -> Media:
    """An image or file given as a data URL or an address."""
    found = _DATA_URL.match(url)
    if found is not None:
        return Media(kind, found[1] or None, url[found.end() :], at=at, **more)
    if url.startswith("data:"):
        raise Untranslatable(at, "must be base64 when it is a data URL")
    return Media(kind, type_of_name(url), url=url, at=at, **more)


def detail(image: Mapping[str, Any]) -> str | None:
    """How closely an image is looked at; None for the default, `auto`."""
    value = image.get("detail")
    return value if isinstance(value, str) and value != "auto" else None


def data_url(media: Media) -> str:
    """The media as a data URL, or its address."""
    if media.url is not None:
        return media.url
    return f"data:{media.media_type or 'application/octet-stream'};base64,{media.data or ''}"


def type_of_name(name: str) -> str | None:
    """The media type that a file name or address suggests."""
    suffix = name.partition("?")[0].rpartition(".")[2].lower()
    return _TYPES.get(suffix)


def kind_of_type(media_type: str | None) -> str:
    """image, audio, video or document."""
    head = (media_type or "").partition("/")[0]
    return head if head in _KINDS else "document"


def clean_schema(schema: Any, at: str, drops: Drops) -> Body | None:
    """A tool's schema without `$schema`, which some upstreams refuse."""
    if schema is None:
        return None
    body = object_in(schema, at)
    if "$schema" in body:
        drops.add("$schema")
        return {name: value for name, value in body.items() if name != "$schema"}
    return body


def json_text(value: Any) -> str:
    """A value as JSON text; a text stays as it is."""
    return value if isinstance(value, str) else dumps(value).decode()


def url_citation(mark: Mapping[str, Any]) -> Citation | None:
    """OpenAI's url_citation, flat or wrapped."""
    inner = mark.get("url_citation", mark)
    if not isinstance(inner, dict) or not isinstance(inner.get("url"), str):
        return None
    start, end = inner.get("start_index"), inner.get("end_index")
    return Citation(
        inner["url"],
        inner.get("title") or "",
        "",
        start if isinstance(start, int) else None,
        end if isinstance(end, int) else None,
    )
