"""streamGenerateContent without alt=sse: one JSON array, in pieces as they come, from upstreams and to clients."""

import json

import pytest

from tests.fake_upstream import Ending, Gate, answer, broken, raw, sse, sse_error_after
from tests.gateway import HELLO, outcomes

PATH = "/v1beta/models/gemini-pro:streamGenerateContent"
BODY = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
# As Google writes it: over many lines, with a comma on a line of its own.
PRETTY = (
    b'[{\n  "candidates": [{"content": {"parts": [{"text": "\\u005b]{\\""}], "role": "model"}}],\n'
    b'  "modelVersion": "gemini-pro"\n}\n,\r\n{\n  "candidates": [{"content": {"parts": [{"text": "b"}]},\n'
    b'    "finishReason": "STOP"}],\n  "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 2},\n'
    b'  "modelVersion": "gemini-pro"\n}\n]\n'
)


def text_of(payloads):
    parts = [part for one in payloads for c in one["candidates"] for part in c["content"]["parts"]]
    return "".join(part["text"] for part in parts)


def at_gemini(gateway, up, *keys, **options):
    options.setdefault("dialect", "gemini")
    return gateway.serving(up, *(keys or ("k-1",)), upstream=options)


@pytest.mark.parametrize("size", [0, 1, 7])
def test_an_array_passes_byte_for_byte(gateway, up, size):
    up.default(raw(PRETTY).but(every=size))
    got = gateway.post(at_gemini(gateway, up), BODY, path=PATH)
    assert got.content == PRETTY
    assert got.headers["content-type"] == "application/json; charset=utf-8"
    assert (up.last.path, up.last.query) == ("/v1/models/gemini-pro:streamGenerateContent", "")
    record = gateway.record(got)
    assert (record.input_tokens, record.output_tokens, record.usage_source) == (5, 2, "upstream")
    assert (record.stream, record.status) == (True, "finished")


def test_it_comes_in_pieces(gateway, up):
    gate = Gate()
    up.default(answer("one two three").but(holds=((1, gate),)))
    world = at_gemini(gateway, up)
    with gateway.client(world) as client, client.stream("POST", PATH, json=BODY) as got:
        parts = got.iter_raw()
        first = next(parts)
        assert b"one" in first
        assert b"three" not in first
        gate.open()
        whole = first + b"".join(parts)
    assert text_of(json.loads(whole)) == "one two three"


@pytest.mark.parametrize("array", [False, True])
def test_an_alias_shows_the_clients_name(gateway, up, array):
    world = at_gemini(gateway, up, aliases={"gemini-pro": "vendor-pro"})
    got = gateway.post(world, BODY, path=PATH if array else PATH + "?alt=sse")
    assert b"vendor-pro" not in got.content
    assert b'"modelVersion":"gemini-pro"' in got.content


def test_an_upstream_that_sends_an_array_all_the_same(gateway, up):
    """A relay that does not know alt=sse: the client still gets the events it asked for."""
    up.default(raw(PRETTY))
    got = gateway.post(at_gemini(gateway, up), BODY, path=PATH + "?alt=sse")
    assert got.headers["content-type"] == "text/event-stream; charset=utf-8"
    lines = got.text.split("\n\n")
    assert [line[:6] for line in lines] == ["data: ", "data: ", ""]
    assert text_of([json.loads(line[6:]) for line in lines[:-1]]) == '[]{"b'


def test_an_upstream_that_sends_events_all_the_same(gateway, up):
    chunk = b'data: {"candidates":[{"content":{"parts":[{"text":"%s"}]}%s}]}\n\n'
    up.default(sse(chunk % (b"a", b""), chunk % (b"b", b',"finishReason":"STOP"')))
    got = gateway.post(at_gemini(gateway, up), BODY, path=PATH)
    assert text_of(got.json()) == "ab"


@pytest.mark.parametrize("dialect", ["openai", "openai-responses", "anthropic"])
def test_other_dialects_answers_as_an_array(gateway, up, dialect):
    got = gateway.post(at_gemini(gateway, up, dialect=dialect), BODY, path=PATH)
    assert text_of(got.json()) == HELLO
    assert got.headers["content-type"] == "application/json; charset=utf-8"


@pytest.mark.parametrize("dialect", ["openai", "gemini"])
def test_a_death_after_content_stands_in_the_array(gateway, up, dialect):
    up.default(sse_error_after(2) if dialect == "openai" else broken(answer(), Ending.CLOSE, events=2))
    world = at_gemini(gateway, up, dialect=dialect)
    got = gateway.post(world, BODY, path=PATH)
    *said, last = got.json()
    assert text_of(said) == "Hello from "
    assert last["error"]["status"] == "UNAVAILABLE"
    assert not any(c.get("finishReason") for one in said for c in one["candidates"])
    assert gateway.record(got).status == "failed"


def test_an_array_cut_inside_an_object_is_a_death(gateway, up):
    up.default(raw(PRETTY[:200]))
    got = gateway.post(at_gemini(gateway, up), BODY, path=PATH)
    assert "error" in got.json()[-1]
    assert gateway.record(got).status == "failed"


@pytest.mark.parametrize("first", [b"[]", b"[", b'[{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}]'])
def test_an_array_that_says_nothing_moves_on(gateway, up, first):
    up.script("k-1", raw(first))
    got = gateway.post(at_gemini(gateway, up, "k-1", "k-2"), BODY, path=PATH)
    assert text_of(got.json()) == HELLO
    assert [name for name, _ in outcomes(gateway.record(got))] == ["k1", "k2"]
