"""Limits of lines, gateway keys and upstream keys: who waits, who is refused, and what is given back."""

import threading
import time

import pytest

from tests.fake_upstream import Ending, Gate, answer, broken, status, stream
from tests.gateway import CHARGE, attempts, chat, ledger, outcomes, wait_until

SHORT = {"policy": {"slot_wait_s": 0.2}}


@pytest.fixture
def together(gateway):
    """Starts calls in threads; their answers come in order of arrival."""
    threads, answers = [], []

    def start(world, count=1, **options):
        for _ in range(count):
            thread = threading.Thread(target=lambda: answers.append(gateway.post(world, **options)))
            thread.start()
            threads.append(thread)

    def finish():
        for thread in threads:
            thread.join()
        return answers

    start.finish = finish
    yield start
    finish()


def held(up, gate, count):
    up.script(None, *[answer().but(holds=((-1, gate),))] * count)


class TestOfTheCaller:
    @pytest.mark.parametrize("owner", ["line", "gateway key"])
    def test_calls_per_minute(self, gateway, up, owner):
        world = gateway.serving(up, "k-1", group=SHORT)
        row = world.line if owner == "line" else world.gateway_key
        row.rpm = 2
        row.save()
        gateway.refresh()
        answers = [gateway.post(world) for _ in range(3)]
        assert [got.status_code for got in answers] == [200, 200, 429]
        refused = answers[2]
        error = refused.json()["error"]
        assert error["code"] == "limit_reached"
        assert owner in error["message"]
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert refused.headers["x-pointsman-error-source"] == "gateway"
        assert len(up.requests) == 2
        record = gateway.record(refused)
        assert (record.status, record.http_status, record.attempt_count, record.charge) == ("failed", 429, 0, 0)
        assert record.refusal_limit.endswith(":rpm")
        assert ledger(record) == []
        explained = gateway.get(world, f"/v1/requests/{record.request_id}").json()
        assert (explained["refusal"]["limit"], explained["attempts"]) == (record.refusal_limit, [])

    @pytest.mark.parametrize("field", ["tpm", "tokens_per_day"])
    def test_tokens(self, gateway, up, field):
        """The real use of the first call leaves no room for the second."""
        world = gateway.serving(up, "k-1", group=SHORT, line={field: 40})
        answers = [gateway.post(world) for _ in range(3)]
        assert answers[0].status_code == 200
        assert answers[2].status_code == 429
        assert gateway.record(answers[2]).refusal_limit == f"line:{field}"

    def test_calls_per_day(self, gateway, up):
        world = gateway.serving(up, "k-1", group=SHORT, line={"per_day": 1})
        assert [gateway.post(world).status_code for _ in range(2)] == [200, 429]

    @pytest.mark.parametrize("owner", ["line", "gateway key"])
    def test_calls_at_once_queue(self, gateway, up, together, owner):
        world = gateway.serving(up, "k-1")
        row = world.line if owner == "line" else world.gateway_key
        row.concurrency = 1
        row.save()
        gateway.refresh()
        gate = Gate()
        held(up, gate, 1)
        together(world, 2)
        up.wait_for_requests(1)
        time.sleep(0.2)
        assert len(up.requests) == 1
        gate.open()
        answers = together.finish()
        assert [got.status_code for got in answers] == [200, 200]
        queued = sorted(attempts(gateway.record(got))[0].queued_ms for got in answers)
        assert queued[0] < 100 < queued[1]

    def test_a_queue_that_is_too_slow(self, gateway, up, together):
        world = gateway.serving(up, "k-1", group=SHORT, line={"concurrency": 1})
        gate = Gate()
        held(up, gate, 1)
        together(world)
        up.wait_for_requests(1)
        got = gateway.post(world)
        assert (got.status_code, got.headers["retry-after"]) == (429, "5")
        assert gateway.record(got).refusal_limit == "line:concurrency"
        gate.open()
        assert [one.status_code for one in together.finish()] == [200]

    def test_another_lines_limit_is_its_own(self, gateway, up):
        busy = gateway.serving(up, "k-1", group=SHORT, line={"rpm": 1})
        free = gateway.serving(up, "k-1", group=SHORT, line={"rpm": 1})
        assert [gateway.post(busy).status_code for _ in range(2)] == [200, 429]
        assert gateway.post(free).status_code == 200


class TestOfUpstreamKeys:
    def limited(self, gateway, up, count, **limits):
        world = gateway.serving(up, *(f"k-{n + 1}" for n in range(count)), group=SHORT)
        for name, value in limits.items():
            setattr(world.keys[0], name, value)
        world.keys[0].save()
        gateway.refresh()
        return world

    @pytest.mark.parametrize("limit", ["rpm", "per_hour", "per_day"])
    def test_a_key_at_its_limit_is_passed_over(self, gateway, up, limit):
        world = self.limited(gateway, up, 2, **{limit: 1})
        gateway.post(world)
        got = gateway.post(world)
        assert (got.status_code, up.keys()) == (200, ["k-1", "k-2"])
        assert outcomes(gateway.record(got)) == [("k1", "skipped: quota"), ("k2", "served")]

    def test_a_full_key_is_passed_over(self, gateway, up, together):
        world = self.limited(gateway, up, 2, concurrency=1)
        gate = Gate()
        held(up, gate, 1)
        together(world)
        up.wait_for_requests(1)
        got = gateway.post(world, chat(messages=[{"role": "user", "content": "another conversation"}]))
        assert (got.status_code, up.keys()) == (200, ["k-1", "k-2"])
        gate.open()
        together.finish()

    def test_all_full_is_a_429(self, gateway, up, together):
        world = self.limited(gateway, up, 1, concurrency=1)
        gate = Gate()
        held(up, gate, 1)
        together(world)
        up.wait_for_requests(1)
        began = time.monotonic()
        got = gateway.post(world)
        assert 0.15 < time.monotonic() - began < 2
        assert (got.status_code, got.headers["retry-after"]) == (429, "5")
        gate.open()
        assert [one.status_code for one in together.finish()] == [200]

    def test_the_first_free_slot_wins(self, gateway, up, together):
        world = gateway.serving(up, "k-1")
        world.keys[0].concurrency = 1
        world.keys[0].save()
        gateway.refresh()
        gate = Gate()
        held(up, gate, 1)
        together(world, 3)
        up.wait_for_requests(1)
        time.sleep(0.1)
        gate.open()
        assert [got.status_code for got in together.finish()] == [200] * 3
        spans = sorted((one.at, one.number) for one in up.requests)
        assert len(spans) == 3

    @pytest.mark.parametrize(
        "ending",
        [
            status(500),
            status(400),
            status(429, retry_after=1),
            broken(stream(["a", "b"]), Ending.RESET, events=2),
            answer(),
        ],
        ids=["500", "400", "429", "dies", "serves"],
    )
    @pytest.mark.parametrize("stream_asked", [False, True])
    def test_slots_come_back_whatever_the_ending(self, gateway, up, ending, stream_asked):
        policy = {"slot_wait_s": 0.2, "strikes": 1000, "cool_429_max_s": 1}
        world = gateway.serving(up, "k-1", line={"concurrency": 1}, group={"policy": policy})
        world.keys[0].concurrency = 1
        world.keys[0].save()
        gateway.refresh()
        up.script("k-1", ending)
        gateway.post(world, chat(stream=stream_asked))
        wait_until(gateway.is_idle)
        time.sleep(1.1 if ending.content == status(429).content else 0)
        got = gateway.post(world)
        assert got.status_code == 200
        assert gateway.record(got).charge == CHARGE
