"""From Django's request to the plain value that the rooms work on."""

import secrets
import time
from urllib.parse import parse_qsl

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest

from keys.core.dialect import Dialect
from proxy.core import idempotency
from proxy.core.call import Received
from proxy.core.endpoints import dialect_of
from proxy.core.sending import without_key
from proxy.runtime import Runtime


def new_request_id() -> str:
    """Return an id that nobody can guess."""
    return "req_" + secrets.token_hex(16)


def receive(request: HttpRequest, runtime: Runtime) -> Received:
    """Return what came in. The request id is ours; a client's own is not trusted with it."""
    if not isinstance(request, ASGIRequest):
        raise TypeError("the gateway's paths are served over ASGI")
    scope = request.scope
    # The parser leaves the blanks behind a value, which are no part of it (RFC 9110, 5.5).
    headers = tuple((name.decode("latin-1"), value.decode("latin-1").strip(" \t")) for name, value in scope["headers"])
    query = scope.get("query_string", b"").decode("latin-1")
    path = scope["path"]
    names = frozenset(name.lower() for name, _ in headers)
    dialect = dialect_of(path, names)
    return Received(
        request_id=new_request_id(),
        record_id=runtime.recorder.ids.next(time.time_ns() // 1_000_000),
        at=runtime.now(),
        clock_s=runtime.clock(),
        method=scope["method"],
        path=path,
        query=without_key(query),
        dialect=dialect,
        headers=headers,
        body=request.body,
        query_key=_query_key(query) if dialect is Dialect.GEMINI else None,
        is_keyed=idempotency.NAME in names,
    )


def _query_key(query: str) -> str | None:
    if "key=" not in query:
        return None
    return dict(parse_qsl(query)).get("key")
