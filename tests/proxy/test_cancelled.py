"""Clients that leave, at any point of a request: one record each, no slot kept."""

import socket
import threading
import time
from contextlib import contextmanager
from decimal import Decimal

import pytest

from tests.fake_upstream import Ending, Gate, Tokens, UsagePlace, answer, broken, silent, sse, status, stream
from tests.gateway import CHARGE, CHAT, attempts, chat, encoded, ledger, outcomes, wait_until


@contextmanager
def caller(gateway, world, body):
    """A client on a bare socket; leaving the block hangs up."""
    content = encoded(body)
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {world.secret}\r\n"
    head += f"content-length: {len(content)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", gateway.port)) as sock:
        sock.sendall(head.encode() + content)
        yield sock


def read_until(sock, mark):
    seen = b""
    while mark not in seen:
        part = sock.recv(65536)
        assert part, seen
        seen += part
    return seen


def settled(gateway, world):
    record = gateway.only_record(world)
    wait_until(gateway.is_idle)
    return record


def test_before_the_answer_began(gateway, up):
    gate = Gate()
    up.script("k-1", answer().but(holds=((-1, gate),)))
    world = gateway.serving(up, "k-1", "k-2")
    with caller(gateway, world, chat(stream=True)):
        up.wait_for_requests(1)
    time.sleep(0.1)
    gate.open()
    record = settled(gateway, world)
    assert (record.status, record.charge, record.http_status) == ("cancelled", 0, None)
    assert (up.keys(), outcomes(record)) == (["k-1"], [("k1", "aborted")])
    # The upstream was read on: what it used is our cost, and no charge.
    assert (record.input_tokens, record.output_tokens, record.cost) == (25, 7, CHARGE)
    assert ledger(record) == [("cost", CHARGE)]
    assert attempts(record)[0].content is False


def test_no_further_key_is_tried_for_nobody(gateway, up):
    up.script("k-1", status(500).but(head_delay_s=0.3))
    world = gateway.serving(up, "k-1", "k-2")
    with caller(gateway, world, chat()):
        up.wait_for_requests(1)
    record = settled(gateway, world)
    assert (record.status, record.charge, up.keys()) == ("cancelled", 0, ["k-1"])
    assert record.attempt_count == 1


def test_in_the_middle_of_a_stream_the_upstream_is_read_on(gateway, up):
    """Report 3: the usage at the end is charged as if the client had stayed."""
    gate = Gate()
    up.script("k-1", stream(["one ", "two ", "three"]).but(holds=((3, gate),)))
    world = gateway.serving(up, "k-1")
    with caller(gateway, world, chat(stream=True)) as sock:
        read_until(sock, b"one ")
    time.sleep(0.1)
    gate.open()
    record = settled(gateway, world)
    assert (record.status, record.http_status, record.estimated) == ("cancelled", 200, False)
    assert (record.input_tokens, record.output_tokens, record.usage_source) == (25, 7, "upstream")
    assert (record.charge, ledger(record)) == (CHARGE, [("charge", CHARGE), ("cost", CHARGE)])
    assert outcomes(record) == [("k1", "aborted")]
    assert attempts(record)[0].content is True
    assert up.counts.hung_up == 0


def test_without_usage_it_is_a_flagged_estimate(gateway, up):
    gate = Gate()
    up.script("k-1", stream(["x" * 40, "y" * 40], usage_place=UsagePlace.NEVER).but(holds=((2, gate),)))
    world = gateway.serving(up, "k-1")
    with caller(gateway, world, chat(stream=True)) as sock:
        read_until(sock, b"xxxx")
    time.sleep(0.1)
    gate.open()
    record = settled(gateway, world)
    assert (record.status, record.usage_source, record.estimated) == ("cancelled", "estimated", True)
    assert record.output_tokens == 20
    assert record.charge == record.input_tokens * Decimal("0.0000025") + 20 * Decimal("0.00001")


def test_reading_on_is_bounded_in_time(gateway, up):
    """Report 70."""
    up.script("k-1", broken(stream(["one ", "two "]), Ending.STALL, events=2))
    world = gateway.serving(up, "k-1", group={"policy": {"drain_s": 0.3}})
    with caller(gateway, world, chat(stream=True)) as sock:
        read_until(sock, b"one ")
    up.wait_for_hang_ups()
    record = settled(gateway, world)
    assert (record.status, record.estimated, record.output_tokens) == ("cancelled", True, 1)


def test_reading_on_is_bounded_in_size(gateway, up):
    """Of 200 MB the upstream gets rid of what the kernel's buffers take; then the line is dropped."""
    piece = b'data: {"choices":[{"index":0,"delta":{"content":"' + b"x" * 65536 + b'"},"finish_reason":null}]}\n\n'
    up.script("k-1", sse(*[piece] * 3000))
    world = gateway.serving(up, "k-1")
    with caller(gateway, world, chat(stream=True)) as sock:
        read_until(sock, b"xxxx")
    record = settled(gateway, world)
    assert (record.status, record.estimated) == ("cancelled", True)
    up.wait_for_hang_ups()


def test_a_price_per_call_is_charged_once_content_was_there(gateway, up):
    price = {"currency": "USD", "unit": "per_call", "call": "0.031", "input": None, "output": None}
    world = gateway.serving(up, "k-1", price={**price, "cached_input": None}, group={"policy": {"drain_s": 0.2}})
    up.script("k-1", broken(stream(["one "]), Ending.STALL, events=2))
    with caller(gateway, world, chat(stream=True)) as sock:
        read_until(sock, b"one ")
    assert settled(gateway, world).charge == Decimal("0.031")


def test_a_client_that_leaves_is_no_fault_of_the_key(gateway, up):
    world = gateway.serving(up, "k-1", "k-2", group={"policy": {"drain_s": 0.05, "strikes": 1}})
    for _ in range(3):
        up.script("k-1", broken(stream(["one "]), Ending.STALL, events=2))
        with caller(gateway, world, chat(stream=True)) as sock:
            read_until(sock, b"one ")
        up.wait_until_idle()
    wait_until(gateway.is_idle)
    got = gateway.post(world)
    assert outcomes(gateway.record(got)) == [("k1", "served")]


def test_a_whole_answer_that_nobody_waits_for(gateway, up):
    up.script("k-1", answer(tokens=Tokens(input=10, output=5)).but(head_delay_s=0.2))
    world = gateway.serving(up, "k-1")
    with caller(gateway, world, chat()):
        up.wait_for_requests(1)
    record = settled(gateway, world)
    assert (record.status, record.charge, record.cost) == ("cancelled", 0, Decimal("0.000075"))
    assert outcomes(record) == [("k1", "aborted")]


def test_half_a_request_is_nobodys(gateway, up):
    world = gateway.serving(up, "k-1")
    with socket.create_connection(("127.0.0.1", gateway.port)) as sock:
        sock.sendall(f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {world.secret}\r\n".encode())
        sock.sendall(b"content-length: 1000\r\n\r\n{")
    time.sleep(0.1)
    assert (up.requests, world.tenant.records.count(), gateway.is_idle()) == ([], 0, True)


def test_no_slot_is_left_behind(gateway, up):
    """A hundred clients leave at all points of a request; then the one slot of key and line is free."""
    world = gateway.serving(up, "k-1", line={"concurrency": 8}, group={"policy": {"drain_s": 0.05, "slot_wait_s": 0.2}})
    world.keys[0].concurrency = 8
    world.keys[0].save()
    gateway.refresh()
    stuck = broken(stream(["one "]), Ending.STALL, events=2)
    up.default(lambda seen: stuck if seen.json["stream"] else silent())

    def leave(number):
        with caller(gateway, world, chat(stream=number % 3 > 0)) as sock:
            if number % 3 == 1:
                sock.settimeout(2)
                sock.recv(100)
            elif number % 3 == 2:
                time.sleep(number % 7 / 100)

    for start in range(0, 100, 10):
        threads = [threading.Thread(target=leave, args=(start + n,)) for n in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    wait_until(gateway.is_idle, 10)
    wait_until(lambda: world.tenant.records.count() == 100, 10)
    up.default(answer())
    gate = Gate()
    up.script("k-1", *[answer().but(holds=((-1, gate),))] * 8)
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(gateway.post(world).status_code)) for _ in range(8)]
    for thread in threads:
        thread.start()
    wait_until(lambda: sum(1 for one in up.requests if not one.ended) == 8, 10, "all eight slots are free")
    gate.open()
    for thread in threads:
        thread.join()
    assert answers == [200] * 8


def test_while_waiting_for_a_slot(gateway, up):
    """A client that leaves the queue takes nothing with it and is recorded."""
    gate = Gate()
    up.script("k-1", answer().but(holds=((-1, gate),)))
    world = gateway.serving(up, "k-1", line={"concurrency": 1})
    first = threading.Thread(target=gateway.post, args=(world,))
    first.start()
    up.wait_for_requests(1)
    with caller(gateway, world, chat()):
        time.sleep(0.2)
    waiting = wait_until(world.tenant.records.first)
    assert (waiting.status, waiting.attempt_count, waiting.charge) == ("cancelled", 0, 0)
    gate.open()
    first.join()
    assert gateway.post(world).status_code == 200
    assert len(up.requests) == 2


@pytest.mark.parametrize("stream_asked", [False, True])
def test_while_an_upstream_is_silent(gateway, up, stream_asked):
    up.script("k-1", silent())
    world = gateway.serving(up, "k-1", group={"policy": {"drain_s": 0.2}})
    with caller(gateway, world, chat(stream=stream_asked)):
        up.wait_for_requests(1)
    record = settled(gateway, world)
    assert (record.status, record.charge, record.usage_source) == ("cancelled", 0, "none")
    up.wait_for_hang_ups()
