"""Texts handed out as files while they are made, in constant memory."""

from collections.abc import AsyncIterator, Iterable, Iterator

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse

PIECE = 64 * 1024  # characters


def csv_file(request: HttpRequest, parts: Iterable[str], name: str) -> StreamingHttpResponse:
    """Stream a CSV. Under ASGI a plain iterator would be read whole first, so there it is walked from a thread."""
    pieces = _gathered(parts)
    body = _walked(pieces) if isinstance(request, ASGIRequest) else pieces
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Accel-Buffering": "no"}
    return StreamingHttpResponse(body, content_type="text/csv; charset=utf-8", headers=headers)


def _gathered(parts: Iterable[str]) -> Iterator[bytes]:
    held: list[str] = []
    size = 0
    for part in parts:
        held.append(part)
        size += len(part)
        if size >= PIECE:
            yield "".join(held).encode()
            held, size = [], 0
    if held:
        yield "".join(held).encode()


async def _walked(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    following = sync_to_async(lambda: next(pieces, None))
    while (piece := await following()) is not None:
        yield piece
