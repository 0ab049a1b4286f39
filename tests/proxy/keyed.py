"""Calls with an idempotency key, for the tests of what becomes of them."""

import threading
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import httpx

from billing.models import LedgerEntry, RequestRecord
from tests.factories import World
from tests.gateway import Gateway, chat, encoded, wait_until

KEY = {"idempotency-key": "order-66"}
STREAMED = encoded(chat(stream=True))


def records(world: World) -> list[RequestRecord]:
    return list(RequestRecord.objects.filter(tenant=world.tenant).order_by("pk"))


def charged(world: World) -> list[Decimal]:
    """Every charge of the tenant."""
    return list(LedgerEntry.objects.filter(tenant=world.tenant, kind="charge").values_list("amount", flat=True))


def sent_key(seen: Any) -> str | None:
    """The idempotency key that an upstream got."""
    return dict(seen.headers).get("idempotency-key")


def replayed(got: httpx.Response) -> str | None:
    return got.headers.get("idempotent-replayed")


def code_of(got: httpx.Response) -> str:
    return str(got.json()["error"]["code"])


def seated(gateway: Gateway, count: int) -> None:
    """Wait until so many clients wait for keyed calls."""
    flights = gateway.runtime.flights
    wait_until(lambda: sum(len(one.seats) for one in list(flights.values())) == count)


def in_threads(calls: Sequence[Callable[[], httpx.Response]]) -> Callable[[], list[httpx.Response]]:
    """Start these calls; what joins them and returns their answers."""
    found: list[httpx.Response] = []
    threads = [threading.Thread(target=lambda call=call: found.append(call())) for call in calls]
    for thread in threads:
        thread.start()

    def join() -> list[httpx.Response]:
        for thread in threads:
            thread.join()
        return found

    return join
