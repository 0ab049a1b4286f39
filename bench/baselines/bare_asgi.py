"""Bare ASGI pass-through: the floor for any Python gateway on this server.

UPSTREAM is the base address. Run with:
uvicorn bench.baselines.bare_asgi:app --no-access-log --loop uvloop --http httptools
"""

import os
from typing import Any

import aiohttp

UPSTREAM = os.environ.get("UPSTREAM", "http://127.0.0.1:9100")
KEEP = (b"content-type", b"x-request-id")
HEADERS = {"content-type": "application/json", "authorization": "Bearer upstream"}
sessions: list[aiohttp.ClientSession] = []  # one, made inside the running loop


def session() -> aiohttp.ClientSession:
    if not sessions:
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=60)
        sessions.append(
            aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=None),
            )
        )
    return sessions[0]


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return
    message = await receive()
    body = message["body"]
    while message.get("more_body"):
        message = await receive()
        body += message["body"]
    async with session().post(UPSTREAM + scope["path"], data=body, headers=HEADERS) as answer:
        kept = [(name.lower(), value) for name, value in answer.raw_headers if name.lower() in KEEP]
        if answer.content_type == "text/event-stream":
            await send({"type": "http.response.start", "status": answer.status, "headers": kept})
            async for chunk in answer.content.iter_any():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
            return
        data = await answer.read()
        kept.append((b"content-length", b"%d" % len(data)))
        await send({"type": "http.response.start", "status": answer.status, "headers": kept})
        await send({"type": "http.response.body", "body": data})
