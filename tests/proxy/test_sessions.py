"""Conversations stay on the key that answered while it pays, and move when they must."""

from typing import Any

import pytest

from keys.models import UpstreamKey
from tests.fake_upstream import Tokens, answer, status
from tests.gateway import attempts, chat, wait_until

WARM = answer("Hello.", tokens=Tokens(2000, 5, cached_read=1500))
COLD = answer("Hello.", tokens=Tokens(200, 5))
TOOL_TURN: list[dict[str, Any]] = [
    {"role": "user", "content": "hi"},
    {
        "role": "assistant",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "42"},
]


def rotating(gateway, up, *secrets, **options):
    """Two keys that take turns, so that staying is told from leading."""
    return gateway.serving(up, *secrets, group={"strategy": "round_robin"}, **options)


def said(gateway, world, session=None, **fields):
    headers = {"x-session-id": session} if session else {}
    answered = gateway.post(world, chat(**fields), headers=headers)
    assert answered.status_code == 200
    # The pin is kept in the background, right after the record.
    wait_until(gateway.is_idle)
    return answered, attempts(gateway.record(answered))[-1].upstream_key.split(" ")[0]


def mark(answered) -> str:
    return answered.headers["x-pointsman-session"]


def test_a_conversation_with_a_warm_cache_stays_on_its_key(gateway, up):
    up.default(WARM)
    world = rotating(gateway, up, "k-1", "k-2")
    first, key = said(gateway, world, "s1")
    assert mark(first) == "new"
    for _ in range(4):
        later, again = said(gateway, world, "s1")
        assert (mark(later), again) == ("cache", key)


def test_a_conversation_without_a_warm_cache_goes_where_the_rotation_says(gateway, up):
    up.default(COLD)
    world = rotating(gateway, up, "k-1", "k-2")
    served = [said(gateway, world, "s1") for _ in range(4)]
    assert [key for _, key in served] == ["k1", "k2", "k1", "k2"]
    assert {mark(one) for one, _ in served} == {"new"}


def test_inside_a_turn_a_conversation_stays_however_cold(gateway, up):
    up.default(COLD)
    world = rotating(gateway, up, "k-1", "k-2")
    _, key = said(gateway, world, "s1")
    for _ in range(3):
        later, again = said(gateway, world, "s1", messages=TOOL_TURN)
        assert (mark(later), again) == ("turn", key)


def test_a_request_without_text_has_no_identity(gateway, up):
    world = rotating(gateway, up, "k-1")
    answered, _ = said(gateway, world, messages=[{"role": "assistant", "content": "x"}])
    assert mark(answered) == "none"


def test_affinity_does_not_switch_failover_off(gateway, up):
    """reports.md 21: a pinned key that answers 429 is left, and the conversation is pinned anew."""
    up.default(WARM)
    world = rotating(gateway, up, "k-1", "k-2")
    _, key = said(gateway, world, "s1")
    up.script(f"k-{key[1]}", status(429, retry_after=30))
    moved, other = said(gateway, world, "s1")
    assert other != key
    assert mark(moved) == "repinned"
    assert [a.outcome for a in attempts(gateway.record(moved))] == ["rate_limited", "served"]
    stayed, again = said(gateway, world, "s1")
    assert (mark(stayed), again) == ("cache", other)


def test_a_pinned_conversation_does_not_touch_a_key_that_another_client_cooled(gateway, up):
    """reports.md 22."""
    up.default(WARM)
    world = rotating(gateway, up, "k-1", "k-2")
    _, key = said(gateway, world, "s1")
    secret = f"k-{key[1]}"
    up.script(secret, status(429, retry_after=30))
    for text in ("one", "two"):  # one of the two leads with the pinned key
        said(gateway, world, messages=[{"role": "user", "content": text}])
    before = len(up.requests_of(secret))
    _, other = said(gateway, world, "s1")
    assert other != key
    assert len(up.requests_of(secret)) == before


def test_the_fingerprint_alone_names_a_conversation(gateway, up):
    up.default(WARM)
    world = rotating(gateway, up, "k-1", "k-2")
    first, key = said(gateway, world)
    later, again = said(gateway, world)
    assert (mark(first), mark(later), again) == ("new", "cache", key)


def test_another_lines_session_id_means_nothing(gateway, up):
    up.default(WARM)
    one = rotating(gateway, up, "k-1", "k-2")
    two = rotating(gateway, up, "k-3", "k-4")
    said(gateway, one, "s1")
    answered, _ = said(gateway, two, "s1")
    assert mark(answered) == "new"


def test_a_restart_keeps_conversations(gateway, up):
    up.default(WARM)
    world = rotating(gateway, up, "k-1", "k-2")
    _, key = said(gateway, world, "s1")
    gateway.restart()
    later, again = said(gateway, world, "s1")
    assert (mark(later), again) == ("cache", key)


@pytest.mark.parametrize("stream", [False, True])
def test_a_stored_response_is_continued_on_the_account_that_holds_it(gateway, up, stream):
    world = rotating(gateway, up, "k-1", "k-2", upstream={"dialect": "openai-responses"})
    body = {"model": "gpt-4o", "input": "hi", "stream": stream}
    up.default(answer("Hello.", id="resp_1"))
    first = gateway.post(world, body, path="/v1/responses")
    assert first.status_code == 200
    wait_until(gateway.is_idle)
    key = attempts(gateway.record(first))[-1].upstream_key
    for _ in range(3):
        following = {"model": "gpt-4o", "input": "and?", "previous_response_id": "resp_1"}
        later = gateway.post(world, following, path="/v1/responses")
        assert attempts(gateway.record(later))[-1].upstream_key == key


def test_a_stored_response_whose_keys_died_cannot_be_moved(gateway, up):
    world = rotating(gateway, up, "k-1", "k-2", upstream={"dialect": "openai-responses"})
    up.default(answer("Hello.", id="resp_1"))
    first = gateway.post(world, {"model": "gpt-4o", "input": "hi"}, path="/v1/responses")
    wait_until(gateway.is_idle)
    served = attempts(gateway.record(first))[-1]
    secret = UpstreamKey.objects.get(pk=served.upstream_key_id).secret
    up.script(secret, status(401))
    following = {"model": "gpt-4o", "input": "and?", "previous_response_id": "resp_1"}
    dead = gateway.post(world, following, path="/v1/responses")
    assert dead.status_code in {409, 502}
    wait_until(gateway.is_idle)
    before = len(up.requests)
    refused = gateway.post(world, following, path="/v1/responses")
    assert refused.status_code == 409
    assert refused.json()["error"]["code"] == "pinned_elsewhere"
    assert "previous_response_id" in refused.json()["error"]["message"]
    assert len(up.requests) == before
