"""ASGI for the gateway's own paths: request in, DRF view, response out, one watcher for a client that leaves.

Django's stock handler would add its request signals, a thread per response and its middleware to each call, several
times the cost of the decision itself.
"""

import asyncio
import io
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse
from django.http.response import HttpResponseBase

from proxy import background
from proxy.core.coding import TooLargeError, UndecodableError, codings_of, decoded
from proxy.core.endpoints import dialect_of
from proxy.core.errors import Code, Fault
from proxy.core.wire.faults import FaultContext, error_body
from proxy.receive import new_request_id
from proxy.responses import CutShortError, GatewayStream
from proxy.views import ProxyView

logger = logging.getLogger("proxy.entry")

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

BODY_MAX = 32 * 1024 * 1024
TOO_LARGE = Fault(Code.BODY_TOO_LARGE, "The body is larger than 32 MiB.")
_DRAIN_MAX = 4 * BODY_MAX  # of a body that is too large: read on so that the client hears the answer

_PREFIXES = ("/v1/", "/v1beta/")
_PLACES = frozenset({"/v1", "/v1beta"})

_view = ProxyView.as_view()


class ClientLeftError(Exception):
    """The client closed the connection before its request was read whole."""


def is_ours(path: str) -> bool:
    """Whether a path is the gateway's, not the admin's."""
    return path.startswith(_PREFIXES) or path in _PLACES


async def serve(scope: Any, receive: Receive, send: Send) -> None:
    """Answer one HTTP request of a gateway path."""
    try:
        body = await _body(scope, receive)
    except ClientLeftError:
        return
    plain = TOO_LARGE if body is None else await _plain(scope, body)
    if isinstance(plain, Fault):
        await _send_fault(scope, send, plain)
        return
    started = False

    async def tracked(message: Any) -> None:
        nonlocal started
        started = True
        await send(message)

    task = asyncio.current_task()
    watcher = background.spawn(_watch(receive, task), upkeep=True)
    try:
        response = await _answered(ASGIRequest(scope, io.BytesIO(plain)))
        await _send(response, tracked)
    except asyncio.CancelledError:
        if not watcher.done():
            raise  # the server stops
    except CutShortError:
        return  # without the response's end: the server closes the connection
    except Exception:
        logger.exception("a request failed inside the gateway")
        if not started:
            await _send_fault(scope, send, Fault(Code.INTERNAL, "The gateway made a mistake; it has been logged."))
        raise
    finally:
        watcher.cancel()


async def _answered(request: ASGIRequest) -> HttpResponseBase:
    answer: Any = _view(request)  # a coroutine: the view's dispatch is one
    response: HttpResponseBase = await answer
    return response


async def _watch(receive: Receive, task: "asyncio.Task[Any] | None") -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
    if task is not None:
        task.cancel()


async def _body(scope: Any, receive: Receive) -> bytes | None:
    """Read the body; None when it is larger than allowed. Raises ClientLeftError."""
    declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    too_large = declared.isdigit() and int(declared) > BODY_MAX
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeftError
        size += len(message.get("body", b""))
        if size > BODY_MAX:
            too_large = True
            parts.clear()
        if not too_large:
            parts.append(message.get("body", b""))
        if not message.get("more_body") or size > _DRAIN_MAX:
            break
    if too_large:
        return None
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _plain(scope: Any, body: bytes) -> bytes | Fault:
    """Undo the body's content-encoding, within the same bound."""
    told = b",".join(value for name, value in scope["headers"] if name == b"content-encoding").decode("latin-1")
    codings = codings_of(told)
    if not codings:
        return body
    try:
        return await asyncio.to_thread(decoded, body, codings, BODY_MAX)
    except TooLargeError:
        return TOO_LARGE
    except UndecodableError as problem:
        return Fault(Code.MALFORMED_BODY, f"The body cannot be decoded: {problem}.")


async def _send(response: HttpResponseBase, send: Send) -> None:
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in response.items()]
    try:
        await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
        if isinstance(response, GatewayStream):
            await _send_parts(response, send)
        elif isinstance(response, HttpResponse):
            await send({"type": "http.response.body", "body": response.content})
    finally:
        # Not Django's close(): its signal looks after database connections, of which there are none here.
        if isinstance(response, GatewayStream):
            response.hand_over()


async def _send_parts(response: GatewayStream, send: Send) -> None:
    async with aclosing(response.parts) as parts:
        async for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _send_fault(scope: Any, send: Send, fault: Fault) -> None:
    request_id = new_request_id()
    context = FaultContext(request_id=request_id)
    body = error_body(dialect_of(scope["path"]), fault.status, fault.code.value, fault.message, context=context)
    told = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        "x-request-id": request_id,
        "request-id": request_id,
        "x-pointsman-attempts": "0",
        "x-pointsman-session": "none",
        **fault.headers(),
    }
    headers = [(name.encode(), value.encode()) for name, value in told.items()]
    await send({"type": "http.response.start", "status": fault.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
