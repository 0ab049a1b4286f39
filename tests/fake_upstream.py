"""A scripted LLM upstream: a real server on a real socket, in a thread of its own.

    with FakeUpstream() as up:
        up.script("key-1", status(429, retry_after=3))
        up.default(answer("Hello"), key="key-2")
        …  # call up.base_url
        assert [seen.key for seen in up.requests] == ["key-1", "key-2"]

It speaks OpenAI chat, Responses, Anthropic and Gemini by the request's path, and answers a friendly default where
nothing is scripted. A queue of behaviours hangs on a key, on a path pattern, on both or on neither; the most exact
queue that is not empty gives the next behaviour, then the most exact default does. Without a path a queue or default
is for POST requests only, so that model lists do not use it up. tests.fake.behaviour has the builders.
"""

import asyncio
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any, Self, TypeVar

from tests.fake.behaviour import (
    Behaviour,
    answer,
    broken,
    empty,
    from_corpus,
    hang_up,
    html,
    raw,
    redirect,
    reset,
    silent,
    sse,
    sse_error_after,
    sse_error_first,
    status,
    stream,
    thinking,
    tool_call,
    wrong_length,
)
from tests.fake.connection import Connection, Counts, Recorded, Seat
from tests.fake.content import Answer, Text, Thinking, Tokens, ToolCall, UsagePlace, WireError
from tests.fake.delivery import Delivery, Ending, Gate, Length, Step
from tests.fake.paths import ask_of

__all__ = [
    "Answer",
    "Behaviour",
    "Counts",
    "Delivery",
    "Ending",
    "FakeUpstream",
    "Gate",
    "Length",
    "Recorded",
    "Text",
    "Thinking",
    "Tokens",
    "ToolCall",
    "UsagePlace",
    "WireError",
    "answer",
    "broken",
    "closed_port",
    "empty",
    "from_corpus",
    "hang_up",
    "html",
    "raw",
    "redirect",
    "reset",
    "silent",
    "sse",
    "sse_error_after",
    "sse_error_first",
    "status",
    "stream",
    "thinking",
    "tool_call",
    "wrong_length",
]

Reaction = Behaviour | Callable[[Recorded], Behaviour]
Place = tuple[str | None, str | None]  # (key, path pattern); None = any
HOST = "127.0.0.1"
T = TypeVar("T")


class FakeUpstream:
    """See the module. Every method may be called from any thread but the server's own."""

    def __init__(
        self, *, models: tuple[str, ...] = ("fake-model",), port: int = 0, tls: ssl.SSLContext | None = None
    ) -> None:
        self.models = models
        self.port = port
        self.tls = tls
        self.requests: list[Recorded] = []
        self.counts = Counts()
        self._queues: dict[Place, deque[Reaction]] = {}
        self._defaults: dict[Place, Reaction] = {(None, None): answer()}
        self._news = threading.Condition()
        self._seat = Seat(counts=self.counts, arrive=self._arrive, changed=self._changed)

    # Starting and stopping.

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fake-upstream", daemon=True)
        self._thread.start()
        self.listen()

    def stop(self) -> None:
        """Close everything at once; idempotent. Behaviours under way end where they stand.

        Raises what a reaction of the test's own, or the server itself, raised.
        """
        if self._loop.is_closed():
            return
        self._call(self._shut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        if self._seat.faults:
            raise self._seat.faults[0]

    def listen(self) -> None:
        """Accept connections (again), on the same port."""
        self._server = self._call(self._serve())
        self.port = self._server.sockets[0].getsockname()[1]

    def refuse(self) -> None:
        """Stop listening, so that connects are refused; open connections live on."""
        self._call(self._close_listener())

    def drop_idle(self) -> None:
        """Close the connections that wait for a next request, as a server's keep-alive timeout does."""
        self._call(self._drop(only_idle=True))

    def drop_all(self) -> None:
        """Close every connection, answers under way included."""
        self._call(self._drop(only_idle=False))

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    async def _serve(self) -> asyncio.Server:
        return await self._loop.create_server(
            lambda: Connection(self._seat), HOST, self.port, reuse_address=True, backlog=1024, ssl=self.tls
        )

    async def _close_listener(self) -> None:
        self._server.close()

    async def _drop(self, *, only_idle: bool) -> None:
        for one in [one for one in self._seat.live if one.idle or not only_idle]:
            one.transport.close()

    async def _shut(self) -> None:
        self._server.close()
        tasks = [one.task for one in self._seat.live]
        for one in list(self._seat.live):
            one.transport.abort()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Scripting.

    @property
    def url(self) -> str:
        """Scheme, host and port, without a path."""
        return f"{'https' if self.tls else 'http'}://{HOST}:{self.port}"

    @property
    def base_url(self) -> str:
        """The base for OpenAI's SDK and for an upstream of any dialect: url + /v1."""
        return f"{self.url}/v1"

    def script(self, key: str | None, *reactions: Reaction, path: str | None = None) -> None:
        """Append to the queue of this key (None = any) and path pattern (fnmatch; None = any POST).

        A reaction is a behaviour, or a function that makes one from the request.
        """
        with self._news:
            self._queues.setdefault((key, path), deque()).extend(reactions)

    def default(self, reaction: Reaction, *, key: str | None = None, path: str | None = None) -> None:
        """Say what answers when no queue does."""
        with self._news:
            self._defaults[key, path] = reaction

    def clear(self) -> None:
        """Forget scripts, defaults and recorded requests; counts go on."""
        with self._news:
            self._queues.clear()
            self._defaults = {(None, None): answer()}
            self.requests.clear()

    def unused(self) -> dict[Place, int]:
        """How many scripted reactions each queue still holds; empty when all were used."""
        with self._news:
            return {place: len(queue) for place, queue in self._queues.items() if queue}

    # Looking.

    def requests_of(self, key: str) -> list[Recorded]:
        return [one for one in list(self.requests) if one.key == key]

    def keys(self) -> list[str]:
        """The key of each POST, in order of arrival."""
        return [one.key for one in list(self.requests) if one.method == "POST"]

    @property
    def last(self) -> Recorded:
        return self.requests[-1]

    @property
    def open_connections(self) -> int:
        return self.counts.open

    def wait_until(self, holds: Callable[[], bool], timeout_s: float = 5.0, what: str = "") -> None:
        """Block until something holds; AssertionError, with the counts, when it does not in time."""
        deadline = time.monotonic() + timeout_s
        with self._news:
            while not holds():
                left = deadline - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"not within {timeout_s} s: {what or holds}; {self.counts}")
                self._news.wait(left)

    def wait_for_requests(self, count: int, *, key: str | None = None, timeout_s: float = 5.0) -> list[Recorded]:
        """Block until so many requests (of this key) have arrived, and return them."""

        def found() -> list[Recorded]:
            return self.requests_of(key) if key is not None else list(self.requests)

        self.wait_until(lambda: len(found()) >= count, timeout_s, f"{count} requests")
        return found()

    def wait_for_hang_ups(self, count: int = 1, timeout_s: float = 5.0) -> None:
        self.wait_until(lambda: self.counts.hung_up >= count, timeout_s, f"{count} hang-ups")

    def wait_until_idle(self, timeout_s: float = 5.0) -> None:
        """Block until every behaviour under way has ended."""
        self.wait_until(lambda: all(one.ended for one in self.requests), timeout_s, "all answers ended")

    async def arrived(self, count: int, *, key: str | None = None, timeout_s: float = 5.0) -> list[Recorded]:
        """wait_for_requests for a test whose own loop must go on."""
        return await asyncio.to_thread(self.wait_for_requests, count, key=key, timeout_s=timeout_s)

    # Called on the server's thread.

    def _arrive(self, request: Recorded) -> Iterator[Step]:
        with self._news:
            self.counts.requests += 1
            request.number = self.counts.requests
            self.requests.append(request)
            reaction = self._reaction(request)
            self._news.notify_all()
        behaviour = reaction if isinstance(reaction, Behaviour) else reaction(request)
        ask = ask_of(path=request.path, query=request.query, body=request.body, number=request.number)
        headers = {name.lower(): value for name, value in request.headers}
        return behaviour.plan(ask, models=self.models, headers=headers, method=request.method)

    def _reaction(self, request: Recorded) -> Reaction:
        def fits(place: Place) -> bool:
            key, path = place
            by_path = request.method == "POST" if path is None else fnmatchcase(request.path, path)
            return by_path and key in (None, request.key)

        def exactness(place: Place) -> tuple[bool, bool]:
            return place[0] is not None, place[1] is not None

        waiting = [place for place, queue in self._queues.items() if queue and fits(place)]
        if waiting:
            return self._queues[max(waiting, key=exactness)].popleft()
        fitting = [place for place in self._defaults if fits(place)]
        return self._defaults[max(fitting, key=exactness)] if fitting else answer()

    def _changed(self) -> None:
        with self._news:
            self._news.notify_all()


@contextmanager
def closed_port() -> Iterator[str]:
    """A base URL whose connects are refused for as long as the block lasts: bound, never listening."""
    with socket.socket() as held:
        held.bind((HOST, 0))
        yield f"http://{HOST}:{held.getsockname()[1]}/v1"
