"""An answer that dies after content: an error event in the client's dialect, no fabricated end, charge 0, waste."""

import json
from decimal import Decimal

import anthropic
import openai
import pytest
from google.genai import errors as genai_errors

from tests.fake_upstream import (
    Ending,
    Length,
    Tokens,
    UsagePlace,
    answer,
    broken,
    sse,
    sse_error_after,
    sse_error_first,
    status,
    stream,
    thinking,
)
from tests.gateway import CHARGE, MESSAGES, attempts, chat, ledger, outcomes
from tests.proxy.asking import ask

THREE = stream(["one ", "two ", "three"])
DEATHS = {
    "eof": (broken(THREE, Ending.CLOSE, events=3), "connection"),
    "eof that looks like an end": (broken(THREE, Ending.CLOSE, events=3).but(length=Length.CLOSE), "server_error"),
    "reset": (broken(THREE, Ending.RESET, events=3), "connection"),
    "in an event": (broken(THREE, Ending.CLOSE, size=600).but(length=Length.CLOSE), "server_error"),
    "error event": (sse_error_after(2), "overloaded"),
    "an error that holds a limit": (sse_error_after(2, "Rate limit", code="rate_limit_exceeded"), "rate_limited"),
}


def last_event(content):
    """The JSON of the last event's data."""
    return json.loads(content.rstrip().rpartition(b"data: ")[2])


@pytest.mark.parametrize(("behaviour", "cause"), DEATHS.values(), ids=DEATHS.keys())
def test_a_chat_stream_that_dies(gateway, up, behaviour, cause):
    """Report 25: no second start, no other key, and the SDK raises."""
    up.script("k-1", behaviour)
    world = gateway.serving(up, "k-1", "k-2")
    got = gateway.post(world, chat(stream=True))
    assert got.status_code == 200
    assert got.content.count(b'"role":"assistant"') == 1
    assert b"[DONE]" not in got.content
    assert b'"finish_reason":"stop"' not in got.content
    error = last_event(got.content)["error"]
    assert (error["type"], error["code"]) == ("gateway_error", "upstream_failed")
    assert got.content.endswith(b"\n\n")
    record = gateway.record(got)
    assert up.keys() == ["k-1"]
    assert outcomes(record) == [("k1", cause)]
    assert (record.status, record.http_status, record.charge, record.error_code) == (
        "failed", 200, 0, "upstream_failed",
    )  # fmt: skip
    assert attempts(record)[0].content is True
    assert "charge" not in dict(ledger(record))


def test_the_sdk_raises(gateway, up):
    up.script("k-1", DEATHS["eof"][0])
    world = gateway.serving(up, "k-1", "k-2")
    with pytest.raises(openai.APIError, match="broke off in the middle"):
        ask(gateway, world, stream=True)


def test_content_in_the_same_read_as_the_error_reaches_the_client(gateway, up):
    """Report 25, in one packet."""
    up.script("k-1", sse_error_after(2).but(single_write=True))
    world = gateway.serving(up, "k-1", "k-2")
    got = gateway.post(world, chat(stream=True))
    assert b'"content":"Hello "' in got.content
    assert last_event(got.content)["error"]["code"] == "upstream_failed"
    assert attempts(gateway.record(got))[0].content is True


def test_usage_that_was_seen_is_kept_as_partial_and_its_cost_is_waste(gateway, up):
    """Reports 5, 14."""
    up.script("k-1", broken(stream(["a", "b"], usage_place=UsagePlace.EVERY), Ending.CLOSE, events=3))
    record = gateway.record(gateway.post(gateway.serving(up, "k-1"), chat(stream=True)))
    assert (record.usage_source, record.input_tokens, record.output_tokens) == ("partial", 25, 7)
    assert (record.charge, record.cost, record.waste) == (0, None, CHARGE)
    assert ledger(record) == [("waste", CHARGE)]
    assert attempts(record)[0].waste == CHARGE


def test_waste_without_usage_is_estimated(gateway, up):
    """Reports 4, 5: what was sent is estimated; the text of the error is nobody's output."""
    sent = "x" * 400
    up.script("k-1", stream([sent], error=sse_error_after(1, "E" * 5000).content.error, error_after=1))
    got = gateway.post(gateway.serving(up, "k-1"), chat(stream=True))
    record = gateway.record(got)
    assert (record.usage_source, record.output_tokens) == ("estimated", 100)
    assert record.input_tokens == -(-len(got.request.content) // 4)
    expected = record.input_tokens * Decimal("0.0000025") + 100 * Decimal("0.00001")
    assert (record.charge, record.waste, record.estimated) == (0, expected, True)


@pytest.mark.parametrize("what", [sse_error_after(0), sse_error_first(), status(529)])
def test_when_all_fail_before_content_the_client_gets_a_real_status(gateway, up, what):
    """Report 26."""
    up.default(what)
    world = gateway.serving(up, "k-1", "k-2", upstream={"dialect": "anthropic"})
    with gateway.anthropic(world) as client, pytest.raises(anthropic.APIStatusError) as caught:
        list(client.messages.create(model="claude", max_tokens=9, messages=MESSAGES, stream=True))
    assert caught.value.status_code == 502
    assert caught.value.response.headers["content-type"] == "application/json"
    assert caught.value.body["type"] == "error"
    assert up.keys() == ["k-1", "k-2"]
    assert outcomes(gateway.record(caught.value)) == [("k1", "overloaded"), ("k2", "overloaded")]


class TestLostAttempts:
    """Report 14: what an attempt used that came to nothing is its key's waste; the line is billed once."""

    def test_usage_before_an_error_event(self, gateway, up):
        world = gateway.serving(up, "k-1", "k-2", upstream={"dialect": "anthropic"})
        up.script("k-1", sse_error_after(0))
        body = {"model": "claude", "max_tokens": 9, "messages": MESSAGES, "stream": True}
        record = gateway.record(gateway.post(world, body, path="/v1/messages"))
        lost, served = attempts(record)
        assert (lost.outcome, lost.input_tokens, served.outcome) == ("overloaded", 25, "served")
        assert (lost.waste, lost.cost, served.cost) == (Decimal("0.0000625"), None, CHARGE)
        assert (record.charge, record.cost, record.waste) == (CHARGE, CHARGE, lost.waste)
        assert ledger(record) == [("charge", CHARGE), ("cost", CHARGE), ("waste", lost.waste)]

    def test_usage_before_a_cut(self, gateway, up):
        world = gateway.serving(up, "k-1", "k-2")
        quiet = b'data: {"choices":[{"index":0,"delta":{"role":"assistant"}}],'
        quiet += b'"usage":{"prompt_tokens":25,"completion_tokens":7}}\n\n'
        up.script("k-1", broken(sse(quiet, b": behind"), Ending.RESET, events=1))
        record = gateway.record(gateway.post(world, chat(stream=True)))
        assert (record.waste, record.charge) == (CHARGE, CHARGE)
        assert attempts(record)[0].output_tokens == 7

    def test_when_all_attempts_are_lost(self, gateway, up):
        world = gateway.serving(up, "k-1", "k-2", upstream={"dialect": "anthropic"})
        up.default(sse_error_after(0))
        body = {"model": "claude", "max_tokens": 9, "messages": MESSAGES, "stream": True}
        record = gateway.record(gateway.post(world, body, path="/v1/messages"))
        assert (record.status, record.charge, record.cost) == ("failed", 0, None)
        assert record.waste == 2 * Decimal("0.0000625")
        assert ledger(record) == [("waste", Decimal("0.0000625"))] * 2


class TestAnthropic:
    @pytest.fixture
    def world(self, gateway, up):
        return gateway.serving(up, "k-1", "k-2", upstream={"dialect": "anthropic"})

    def stream(self, gateway, world):
        body = {"model": "claude", "max_tokens": 9, "messages": MESSAGES, "stream": True}
        return gateway.post(world, body, path="/v1/messages")

    def test_an_error_event_behind_content(self, gateway, up, world):
        up.script("k-1", sse_error_after(2))
        got = self.stream(gateway, world)
        assert got.content.count(b"event: message_start") == 1
        assert b"message_stop" not in got.content
        name, data = got.content.strip().splitlines()[-2:]
        assert name == b"event: error"
        error = json.loads(data.removeprefix(b"data: "))
        assert (error["type"], error["error"]["type"]) == ("error", "api_error")
        assert error["request_id"] == got.headers["request-id"]
        record = gateway.record(got)
        assert (record.status, outcomes(record)) == ("failed", [("k1", "overloaded")])
        # The opening told the input: it stays, and its cost is waste.
        assert (record.input_tokens, record.usage_source, record.charge) == (25, "partial", 0)
        assert record.waste > 0

    def test_the_sdk_raises(self, gateway, up, world):
        up.script("k-1", broken(answer(), Ending.CLOSE, events=6))
        with gateway.anthropic(world) as client, pytest.raises(anthropic.APIStatusError):
            list(client.messages.create(model="claude", max_tokens=9, messages=MESSAGES, stream=True))

    def test_a_stop_reason_without_an_end_is_an_end(self, gateway, up, world):
        """An EOF behind `message_delta` loses nothing that a client needs."""
        up.script("k-1", broken(answer("ok"), Ending.CLOSE, events=6).but(length=Length.CLOSE))
        got = self.stream(gateway, world)
        assert b"message_delta" in got.content
        assert b"event: error" not in got.content
        assert gateway.record(got).status == "finished"

    def test_signed_thinking_passes_untouched(self, gateway, up, world):
        up.script("k-1", answer(thinking("let me see", signature="c2lnbmVk+/=="), "ok"))
        got = self.stream(gateway, world)
        assert b'"signature":"c2lnbmVk+/=="' in got.content
        assert gateway.record(got).status == "finished"


class TestResponses:
    @pytest.fixture
    def world(self, gateway, up):
        return gateway.serving(up, "k-1", "k-2", upstream={"dialect": "openai-responses"})

    def stream(self, gateway, world):
        return gateway.post(world, {"model": "gpt-x", "input": "hi", "stream": True}, path="/v1/responses")

    def test_usage_stands_in_the_completed_event(self, gateway, up, world):
        """Report 2."""
        up.script("k-1", answer("Done", tokens=Tokens(input=100, output=50, cached_read=60, reasoning=20)))
        got = self.stream(gateway, world)
        record = gateway.record(got)
        assert (record.status, record.dialect) == ("finished", "openai-responses")
        counts = (record.input_tokens, record.cached_read_tokens, record.output_tokens, record.reasoning_tokens)
        assert counts == (100, 60, 50, 20)
        assert record.charge == Decimal("0.000675")  # 40 × 2.50 + 60 × 1.25 + 50 × 10, per million

    def test_an_eof_before_the_completed_event(self, gateway, up, world):
        """Report 5: charge 0, waste estimated and flagged."""
        up.script("k-1", broken(stream(["x" * 40] * 20), Ending.CLOSE, events=24))
        got = self.stream(gateway, world)
        event = last_event(got.content)
        assert (event["type"], event["response"]["status"]) == ("response.failed", "failed")
        assert event["response"]["error"]["code"] == "upstream_failed"
        assert b"response.completed" not in got.content
        record = gateway.record(got)
        assert (record.status, record.charge, record.estimated) == ("failed", 0, True)
        assert record.output_tokens == 200
        assert record.waste > 0

    def test_a_failed_response_behind_content_ends_the_answer(self, gateway, up, world):
        up.script("k-1", sse_error_after(2, "The model is overloaded", code="server_is_overloaded"))
        got = self.stream(gateway, world)
        assert got.content.count(b"response.failed") == 2  # the event's name and its type
        assert got.content.count(b"event: response.created") == 1
        record = gateway.record(got)
        assert (record.status, outcomes(record)) == ("failed", [("k1", "overloaded")])

    def test_a_failed_response_before_content_moves_on(self, gateway, up, world):
        up.script("k-1", sse_error_after(0, "The model is overloaded", code="server_is_overloaded"))
        with gateway.openai(world) as client:
            events = list(client.responses.create(model="gpt-x", input="hi", stream=True))
        assert [event.type for event in events].count("response.created") == 1
        assert events[-1].type == "response.completed"
        assert outcomes(gateway.only_record(world)) == [("k1", "overloaded"), ("k2", "served")]


class TestGemini:
    def test_a_stream_that_dies_raises_in_the_sdk(self, gateway, up):
        world = gemini_world(gateway, up)
        up.script("k-1", broken(stream(["one ", "two ", "three"]), Ending.CLOSE, events=2))
        client = gateway.gemini(world)
        with pytest.raises(genai_errors.ServerError) as caught:
            list(client.models.generate_content_stream(model="gemini-x", contents="hi"))
        client.close()
        assert caught.value.status == "UNAVAILABLE"
        record = gateway.only_record(world)
        assert (record.status, record.stream, record.charge) == ("failed", True, 0)
        assert outcomes(record) == [("k1", "connection")]

    def test_a_stream_and_a_whole_answer(self, gateway, up):
        world = gemini_world(gateway, up)
        up.default(answer("Hi there", tokens=Tokens(input=100, output=50, cached_read=60, reasoning=20)))
        client = gateway.gemini(world)
        parts = list(client.models.generate_content_stream(model="gemini-x", contents="hi"))
        whole = client.models.generate_content(model="gemini-x", contents="hi")
        client.close()
        assert "".join(part.text or "" for part in parts) == whole.text == "Hi there"
        records = world.tenant.records.order_by("pk")
        sums = [(r.input_tokens, r.cached_read_tokens, r.output_tokens, r.reasoning_tokens, r.charge) for r in records]
        assert sums == [(100, 60, 50, 20, Decimal("0.000675"))] * 2

    def test_a_stream_without_sse_is_a_json_array(self, gateway, up):
        world = gemini_world(gateway, up)
        up.default(stream(["Hi ", "there"]))
        got = gateway.post(world, {"contents": [{"parts": [{"text": "hi"}]}]}, path=GEMINI_STREAM)
        texts = [part["candidates"][0]["content"]["parts"][0]["text"] for part in got.json()]
        assert texts == ["Hi ", "there", ""]
        assert got.headers["content-type"].startswith("application/json")
        record = gateway.record(got)
        assert (record.status, record.input_tokens, record.output_tokens) == ("finished", 25, 7)


GEMINI_STREAM = "/v1beta/models/gemini-x:streamGenerateContent"


def gemini_world(gateway, up):
    return gateway.serving(f"{up.url}/v1beta", "k-1", "k-2", upstream={"dialect": "gemini"})


def test_an_event_without_end_ends_the_answer(gateway, up):
    """16 MiB without a blank line: memory is bounded, the record is written."""
    opening = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
    up.script("k-1", sse(opening, b"data: ", *[b"x" * 1_000_000] * 20))
    got = gateway.post(gateway.serving(up, "k-1"), chat(stream=True))
    assert got.content.startswith(opening)
    assert last_event(got.content)["error"]["code"] == "upstream_failed"
    record = gateway.record(got)
    assert (record.status, outcomes(record)) == ("failed", [("k1", "connection")])


@pytest.mark.parametrize("place", ["proxy.views.plan", "proxy.failover.Failover.run", "proxy.views.respond"])
def test_a_mistake_of_ours_still_leaves_one_record(gateway, up, monkeypatch, place):
    world = gateway.serving(up, "k-1")

    async def fail(*_args, **_more):
        raise ZeroDivisionError

    monkeypatch.setattr(place, fail)
    got = gateway.post(world)
    assert (got.status_code, got.json()["error"]["code"]) == (500, "internal_error")
    record = gateway.only_record(world)
    assert (record.status, record.http_status, record.error_code) == ("failed", 500, "internal_error")
    assert record.charge == 0
    assert gateway.is_idle()


def test_a_filter_inside_a_stream_is_the_requests_fault(gateway, up):
    """An error about the request that came in a 200's stream becomes a 400 with the upstream's wording."""
    said = b'data: {"error":{"message":"The response was filtered","code":"content_filter"}}\n\n'
    up.script("k-1", sse(said))
    got = gateway.post(gateway.serving(up, "k-1", "k-2"), chat(stream=True))
    assert (got.status_code, up.keys()) == (400, ["k-1"])
    assert got.json()["error"]["message"] == "The response was filtered"
    assert outcomes(gateway.record(got)) == [("k1", "content_filtered")]
