"""What is under way, as people see it, and requests that they abort: one failed record each, no key blamed."""

import json
import threading
from concurrent.futures import Future

import pytest
from django.conf import settings

from proxy import background, live
from tests.fake_upstream import Ending, Gate, answer, broken, silent, stream
from tests.gateway import attempts, chat, ledger, outcomes, spawned, wait_until


def glances(world):
    return [glance for glance in live.seen().glances if glance.tenant_id == world.tenant.pk]


def only_glance(world):
    wait_until(lambda: glances(world))
    (glance,) = glances(world)
    return glance


def posted(gateway, world, body, path="/v1/chat/completions"):
    """Send from a thread; the future holds the whole answer."""
    future = Future()

    def send():
        try:
            future.set_result(gateway.post(world, body, path=path))
        except Exception as problem:
            future.set_exception(problem)
            raise

    threading.Thread(target=send).start()
    return future


def test_a_call_is_seen_with_its_key_and_its_phase(gateway, up):
    gate = Gate()
    up.script("k-1", stream(["one ", "two ", "three"]).but(holds=((3, gate),)))
    world = gateway.serving(up, "k-1")
    with gateway.streaming(world) as got:
        lines = got.iter_lines()
        assert "one " in next(line for line in lines if "content" in line and "one" in line)
        wait_until(lambda: only_glance(world).phase == "streaming")
        glance = only_glance(world)
        assert (glance.line, glance.key, glance.model, glance.stream) == (world.line.slug, "prod", "gpt-4o", True)
        assert (glance.upstream, glance.upstream_key, glance.tail) == ("u1", "k1", world.keys[0].tail)
        assert glance.first_content_ms is not None
        assert (glance.silence_s, glance.attempts) == (300, 1)
        gate.open()
        list(lines)
    wait_until(lambda: glances(world) == [])


def test_no_secret_is_told(gateway, up):
    up.script("k-very-secret-0001", broken(stream(["one "]), Ending.STALL, events=1))
    world = gateway.serving(up, "k-very-secret-0001", group={"policy": {"drain_s": 0.1}})
    with gateway.streaming(world):
        told = repr(only_glance(world))
    assert "k-very-secret" not in told
    assert world.secret not in told


@pytest.mark.parametrize("streamed", [True, False])
def test_an_aborted_wait_ends_with_an_error_and_blames_nobody(gateway, up, streamed):
    up.script("k-1", silent())
    world = gateway.serving(up, "k-1", "k-2")
    future = posted(gateway, world, chat(stream=streamed))
    up.wait_for_requests(1)
    glance = only_glance(world)
    assert (glance.phase, glance.upstream_key) == ("waiting", "k1")
    live.order_abort(glance.id)
    got = future.result(10)
    assert (got.status_code, got.json()["error"]["code"]) == (503, "aborted")
    assert got.headers["x-should-retry"] == "false"
    record = gateway.only_record(world)
    wait_until(gateway.is_idle)
    assert (record.status, record.error_code, record.charge) == ("failed", "aborted", 0)
    assert (up.keys(), outcomes(record)) == (["k-1"], [("k1", "aborted")])
    up.wait_for_hang_ups()
    assert states(gateway, world) == [("healthy", 0, 0)]
    assert gateway.post(world).status_code == 200


def states(gateway, world):
    """(status, strikes, failures) of the first key."""
    pool = background.ask(gateway.runtime.store.snapshot(gateway.runtime.now()), 3)
    sheet = pool.sheet(world.keys[0].pk, None)
    return [(sheet.status.value, sheet.strikes, round(sheet.failure_rate_1h * 100))]


@pytest.mark.parametrize(
    ("path", "events", "told"),
    [("/v1/chat/completions", 3, '"code":"aborted"'), ("/v1/messages", 5, "event: error")],
)
def test_an_aborted_stream_ends_with_an_event_and_books_waste(gateway, up, path, events, told):
    up.script("k-1", broken(stream(["one ", "two "]), Ending.STALL, events=events))
    world = gateway.serving(up, "k-1", upstream={"dialect": "anthropic"} if path == "/v1/messages" else None)
    body = chat(stream=True, max_tokens=50)
    future = posted(gateway, world, body, path)
    wait_until(lambda: glances(world) and only_glance(world).phase == "streaming")
    live.order_abort(only_glance(world).id)
    got = future.result(10)
    assert got.status_code == 200
    assert "one " in got.text
    assert told in got.text
    record = gateway.only_record(world)
    wait_until(gateway.is_idle)
    assert (record.status, record.error_code, record.charge, record.http_status) == ("failed", "aborted", 0, 200)
    assert outcomes(record) == [("k1", "aborted")]
    assert attempts(record)[0].content is True
    assert [kind for kind, _amount in ledger(record)] == ["waste"]
    assert states(gateway, world) == [("healthy", 0, 0)]


def test_an_order_for_nobody_changes_nothing(gateway, up):
    world = gateway.serving(up, "k-1")
    live.order_abort("req_of_nobody")
    assert gateway.post(world).status_code == 200


def test_a_queued_call_is_aborted_before_it_is_sent(gateway, up):
    gate = Gate()
    up.script("k-1", answer().but(holds=((-1, gate),)))
    world = gateway.serving(up, "k-1")
    world.keys[0].concurrency = 1
    world.keys[0].save()
    gateway.refresh()
    first = posted(gateway, world, chat())
    up.wait_for_requests(1)
    second = posted(gateway, world, chat())
    wait_until(lambda: len(glances(world)) == 2)
    waiting = glances(world)[1]
    assert waiting.phase == "queued"
    live.order_abort(waiting.id)
    assert second.result(10).json()["error"]["code"] == "aborted"
    gate.open()
    assert first.result(10).status_code == 200
    assert len(up.keys()) == 1


@pytest.mark.skipif(not settings.REDIS_URL, reason="several processes share a Redis")
def test_another_process_is_seen_and_obeys(gateway, up, tmp_path):
    up.script("k-1", silent())
    world = gateway.serving(up, "k-1")
    with spawned(tmp_path) as other:
        future = posted(other, world, chat())
        up.wait_for_requests(1)
        assert gateway.is_idle()
        wait_until(lambda: glances(world), 5)
        live.order_abort(only_glance(world).id)
        got = future.result(10)
        assert json.loads(got.content)["error"]["code"] == "aborted"
        wait_until(lambda: glances(world) == [], 6)
