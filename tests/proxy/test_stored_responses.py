"""Responses that live upstream: fetched, deleted, cancelled and listed at no cost, at the account that holds them."""

import pytest

from billing.models import RequestRecord
from keys.models import UpstreamKey
from tests.fake_upstream import raw, sse, status
from tests.gateway import MESSAGES, ledger, outcomes

RESPONSES = {"upstream": {"dialect": "openai-responses"}}


AGAIN = sse(
    b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"x"}\n\n',
    b'event: response.completed\ndata: {"type":"response.completed","response":{"id":"resp_1","object":"response",'
    b'"status":"completed","output":[],"usage":{"input_tokens":5,"output_tokens":2}}}\n\n',
)


def create(gateway, world, **more):
    with gateway.openai(world) as client:
        return client.responses.create(model="gpt-4o", input="hi", **more)


def test_the_sdks_calls_reach_the_same_paths(gateway, up):
    world = gateway.serving(up, "k-1", **RESPONSES)
    made = create(gateway, world)
    with gateway.openai(world) as client:
        assert client.responses.retrieve(made.id, include=["reasoning.encrypted_content"]).id == made.id
        assert list(client.responses.input_items.list(made.id)) == []
        assert client.responses.cancel(made.id).id == made.id
        client.responses.delete(made.id)
    assert [(seen.method, seen.target) for seen in up.requests[1:]] == [
        ("GET", f"/v1/responses/{made.id}?include%5B%5D=reasoning.encrypted_content"),
        ("GET", f"/v1/responses/{made.id}/input_items"),
        ("POST", f"/v1/responses/{made.id}/cancel"),
        ("DELETE", f"/v1/responses/{made.id}"),
    ]
    assert {seen.key for seen in up.requests} == {"k-1"}


def test_fetching_costs_nothing(gateway, up):
    """Report 12."""
    world = gateway.serving(up, "k-1", **RESPONSES)
    made = create(gateway, world)
    for _ in range(2):
        got = gateway.get(world, f"/v1/responses/{made.id}")
        assert got.json()["usage"]["total_tokens"] == 32
        record = gateway.record(got)
        assert (record.status, record.charge, record.cost, record.priced) == ("finished", 0, 0, True)
        assert (record.input_tokens, record.output_tokens, record.usage_source) == (None, None, "none")
        assert (record.endpoint, ledger(record)) == ("responses/{id}", [])
    records = RequestRecord.objects.filter(tenant=world.tenant)
    assert sum(record.charge for record in records) == records.get(endpoint="responses").charge


def test_the_answer_is_the_upstreams_bytes(gateway, up):
    body = b'{ "id":"resp_9", "status":"failed", "error":{"code":"server_error","message":"x"}, "output": [], "n":1.0 }'
    up.default(raw(body), path="/v1/responses/*")
    got = gateway.get(gateway.serving(up, "k-1", **RESPONSES), "/v1/responses/resp_9")
    assert (got.status_code, got.content) == (200, body)


def test_it_is_fetched_where_it_was_made(gateway, up):
    """Whichever key's turn it is."""
    world = gateway.serving(up, "k-1", "k-2", "k-3", group={"strategy": "round_robin"}, **RESPONSES)
    made = [create(gateway, world).id for _ in range(3)]
    makers = dict(zip(made, up.keys(), strict=True))
    assert sorted(makers.values()) == ["k-1", "k-2", "k-3"]
    for response_id in [*made, *reversed(made)]:
        gateway.get(world, f"/v1/responses/{response_id}")
        assert up.last.key == makers[response_id]


def test_a_streamed_response_is_found_again_too(gateway, up):
    world = gateway.serving(up, "k-1", "k-2", group={"strategy": "round_robin"}, **RESPONSES)
    create(gateway, world)
    with gateway.openai(world) as client:
        events = list(client.responses.create(model="gpt-4o", input="hi", stream=True))
    maker = up.last.key
    for _ in range(3):
        gateway.get(world, f"/v1/responses/{events[0].response.id}")
        assert up.last.key == maker


def test_it_may_be_fetched_as_a_stream(gateway, up):
    up.default(AGAIN, path="/v1/responses/resp_1")
    world = gateway.serving(up, "k-1", **RESPONSES)
    got = gateway.get(world, "/v1/responses/resp_1?stream=true&starting_after=3")
    assert got.headers["content-type"].startswith("text/event-stream")
    assert got.text.endswith("\n\n")
    assert up.last.query == "stream=true&starting_after=3"
    assert gateway.record(got).charge == 0


def test_an_unknown_one_is_the_first_candidates_404_and_teaches_nothing(gateway, up):
    up.default(status(404, "Response with id 'resp_0' not found."), path="/v1/responses/*")
    world = gateway.serving(up, "k-1", "k-2", **RESPONSES)
    got = gateway.get(world, "/v1/responses/resp_0")
    assert (got.status_code, got.json()["error"]["message"]) == (404, "Response with id 'resp_0' not found.")
    assert got.headers["x-pointsman-error-source"] == "upstream"
    assert len(up.requests) == 1
    assert outcomes(gateway.record(got)) == [("k1", "bad_request")]
    create(gateway, world)
    assert up.last.key == "k-1"


def test_failures_are_held_against_no_key(gateway, up):
    up.default(status(401), path="/v1/responses/*")
    world = gateway.serving(up, "k-1", **RESPONSES)
    got = gateway.get(world, "/v1/responses/resp_1")
    assert (got.status_code, got.json()["error"]["code"]) == (502, "upstream_credentials")
    create(gateway, world)
    assert outcomes(gateway.record(gateway.post(world, {"model": "m", "messages": MESSAGES}))) == [("k1", "served")]
    assert UpstreamKey.objects.get(upstream=world.upstreams[0]).enabled


def test_another_lines_ids_lead_nowhere_else(gateway, up):
    """Pins are per line: the id tells nothing about where another line's response lives."""
    world = gateway.serving(up, "k-1", "k-2", group={"strategy": "round_robin"}, **RESPONSES)
    stranger = gateway.serving(up, "k-9", **RESPONSES)
    made = create(gateway, world)
    gateway.get(stranger, f"/v1/responses/{made.id}")
    assert up.last.key == "k-9"


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "gemini"])
def test_without_an_upstream_of_the_dialect_there_is_none(gateway, up, dialect):
    got = gateway.get(gateway.serving(up, "k-1", upstream={"dialect": dialect}), "/v1/responses/resp_1")
    assert (got.status_code, got.json()["error"]["code"]) == (404, "model_not_found")
    assert up.requests == []


def test_compaction_is_a_paid_call(gateway, up):
    world = gateway.serving(up, "k-1", **RESPONSES)
    got = gateway.post(world, {"model": "gpt-4o", "input": "x"}, path="/v1/responses/compact")
    assert (got.status_code, up.last.path) == (200, "/v1/responses/compact")
    record = gateway.record(got)
    assert (record.input_tokens, record.output_tokens) == (25, 7)
    assert record.charge > 0


def test_an_upgrade_is_refused_so_that_codex_falls_back(gateway, up):
    world = gateway.serving(up, "k-1", **RESPONSES)
    headers = {"upgrade": "websocket", "connection": "upgrade", "sec-websocket-version": "13"}
    got = gateway.get(world, "/v1/responses", headers=headers)
    assert (got.status_code, up.requests) == (426, [])


def test_the_agents_probe(gateway):
    with gateway.client() as client:
        got = client.head("/api/hello")
    assert (got.status_code, got.content) == (200, b"")
