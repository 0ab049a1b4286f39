"""A cheap fake OpenAI chat-completions server for measurements.

The behaviour of one request is encoded in the model name, since every gateway passes that through:

    fake                     one JSON answer of about 1 KB
    fake-c100                100 content chunks when the request streams
    fake-c100-d10            ... with 10 ms between two chunks
    fake-t200                200 ms before the first byte
    fake-s429                answers with that HTTP status and an error body

Parts can be combined in any order: fake-c100-d10-t200.
"""

import argparse
import asyncio
import functools
import json
import re
import signal
from typing import Any

import httptools
import uvloop

SPEC = re.compile(rb'"model"\s*:\s*"fake((?:-[a-z]\d+)*)"')
PART = re.compile(rb"-([a-z])(\d+)")
STREAM = re.compile(rb'"stream"\s*:\s*true')
USAGE = re.compile(rb'"include_usage"\s*:\s*true')
TEXT = (
    "The quick brown fox jumps over the lazy dog while the gateway counts "
    "tokens, writes usage rows and keeps its latency low. "
)
HEAD: dict[str, Any] = {
    "id": "chatcmpl-fake0000000000000000000001",
    "created": 1700000000,
    "model": "fake",
    "system_fingerprint": "fp_fake",
}
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Cache-Control: no-cache\r\nx-request-id: req_fake\r\nTransfer-Encoding: chunked\r\n\r\n"
)
MODELS = {"object": "list", "data": [{"id": "fake", "object": "model"}]}


def json_answer(payload: Any, status: int = 200) -> bytes:
    raw = json.dumps(payload).encode()
    head = (
        f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n"
        f"x-request-id: req_fake\r\nContent-Length: {len(raw)}\r\n\r\n"
    )
    return head.encode() + raw


@functools.cache
def whole_answer(status: int) -> bytes:
    if status != 200:
        return json_answer({"error": {"message": "forced by the model name", "type": "fake", "code": "fake"}}, status)
    message = {"role": "assistant", "content": TEXT * 5}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    usage = {"prompt_tokens": 25, "completion_tokens": 120, "total_tokens": 145}
    return json_answer({**HEAD, "object": "chat.completion", "choices": [choice], "usage": usage})


def sse(payload: Any) -> bytes:
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    event = b"data: " + data + b"\n\n"
    return b"%x\r\n" % len(event) + event + b"\r\n"


@functools.cache
def stream_frames(chunks: int, usage: bool) -> list[bytes]:
    """HTTP chunks of one stream: role, `chunks` contents, stop, usage, [DONE]."""

    def chunk(choices: list[Any], **fields: Any) -> bytes:
        return sse({**HEAD, "object": "chat.completion.chunk", "choices": choices, **fields})

    def delta(content: dict[str, Any], finish: str | None = None) -> list[Any]:
        return [{"index": 0, "delta": content, "logprobs": None, "finish_reason": finish}]

    words = TEXT.split()
    frames = [chunk(delta({"role": "assistant", "content": ""}))]
    frames += [chunk(delta({"content": words[i % len(words)] + " "})) for i in range(chunks)]
    frames.append(chunk(delta({}, "stop")))
    if usage:
        count = {"prompt_tokens": 25, "completion_tokens": chunks, "total_tokens": 25 + chunks}
        frames.append(chunk([], usage=count))
    frames.append(sse(b"[DONE]") + b"0\r\n\r\n")
    return frames


class Upstream(asyncio.Protocol):
    transport: Any

    def __init__(self, loop: asyncio.AbstractEventLoop, stats: dict[str, int]) -> None:
        self.loop = loop
        self.stats = stats
        self.timer: asyncio.Handle | None = None
        self.body: list[bytes] = []
        self.url = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.parser = httptools.HttpRequestParser(self)
        self.stats["connections"] += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
            self.stats["aborted"] += 1

    def data_received(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self.transport.close()

    def on_url(self, url: bytes) -> None:
        self.url = url

    def on_body(self, body: bytes) -> None:
        self.body.append(body)

    def on_message_complete(self) -> None:
        body = b"".join(self.body)
        self.body.clear()
        if self.parser.get_method() == b"GET":
            self.transport.write(json_answer(self.stats if self.url.startswith(b"/stats") else MODELS))
            return
        self.stats["requests"] += 1
        found = SPEC.search(body)
        spec = {name: int(value) for name, value in PART.findall(found.group(1))} if found else {}
        wait = spec.get(b"t", 0) / 1000
        status = spec.get(b"s", 200)
        if status == 200 and STREAM.search(body):
            self.start_stream(stream_frames(spec.get(b"c", 20), bool(USAGE.search(body))), spec.get(b"d", 0), wait)
        elif wait:
            self.timer = self.loop.call_later(wait, self.write_whole, whole_answer(status))
        else:
            self.transport.write(whole_answer(status))

    def write_whole(self, answer: bytes) -> None:
        self.timer = None
        self.transport.write(answer)

    def start_stream(self, frames: list[bytes], delay_ms: int, wait: float) -> None:
        self.stats["streams"] += 1
        self.frames = frames
        self.index = 0
        self.delay = delay_ms / 1000
        self.due = self.loop.time() + wait
        if wait:
            self.timer = self.loop.call_at(self.due, self.write_frame)
        else:
            self.write_frame()

    def write_frame(self) -> None:
        if self.transport is None:
            return
        index = self.index
        frame = self.frames[index]
        self.transport.write(STREAM_HEAD + frame if index == 0 else frame)
        self.index = index = index + 1
        if index == len(self.frames):
            self.timer = None
        elif self.delay:
            self.due += self.delay
            self.timer = self.loop.call_at(self.due, self.write_frame)
        else:  # one send call per chunk, not one for all
            self.timer = self.loop.call_soon(self.write_frame)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=9100)
    options = parser.parse_args()
    loop = asyncio.get_running_loop()
    stats = {"requests": 0, "streams": 0, "connections": 0, "aborted": 0}
    server = await loop.create_server(lambda: Upstream(loop, stats), "127.0.0.1", options.port, backlog=2048)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with server:
        await stop.wait()


if __name__ == "__main__":
    uvloop.run(main())
