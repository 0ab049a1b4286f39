"""What each official SDK raises when an upstream of each dialect fails, before and behind its first content."""

from collections.abc import Callable
from typing import Any

import anthropic
import openai
import pytest
from google.genai import errors as genai_errors

from billing.models import RequestRecord
from keys.core.dialect import Dialect
from tests.fake_upstream import Ending, answer, broken, silent, sse_error_after, sse_error_first, status, stream
from tests.gateway import outcomes
from tests.proxy.dialects.speaking import Question

BREAKS: dict[str, Callable[[], Any]] = {
    "error event": lambda: sse_error_after(2),
    "cut": lambda: broken(answer(), Ending.CLOSE, events=5),
    "reset": lambda: broken(answer(), Ending.RESET, events=5),
    "no end": lambda: answer(complete=False),
}


class Raised:
    """An SDK's exception, read as its users do. `status` None = inside a stream."""

    def __init__(self, problem: Exception) -> None:
        self.problem = problem
        body: Any = getattr(problem, "body", None)
        match problem:
            case openai.APIStatusError():
                self.status: int | None = problem.status_code
                self.message, self.code, self.headers = body["message"], body["code"], problem.response.headers
            case openai.APIError():
                self.status, self.message, self.code = None, problem.message, problem.code
            case anthropic.APIStatusError():
                # Inside a stream the SDK shows the stream's own status.
                self.status = None if problem.status_code == 200 else problem.status_code
                self.message, self.code = body["error"]["message"], body["error"].get("code")
                self.headers = problem.response.headers
            case genai_errors.APIError():
                self.status, self.message = problem.code, problem.message
                details = problem.details["error"].get("details") or [{}]
                self.code = str(details[0].get("reason", "")).lower()
            case _:
                raise AssertionError(f"no SDK's exception: {problem!r}")


def raised(ask: Callable[[], Any]) -> Raised:
    with pytest.raises((openai.APIError, anthropic.APIError, genai_errors.APIError)) as found:
        ask()
    return Raised(found.value)


@pytest.mark.feature("errors")
def test_every_key_rate_limited(gateway, up, speaker, dialect, serve, stream):
    up.default(status(429, "Rate limit reached", retry_after=7))
    world = serve(2)
    problem = raised(lambda: speaker.ask(gateway, world, Question(), stream=stream))
    assert (problem.status, problem.code) == (429, "upstream_rate_limited")
    if speaker.name != "google gemini":
        assert 1 <= int(problem.headers["retry-after"]) <= 7
    assert up.keys() == ["k-1", "k-2"]
    assert outcomes(gateway.only_record(world)) == [("k1", "rate_limited"), ("k2", "rate_limited")]


@pytest.mark.feature("errors")
def test_every_key_failing(gateway, up, speaker, dialect, serve, stream):
    up.default(status(500, "kaboom"))
    problem = raised(lambda: speaker.ask(gateway, serve(2), Question(), stream=stream))
    assert (problem.status, problem.code) == (502, "upstream_failed")
    assert "kaboom" in problem.message


@pytest.mark.feature("errors")
def test_the_upstreams_401_is_not_the_clients(gateway, up, speaker, dialect, serve):
    up.default(status(401, "Invalid API key k-1"))
    problem = raised(lambda: speaker.ask(gateway, serve(), Question()))
    assert (problem.status, problem.code) == (502, "upstream_credentials")


@pytest.mark.feature("errors")
def test_a_request_that_the_upstream_refuses(gateway, up, speaker, dialect, serve, stream):
    """Report 19. Asked once; the client's SDK finds the upstream's words where it looks for them."""
    up.default(status(400, "This model takes at most 4 images"))
    world = serve(2)
    problem = raised(lambda: speaker.ask(gateway, world, Question(), stream=stream))
    assert (problem.status, problem.message) == (400, "This model takes at most 4 images")
    assert up.keys() == ["k-1"]


@pytest.mark.feature("errors")
def test_agents_find_the_words_for_a_full_context(gateway, up, speaker, dialect, serve, stream):
    up.default(status(400, "prompt is too long: 250000 tokens > 200000 maximum"))
    problem = raised(lambda: speaker.ask(gateway, serve(), Question(), stream=stream))
    assert problem.status == 400
    assert "prompt is too long: 250000 tokens > 200000 maximum" in problem.message


@pytest.mark.feature("failover")
@pytest.mark.parametrize("failing", ["status", "event"])
def test_a_failure_before_content_moves_on(gateway, up, speaker, dialect, serve, stream, failing):
    """Reports 24, 25, 26."""
    if failing == "event" and not stream:
        pytest.skip("only streams have events")
    up.script("k-1", status(529) if failing == "status" else sse_error_first())
    world = serve(2)
    heard = speaker.ask(gateway, world, Question(), stream=stream)
    assert heard.text == "Hello from the fake upstream."
    assert heard.headers["x-pointsman-attempts"] == "2"
    assert outcomes(gateway.only_record(world)) == [("k1", "overloaded"), ("k2", "served")]


@pytest.mark.feature("failover")
def test_between_upstreams_of_different_dialects(gateway, up, speaker, dialect, stream):
    """The first speaks the client's dialect or not, the second another one: one answer, from one of them."""
    up.script("k-1", status(503))
    world = gateway.serving(up, "k-1", "k-2", upstream={"dialect": dialect.value})
    other = list(Dialect)[(list(Dialect).index(dialect) + 1) % len(Dialect)]
    world.upstreams[1].dialect = other.value
    world.upstreams[1].save()
    gateway.refresh()
    heard = speaker.ask(gateway, world, Question(), stream=stream)
    assert heard.text == "Hello from the fake upstream."
    assert outcomes(gateway.only_record(world)) == [("k1", "overloaded"), ("k2", "served")]


@pytest.mark.feature("mid-stream death")
@pytest.mark.parametrize("how", BREAKS)
def test_a_death_behind_content_is_raised_and_no_stop_made_up(gateway, up, speaker, dialect, serve, how):
    """Report 25. Never a fabricated stop: what an SDK would take for a whole answer."""
    up.default(BREAKS[how]())
    world = serve(2)
    got = gateway.post(world, body_of(speaker), path=path_of(speaker))
    assert got.status_code == 200
    for mark in (b'"finish_reason":"', b"response.completed", b"message_stop", b"[DONE]", b'"finishReason":"'):
        assert mark not in got.content.replace(b'"finish_reason":null', b"")
    assert b"Hello" in got.content
    assert up.keys() == ["k-1"]
    record = gateway.record(got)
    assert (record.status, record.charge) == ("failed", 0)
    up.default(BREAKS[how]())
    if speaker.name == "openai responses":
        assert got.content.count(b"event: response.failed\n") == 1
    else:
        problem = raised(lambda: speaker.ask(gateway, world, Question(), stream=True))
        assert "broke off" in problem.message
        assert problem.code == "upstream_failed"


@pytest.mark.feature("keep-alives")
def test_a_client_that_waits_is_kept_in_its_own_manner(gateway, up, speaker, dialect, serve, monkeypatch):
    """Report 38; the SDK must read through it (report 33)."""
    monkeypatch.setattr("proxy.views.KEEPALIVE_S", 0.05)
    up.default(answer("At last.").but(first_delay_s=0.4))
    world = serve(group={"policy": {"hold_s": 0.05}})
    heard = speaker.ask(gateway, world, Question(), stream=True)
    assert heard.text == "At last."
    got = gateway.post(world, body_of(speaker), path=path_of(speaker))
    before = got.content[: got.content.index(b"At ")]
    expected = {
        "anthropic messages": b'event: ping\ndata: {"type":"ping"}\n\n',
        "google gemini": b"",
    }.get(speaker.name, b": keep-alive\n\n")
    assert before.count(expected) >= 2 if expected else b":" not in before.partition(b"data:")[0]


@pytest.mark.feature("keep-alives")
@pytest.mark.parametrize("comments", [("OPENROUTER PROCESSING", "OPENROUTER PROCESSING")])
def test_an_upstreams_own_keepalives_break_no_sdk(gateway, up, speaker, dialect, serve, comments):
    """Report 32."""
    up.default(answer("Fine.").but(comments=comments))
    assert speaker.ask(gateway, serve(), Question(), stream=True).text == "Fine."


@pytest.mark.feature("errors")
def test_silence_is_a_timeout(gateway, up, speaker, dialect, serve, stream):
    up.default(silent())
    world = serve(group={"policy": {"silence_s": 0.3}})
    problem = raised(lambda: speaker.ask(gateway, world, Question(), stream=stream))
    assert (problem.status, problem.code) == (504, "upstream_timeout")


@pytest.mark.feature("text")
def test_characters_cut_between_reads_arrive_whole(gateway, up, speaker, dialect, serve):
    """Report 34."""
    up.default(stream(["你好，", "世界 🚂", "é"]).but(every=3, cut_delay_s=0.0005))
    assert speaker.ask(gateway, serve(), Question(), stream=True).text == "你好，世界 🚂é"


def test_nothing_is_recorded_twice(gateway, up, speaker, serve, dialect):
    up.script("k-1", sse_error_first())
    world = serve(2)
    speaker.ask(gateway, world, Question(), stream=True)
    assert RequestRecord.objects.filter(tenant=world.tenant).count() == 1


def path_of(speaker: Any) -> str:
    return {
        "openai chat": "/v1/chat/completions",
        "openai responses": "/v1/responses",
        "anthropic messages": "/v1/messages",
        "google gemini": "/v1beta/models/any-model:streamGenerateContent?alt=sse",
    }[speaker.name]


def body_of(speaker: Any) -> dict[str, Any]:
    turns = [{"role": "user", "content": "hi"}]
    bodies: dict[str, dict[str, Any]] = {
        "openai chat": {"messages": turns},
        "openai responses": {"input": "hi"},
        "anthropic messages": {"messages": turns, "max_tokens": 100},
        "google gemini": {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
    }
    own = bodies[speaker.name]
    return own if "contents" in own else {"model": "any-model", "stream": True, **own}
