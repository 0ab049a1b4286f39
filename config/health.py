"""Answers for load balancers and for clients that knock before they call."""

import hmac
from collections.abc import Awaitable, Callable
from typing import Any

from django.conf import settings
from prometheus_client import CONTENT_TYPE_LATEST

from billing.metrics import exposition
from keys.stores.courier import Health
from keys.stores.redis import RedisStore
from proxy import runtime

Send = Callable[[Any], Awaitable[None]]


async def alive(_scope: Any, send: Send) -> None:
    """The process answers."""
    await _text(send, 200, "ok")


async def hello(send: Send) -> None:
    """A coding agent asks whether anybody is here."""
    await _text(send, 200, "ok")


async def ready(_scope: Any, send: Send) -> None:
    """200 `ok`; 200 `degraded` and the names of what is down while calls can still be served; else 503."""
    try:
        running = runtime.current()
    except RuntimeError:
        await _text(send, 503, "starting")
        return
    down = [] if running.keeper.healthy and running.recorder.healthy else ["database"]
    if isinstance(running.store, RedisStore) and running.store.health is not Health.UP:
        down.append("redis" if running.store.health is Health.DOWN else "redis scripts")
    if running.recorder.faulty:
        down.append("recording")
    if not running.recorder.alive:
        await _text(send, 503, "not ready: recorder")
    elif running.keeper.table is None or not running.recorder.writable:
        await _text(send, 503, "not ready: " + ", ".join(down or ["records"]))
    elif down:
        await _text(send, 200, "degraded: " + ", ".join(down))
    else:
        await _text(send, 200, "ok")


async def metrics(scope: Any, send: Send) -> None:
    """Prometheus' figures, for loopback or a bearer of POINTSMAN_METRICS_TOKEN."""
    if not _may_read_metrics(scope):
        await _text(send, 403, "forbidden: ask from loopback, or send POINTSMAN_METRICS_TOKEN as bearer token")
        return
    body = exposition()
    headers = [(b"content-type", CONTENT_TYPE_LATEST.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _may_read_metrics(scope: Any) -> bool:
    token = settings.POINTSMAN_METRICS_TOKEN
    offered = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
    if token and hmac.compare_digest(offered, f"Bearer {token}".encode()):
        return True
    client = scope.get("client")
    forwarded = any(name in (b"x-forwarded-for", b"forwarded") for name, _value in scope["headers"])
    return client is not None and client[0] in ("127.0.0.1", "::1") and not forwarded


async def _text(send: Send, status: int, text: str) -> None:
    body = text.encode() + b"\n"
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
