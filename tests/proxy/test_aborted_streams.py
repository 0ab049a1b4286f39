"""A thousand clients that hang up in the middle of their streams leave nothing behind."""

import asyncio
import json

from billing.models import RequestRecord
from tests.fake_upstream import answer
from tests.gateway import HOST, chat, wait_until
from tests.proxy.pool import settled, sheets

CLIENTS, AT_ONCE = 1000, 40


async def leave(port: int, head: bytes, number: int) -> None:
    """Ask for a stream, read something of it on two of three calls, and go without a word."""
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(head)
    await writer.drain()
    if number % 3:
        await reader.readuntil(b"data:")
    else:
        await asyncio.sleep(0.002 * (number % 5))
    writer.transport.abort()


async def all_leave(port: int, head: bytes) -> None:
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with gate:
            await leave(port, head, number)

    await asyncio.gather(*(one(number) for number in range(CLIENTS)))


def test_no_slot_is_held_after_a_thousand_aborted_streams(gateway, up):
    world = gateway.serving(up, "k-1", "k-2", group={"policy": {"drain_s": 0.02}}, line={"concurrency": 30})
    for key in world.keys:
        key.concurrency = 20
        key.save()
    gateway.refresh()
    up.default(answer("one two three four", delay_s=0.01))
    body = json.dumps(chat(stream=True)).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: {HOST}\r\nauthorization: Bearer {world.secret}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    ).encode() + body
    asyncio.run(all_leave(gateway.port, head))
    wait_until(gateway.is_idle, 60, "every call has ended")
    settled(gateway)
    store, now = gateway.runtime.store, gateway.runtime.now()
    assert store.gate.slots == {}
    assert store.gate.queues == {}
    assert [store.figures.in_flight(key.pk, now) for key in world.keys] == [0, 0]
    assert {sheet.status.value for sheet in sheets(gateway, world)} == {"healthy"}
    assert [sheet.failures for sheet in sheets(gateway, world)] == [0, 0]
    up.wait_until(lambda: up.open_connections <= 40, 10, "connections to the upstream are closed")
    seen = set(RequestRecord.objects.filter(tenant=world.tenant).values_list("status", flat=True))
    assert seen <= {"cancelled", "finished"}
    for _ in range(3):
        assert gateway.post(world).status_code == 200
