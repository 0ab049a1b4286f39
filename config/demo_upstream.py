"""A simulated upstream for `./bin/run --demo`: OpenAI chat completions on loopback, with no model behind them.

`python -m config.demo_upstream --port N --mode limited|good`. `limited` answers every call with a rate limit, as a
busy key does; `good` answers. Both list their models, for a rate-limited key lists models too. Runs until SIGTERM.
"""

import argparse
import asyncio
import contextlib
import json
import math
import sys
import time
import uuid
from collections.abc import Iterator
from typing import Any

from aiohttp import web

MODELS = ("demo-chat", "demo-chat-mini")
RETRY_AFTER_S = 20
WORD_S = 0.03  # seconds between two words of a stream
BYTES_PER_TOKEN = 4
ECHO_CHARACTERS = 120
ANSWER = (
    "Hello from the simulated upstream! You asked {model}: “{question}” No model thought about it, "
    "but the first key was busy, this one took over, and every token you read has been metered and billed."
)


def make_app(mode: str) -> web.Application:
    app = web.Application()
    app.router.add_get("/v1/models", list_models)
    app.router.add_get("/v1/models/{name}", show_model)
    app.router.add_post("/v1/chat/completions", {"limited": refuse, "good": complete}[mode])
    return app


async def list_models(_request: web.Request) -> web.Response:
    return web.json_response({"object": "list", "data": [model_entry(name) for name in MODELS]})


async def show_model(request: web.Request) -> web.Response:
    name = request.match_info["name"]
    if name not in MODELS:
        return failure(404, f"The model `{name}` does not exist", "invalid_request_error", "model_not_found")
    return web.json_response(model_entry(name))


def model_entry(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 1767225600, "owned_by": "pointsman-demo"}


async def refuse(_request: web.Request) -> web.Response:
    """Answer as a provider does whose requests-per-minute window is used up."""
    response = failure(
        429,
        "Rate limit reached for organization org-demo on requests per min (RPM): Limit 3, Used 3, Requested 1. "
        f"Please try again in {RETRY_AFTER_S}s.",
        "requests",
        "rate_limit_exceeded",
    )
    response.headers["Retry-After"] = str(RETRY_AFTER_S)
    response.headers["x-ratelimit-limit-requests"] = "3"
    response.headers["x-ratelimit-remaining-requests"] = "0"
    response.headers["x-ratelimit-reset-requests"] = f"{RETRY_AFTER_S}s"
    return response


async def complete(request: web.Request) -> web.StreamResponse:
    body = await read_object(request)
    if body is None:
        return failure(400, "We could not parse the JSON body of your request.", "invalid_request_error", None)
    model = str(body.get("model") or MODELS[0])
    text = ANSWER.format(model=model, question=last_question(body))
    identity = {"id": f"chatcmpl-{uuid.uuid4().hex[:24]}", "created": int(time.time()), "model": model}
    usage = count_tokens(body, text)
    if body.get("stream") is True:
        options = body.get("stream_options")
        asked = isinstance(options, dict) and options.get("include_usage") is True
        return await stream(request, identity, text, usage if asked else None)
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return web.json_response({**identity, "object": "chat.completion", "choices": [choice], "usage": usage})


async def stream(
    request: web.Request, identity: dict[str, Any], text: str, usage: dict[str, int] | None
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(request)
    with contextlib.suppress(ConnectionResetError):  # the client left, as when a person aborts the call
        for choices in chunk_choices(text):
            await send(response, {**identity, "object": "chat.completion.chunk", "choices": choices})
            await asyncio.sleep(WORD_S)
        if usage is not None:
            await send(response, {**identity, "object": "chat.completion.chunk", "choices": [], "usage": usage})
        await response.write(b"data: [DONE]\n\n")
    return response


def chunk_choices(text: str) -> Iterator[list[dict[str, Any]]]:
    """Yield the `choices` of each chunk: the role, the text word by word, the end."""
    words = [word + " " for word in text.split(" ")]
    words[-1] = words[-1].rstrip()
    deltas = [{"role": "assistant", "content": ""}, *({"content": word} for word in words)]
    for delta in deltas:
        yield [{"index": 0, "delta": delta, "finish_reason": None}]
    yield [{"index": 0, "delta": {}, "finish_reason": "stop"}]


async def send(response: web.StreamResponse, payload: dict[str, Any]) -> None:
    await response.write(b"data: " + json.dumps(payload, ensure_ascii=False).encode() + b"\n\n")


async def read_object(request: web.Request) -> dict[str, Any] | None:
    try:
        body = json.loads(await request.read())
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


def last_question(body: dict[str, Any]) -> str:
    """Return the beginning of the last user message, whatever the shape of its content."""
    messages = body.get("messages")
    rows = [row for row in messages if isinstance(row, dict)] if isinstance(messages, list) else []
    content = next((row.get("content") for row in reversed(rows) if row.get("role") == "user"), "")
    if isinstance(content, list):
        content = " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    text = " ".join(str(content or "").split())
    return text if len(text) <= ECHO_CHARACTERS else text[:ECHO_CHARACTERS].rstrip() + "…"


def count_tokens(body: dict[str, Any], text: str) -> dict[str, int]:
    """Return usage of the size that a real tokeniser would report."""
    prompt = math.ceil(len(json.dumps(body.get("messages"), ensure_ascii=False).encode()) / BYTES_PER_TOKEN)
    completion = math.ceil(len(text.encode()) / BYTES_PER_TOKEN)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def failure(status: int, message: str, kind: str, code: str | None) -> web.Response:
    error = {"message": message, "type": kind, "param": None, "code": code}
    return web.json_response({"error": error}, status=status)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="demo_upstream", description="A simulated upstream on loopback.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--mode", choices=("limited", "good"), required=True)
    options = parser.parse_args(arguments)
    web.run_app(
        make_app(options.mode), host="127.0.0.1", port=options.port, print=None, access_log=None, shutdown_timeout=1.0
    )


if __name__ == "__main__":
    main(sys.argv[1:])
