"""ASGI entry: the process's life cycle, health checks, the gateway's paths, and Django's application for the rest."""

import os
from typing import Any

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

django_application = get_asgi_application()

from config import health  # noqa: E402  # Django must be set up first
from proxy import background, entry, live, runtime  # noqa: E402

_HEALTH = {"/healthz": health.alive, "/readyz": health.ready, "/metrics": health.metrics}


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Send a request where it belongs by its path alone."""
    if scope["type"] == "lifespan":
        await _live(receive, send)
        return
    path = scope["path"]
    if entry.is_ours(path):
        await entry.serve(scope, receive, send)
    elif path in _HEALTH:
        await _HEALTH[path](scope, send)
    elif path == "/api/hello":
        await health.hello(send)
    else:
        await django_application(scope, receive, send)


async def _live(receive: Any, send: Any) -> None:
    await receive()
    try:
        running = await runtime.open_runtime()
    except Exception as problem:
        await send({"type": "lifespan.startup.failed", "message": f"{type(problem).__name__}: {problem}"})
        raise
    background.start(live.share(running), upkeep=True)
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await runtime.close_runtime(running)
    await send({"type": "lifespan.shutdown.complete"})
