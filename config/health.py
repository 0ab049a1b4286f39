"""Answers for load balancers and for clients that knock before they call."""

from collections.abc import Awaitable, Callable
from typing import Any

from keys.stores.courier import Health
from keys.stores.redis import RedisStore
from proxy import runtime

Send = Callable[[Any], Awaitable[None]]


async def alive(send: Send) -> None:
    """The process answers."""
    await _text(send, 200, "ok")


async def hello(send: Send) -> None:
    """A coding agent asks whether anybody is here."""
    await _text(send, 200, "ok")


async def ready(send: Send) -> None:
    """200 `ok`; 200 `degraded` and the names of what is down while calls can still be served; else 503."""
    try:
        running = runtime.current()
    except RuntimeError:
        await _text(send, 503, "starting")
        return
    down = [] if running.keeper.healthy and running.recorder.healthy else ["database"]
    if isinstance(running.store, RedisStore) and running.store.health is not Health.UP:
        down.append("redis" if running.store.health is Health.DOWN else "redis scripts")
    if running.keeper.table is None or not running.recorder.writable:
        await _text(send, 503, "not ready: " + ", ".join(down or ["records"]))
    elif down:
        await _text(send, 200, "degraded: " + ", ".join(down))
    else:
        await _text(send, 200, "ok")


async def _text(send: Send, status: int, text: str) -> None:
    body = text.encode() + b"\n"
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
