"""Token counts: the upstream's where one of the dialect is there, else an estimate that says so. Never charged."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.fake_upstream import Gate, Tokens, answer, raw, status
from tests.gateway import chat, ledger, outcomes
from tests.proxy.dialects.gemini_speaker import client_of as gemini_client
from tests.proxy.dialects.speaking import Ears

TEXT = "x" * 4000
COUNTS = {
    "anthropic": ("/v1/messages/count_tokens", {"model": "m", "messages": [{"role": "user", "content": TEXT}]}),
    "openai-responses": ("/v1/responses/input_tokens", {"model": "m", "input": TEXT}),
    "gemini": ("/v1beta/models/m:countTokens", {"contents": [{"parts": [{"text": TEXT}]}]}),
}
NAMES = {"anthropic": "input_tokens", "openai-responses": "input_tokens", "gemini": "totalTokens"}


@pytest.fixture(params=COUNTS)
def dialect(request):
    return request.param


def count(gateway, world, dialect):
    path, body = COUNTS[dialect]
    return gateway.post(world, body, path=path)


def counted(got, dialect):
    assert got.status_code == 200, got.text
    return got.json()[NAMES[dialect]]


def test_the_upstream_counts(gateway, up, dialect):
    up.default(answer(tokens=Tokens(input=1234)))
    world = gateway.serving(up, "k-1", upstream={"dialect": dialect})
    got = count(gateway, world, dialect)
    assert counted(got, dialect) == 1234
    assert "x-pointsman-estimated" not in got.headers
    path, body = COUNTS[dialect]
    assert (up.last.path, up.last.json) == (path.replace("v1beta", "v1"), body)
    record = gateway.record(got)
    assert (record.status, record.charge, record.cost, record.usage_source) == ("finished", 0, 0, "none")
    assert ledger(record) == []


def test_through_the_sdks(gateway, up):
    up.default(answer(tokens=Tokens(input=77)))
    world = gateway.serving(up, "k-1", upstream={"dialect": "anthropic"})
    messages = [{"role": "user", "content": "hi"}]
    with gateway.anthropic(world) as client:
        assert client.messages.count_tokens(model="m", messages=messages).input_tokens == 77
        assert client.beta.messages.count_tokens(model="m", messages=messages).input_tokens == 77
    with gateway.openai(world) as client:
        estimated = client.responses.input_tokens.count(model="m", input="hi")
    assert (estimated.object, estimated.input_tokens > 0) == ("response.input_tokens", True)
    with gemini_client(gateway, world, Ears()) as client:
        assert client.models.count_tokens(model="m", contents="hi").total_tokens > 0


def test_no_upstream_of_the_dialect(gateway, up, dialect):
    world = gateway.serving(up, "k-1", upstream={"dialect": "openai"})
    got = count(gateway, world, dialect)
    assert 1000 <= counted(got, dialect) <= 1100
    assert got.headers["x-pointsman-estimated"] == "true"
    assert up.requests == []
    record = gateway.record(got)
    assert (record.status, record.http_status, record.charge, ledger(record)) == ("finished", 200, 0, [])


@pytest.mark.parametrize("code", [401, 403, 404, 405, 429, 500, 501])
def test_an_upstream_that_cannot_count(gateway, up, dialect, code):
    """Many relays offer no counting. That says nothing about the key or the model."""
    up.default(status(code), path="*okens")
    world = gateway.serving(up, "k-1", upstream={"dialect": dialect})
    for _ in range(4):
        got = count(gateway, world, dialect)
        assert 1000 <= counted(got, dialect) <= 1100
        assert got.headers["x-pointsman-estimated"] == "true"
    served = gateway.post(world, chat(model="m"))
    assert outcomes(gateway.record(served)) == [("k1", "served")]


def test_the_next_upstream_is_asked(gateway, up, dialect):
    up.default(status(404), key="k-1")
    up.default(answer(tokens=Tokens(input=9)), key="k-2")
    got = count(gateway, gateway.serving(up, "k-1", "k-2", upstream={"dialect": dialect}), dialect)
    assert counted(got, dialect) == 9


def test_a_bad_request_is_the_clients(gateway, up, dialect):
    up.default(status(400, "messages: at least one message is required"))
    got = count(gateway, gateway.serving(up, "k-1", upstream={"dialect": dialect}), dialect)
    assert got.status_code == 400
    assert "at least one message" in got.json()["error"]["message"]


def test_an_unknown_model_is_no_estimate(gateway, up, dialect):
    world = gateway.serving(up, "k-1", upstream={"dialect": "openai", "model_list": ["other"]})
    assert count(gateway, world, dialect).status_code == 404


def test_a_count_takes_no_slot(gateway, up):
    gate = Gate()
    up.script("k-1", answer().but(holds=((-1, gate),)))
    up.default(raw({"input_tokens": 3}), path="/v1/messages/count_tokens")
    world = gateway.serving(up, "k-1", upstream={"dialect": "anthropic"})
    world.keys[0].concurrency = 1
    world.keys[0].save()
    gateway.refresh()
    body = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]}
    with ThreadPoolExecutor() as pool:
        speaking = pool.submit(gateway.post, world, body, path="/v1/messages")
        up.wait_for_requests(1)
        assert counted(count(gateway, world, "anthropic"), "anthropic") == 3
        gate.open()
        assert speaking.result().status_code == 200
