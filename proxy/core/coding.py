"""Decode a request's body: gzip, deflate, br and zstd, bounded by what may come out."""

import zlib
from collections.abc import Callable, Sequence
from typing import Final

import brotli

try:
    from compression import zstd  # type: ignore[import-not-found, unused-ignore]  # Python 3.14
except ImportError:
    from backports import zstd

_CODINGS_MAX: Final = 2
_STEP: Final = 1 << 20


class UndecodableError(ValueError):
    """The body is not what its content-encoding says, or the coding is not known."""


class TooLargeError(ValueError):
    """More comes out than is allowed."""


def codings_of(header: str) -> Sequence[str]:
    """Return the codings in the order in which they were applied; `identity` is none."""
    names = (name.strip().lower() for name in header.split(","))
    return [name.removeprefix("x-") for name in names if name and name != "identity"]


def decoded(body: bytes, codings: Sequence[str], limit: int) -> bytes:
    """Return the plain body. Raises UndecodableError, TooLargeError."""
    if len(codings) > _CODINGS_MAX:
        raise UndecodableError("content-encoding names too many codings")
    for name in reversed(codings):
        decode = _DECODERS.get(name)
        if decode is None:
            raise UndecodableError(f"content-encoding {name[:40]!r} is not known; gzip, deflate, br and zstd are")
        try:
            body = decode(body, limit)
        except (zlib.error, brotli.error, zstd.ZstdError, EOFError) as problem:
            raise UndecodableError(f"the body is not {name}: {str(problem)[:200]}") from problem
    return body


def _inflate(body: bytes, limit: int) -> bytes:
    """gzip (several members too) or deflate, with and without zlib's head."""
    is_gzip = body.startswith(b"\x1f\x8b")
    parts, size = [], 0
    while body:
        engine = zlib.decompressobj(wbits=31 if is_gzip else 15 if _has_zlib_head(body) else -15)
        part = engine.decompress(body, limit + 1 - size)
        parts.append(part)
        size += len(part)
        if size > limit:
            raise TooLargeError
        if not engine.eof:
            raise EOFError("it ends too early")
        body = engine.unused_data if is_gzip else b""
    return b"".join(parts)


def _has_zlib_head(body: bytes) -> bool:
    return body[0] & 0x0F == 8 and int.from_bytes(body[:2], "big") % 31 == 0  # noqa: PLR2004  # RFC 1950, 2.2


def _unbrotli(body: bytes, limit: int) -> bytes:
    engine = brotli.Decompressor()
    parts = [engine.process(body, output_buffer_limit=_STEP)]
    size = len(parts[0])
    while not engine.is_finished():
        part = engine.process(b"", output_buffer_limit=_STEP)
        if not part:
            raise EOFError("it ends too early")
        parts.append(part)
        size += len(part)
        if size > limit:
            raise TooLargeError
    if size > limit:
        raise TooLargeError
    return b"".join(parts)


def _unzstd(body: bytes, limit: int) -> bytes:
    parts, size = [], 0
    while body:
        engine = zstd.ZstdDecompressor()
        part = engine.decompress(body, limit + 1 - size)
        parts.append(part)
        size += len(part)
        if size > limit:
            raise TooLargeError
        if not engine.eof:
            raise EOFError("it ends too early")
        body = engine.unused_data
    return b"".join(parts)


_DECODERS: Final[dict[str, Callable[[bytes, int], bytes]]] = {
    "gzip": _inflate,
    "deflate": _inflate,
    "br": _unbrotli,
    "zstd": _unzstd,
}
