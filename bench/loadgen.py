"""Closed-loop load generator for OpenAI-compatible chat endpoints.

Prints one JSON object: request count, errors, latency and time-to-first-byte percentiles (ms), and for streams the
events received. A stream without [DONE] is an error. It always stops by itself.
"""

import argparse
import asyncio
import json
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httptools
import uvloop

clock = time.perf_counter
GRACE_S = 60  # what is under way at the end may take so long


@dataclass(frozen=True)
class Load:
    """What to send. `ramp`: seconds over which the first requests are spread."""

    url: str
    headers: tuple[str, ...] = ()
    model: str = "fake"
    stream: bool = False
    concurrency: int = 1
    seconds: float = 5.0
    ramp: float = 0.0
    prompt_bytes: int = 200

    def request(self) -> bytes:
        parts = urlsplit(self.url)
        text = ("hello world " * (self.prompt_bytes // 12 + 1))[: self.prompt_bytes]
        body: dict[str, Any] = {"model": self.model, "messages": [{"role": "user", "content": text}]}
        if self.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        raw = json.dumps(body).encode()
        head = [
            f"POST {parts.path} HTTP/1.1",
            f"Host: {parts.netloc}",
            "Content-Type: application/json",
            "Accept: */*",
            f"Content-Length: {len(raw)}",
            *self.headers,
        ]
        return "\r\n".join(head).encode() + b"\r\n\r\n" + raw


@dataclass
class Run:
    deadline: float
    latency: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    events: int = 0
    reads: int = 0

    def more(self) -> bool:
        return clock() < self.deadline


class Client(asyncio.Protocol):
    """One connection that asks again as soon as it has its answer."""

    transport: Any

    def __init__(self, run: Run, request: bytes, stream: bool, done: asyncio.Future[None]) -> None:
        self.run, self.request, self.stream, self.done = run, request, stream, done
        self.busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.next()

    def next(self) -> None:
        if not self.run.more():
            self.transport.close()
            return
        self.parser = httptools.HttpResponseParser(self)
        self.busy = True
        self.got_first = False
        self.tail = b""
        self.begin = clock()
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.run.reads += 1
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError as exc:
            self.run.errors[type(exc).__name__] += 1
            self.busy = False
            self.transport.close()

    def on_body(self, body: bytes) -> None:
        if not self.got_first:
            self.got_first = True
            self.run.first.append(clock() - self.begin)
        if self.stream:
            joined = self.tail + body
            self.run.events += joined.count(b"data:")
            done = body.endswith(b"\n\n") and b"[DONE]" in joined[-40:]
            self.tail = joined[-40:] if done else joined[-4:]

    def on_message_complete(self) -> None:
        status = self.parser.get_status_code()
        if status != 200:
            self.run.errors[str(status)] += 1
        elif self.stream and b"[DONE]" not in self.tail:
            self.run.errors["no [DONE]"] += 1
        else:
            self.run.latency.append(clock() - self.begin)
        self.busy = False
        if self.parser.should_keep_alive():
            self.next()
        else:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.busy:
            self.run.errors["connection lost"] += 1
        if not self.done.done():
            self.done.set_result(None)


async def work(load: Load, run: Run, request: bytes, late: float) -> None:
    """Keep one connection busy until the end, with a new one whenever it is lost."""
    await asyncio.sleep(late)
    loop = asyncio.get_running_loop()
    parts = urlsplit(load.url)
    host, port = parts.hostname or "", parts.port or 80
    while run.more():
        done: asyncio.Future[None] = loop.create_future()
        try:
            transport, _ = await loop.create_connection(
                lambda done=done: Client(run, request, load.stream, done),  # type: ignore[misc]
                host,
                port,
            )
        except OSError as exc:
            run.errors[type(exc).__name__] += 1
            await asyncio.sleep(0.05)
            continue
        try:
            await asyncio.wait_for(done, max(0.1, run.deadline + GRACE_S - clock()))
        except TimeoutError:
            run.errors["timeout"] += 1
            transport.abort()


def spread(values: list[float]) -> dict[str, float | None]:
    """Percentiles in ms."""
    values = sorted(values)

    def at(share: float) -> float | None:
        return round(values[min(len(values) - 1, int(len(values) * share))] * 1000, 3) if values else None

    return {"p50": at(0.5), "p90": at(0.9), "p99": at(0.99)}


async def put(load: Load) -> dict[str, Any]:
    begin = clock()
    run = Run(begin + load.seconds)
    request = load.request()
    late = load.ramp / load.concurrency
    await asyncio.gather(*(work(load, run, request, late * index) for index in range(load.concurrency)))
    took = clock() - begin
    return {
        **{name: value for name, value in asdict(load).items() if name != "headers"},  # a header is a credential
        "seconds": round(took, 3),
        "ok": len(run.latency),
        "errors": dict(run.errors),
        "per_second": round(len(run.latency) / took, 1),
        "latency_ms": spread(run.latency),
        "first_byte_ms": spread(run.first),
        "events": run.events,
        "events_per_second": round(run.events / took, 1),
        "client_reads": run.reads,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="full URL of the chat completions endpoint")
    parser.add_argument("-H", "--header", action="append", default=[], dest="headers", help="'Name: value', repeatable")
    parser.add_argument("-m", "--model", default="fake")
    parser.add_argument("-s", "--stream", action="store_true")
    parser.add_argument("-c", "--concurrency", type=int, default=1)
    parser.add_argument("-t", "--seconds", type=float, default=5)
    parser.add_argument("--ramp", type=float, default=0, help="spread the first requests over this many seconds")
    parser.add_argument("--prompt-bytes", type=int, default=200)
    options = vars(parser.parse_args())
    load = Load(**{**options, "headers": tuple(options["headers"])})
    print(json.dumps(uvloop.run(put(load))))


if __name__ == "__main__":
    main()
