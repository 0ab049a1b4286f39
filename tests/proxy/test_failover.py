"""A key that fails before its answer has begun is passed over; the client sees the next one's answer."""

import time
from collections import Counter

import pytest

from billing.models import RequestRecord
from tests.fake_upstream import (
    Behaviour,
    Ending,
    answer,
    broken,
    closed_port,
    empty,
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
    wrong_length,
)
from tests.gateway import CHARGE, CHAT, HELLO, attempts, chat, ledger, outcomes
from tests.proxy.asking import ask

ERROR = {"error": {"message": "The server had an error", "type": "server_error", "code": None}}

# What the first key does -> the class of it.
BY_STATUS: dict[str, tuple[Behaviour, str]] = {
    "429": (status(429, retry_after=3), "rate_limited"),
    "quota": (status(429, error_code="insufficient_quota", error_type="insufficient_quota"), "quota_exhausted"),
    "401": (status(401), "auth_invalid"),
    "402": (status(402), "insufficient_balance"),
    "403": (status(403), "permission_denied"),
    "404": (status(404), "model_unavailable"),
    "408": (status(408), "timeout"),
    "500": (status(500), "server_error"),
    "503": (status(503), "overloaded"),
    "529": (status(529), "overloaded"),
    "redirect": (redirect("http://127.0.0.1:9/v1/chat/completions"), "server_error"),
}
BY_BODY: dict[str, tuple[Behaviour, str]] = {
    "html": (html(), "server_error"),
    "empty": (empty(), "server_error"),
    "blank": (raw(b" \n\n "), "server_error"),
    "error body": (raw(ERROR), "server_error"),
    "a number": (raw(b"42"), "server_error"),
}
BY_CONNECTION: dict[str, tuple[Behaviour, str]] = {
    "hang up": (hang_up(), "connection"),
    "reset": (reset(), "connection"),
    "cut head": (hang_up(b"HTTP/1.1 200 OK\r\ncontent-le"), "connection"),
    "not http": (hang_up(b"SSH-2.0-OpenSSH_9.2\r\n"), "connection"),
    "silent": (silent(), "timeout"),
    "silent after the head": (
        silent(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"),
        "timeout",
    ),
}
WHOLE_ONLY: dict[str, tuple[Behaviour, str]] = {
    "cut body": (broken(answer(), Ending.CLOSE, size=60), "connection"),
    "reset body": (broken(answer(), Ending.RESET, size=60), "connection"),
    "short body": (wrong_length(answer(), 10), "connection"),
    "no content": (raw({"id": "x", "object": "chat.completion", "choices": []}), "server_error"),
}
STREAM_ONLY: dict[str, tuple[Behaviour, str]] = {
    "error first": (sse_error_first(), "overloaded"),
    "error behind the opening": (sse_error_after(0), "overloaded"),
    "rate limit event": (sse_error_first("Rate limit reached", code="rate_limit_exceeded", status=429), "rate_limited"),
    "json": (answer(streamed=False), "server_error"),
    "html as stream": (raw(b"<html></html>", content_type="text/event-stream"), "server_error"),
    "empty stream": (sse(), "server_error"),
    "done at once": (sse(b"data: [DONE]\n\n"), "server_error"),
    "only comments": (sse(b": hello\n\n", b": hello\n\n"), "server_error"),
    "cut before content": (broken(answer(), Ending.CLOSE, events=1), "connection"),
    "reset before content": (broken(answer(), Ending.RESET, events=1), "connection"),
    "ends before content": (answer(complete=False).but(stop_events=1, ending=Ending.KEEP), "connection"),
}
BOTH = BY_STATUS | BY_BODY | BY_CONNECTION
CASES = [
    *(pytest.param(*case, False, id=f"whole-{name}") for name, case in (BOTH | WHOLE_ONLY).items()),
    *(pytest.param(*case, True, id=f"stream-{name}") for name, case in (BOTH | STREAM_ONLY).items()),
]


@pytest.mark.parametrize(("behaviour", "cause", "stream"), CASES)
def test_a_failure_before_content_moves_to_the_next_key(gateway, up, behaviour, cause, stream):
    """Reports 18 (429), 24 (first event is an error), 29 (529): the client gets 200, the failure is on record."""
    up.script("k-1", behaviour)
    world = gateway.serving(up, "k-1", "k-2", group={"policy": {"silence_s": 0.3}})
    said = ask(gateway, world, stream=stream)
    assert (said.text, said.finish) == (HELLO, "stop")
    assert up.keys() == ["k-1", "k-2"]
    record = gateway.record(said)
    assert outcomes(record) == [("k1", cause), ("k2", "served")]
    assert (record.status, record.http_status, record.attempt_count) == ("finished", 200, 2)
    assert [a.content for a in attempts(record)] == [False, True]
    assert (record.charge, record.cost, record.waste) == (CHARGE, CHARGE, None)
    assert ledger(record) == [("charge", CHARGE), ("cost", CHARGE)]
    assert RequestRecord.objects.filter(tenant=world.tenant).count() == 1
    assert said.headers["x-pointsman-attempts"] == "2"


@pytest.mark.parametrize("stream", [False, True])
def test_a_refused_port_moves_on(gateway, up, stream):
    with closed_port() as url:
        world = gateway.serving(url, "k-1", "k-2")
        world.upstreams[1].base_url = up.base_url
        world.upstreams[1].save()
        gateway.refresh()
        said = ask(gateway, world, stream=stream)
    assert said.text == HELLO
    record = gateway.record(said)
    assert outcomes(record) == [("k1", "connection"), ("k2", "served")]
    assert attempts(record)[0].status is None
    assert attempts(record)[0].message == "the upstream refused the connection"


def test_an_upstream_at_an_inner_address_is_never_dialled(gateway, up):
    """Report 52, at connect: a row that got past the check at save is refused all the same."""
    world = gateway.serving(f"http://127.0.0.2:{up.port}/v1", "k-1", "k-2")
    world.upstreams[1].base_url = up.base_url
    world.upstreams[1].save()
    gateway.refresh()
    said = ask(gateway, world)
    assert said.text == HELLO
    assert up.keys() == ["k-2"]
    assert outcomes(gateway.record(said)) == [("k1", "connection"), ("k2", "served")]


def test_a_redirect_is_not_followed(gateway, up):
    """Report 52, by redirect: the credential goes nowhere else."""
    up.script("k-1", redirect(f"{up.url}/elsewhere"))
    world = gateway.serving(up, "k-1", "k-2")
    assert ask(gateway, world).text == HELLO
    assert [seen.path for seen in up.requests] == [CHAT, CHAT]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("code", "message"), [(400, "Invalid value: 'temperature' must be at most 2"), (422, "messages.0.role: unknown")]
)
def test_a_bad_request_is_asked_once_and_passed_on(gateway, up, stream, code, message):
    """Report 19."""
    up.default(status(code, message))
    world = gateway.serving(up, "k-1", "k-2", "k-3")
    got = gateway.post(world, chat(stream=stream))
    assert got.status_code == code
    assert got.json()["error"]["message"] == message
    assert got.headers["x-pointsman-error-source"] == "upstream"
    assert up.keys() == ["k-1"]
    record = gateway.record(got)
    assert (record.status, record.http_status, record.charge) == ("failed", code, 0)
    assert outcomes(record) == [("k1", "bad_request")]
    assert ledger(record) == []


def test_the_error_body_of_a_bad_request_is_the_upstreams_bytes(gateway, up):
    body = b'{ "error" : {"message":"Unsupported \\u0026 odd", "extra": [1.0, 1e3] } }\n'
    up.default(raw(body, status=400, content_type="application/json; charset=utf-8"))
    got = gateway.post(gateway.serving(up, "k-1"))
    assert (got.status_code, got.content) == (400, body)
    assert got.headers["content-type"] == "application/json; charset=utf-8"


def test_no_key_is_asked_twice_by_one_request(gateway, up):
    """Report 20: a key that always fails is tried at most once a request, and all requests succeed."""
    up.default(status(500), key="k-1")
    world = gateway.serving(up, "k-1", "k-2", group={"strategy": "round_robin", "policy": {"strikes": 1000}})
    for _ in range(50):
        got = gateway.post(world)
        assert got.json()["choices"][0]["message"]["content"] == HELLO
        assert Counter(name for name, _ in outcomes(gateway.record(got))).most_common(1)[0][1] == 1
    tried = Counter(up.keys())
    assert tried["k-2"] == 50
    assert 0 < tried["k-1"] <= 50


def test_endless_failures_end(gateway, up):
    """Report 27: bounded attempts, then an error; nothing is tried again in the background."""
    up.default(status(500))
    world = gateway.serving(up, *(f"k-{n}" for n in range(1, 9)), group={"policy": {"strikes": 1000}})
    began = time.monotonic()
    got = gateway.post(world)
    assert time.monotonic() - began < 5
    assert got.status_code == 502
    assert got.json()["error"]["code"] == "upstream_failed"
    assert up.keys() == [f"k-{n}" for n in range(1, 6)]
    record = gateway.record(got)
    assert (record.status, record.attempt_count, record.charge) == ("failed", 5, 0)
    assert got.headers["x-pointsman-attempts"] == "5"


def test_no_attempt_starts_behind_the_deadline(gateway, up):
    """Report 27: one total deadline."""
    up.default(status(500).but(head_delay_s=0.3))
    policy = {"first_content_deadline_s": 0.5, "strikes": 1000}
    got = gateway.post(gateway.serving(up, *(f"k-{n}" for n in range(1, 6)), group={"policy": policy}))
    assert got.status_code == 502
    assert up.keys() == ["k-1", "k-2"]


@pytest.mark.parametrize("header", ["x-stainless-timeout", "x-stainless-read-timeout", "x-server-timeout"])
def test_the_clients_own_timeout_is_a_deadline(gateway, up, header):
    up.default(status(500).but(head_delay_s=0.3))
    world = gateway.serving(up, *(f"k-{n}" for n in range(1, 6)), group={"policy": {"strikes": 1000}})
    got = gateway.post(world, headers={header: "0.5"})
    assert (got.status_code, up.keys()) == (502, ["k-1", "k-2"])


def test_keys_of_a_failing_upstream_go_behind_those_of_others(gateway, up):
    up.script("k-1", status(500))
    world = gateway.serving(up, "k-1", "k-2", one_upstream=True)
    other = gateway.serving(up, "k-3")
    # The second tenant's key moves into the first one's group, as an upstream of its own.
    other.upstreams[0].tenant = world.tenant
    other.upstreams[0].name = "u9"
    other.upstreams[0].save()
    world.group.members.create(upstream=other.upstreams[0], position=9)
    gateway.refresh()
    assert ask(gateway, world).text == HELLO
    assert up.keys() == ["k-1", "k-3"]


def test_max_attempts_is_a_policy(gateway, up):
    up.default(status(503))
    got = gateway.post(gateway.serving(up, "k-1", "k-2", "k-3", group={"policy": {"max_attempts": 2}}))
    assert (got.status_code, up.keys()) == (502, ["k-1", "k-2"])
