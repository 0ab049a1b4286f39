"""Keyed calls under way: who joins, who leaves, what goes upstream."""

import time
from decimal import Decimal

import httpx
import pytest

from billing.models import Attempt
from proxy import live
from tests.fake_upstream import Gate, answer, status, stream
from tests.gateway import CHARGE, CHAT, HELLO, chat, encoded, request_id_of, wait_until
from tests.proxy.keyed import KEY, STREAMED, charged, code_of, in_threads, records, replayed, seated, sent_key


class TestInFlight:
    @pytest.mark.parametrize("streamed", [False, True])
    def test_twenty_at_once_are_one_call_and_one_charge(self, gateway, up, streamed):
        gate = Gate()
        up.script("k-1", answer().but(holds=((2 if streamed else -1, gate),)))
        world = gateway.serving(up, "k-1")
        join = in_threads([lambda: gateway.post(world, chat(stream=streamed), headers=KEY) for _ in range(20)])
        seated(gateway, 20)
        gate.open()
        got = join()
        assert {one.status_code for one in got} == {200}
        assert len({one.content for one in got}) == 1
        assert HELLO.split()[0].encode() in got[0].content
        assert sorted(str(replayed(one)) for one in got) == ["None"] + ["true"] * 19
        assert len({request_id_of(one) for one in got}) == 20
        assert (len(up.requests), charged(world)) == (1, [CHARGE])
        (original,) = [row for row in records(world) if not row.replay_of]
        assert {row.replay_of for row in records(world)} == {"", original.request_id}
        assert len(records(world)) == 20
        assert Attempt.objects.filter(record__tenant=world.tenant).count() == 1
        assert (gateway.runtime.flights, gateway.is_idle()) == ({}, True)

    def test_who_joins_a_stream_follows_it_from_its_start(self, gateway, up):
        gate = Gate()
        up.script("k-1", stream(["one ", "two ", "three"]).but(holds=((3, gate),)))
        world = gateway.serving(up, "k-1")
        with gateway.client(world) as client, client.stream("POST", CHAT, content=STREAMED, headers=KEY) as one:
            parts = one.iter_raw()
            first = next(parts)
            with gateway.client(world) as other, other.stream(
                "POST", CHAT, content=STREAMED, headers=KEY
            ) as two:  # fmt: skip
                assert replayed(two) == "true"
                followed = two.iter_raw()
                seen = next(followed)
                assert b"one " in first
                assert b"one " in seen
                assert records(world) == []
                told = [gateway.get(world, f"/v1/requests/{request_id_of(got)}").json() for got in (one, two)]
                assert [(row["status"], row["replay_of"]) for row in told] == [
                    ("running", None), ("running", request_id_of(one)),
                ]  # fmt: skip
                gate.open()
                assert seen + b"".join(followed) == first + b"".join(parts)
        assert (len(up.requests), len(records(world))) == (1, 2)

    def test_another_body_meanwhile_is_refused(self, gateway, up):
        gate = Gate()
        up.script("k-1", answer().but(holds=((-1, gate),)))
        world = gateway.serving(up, "k-1")
        join = in_threads([lambda: gateway.post(world, headers=KEY)])
        up.wait_for_requests(1)
        other = gateway.post(world, chat(temperature=1), headers=KEY)
        assert (other.status_code, other.json()["error"]["code"]) == (422, "idempotency_mismatch")
        gate.open()
        assert join()[0].status_code == 200

    @pytest.mark.parametrize("streamed", [False, True])
    def test_a_failure_reaches_all_and_frees_the_key(self, gateway, up, streamed):
        gate = Gate()
        up.script("k-1", status(500, holds=((-1, gate),)))
        world = gateway.serving(up, "k-1")
        join = in_threads([lambda: gateway.post(world, chat(stream=streamed), headers=KEY) for _ in range(5)])
        seated(gateway, 5)
        gate.open()
        got = join()
        assert [(one.status_code, one.json()["error"]["code"]) for one in got] == [(502, "upstream_failed")] * 5
        assert len(up.requests) == 1
        assert sorted(bool(row.replay_of) for row in records(world)) == [False] + [True] * 4
        again = gateway.post(world, chat(stream=streamed), headers=KEY)
        assert (again.status_code, replayed(again), len(up.requests)) == (200, None, 2)

    def test_aborted_by_an_administrator(self, gateway, up):
        up.script("k-1", answer().but(holds=((-1, Gate()),)))
        world = gateway.serving(up, "k-1")
        join = in_threads([lambda: gateway.post(world, headers=KEY) for _ in range(3)])
        seated(gateway, 3)
        up.wait_for_requests(1)
        (running,) = [one for one in live.seen().glances if one.tenant_id == world.tenant.pk]
        live.order_abort(running.id)
        assert [(one.status_code, one.json()["error"]["code"]) for one in join()] == [(503, "aborted")] * 3
        assert gateway.post(world, headers=KEY).status_code == 200
        assert (len(up.requests), charged(world)) == (2, [CHARGE])


class TestTheClientLeaves:
    @pytest.mark.parametrize("streamed", [False, True])
    def test_it_runs_to_its_end_and_is_there_for_the_next_try(self, gateway, up, streamed):
        gate = Gate()
        up.script("k-1", stream(["one ", "two ", "three"]).but(holds=((3 if streamed else -1, gate),)))
        world = gateway.serving(up, "k-1")
        self.leave(gateway, world, up, streamed=streamed)
        time.sleep(0.1)
        assert records(world) == []
        gate.open()
        record = gateway.only_record(world)
        assert (record.status, record.charge, record.output_tokens) == ("finished", CHARGE, 7)
        again = gateway.post(world, STREAMED if streamed else None, headers=KEY)
        assert (again.status_code, replayed(again), len(up.requests)) == (200, "true", 1)
        assert b"three" in again.content
        assert charged(world) == [CHARGE]

    @staticmethod
    def leave(gateway, world, up, *, streamed):
        with gateway.client(world, timeout=20 if streamed else 0.5) as client:
            if not streamed:
                with pytest.raises(httpx.ReadTimeout):
                    client.post(CHAT, content=encoded(chat()), headers=KEY)
                return
            with client.stream("POST", CHAT, content=STREAMED, headers=KEY) as got:
                next(got.iter_raw())

    def test_the_next_try_joins_what_is_still_under_way(self, gateway, up):
        gate = Gate()
        up.script("k-1", answer().but(holds=((-1, gate),)))
        world = gateway.serving(up, "k-1")
        self.leave(gateway, world, up, streamed=False)
        join = in_threads([lambda: gateway.post(world, headers=KEY)])
        seated(gateway, 1)
        gate.open()
        (got,) = join()
        assert (got.status_code, replayed(got), len(up.requests), charged(world)) == (200, "true", 1, [CHARGE])

    def test_who_joined_and_leaves_is_a_replay_that_was_cancelled(self, gateway, up):
        gate = Gate()
        up.script("k-1", stream(["one ", "two ", "three"]).but(holds=((3, gate),)))
        world = gateway.serving(up, "k-1")
        join = in_threads([lambda: gateway.post(world, chat(stream=True), headers=KEY)])
        wait_until(lambda: gateway.runtime.flights)
        up.wait_for_requests(1)
        self.leave(gateway, world, up, streamed=True)
        left = gateway.only_record(world)
        assert (left.status, left.charge, bool(left.replay_of)) == ("cancelled", Decimal(0), True)
        gate.open()
        assert join()[0].status_code == 200
        wait_until(lambda: len(records(world)) == 2)
        assert charged(world) == [CHARGE]


class TestUpstream:
    def test_the_clients_key_goes_nowhere(self, gateway, up):
        """Each exchange has a key of its own: the same one at another account would mean nothing, or something else."""
        up.script("k-1", status(500))
        world = gateway.serving(up, "k-1", "k-2")
        gateway.post(world, chat(stream=True), headers=KEY)
        sent = [sent_key(seen) for seen in up.requests]
        assert len(set(sent)) == 2
        assert all(key.startswith("pm-") and len(key) == 43 and "order-66" not in key for key in sent)
        gateway.post(world)
        assert sent_key(up.requests[-1]) is None

    def test_also_in_another_dialect(self, gateway, up):
        world = gateway.serving(up, "k-1", upstream={"dialect": "anthropic"})
        gateway.post(world, headers=KEY)
        assert sent_key(up.requests[0]).startswith("pm-")


class TestLimits:
    def test_a_replay_needs_no_slot_and_no_budget(self, gateway, up):
        world = gateway.serving(up, "k-1", line={"rpm": 1}, group={"policy": {"slot_wait_s": 0}})
        assert gateway.post(world, headers=KEY).status_code == 200
        assert gateway.post(world, headers=KEY).status_code == 200
        assert gateway.post(world).status_code == 429

    def test_the_line_must_be_on(self, gateway, up):
        world = gateway.serving(up, "k-1")
        gateway.post(world, headers=KEY)
        world.line.enabled = False
        world.line.save()
        gateway.refresh()
        assert gateway.post(world, headers=KEY).status_code == 401


class TestTooLargeToBeKept:
    @pytest.fixture(autouse=True)
    def small(self, monkeypatch):
        monkeypatch.setattr("proxy.core.idempotency.KEPT_MAX", 2000)
        monkeypatch.setattr("proxy.flight.KEPT_MAX", 2000)
        monkeypatch.setattr("proxy.flight._AHEAD_MAX", 500)

    @pytest.mark.parametrize("streamed", [False, True])
    def test_it_is_given_once_and_never_run_again(self, gateway, up, streamed):
        up.default(stream([f"word {n} " for n in range(300)]), key="k-1")
        world = gateway.serving(up, "k-1")
        first = gateway.post(world, chat(stream=streamed), headers=KEY)
        assert (first.status_code, b"word 299" in first.content) == (200, True)
        again = gateway.post(world, chat(stream=streamed), headers=KEY)
        assert (again.status_code, code_of(again), again.headers["x-should-retry"]) == (409, "answer_not_kept", "false")
        assert request_id_of(first) in again.json()["error"]["message"]
        assert (len(up.requests), charged(world)) == (1, [CHARGE])
        assert [bool(row.replay_of) for row in records(world)] == [False, True]

    def test_clients_that_are_there_are_served_at_the_pace_of_the_slowest(self, gateway, up):
        gate = Gate()
        up.script("k-1", stream([f"word {n} " for n in range(300)]).but(holds=((3, gate), (250, late := Gate()))))
        world = gateway.serving(up, "k-1")
        join = in_threads([lambda: gateway.post(world, STREAMED, headers=KEY) for _ in range(3)])
        seated(gateway, 3)
        gate.open()
        (flight,) = gateway.runtime.flights.values()
        wait_until(lambda: flight.is_full)
        assert sum(len(part) for part, _tail in flight._parts[:-1]) <= 500  # besides the one that waits for room
        too_late = gateway.post(world, STREAMED, headers=KEY)
        assert (too_late.status_code, code_of(too_late)) == (409, "answer_not_kept")
        assert gateway.record(too_late).replay_of == flight.original
        late.open()
        got = join()
        assert {one.content for one in got} == {got[0].content}
        assert got[0].content.endswith(b"data: [DONE]\n\n")
        assert b"word 0 " in got[0].content

    def test_without_clients_it_goes_on(self, gateway, up):
        gate = Gate()
        up.script("k-1", stream([f"word {n} " for n in range(300)]).but(holds=((3, gate),)))
        world = gateway.serving(up, "k-1")
        TestTheClientLeaves.leave(gateway, world, up, streamed=True)
        gate.open()
        assert (gateway.only_record(world).status, charged(world)) == ("finished", [CHARGE])
