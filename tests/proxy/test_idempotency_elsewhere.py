"""Keyed calls that another process runs, and what happens when state store, database or owner are away.

The other process is a claim in the store and, at its end, a row or a word: all that one process sees of another. Two
real ones stand in test_idempotency_processes.py.
"""

import json
from contextlib import contextmanager
from itertools import count

import pytest

from billing.models import StoredAnswer
from keys.stores.claims import Claim
from keys.stores.courier import StoreDown
from proxy import background
from proxy.core.endpoints import find
from proxy.core.errors import Code, Fault
from proxy.core.idempotency import identity_of, pack
from proxy.idempotent import _sealed
from tests.fake_upstream import status
from tests.gateway import CHARGE, CHAT, chat, encoded, request_id_of, wait_until
from tests.proxy.keyed import KEY, STREAMED, charged, code_of, in_threads, records, replayed, seated
from tests.proxy.test_durable import refusing_database, rename, spooled

TABLE = StoredAnswer._meta.db_table
FAILED = Fault(Code.UPSTREAM_FAILED, "No luck elsewhere.", source="upstream")
SAID = b'data: {"choices":[{"delta":{"content":"from elsewhere"}}]}\n\ndata: [DONE]\n\n'


_numbers = count(1)


class Elsewhere:
    """A process that runs the call with KEY and this body."""

    def __init__(self, gateway, world, body, path=CHAT):
        self.gateway, self.world, self.claims = gateway, world, gateway.runtime.store.claims
        request = (path, "", body)
        hash_key = gateway.runtime.keeper.hash_key
        self.identity = identity_of(world.line.pk, find("POST", path), request, KEY, hash_key)
        self.claim = Claim(f"req_elsewhere_{next(_numbers)}", self.identity.body)
        assert self.ask(self.claims.take(self.identity.name, self.claim, gateway.runtime.now())) is None

    @staticmethod
    def ask(work):
        return background.ask(work, 5)

    def free(self, said=""):
        async def freed():
            self.claims.free(self.identity.name, self.claim, self.gateway.runtime.now(), said)

        self.ask(freed())

    def store(self, body=SAID, status=200, content_type="text/event-stream; charset=utf-8"):
        StoredAnswer.objects.create(
            line=self.world.line, key_digest=self.identity.key, body_digest=self.identity.body,
            request_id=self.claim.owner, status=status, headers={"content-type": content_type}, body=pack(body),
        )  # fmt: skip

    def finish(self, **answer):
        self.store(**answer)
        self.free()


class TestAnotherProcessRunsIt:
    def test_its_answer_is_waited_for(self, gateway, up):
        world = gateway.serving(up, "k-1")
        other = Elsewhere(gateway, world, STREAMED)
        join = in_threads([lambda: gateway.post(world, STREAMED, headers=KEY) for _ in range(3)])
        seated(gateway, 3)
        other.finish()
        got = join()
        assert [(one.status_code, one.content, replayed(one)) for one in got] == [(200, SAID, "true")] * 3
        assert up.requests == []
        assert [(row.status, row.replay_of, row.charge) for row in records(world)] == [
            ("finished", other.claim.owner, 0)
        ] * 3  # fmt: skip

    def test_another_body_is_refused_at_once(self, gateway, up):
        world = gateway.serving(up, "k-1")
        other = Elsewhere(gateway, world, STREAMED)
        assert gateway.post(world, headers=KEY).status_code == 422
        other.free()

    @pytest.mark.parametrize("streamed", [False, True])
    def test_its_failure_is_heard(self, gateway, up, streamed):
        world, body = gateway.serving(up, "k-1"), STREAMED if streamed else encoded(chat())
        other = Elsewhere(gateway, world, body)
        join = in_threads([lambda: gateway.post(world, body, headers=KEY) for _ in range(2)])
        seated(gateway, 2)
        sealed = _sealed(FAILED)
        assert "luck" not in sealed
        other.free(sealed)
        for got in join():
            assert (got.status_code, got.json()["error"]["message"]) == (502, "No luck elsewhere.")
            assert got.headers["x-pointsman-error-source"] == "upstream"
        assert up.requests == []
        assert [(row.status, row.replay_of) for row in records(world)] == [("failed", other.claim.owner)] * 2
        assert gateway.post(world, body, headers=KEY).status_code == 200  # the key is free

    def test_it_died(self, gateway, up):
        """Its lease lapses: what is seen then is neither claim nor answer nor word."""
        world = gateway.serving(up, "k-1")
        other = Elsewhere(gateway, world, encoded(chat()))
        join = in_threads([lambda: gateway.post(world, headers=KEY) for _ in range(3)])
        seated(gateway, 3)
        other.free()
        got = join()
        assert {one.status_code for one in got} == {200}
        assert sorted(str(replayed(one)) for one in got) == ["None", "true", "true"]
        assert (len(up.requests), charged(world)) == (1, [CHARGE])

    def test_nobody_waits_any_more(self, gateway, up):
        """Then nothing is run when the other one dies."""
        world = gateway.serving(up, "k-1")
        other = Elsewhere(gateway, world, STREAMED)
        with gateway.client(world, timeout=0.3) as client, pytest.raises(Exception, match="timed out"):
            client.post(CHAT, content=STREAMED, headers=KEY)
        wait_until(lambda: not gateway.runtime.flights)
        other.free()
        assert (gateway.only_record(world).status, up.requests) == ("cancelled", [])


class TestWaitingForLong:
    """A stream is opened meanwhile and kept open, as one that runs here is."""

    @pytest.fixture(autouse=True)
    def impatient(self, monkeypatch):
        monkeypatch.setattr("proxy.idempotent.HOLD_S", 0.1)
        monkeypatch.setattr("proxy.idempotent.KEEPALIVE_S", 0.2)
        monkeypatch.setattr("proxy.idempotent.POLL_S", 0.1)

    def opened(self, gateway, up, end, body=STREAMED, path=CHAT):
        """(status, headers, whole content) of a stream that was opened before its owner's end."""
        world = gateway.serving(up, "k-1")
        other = Elsewhere(gateway, world, body, path.partition("?")[0])
        with gateway.client(world) as client, client.stream("POST", path, content=body, headers=KEY) as got:
            assert records(world) == []
            end(other)
            return world, got, got.read()

    def test_the_answer_comes_behind_the_keepalives(self, gateway, up):
        world, got, content = self.opened(gateway, up, lambda other: other.finish())
        assert (got.status_code, replayed(got), got.headers["content-type"]) == (
            200, "true", "text/event-stream; charset=utf-8",
        )  # fmt: skip
        assert content.startswith(b": keep-alive\n\n")
        assert content.replace(b": keep-alive\n\n", b"") == SAID
        assert gateway.only_record(world).replay_of.startswith("req_elsewhere_")

    def test_a_failure_is_the_last_event(self, gateway, up):
        world, _got, content = self.opened(gateway, up, lambda other: other.free(_sealed(FAILED)))
        assert content.splitlines()[-2].startswith(b'data: {"error":')
        assert b"No luck elsewhere." in content
        assert gateway.only_record(world).error_code == "upstream_failed"

    def test_a_fault_of_the_request_is_the_last_event(self, gateway, up):
        refused = {"body": b'{"error":{"message":"bad roles"}}', "status": 400, "content_type": "application/json"}
        world, _got, content = self.opened(gateway, up, lambda other: other.finish(**refused))
        assert b"bad roles" in content
        assert gateway.only_record(world).status == "failed"

    @pytest.mark.parametrize("fails", [False, True])
    def test_it_runs_here_after_the_owners_death(self, gateway, up, fails):
        if fails:
            up.default(status(500), key="k-1")
        world, _got, content = self.opened(gateway, up, lambda other: other.free())
        assert (b"upstream_failed" in content) is fails
        assert content.endswith(b"data: [DONE]\n\n") is not fails
        (record,) = records(world)
        assert (record.status, record.replay_of) == ("failed" if fails else "finished", "")

    def test_an_array_stays_an_array(self, gateway, up):
        path = "/v1beta/models/gemini-2.5-flash:streamGenerateContent"
        body = b'{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}'
        _world, got, content = self.opened(
            gateway, up, lambda other: other.free(_sealed(FAILED)), body=body, path=path
        )  # fmt: skip
        assert got.headers["content-type"].startswith("application/json")
        assert [list(event) for event in json.loads(content)] == [["error"]]


class TestTheDatabaseIsAway:
    def test_answers_cannot_be_read(self, gateway, up):
        """Nobody knows whether the key was used: rather no call than a second one."""
        world = gateway.serving(up, "k-1")
        with away(TABLE):
            got = gateway.post(world, headers=KEY)
            assert (got.status_code, code_of(got), got.headers["retry-after"]) == (503, "idempotency_unavailable", "5")
            assert gateway.post(world).status_code == 200  # without a key it goes on
        assert len(up.requests) == 1
        assert gateway.post(world, headers=KEY).status_code == 200

    def test_records_go_to_the_spool_and_the_answer_with_them(self, gateway, up):
        world = gateway.serving(up, "k-1")
        with refusing_database():
            first = gateway.post(world, headers=KEY)
            assert first.status_code == 200
            (file,) = spooled()
            assert b"Hello" not in file.read_bytes()
            wait_until(lambda: not gateway.runtime.flights)  # until then it is given from memory
            for headers in (KEY, {"idempotency-key": "other"}):
                got = gateway.post(world, headers=headers)
                assert (got.status_code, code_of(got)) == (503, "idempotency_unavailable")
            assert gateway.post(world, chat(temperature=1), headers=KEY).status_code == 422
        wait_until(lambda: not spooled(), 5)
        again = gateway.post(world, headers=KEY)
        assert (again.content, replayed(again), len(up.requests)) == (first.content, "true", 1)
        assert gateway.record(again).replay_of == request_id_of(first)
        assert charged(world) == [CHARGE]

    def test_a_restart_before_the_spool_is_replayed(self, gateway, up):
        """The claim is gone with an embedded store; the answer still waits in the file."""
        world = gateway.serving(up, "k-1")
        with refusing_database():
            assert gateway.post(world, headers=KEY).status_code == 200
            gateway.restart()
            got = gateway.post(world, headers=KEY)
            assert (got.status_code, code_of(got)) == (503, "idempotency_unavailable")
        wait_until(lambda: not spooled(), 5)
        assert replayed(gateway.post(world, headers=KEY)) == "true"
        assert (len(up.requests), charged(world)) == (1, [CHARGE])

    def test_nothing_takes_the_record(self, gateway, up, monkeypatch):
        """The answer is withheld, and the key is free."""
        world = gateway.serving(up, "k-1")

        def no_space(*_args):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch, refusing_database():
            patch.setattr("billing.spool.Spool.append", no_space)
            got = gateway.post(world, headers=KEY)
            assert (got.status_code, code_of(got)) == (503, "recording_unavailable")
        wait_until(lambda: gateway.post(world, headers=KEY).status_code == 200, 5)
        assert charged(world) == [CHARGE]


class TestTheStateStoreIsAway:
    def test_keyed_calls_are_refused_and_others_go_on(self, gateway, up, monkeypatch):
        world = gateway.serving(up, "k-1")

        async def down(*_args):
            raise StoreDown("down")

        with monkeypatch.context() as patch:
            patch.setattr(type(gateway.runtime.store.claims), "take", down)
            got = gateway.post(world, headers=KEY)
            assert (got.status_code, code_of(got), got.headers["retry-after"]) == (503, "idempotency_unavailable", "5")
            assert "x-should-retry" not in got.headers
            assert gateway.post(world).status_code == 200
        assert gateway.post(world, headers=KEY).status_code == 200

    def test_it_goes_while_another_process_runs_the_call(self, gateway, up, monkeypatch):
        world = gateway.serving(up, "k-1")
        other = Elsewhere(gateway, world, encoded(chat()))

        async def down(*_args):
            raise StoreDown("down")

        join = in_threads([lambda: gateway.post(world, headers=KEY)])
        seated(gateway, 1)
        with monkeypatch.context() as patch:
            patch.setattr(type(gateway.runtime.store.claims), "look", down)
            (got,) = join()
        assert (got.status_code, code_of(got), up.requests) == (503, "idempotency_unavailable", [])
        other.free()


@contextmanager
def away(table):
    rename(table, "away")
    try:
        yield
    finally:
        rename("away", table)


def test_a_mistake_of_ours_reaches_all(gateway, up, monkeypatch):
    world = gateway.serving(up, "k-1")

    async def mistaken(*_args):
        raise RuntimeError("a mistake")

    with monkeypatch.context() as patch:
        patch.setattr("proxy.views.plan", mistaken)
        got = gateway.post(world, headers=KEY)
    assert (got.status_code, code_of(got)) == (500, "internal_error")
    wait_until(lambda: [row.error_code for row in records(world)] == ["internal_error"])
    assert gateway.post(world, headers=KEY).status_code == 200


def test_a_deleted_line_costs_no_record(gateway, up):
    """The answer's row refers to the line as the record does: without a constraint."""
    world = gateway.serving(up, "k-1")
    line = world.line.pk
    gateway.runtime.keeper.refresh()
    with_line = gateway.runtime.keeper.table
    world.line.delete()
    gateway.runtime.keeper.table = with_line
    got = gateway.post(world, headers=KEY)
    assert (got.status_code, gateway.record(got).line_id) == (200, line)
