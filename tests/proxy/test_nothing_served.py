"""What the client gets when no key could answer: the status says what to do about it."""

import anthropic
import openai
import pytest

from tests.fake_upstream import html, raw, silent, sse_error_first, status
from tests.gateway import MESSAGES, attempts, chat, ledger, outcomes

QUOTA = status(429, "You exceeded your current quota", error_code="insufficient_quota", error_type="insufficient_quota")

# What the two keys do -> status, code, retry-after, x-should-retry.
ALL_FAILED = {
    "rate limited": (
        (status(429, retry_after=7), status(429, retry_after=20)),
        (429, "upstream_rate_limited", "7", None),
    ),
    "rate limited for long": ((status(429, retry_after=900),) * 2, (429, "upstream_rate_limited", "60", "false")),
    "rate limited, no wait": ((status(429), status(429)), (429, "upstream_rate_limited", "60", None)),
    "credentials": ((status(401), status(401)), (502, "upstream_credentials", None, "false")),
    "credentials and permission": ((status(401), status(403)), (502, "upstream_credentials", None, "false")),
    "balance": ((status(402), status(402)), (503, "upstream_exhausted", None, "false")),
    "balance and quota": ((status(402), QUOTA), (503, "upstream_exhausted", None, "false")),
    "quota and credentials": ((QUOTA, status(401)), (503, "upstream_exhausted", None, "false")),
    "model": ((status(404), status(404)), (404, "model_not_found", None, None)),
    "the last a timeout": ((status(500), silent()), (504, "upstream_timeout", None, None)),
    "the first a timeout": ((silent(), status(500)), (502, "upstream_failed", None, None)),
    "mixed": ((status(429), status(500)), (502, "upstream_failed", None, None)),
    "model and rate": ((status(404), status(429)), (502, "upstream_failed", None, None)),
    "html": ((html(), html(status=502)), (502, "upstream_failed", None, None)),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("behaviours", "expected"), ALL_FAILED.values(), ids=ALL_FAILED.keys())
def test_every_key_failed(gateway, up, behaviours, expected, stream):
    for key, behaviour in zip(("k-1", "k-2"), behaviours, strict=True):
        up.script(key, behaviour)
    world = gateway.serving(up, "k-1", "k-2", group={"policy": {"silence_s": 0.3}})
    got = gateway.post(world, chat(stream=stream))
    error = got.json()["error"]
    told = (got.status_code, error["code"], got.headers.get("retry-after"), got.headers.get("x-should-retry"))
    assert told == expected
    assert got.headers["x-pointsman-error-source"] == "upstream"
    assert error["type"] == "gateway_error"
    assert up.keys() == ["k-1", "k-2"]
    record = gateway.record(got)
    assert (record.status, record.http_status, record.error_code) == ("failed", expected[0], expected[1])
    assert (record.charge, record.attempt_count, ledger(record)) == (0, 2, [])
    assert [a.content for a in attempts(record)] == [False, False]


def test_an_upstreams_401_is_not_shown_as_the_clients(gateway, up):
    up.default(status(401, "Incorrect API key provided"))
    world = gateway.serving(up, "k-1")
    with gateway.openai(world) as client, pytest.raises(openai.InternalServerError) as caught:
        client.chat.completions.create(model="gpt-4o", messages=MESSAGES)
    assert "Your gateway key is fine" in str(caught.value)
    assert caught.value.status_code == 502


class TestRequestFaults:
    """400 with the upstream's wording, in the client's dialect, after one upstream call."""

    CONTEXT = "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens."

    @pytest.mark.parametrize("stream", [False, True])
    def test_a_context_that_is_too_long(self, gateway, up, stream):
        up.default(status(400, self.CONTEXT, error_code="context_length_exceeded"))
        world = gateway.serving(up, "k-1", "k-2")
        got = gateway.post(world, chat(stream=stream))
        assert (got.status_code, got.json()["error"]["code"]) == (400, "context_length_exceeded")
        assert got.json()["error"]["message"] == self.CONTEXT
        assert up.keys() == ["k-1"]
        assert outcomes(gateway.record(got)) == [("k1", "context_too_long")]

    def test_it_goes_to_a_key_with_a_larger_window(self, gateway, up):
        up.script("k-1", status(400, self.CONTEXT, error_code="context_length_exceeded"))
        world = gateway.serving(up, "k-1", "k-2", "k-3", upstream={"max_context_tokens": 128_000})
        larger = world.upstreams[2]
        larger.max_context_tokens = 1_000_000
        larger.save()
        gateway.refresh()
        got = gateway.post(world)
        assert (got.status_code, up.keys()) == (200, ["k-1", "k-3"])
        assert outcomes(gateway.record(got)) == [("k1", "context_too_long"), ("k3", "served")]

    def test_a_filter_that_came_as_500(self, gateway, up):
        body = {"error": {"message": "sensitive words detected", "code": "sensitive_words_detected", "type": "new_api"}}
        up.default(raw(body, status=500))
        got = gateway.post(gateway.serving(up, "k-1", "k-2"))
        assert (got.status_code, up.keys()) == (400, ["k-1"])
        assert got.json()["error"]["message"] == "sensitive words detected"
        assert outcomes(gateway.record(got)) == [("k1", "content_filtered")]

    def test_a_long_prompt_in_a_streams_first_event(self, gateway, up):
        up.default(sse_error_first("prompt is too long: 210000 tokens > 200000 maximum", type="invalid_request_error"))
        world = gateway.serving(up, "k-1", "k-2", upstream={"dialect": "anthropic"})
        with gateway.anthropic(world) as client, pytest.raises(anthropic.BadRequestError) as caught:
            list(client.messages.create(model="claude", max_tokens=9, messages=MESSAGES, stream=True))
        assert "prompt is too long: 210000 tokens > 200000 maximum" in str(caught.value)
        assert up.keys() == ["k-1"]


class TestNothingTried:
    def test_only_dead_keys(self, gateway, up):
        world = gateway.serving(up, "k-1", "k-2")
        for key in ("k-1", "k-2"):
            up.script(key, status(401))
            gateway.post(world)
        got = gateway.post(world)
        assert (got.status_code, got.json()["error"]["code"]) == (503, "no_key_available")
        assert (got.headers["x-should-retry"], got.headers.get("retry-after")) == ("false", None)
        assert up.keys() == ["k-1", "k-2", "k-2"]
        record = gateway.record(got)
        assert outcomes(record) == [("k1", "skipped: dead"), ("k2", "skipped: dead")]
        assert (record.status, record.attempt_count, record.charge) == ("failed", 0, 0)

    def test_keys_without_balance_are_never_tried(self, gateway, up):
        up.default(status(402))
        world = gateway.serving(up, "k-1", "k-2")
        gateway.post(world)
        got = gateway.post(world)
        assert (got.status_code, len(up.requests)) == (503, 2)
        assert outcomes(gateway.record(got)) == [("k1", "skipped: cooling"), ("k2", "skipped: cooling")]

    def test_every_key_is_rate_limited(self, gateway, up):
        """429 when every reason is a rate, with the time of the first that is back."""
        up.script("k-1", status(429, retry_after=50))
        up.script("k-2", status(429, retry_after=40))
        world = gateway.serving(up, "k-1", "k-2", group={"policy": {"slot_wait_s": 0.2}})
        gateway.post(world)
        got = gateway.post(world)
        assert got.status_code == 429
        assert 30 <= int(got.headers["retry-after"]) <= 40
        assert len(up.requests) == 2
        assert outcomes(gateway.record(got)) == [("k1", "skipped: cooling"), ("k2", "skipped: cooling")]

    def test_rates_and_deaths_are_no_rate(self, gateway, up):
        up.script("k-1", status(429, retry_after=50))
        up.script("k-2", status(401))
        world = gateway.serving(up, "k-1", "k-2", group={"policy": {"slot_wait_s": 0.2}})
        gateway.post(world)
        got = gateway.post(world)
        assert (got.status_code, got.headers.get("x-should-retry")) == (503, None)
        assert 40 <= int(got.headers["retry-after"]) <= 50

    def test_a_wait_that_is_short_is_waited_for(self, gateway, up):
        up.script("k-1", status(429, retry_after=1))
        world = gateway.serving(up, "k-1", "k-2")
        up.script("k-2", status(429, retry_after=30))
        gateway.post(world)
        got = gateway.post(world)
        assert (got.status_code, up.keys()) == (200, ["k-1", "k-2", "k-1"])
