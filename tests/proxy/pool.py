"""What tests of the pool need beside the gateway: its clock, its states, calls at the same time."""

import threading
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.utils import timezone

from keys.core.pool import Sheet
from proxy import background
from tests.factories import World
from tests.gateway import Gateway, chat, wait_until

OTHER = chat(messages=[{"role": "user", "content": "something else"}])


def asking(text: str, **fields: Any) -> dict[str, Any]:
    """A conversation of its own."""
    return chat(messages=[{"role": "user", "content": text}], **fields)


class Clock:
    """The gateway's wall clock, to be set forward. What is under way upstream takes its real time."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> Any:
        return timezone.now() + self.ahead

    def advance(self, seconds: float) -> None:
        self.ahead += timedelta(seconds=seconds)


@contextmanager
def clock_of(gateway: Gateway) -> Any:
    """Put a clock into the gateway while the block lasts."""
    clock = Clock()
    gateway.runtime.now = clock
    try:
        yield clock
    finally:
        gateway.runtime.now = timezone.now


def sheets(gateway: Gateway, world: World) -> list[Sheet]:
    """The figures of a world's keys, in order."""
    pool = gateway.runtime.store.board.pool(gateway.runtime.now())
    return [pool.sheet(key.pk, key.account_id) for key in world.keys]


def settled(gateway: Gateway) -> None:
    """Wait until every call has ended, and what it taught has been told."""
    wait_until(gateway.is_idle)
    wait_until(lambda: not background._State.requests, what="nothing is under way behind the calls")


def ask(gateway: Gateway, world: World, body: Any = None, **options: Any) -> Any:
    """Ask, and wait until the answer has taught what it teaches."""
    got = gateway.post(world, body, **options)
    settled(gateway)
    return got


class Calls:
    """Calls in threads of their own; `finish` returns the answers in order of arrival."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.threads: list[threading.Thread] = []
        self.answers: list[Any] = []

    def start(self, world: World, body: Any = None, **options: Any) -> None:
        def call() -> None:
            self.answers.append(self.gateway.post(world, body, **options))

        thread = threading.Thread(target=call)
        thread.start()
        self.threads.append(thread)

    def finish(self) -> list[Any]:
        for thread in self.threads:
            thread.join()
        return self.answers
