"""Streams arrive whole, whatever the upstream does with its bytes, and their usage is known."""

import json
import socket
import time

import httpx
import pytest

from tests.fake_upstream import (
    Ending,
    Gate,
    Length,
    Tokens,
    UsagePlace,
    answer,
    broken,
    raw,
    sse,
    status,
    stream,
)
from tests.gateway import CHARGE, CHAT, HELLO, chat, ledger, wait_until
from tests.proxy.asking import ask

EMOJI = ["你好，世界", " 🚂 é – end"]
TEXT = "".join(EMOJI)
USAGE = (25, 7, "upstream")


def counted(record):
    return (record.input_tokens, record.output_tokens, record.usage_source)


WAYS = {
    "every byte": {"every": 1},
    "every 3 bytes": {"every": 3},
    "every 7 bytes": {"every": 7},
    "one write": {"single_write": True},
    "crlf": {"newline": b"\r\n"},
    "crlf every byte": {"newline": b"\r\n", "every": 1},
    "cr": {"newline": b"\r"},
    "no blank behind data:": {"data_prefix": b"data:"},
    "comments": {"comments": ("OPENROUTER PROCESSING", "OPENROUTER PROCESSING")},
    "no blank line at the end": {"last_blank": False},
    "until close": {"length": Length.CLOSE},
    "gzip": {"coding": "gzip"},
    "deflate": {"coding": "deflate"},
    "brotli": {"coding": "br"},
    "zstd": {"coding": "zstd"},
    "no done": {"done": False},
    "usage in the finish chunk": {"usage_place": UsagePlace.FINISH},
    "usage behind done": {"usage_place": UsagePlace.AFTER_DONE},
    "usage in every chunk": {"usage_place": UsagePlace.EVERY},
    "pieces late": {"delay_s": 0.01},
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_the_sdk_reads_the_stream_and_the_usage_is_recorded(gateway, up, way):
    """Reports 32 (comments), 34 (cut characters), 35 (one write), 39 (brotli)."""
    up.script("k-1", stream(EMOJI).but(**way))
    world = gateway.serving(up, "k-1")
    said = ask(gateway, world, stream=True)
    assert (said.text, said.finish, said.models) == (TEXT, "stop", {"gpt-4o"})
    record = gateway.record(said)
    assert (record.status, record.estimated, *counted(record)) == ("finished", False, *USAGE)
    assert (record.charge, ledger(record)) == (CHARGE, [("charge", CHARGE), ("cost", CHARGE)])


def test_a_character_may_be_cut_at_every_offset(gateway, up):
    """Report 34: all cuts through a three-byte and a four-byte character."""
    world = gateway.serving(up, "k-1")
    body = stream(["好🚂"], usage_place=UsagePlace.FINISH)
    up.script("k-1", body)
    whole = gateway.post(world, chat(stream=True)).content
    start = whole.index("好".encode())
    for offset in range(start, start + 8):
        # The number in the answer's id may have one digit more than in the first answer: cut around, too.
        up.script("k-1", body.but(cuts=(offset, offset + 1), cut_delay_s=0.002))
        assert ask(gateway, world, stream=True).text == "好🚂"


@pytest.mark.parametrize("client_says", ["br", "gzip, deflate, br, zstd", "identity", None])
def test_the_client_can_decode_what_it_gets(gateway, up, client_says):
    """Report 39: the client's Accept-Encoding is not passed on; what an upstream packs all the same is unpacked."""
    up.default(answer().but(coding="br"))
    world = gateway.serving(up, "k-1")
    headers = {} if client_says is None else {"accept-encoding": client_says}
    got = gateway.post(world, headers=headers)
    assert got.json()["choices"][0]["message"]["content"] == HELLO
    assert "content-encoding" not in got.headers
    assert up.last.header("accept-encoding") == "identity"
    assert counted(gateway.record(got)) == USAGE


class TestTheUsageChunk:
    """Reports 9, 10, 37."""

    @pytest.mark.parametrize("options", [None, {"include_usage": False}, {"include_obfuscation": False}])
    def test_is_asked_for_and_withheld_from_who_did_not_ask(self, gateway, up, options):
        world = gateway.serving(up, "k-1")
        fields = {} if options is None else {"stream_options": options}
        said = ask(gateway, world, stream=True, **fields)
        assert (said.text, said.finish, said.usages) == (HELLO, "stop", [])
        assert up.last.json["stream_options"] == {**(options or {}), "include_usage": True}
        assert counted(gateway.record(said)) == USAGE

    def test_is_passed_to_who_asked(self, gateway, up):
        world = gateway.serving(up, "k-1")
        said = ask(gateway, world, stream=True, stream_options={"include_usage": True})
        assert [usage.total_tokens for usage in said.usages] == [32]
        assert counted(gateway.record(said)) == USAGE

    def test_of_a_client_that_asked_is_byte_for_byte_the_upstreams(self, gateway, up):
        body = chat(stream=True, stream_options={"include_usage": True})
        said = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
        end = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
        count = b'data: {"choices":[],"usage":{"prompt_tokens": 3,"completion_tokens":1.0e0}}\n\n'
        up.script("k-1", sse(said, end, count, b"data: [DONE]\n\n"))
        got = gateway.post(gateway.serving(up, "k-1"), body)
        assert got.content == said + end + count + b"data: [DONE]\n\n"

    def test_in_a_whole_answer_is_no_business_of_ours(self, gateway, up):
        world = gateway.serving(up, "k-1")
        gateway.post(world)
        assert "stream_options" not in up.last.json

    @pytest.mark.parametrize("code", [400, 422])
    def test_an_upstream_that_refuses_the_option_is_asked_again_without_it(self, gateway, up, code):
        refusal = status(code, "Unrecognized request argument supplied: stream_options")
        up.default(lambda seen: refusal if "stream_options" in seen.json else stream(["ok"]))
        world = gateway.serving(up, "k-1", "k-2")
        said = ask(gateway, world, stream=True)
        assert said.text == "ok"
        assert [(seen.key, "stream_options" in seen.json) for seen in up.requests] == [("k-1", True), ("k-1", False)]
        record = gateway.record(said)
        assert (record.attempt_count, record.estimated, record.usage_source) == (1, True, "estimated")
        # It is remembered.
        assert ask(gateway, world, stream=True).text == "ok"
        assert [(seen.key, "stream_options" in seen.json) for seen in up.requests[2:]] == [("k-1", False)]

    def test_a_client_whose_own_option_is_refused_hears_it(self, gateway, up):
        up.default(status(400, "Unrecognized request argument supplied: stream_options"))
        got = gateway.post(gateway.serving(up, "k-1"), chat(stream=True, stream_options={"include_usage": True}))
        assert (got.status_code, len(up.requests)) == (400, 1)


def test_without_usage_the_answer_is_estimated_and_says_so(gateway, up):
    up.script("k-1", stream(["12345678", "1234"], usage_place=UsagePlace.NEVER))
    world = gateway.serving(up, "k-1")
    got = gateway.post(world, chat(stream=True))
    record = gateway.record(got)
    sent = len(got.request.content)
    assert (record.input_tokens, record.output_tokens) == (-(-sent // 4), 3)
    assert (record.estimated, record.usage_source, record.cached_read_tokens) == (True, "estimated", None)
    assert record.charge > 0


def test_a_stream_and_a_whole_answer_cost_the_same(gateway, up):
    """Report 1."""
    tokens = Tokens(input=1000, output=200, cached_read=600, reasoning=150)
    up.default(answer("Same", tokens=tokens))
    world = gateway.serving(up, "k-1")
    records = [gateway.record(ask(gateway, world, stream=flag)) for flag in (False, True)]
    sums = [(r.input_tokens, r.cached_read_tokens, r.output_tokens, r.reasoning_tokens, r.charge) for r in records]
    assert sums[0] == sums[1]
    assert sums[0][:4] == (1000, 600, 200, 150)


class TestWaiting:
    """Reports 33, 38: a held opening keeps the line open."""

    def test_keepalives_are_comments_the_sdk_ignores(self, gateway, up, monkeypatch):
        monkeypatch.setattr("proxy.views.KEEPALIVE_S", 0.1)
        up.script("k-1", answer().but(first_delay_s=0.45))
        world = gateway.serving(up, "k-1", group={"policy": {"hold_s": 0.1}})
        with gateway.streaming(world) as got:
            parts = list(got.iter_raw())
        text = b"".join(parts)
        assert text.count(b": keep-alive\n\n") >= 3
        assert parts[0] == b": keep-alive\n\n"
        assert text.endswith(b"data: [DONE]\n\n")
        up.script("k-1", answer().but(first_delay_s=0.3))
        assert ask(gateway, world, stream=True).text == HELLO

    def test_failover_goes_on_behind_the_headers(self, gateway, up):
        up.script("k-1", status(500).but(head_delay_s=0.3))
        world = gateway.serving(up, "k-1", "k-2", group={"policy": {"hold_s": 0.1}})
        said = ask(gateway, world, stream=True)
        assert (said.text, up.keys()) == (HELLO, ["k-1", "k-2"])
        record = gateway.record(said)
        assert (record.status, record.attempt_count, record.charge) == ("finished", 2, CHARGE)

    def test_nothing_served_ends_in_an_error_event(self, gateway, up):
        up.default(status(500).but(head_delay_s=0.3))
        world = gateway.serving(up, "k-1", group={"policy": {"hold_s": 0.1}})
        got = gateway.post(world, chat(stream=True))
        assert got.status_code == 200
        event = json.loads(got.content.rpartition(b"data: ")[2])
        assert event["error"]["code"] == "upstream_failed"
        assert b"[DONE]" not in got.content
        record = gateway.record(got)
        assert (record.status, record.http_status, record.charge, ledger(record)) == ("failed", 200, 0, [])

    def test_upstream_comments_reach_the_client_while_it_waits(self, gateway, up):
        """Report 38: once the headers are out, nothing buffers what keeps the line alive."""
        gate = Gate()
        head = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
        end = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
        up.script("k-1", sse(head, b": thinking\n\n", end, holds=((2, gate),)))
        with gateway.streaming(gateway.serving(up, "k-1")) as got:
            seen = b""
            for part in got.iter_raw():
                seen += part
                if b": thinking" in seen:
                    gate.open()
        assert seen == head + b": thinking\n\n" + end


def test_content_is_not_held_back(gateway, up):
    """The first content arrives while the upstream is still at work; only the end waits for the record."""
    gate = Gate()
    up.script("k-1", stream(["first", "second"]).but(holds=((2, gate),)))
    world = gateway.serving(up, "k-1")
    with gateway.streaming(world) as got:
        parts = got.iter_raw()
        seen = b""
        while b"first" not in seen:
            seen += next(parts)
        assert b"second" not in seen
        time.sleep(0.3)
        gate.open()
        seen += b"".join(parts)
    assert b"second" in seen
    served = gateway.record(got).attempts.get()
    assert served.ms - served.first_content_ms >= 300  # a try lasts as long as its answer


def test_the_end_is_held_for_what_an_upstream_says_late_but_not_for_ever(gateway, up):
    """Usage behind [DONE] is worth a second; an upstream that then keeps its line open is left."""
    up.script("k-1", stream(["ok"]).but(ending=Ending.STALL, length=Length.CLOSE))
    world = gateway.serving(up, "k-1")
    began = time.monotonic()
    said = ask(gateway, world, stream=True)
    assert 0.9 < time.monotonic() - began < 3
    assert said.text == "ok"
    assert counted(gateway.record(said)) == USAGE
    up.wait_for_hang_ups()


def test_silence_in_the_middle_ends_the_answer(gateway, up):
    up.script("k-1", broken(stream(["a", "b"]), Ending.STALL, events=3))
    world = gateway.serving(up, "k-1", group={"policy": {"silence_s": 0.3}})
    got = gateway.post(world, chat(stream=True))
    assert b"upstream_failed" in got.content
    record = gateway.record(got)
    assert (record.status, record.attempts.get().outcome) == ("failed", "timeout")


def test_comments_are_no_content(gateway, up):
    """Keep-alives of an upstream that never goes on do not keep the answer alive."""
    opening = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
    up.script("k-1", sse(opening, *[b": ping\n\n"] * 40, delay_s=0.1))
    world = gateway.serving(up, "k-1", group={"policy": {"silence_s": 0.4}})
    began = time.monotonic()
    got = gateway.post(world, chat(stream=True))
    assert time.monotonic() - began < 2.5
    assert gateway.record(got).attempts.get().outcome == "timeout"


class SlowClient:
    """Takes the first bytes of a streamed answer; the kernel keeps few of the rest."""

    def __init__(self, gateway, world):
        small = httpx.HTTPTransport(socket_options=[(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)], verify=False)
        self.client = gateway.client(world, transport=small)
        self.answered = self.client.send(self.client.build_request("POST", CHAT, json=chat(stream=True)), stream=True)
        self.parts = self.answered.iter_raw()
        self.size = len(next(self.parts))

    def read_on(self):
        self.size += sum(map(len, self.parts))
        return self.size

    def leave(self):
        self.answered.close()
        self.client.close()


def test_slow_clients_do_not_fill_the_memory(gateway, up):
    """Back-pressure: of 200 MB the upstream has sent what the kernels hold while the client does not read."""
    piece = b'data: {"choices":[{"index":0,"delta":{"content":"' + b"x" * 65536 + b'"},"finish_reason":null}]}\n\n'
    up.script("k-1", sse(*[piece] * 3000))
    slow = SlowClient(gateway, gateway.serving(up, "k-1"))
    assert wait_until(lambda: settled_at(up), 10) < 100_000_000
    slow.leave()
    up.wait_for_hang_ups()
    wait_until(gateway.is_idle, 10)


def test_a_client_that_is_slow_to_read_is_no_silence_of_the_upstream(gateway, up):
    piece = b'data: {"choices":[{"index":0,"delta":{"content":"' + b"x" * 65536 + b'"},"finish_reason":null}]}\n\n'
    end = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    up.script("k-1", sse(*[piece] * 200, end))
    world = gateway.serving(up, "k-1", group={"policy": {"silence_s": 0.4}})
    slow = SlowClient(gateway, world)
    time.sleep(1)
    assert slow.read_on() == 200 * len(piece) + len(end)
    slow.leave()
    assert gateway.only_record(world).status == "finished"


def settled_at(up):
    """What the upstream has sent, once that no longer grows."""
    before = up.last.sent
    time.sleep(0.3)
    return before if before == up.last.sent else 0


def test_a_huge_event_passes(gateway, up):
    piece = "y" * 900_000
    up.script("k-1", stream([piece, piece]))
    assert ask(gateway, gateway.serving(up, "k-1"), stream=True).text == piece * 2


def test_bytes_that_are_no_text_pass(gateway, up):
    said = b'data: {"choices":[{"index":0,"delta":{"content":"\xff\xfe"}}]}\n\n'
    end = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    up.script("k-1", sse(said, end))
    got = gateway.post(gateway.serving(up, "k-1"), chat(stream=True))
    assert got.content == said + end


def test_json_that_is_no_stream_passes_where_none_was_asked(gateway, up):
    """A content type is not believed: what counts is what the body is."""
    body = b'  {"id":"x","choices":[{"index":0,"message":{"content":"ok"},"finish_reason":"stop"}]}'
    up.script("k-1", raw(body, content_type="text/plain"))
    assert gateway.post(gateway.serving(up, "k-1")).content == body
