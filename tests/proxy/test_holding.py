"""The held opening: a client waits without harm, and a late failure still fails over."""

import time

import pytest

from tests.fake_upstream import Gate, answer, silent, sse_error_after, status, stream
from tests.gateway import CHARGE, HELLO, attempts, chat, ledger, outcomes, wait_until
from tests.proxy.asking import ask

SHORT = {"policy": {"hold_s": 0.2}}


def test_a_slow_opening_gets_keepalives_that_the_sdk_reads(gateway, up, monkeypatch):
    """reports.md 33 and 38: comments reach the client while it waits, and its SDK does not mind."""
    monkeypatch.setattr("proxy.views.KEEPALIVE_S", 0.1)
    up.default(answer(HELLO, first_delay_s=1.0))
    world = gateway.serving(up, "k-1", group=SHORT)
    said = ask(gateway, world, stream=True)
    assert said.text == HELLO
    with gateway.streaming(world) as got:
        raw = b"".join(got.iter_raw())
    assert raw.startswith(b": keep-alive\n\n: keep-alive\n\n")
    assert raw.endswith(b"data: [DONE]\n\n")


def test_failover_goes_on_inside_the_body(gateway, up):
    up.script("k-1", status(500, head_delay_s=0.6))
    world = gateway.serving(up, "k-1", "k-2", group=SHORT)
    with gateway.streaming(world) as got:
        assert got.status_code == 200
        raw = b"".join(got.iter_raw())
    assert b": keep-alive" in raw
    assert HELLO.split()[0].encode() in raw
    record = gateway.only_record(world)
    assert (record.status, outcomes(record)) == ("finished", [("k1", "server_error"), ("k2", "served")])
    assert ledger(record)[0] == ("charge", CHARGE)


def test_when_nothing_serves_after_the_headers_the_error_is_an_event(gateway, up):
    up.default(status(500, head_delay_s=0.4))
    world = gateway.serving(up, "k-1", group=SHORT)
    with gateway.streaming(world) as got:
        assert got.status_code == 200
        raw = b"".join(got.iter_raw())
    assert b'data: {"error":{' in raw
    assert b"[DONE]" not in raw
    record = gateway.only_record(world)
    assert (record.status, record.error_code) == ("failed", "upstream_failed")


def test_a_client_that_leaves_while_it_waits_is_charged_nothing(gateway, up):
    gate = Gate()
    up.default(answer(HELLO, holds=((0, gate),)))
    world = gateway.serving(up, "k-1", group=SHORT)
    with gateway.streaming(world) as got:
        assert next(got.iter_raw()) == b": keep-alive\n\n"
    gate.open()
    record = gateway.only_record(world)
    assert (record.status, record.charge) == ("cancelled", 0)
    wait_until(gateway.is_idle)


FULL = {"stream_hold": "full"}


def test_an_answer_held_whole_fails_over_even_after_content(gateway, up):
    up.script("k-1", sse_error_after(3))
    world = gateway.serving(up, "k-1", "k-2", group=FULL)
    said = ask(gateway, world, stream=True)
    assert said.text == HELLO
    record = gateway.record(said.headers["x-request-id"])
    assert [a.outcome for a in attempts(record)] == ["overloaded", "served"]
    assert record.status == "finished"


def test_an_answer_held_whole_that_is_cut_fails_over(gateway, up):
    up.script("k-1", stream(["one", " two"], complete=False, done=False))
    world = gateway.serving(up, "k-1", "k-2", group=FULL)
    said = ask(gateway, world, stream=True)
    assert said.text == HELLO
    assert outcomes(gateway.record(said.headers["x-request-id"]))[-1] == ("k2", "served")


def test_an_answer_that_is_too_long_to_hold_is_committed(gateway, up, monkeypatch):
    monkeypatch.setattr("proxy.opening.FULL_BYTES", 2000)
    up.script("k-1", stream(["word "] * 100))
    world = gateway.serving(up, "k-1", "k-2", group=FULL)
    said = ask(gateway, world, stream=True)
    assert said.text == "word " * 100
    assert outcomes(gateway.record(said.headers["x-request-id"])) == [("k1", "served")]


@pytest.mark.parametrize("streamed", [False, True])
def test_silence_moves_on_and_is_bounded(gateway, up, streamed):
    up.script("k-1", silent())
    world = gateway.serving(up, "k-1", "k-2", group={"policy": {"silence_s": 0.3}})
    began = time.monotonic()
    said = ask(gateway, world, stream=streamed)
    assert 0.3 <= time.monotonic() - began < 5
    assert said.text == HELLO
    assert outcomes(gateway.record(said.headers["x-request-id"])) == [("k1", "timeout"), ("k2", "served")]


def test_no_attempt_starts_after_the_clients_own_timeout(gateway, up):
    up.default(status(500, head_delay_s=0.5))
    world = gateway.serving(up, "k-1", "k-2", "k-3", "k-4")
    answered = gateway.post(world, chat(), headers={"x-stainless-timeout": "0.2"})
    assert answered.status_code == 502
    assert len(attempts(gateway.record(answered))) == 1
