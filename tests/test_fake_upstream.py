"""The fake upstream keeps its word: official SDKs read it, and its faults are the faults that it announces."""

import asyncio
import gzip
import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import brotli
import openai
import pytest
from backports import zstd

from tests.fake_upstream import (
    Ending,
    FakeUpstream,
    Gate,
    Length,
    Recorded,
    Text,
    answer,
    broken,
    closed_port,
    empty,
    from_corpus,
    hang_up,
    html,
    raw,
    redirect,
    reset,
    silent,
    sse,
    status,
    stream,
    wrong_length,
)

MESSAGES: Any = [{"role": "user", "content": "hi"}]


@pytest.fixture
def up() -> Iterator[FakeUpstream]:
    with FakeUpstream(models=("fake-model", "other-model")) as server:
        yield server


def openai_client(up: FakeUpstream, key: str = "key-1") -> openai.OpenAI:
    return openai.OpenAI(api_key=key, base_url=up.base_url, max_retries=0)


def post(
    up: FakeUpstream, body: dict[str, Any] | None = None, *, path: str = "/v1/chat/completions", key: str = "key-1"
) -> tuple[int, dict[str, str], bytes]:
    """One plain request without an SDK: status, headers (lower-case), body."""
    connection = http.client.HTTPConnection("127.0.0.1", up.port, timeout=5)
    try:
        content = json.dumps({"model": "m", "messages": MESSAGES, **(body or {})})
        connection.request("POST", path, content, {"Authorization": f"Bearer {key}"})
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


class TestScripts:
    def test_the_most_exact_queue_goes_first(self, up: FakeUpstream) -> None:
        up.default(status(418))
        up.default(status(402), key="key-2")
        up.script(None, status(500))
        up.script(None, status(501), path="*/completions")
        up.script("key-1", status(502))
        up.script("key-1", status(503), path="/v1/chat/completions")
        assert [post(up)[0] for _ in range(5)] == [503, 502, 501, 500, 418]
        assert post(up, key="key-2")[0] == 402
        assert up.unused() == {}

    def test_a_model_list_leaves_the_queue_alone(self, up: FakeUpstream) -> None:
        up.script("key-1", status(500))
        with openai_client(up) as client:
            client.models.list()
        assert up.unused() == {("key-1", None): 1}
        up.script("key-1", status(401), path="*")
        with openai_client(up) as client, pytest.raises(openai.AuthenticationError):
            client.models.list()

    def test_a_function_decides_from_the_request(self, up: FakeUpstream) -> None:
        def by_model(request: Recorded) -> Any:
            return answer("yes") if request.json["model"] == "good" else status(404)

        up.default(by_model)
        assert [post(up, {"model": model})[0] for model in ("good", "bad")] == [200, 404]

    def test_a_fault_in_a_reaction_comes_to_light(self) -> None:
        def wrong(_: Recorded) -> Any:
            raise ZeroDivisionError

        server = FakeUpstream()
        server.start()
        server.default(wrong)
        with pytest.raises(http.client.RemoteDisconnected):
            post(server)
        with pytest.raises(ZeroDivisionError):
            server.stop()

    def test_an_unknown_field_is_refused(self) -> None:
        with pytest.raises(TypeError, match="no_such_field"):
            answer().but(no_such_field=1)


class TestRecords:
    def test_a_request_is_kept_exactly(self, up: FakeUpstream) -> None:
        head = b"POST /v1/chat/completions?beta=true&key=q1 HTTP/1.1\r\nHost: x\r\nX-Odd:  Value \r\nx-odd: again\r\n"
        auth = b"X-API-Key: second\r\nauthorization: Bearer first\r\nTransfer-Encoding: chunked\r\n\r\n"
        with socket.create_connection(("127.0.0.1", up.port)) as peer:
            peer.sendall(head + auth + b'3\r\n{"a\r\n4\r\n":1}\r\n0\r\n\r\n')
            assert peer.recv(15) == b"HTTP/1.1 200 OK"
            (seen,) = up.wait_for_requests(1)
        assert (seen.method, seen.path, seen.query) == ("POST", "/v1/chat/completions", "beta=true&key=q1")
        assert seen.headers == (
            ("Host", "x"),
            ("X-Odd", "Value"),
            ("x-odd", "again"),
            ("X-API-Key", "second"),
            ("authorization", "Bearer first"),
            ("Transfer-Encoding", "chunked"),
        )
        assert (seen.body, seen.json) == (b'{"a":1}', {"a": 1})
        assert seen.key == "first"
        assert seen.credentials == (("authorization", "first"), ("x-api-key", "second"), ("key", "q1"))

    def test_a_client_that_leaves_is_noticed(self, up: FakeUpstream) -> None:
        up.script("key-1", stream(["a"] * 50, holds=((3, Gate()),)))
        with openai_client(up) as client:
            chunks = client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
            assert next(iter(chunks)).choices[0].delta.role == "assistant"
            chunks.close()
        up.wait_for_hang_ups(1)
        assert (up.last.hung_up, up.last.ended) == (True, True)
        up.wait_until(lambda: up.open_connections == 0)

    def test_a_gate_holds_until_it_is_opened(self, up: FakeUpstream) -> None:
        gate = Gate()
        up.script("key-1", stream(["a", "b"], holds=((2, gate),)))
        with openai_client(up) as client:
            chunks = iter(client.chat.completions.create(model="m", messages=MESSAGES, stream=True))
            assert [next(chunks).choices[0].delta.content for _ in range(2)] == ["", "a"]
            assert not up.last.ended
            gate.open()
            assert [chunk.choices[0].delta.content for chunk in chunks] == ["b", None]
        up.wait_until_idle()
        assert (up.counts.answered, up.counts.hung_up) == (1, 0)

    def test_a_wait_that_fails_says_so(self, up: FakeUpstream) -> None:
        with pytest.raises(AssertionError, match="2 requests"):
            up.wait_for_requests(2, timeout_s=0.01)

    async def test_waiting_beside_a_running_loop(self, up: FakeUpstream) -> None:
        url = f"{up.base_url}/chat/completions"
        async with aiohttp.ClientSession() as session:
            arrived = asyncio.ensure_future(up.arrived(1, key="k"))
            async with session.post(url, json={}, headers={"x-api-key": "k"}) as response:
                assert response.status == 200
            assert [seen.key for seen in await arrived] == ["k"]

    def test_a_slow_reader_holds_the_server_back(self, up: FakeUpstream) -> None:
        size = 64 * 1024 * 1024
        up.script("key-1", raw(b"x" * size))
        with socket.socket() as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            peer.connect(("127.0.0.1", up.port))
            peer.sendall(b"POST / HTTP/1.1\r\nx-api-key: key-1\r\n\r\n")
            assert peer.recv(8) == b"HTTP/1.1"
            (seen,) = up.wait_for_requests(1)
            assert seen.sent < size
            assert not seen.ended


class TestDelivery:
    def wire(self, up: FakeUpstream, **how: Any) -> bytes:
        up.script("key-1", stream(["世", "🙂"], id="same", **how))
        return post(up, {"stream": True})[2]

    def test_framing(self, up: FakeUpstream) -> None:
        plain = self.wire(up)
        assert plain.endswith(b"data: [DONE]\n\n")
        assert self.wire(up, newline=b"\r\n") == plain.replace(b"\n", b"\r\n")
        assert self.wire(up, data_prefix=b"data:") == plain.replace(b"data: ", b"data:")
        assert self.wire(up, comments=("OPENROUTER PROCESSING",)) == b": OPENROUTER PROCESSING\n\n" + plain
        assert self.wire(up, last_blank=False) == plain.removesuffix(b"\n")
        assert self.wire(up, done=False) == plain.removesuffix(b"data: [DONE]\n\n")
        assert b'"finish_reason":"stop"' not in self.wire(up, complete=False)
        assert self.wire(up, single_write=True) == plain
        assert self.wire(up, length=Length.CLOSE) == plain
        assert self.wire(up, length=Length.STATED) == plain

    async def test_cut_pieces_arrive_apart(self, up: FakeUpstream) -> None:
        up.script(None, sse(b"0123456789", cuts=(3, 4), cut_delay_s=0.02), sse(b"abc", every=1, cut_delay_s=0.02))
        async with aiohttp.ClientSession() as session:
            for expected in ([b"012", b"3", b"456789"], [b"a", b"b", b"c"]):
                async with session.post(up.base_url) as response:
                    assert [chunk async for chunk in response.content.iter_any()] == expected

    @pytest.mark.parametrize(
        ("coding", "decode"),
        [("gzip", gzip.decompress), ("br", brotli.decompress), ("zstd", zstd.decompress)],
    )
    def test_codings(self, up: FakeUpstream, coding: str, decode: Any) -> None:
        up.script("key-1", stream(["a", "b"]), stream(["a", "b"], coding=coding), answer("x", coding=coding))
        plain = post(up, {"stream": True})[2]
        _, headers, body = post(up, {"stream": True})
        assert headers["content-encoding"] == coding
        assert decode(body) == plain.replace(b"fake1", b"fake2")
        assert json.loads(decode(post(up)[2]))["choices"][0]["message"]["content"] == "x"

    def test_odd_answers(self, up: FakeUpstream) -> None:
        up.script("key-1", html(), empty(), redirect("http://elsewhere.example/"), answer(streamed=False))
        code, headers, body = post(up)
        assert (code, headers["content-type"], body[:6]) == (200, "text/html", b"<html>")
        assert post(up)[2] == b""
        assert post(up)[:2] == (
            307,
            {"x-request-id": "req_up_3", "location": "http://elsewhere.example/", "content-length": "0"},
        )
        assert post(up, {"stream": True})[1]["content-type"] == "application/json"

    def test_slow_head_and_informational_answers(self, up: FakeUpstream) -> None:
        up.script("key-1", answer("x", informational=(100, 103), head_every=7, head_delay_s=0.01, first_delay_s=0.01))
        with socket.create_connection(("127.0.0.1", up.port)) as peer:
            peer.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nx-api-key: key-1\r\nconnection: close\r\n\r\n")
            got = b"".join(iter(lambda: peer.recv(65536), b""))
        assert got.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\n")
        assert json.loads(got.rpartition(b"\r\n\r\n")[2])["choices"][0]["message"]["content"] == "x"

    def test_head_has_no_body(self, up: FakeUpstream) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", up.port, timeout=5)
        connection.request("HEAD", "/api/hello")
        assert connection.getresponse().read() == b""
        connection.request("GET", "/v1/models")
        assert connection.getresponse().status == 200
        connection.close()
        assert up.counts.connections == 1


class TestFaults:
    """Each fault as aiohttp, the gateway's own client, names it."""

    async def fault(self, url: str, timeout_s: float = 5) -> tuple[str, int]:  # house: a session, a try, a response
        """The exception's name and the body bytes that came before it."""
        came = 0
        timeout = aiohttp.ClientTimeout(total=None, sock_read=timeout_s)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            try:
                async with session.post(url, json={"stream": True}, headers={"x-api-key": "k"}) as response:
                    async for chunk in response.content.iter_any():
                        came += len(chunk)
            except (aiohttp.ClientError, OSError) as exc:
                return type(exc).__name__, came
        return "", came

    @pytest.mark.parametrize(
        ("case", "scripted", "expected"),
        [
            ("closed before headers", hang_up(), ("ServerDisconnectedError", 0)),
            ("closed inside the headers", hang_up(b"HTTP/1.1 200 OK\r\nx-a: "), ("ServerDisconnectedError", 0)),
            ("reset before headers", reset(), ("ClientOSError", 0)),
            ("closed inside the body", broken(sse(b"0123456789"), Ending.CLOSE, size=4), ("ClientPayloadError", 4)),
            ("reset inside the body", broken(sse(b"0123456789"), Ending.RESET, size=4), ("ClientPayloadError", 4)),
            ("length too large", wrong_length(raw(b"0123"), 6), ("ClientPayloadError", 4)),
            ("no terminator", broken(sse(b"01", b"23"), Ending.CLOSE, events=2), ("ClientPayloadError", 4)),
        ],
    )
    async def test_fault(self, up: FakeUpstream, case: str, scripted: Any, expected: tuple[str, int]) -> None:
        up.script("k", scripted)
        assert await self.fault(f"{up.base_url}/chat/completions") == expected, case

    def test_a_length_too_small_cuts_the_body(self, up: FakeUpstream) -> None:
        up.script("key-1", wrong_length(raw(b"0123"), -2))
        assert post(up)[1:] == (
            {"content-type": "application/json", "x-request-id": "req_up_1", "content-length": "2"},
            b"01",
        )

    @pytest.mark.parametrize(
        ("scripted", "came"), [(silent(), 0), (broken(sse(b"0123"), Ending.STALL, size=2), 2), (silent(b"HTTP/1"), 0)]
    )
    async def test_silence(self, up: FakeUpstream, scripted: Any, came: int) -> None:
        up.script("k", scripted)
        assert await self.fault(f"{up.base_url}/chat/completions", timeout_s=0.2) == ("SocketTimeoutError", came)
        await asyncio.to_thread(up.wait_for_hang_ups, 1)
        assert up.last.stalled

    async def test_refused(self, up: FakeUpstream) -> None:
        with closed_port() as url:
            assert await self.fault(url) == ("ClientConnectorError", 0)
        up.refuse()
        assert await self.fault(up.base_url) == ("ClientConnectorError", 0)
        up.listen()
        assert (await self.fault(up.base_url))[0] == ""

    async def test_idle_connections_can_be_dropped(self, up: FakeUpstream) -> None:
        async with aiohttp.ClientSession() as session:
            async with session.post(up.base_url) as response:
                await response.read()
            await asyncio.to_thread(up.wait_until_idle)
            up.drop_idle()
            await asyncio.to_thread(up.wait_until, lambda: up.open_connections == 0)
            assert up.counts.connections == 1


def test_texts_are_cut_behind_blanks_and_join_again() -> None:
    (part,) = answer("one two  three ").content.parts  # type: ignore[union-attr]
    assert isinstance(part, Text)
    assert part.whole == "one two  three "
    assert part.pieces == ("one ", "two ", " ", "three ")


def corpus() -> list[dict[str, Any]]:
    lines = Path(__file__).with_name("corpus").joinpath("upstream_errors.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_corpus_rows_are_replayed_as_they_stand(up: FakeUpstream) -> None:
    rows = [row for row in corpus() if row["status"] and not row.get("exception")]
    assert len(rows) > 300
    for row in rows:
        up.script("key-1", from_corpus(row))
        code, headers, body = post(up)
        assert code == row["status"], row["id"]
        assert (body.decode() if isinstance(row["body"], str) else json.loads(body)) == row["body"], row["id"]
        stated = {name.lower(): value for name, value in row["headers"].items() if name.lower() != "content-length"}
        assert stated.items() <= headers.items(), row["id"]


def test_corpus_rows_that_never_reach_the_server_are_refused() -> None:
    refused = []
    for row in corpus():
        try:
            from_corpus(row)
        except ValueError:
            refused.append(row["id"])
    expected = ["net-connect-refused", "net-dns", "net-tls", "net-connect-timeout", "net-pool-timeout"]
    assert refused == expected
