"""A client that has its answer finds its record: at once, while the database is away, and after a crash."""

import json
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from billing.models import Attempt, LedgerEntry, RequestRecord
from tests.fake_upstream import Gate, answer, stream
from tests.gateway import CHARGE, HELLO, chat, ledger, request_id_of, wait_until

TABLE = RequestRecord._meta.db_table
SPOOL = Path(settings.POINTSMAN_DATA) / "spool"


@contextmanager
def refusing_database():
    """The database is up, but takes no records while the block lasts."""
    rename(TABLE, "away")
    try:
        yield
    finally:
        rename("away", TABLE)


def rename(old, new):
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {old} RENAME TO {new}")


def counts(world):
    records = RequestRecord.objects.filter(tenant=world.tenant)
    return (
        records.count(),
        Attempt.objects.filter(record__in=records).count(),
        LedgerEntry.objects.filter(tenant=world.tenant).count(),
    )


def spooled():
    return list(SPOOL.glob("*.jsonl"))


@pytest.mark.parametrize("stream_asked", [False, True])
def test_the_record_is_there_before_the_last_byte(gateway, up, stream_asked):
    """Fifty times: whoever has read the whole answer finds its record without waiting."""
    world = gateway.serving(up, "k-1")
    with gateway.client(world) as client:
        for _ in range(50):
            got = client.post("/v1/chat/completions", json=chat(stream=stream_asked))
            assert got.content.endswith(b"data: [DONE]\n\n" if stream_asked else b"}")
            record = gateway.record(got)
            assert (record.status, record.charge) == ("finished", CHARGE)
    assert counts(world) == (50, 50, 100)


def test_a_stream_that_is_not_over_has_no_record(gateway, up):
    gate = Gate()
    up.script("k-1", stream(["a", "b"]).but(holds=((3, gate),)))
    world = gateway.serving(up, "k-1")
    with gateway.streaming(world) as got:
        parts = got.iter_raw()
        next(parts)
        assert counts(world) == (0, 0, 0)
        gate.open()
        list(parts)
    assert counts(world)[0] == 1


def test_many_at_once_share_commits_and_lose_nothing(gateway, up):
    world = gateway.serving(up, "k-1")
    ids = []

    def call():
        with gateway.client(world) as client:
            ids.extend(request_id_of(client.post("/v1/chat/completions", json=chat())) for _ in range(10))

    threads = [threading.Thread(target=call) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = set(RequestRecord.objects.filter(tenant=world.tenant).values_list("request_id", flat=True))
    assert (len(ids), found) == (100, set(ids))
    assert counts(world) == (100, 100, 200)


class TestTheDatabaseTakesNoRecords:
    def test_answers_go_on_and_the_records_follow(self, gateway, up):
        world = gateway.serving(up, "k-1")
        with refusing_database():
            answers = [gateway.post(world, chat(stream=flag)) for flag in (False, True, False)]
            assert [got.status_code for got in answers] == [200] * 3
            assert answers[1].content.endswith(b"data: [DONE]\n\n")
            assert spooled()
            assert gateway.get(None, "/readyz").text in ("degraded: database\n", "ok\n")
        wait_until(lambda: not spooled(), 5, "the spool is replayed")
        assert [gateway.record(got).charge for got in answers] == [CHARGE] * 3
        assert [ledger(gateway.record(got)) for got in answers] == [[("charge", CHARGE), ("cost", CHARGE)]] * 3
        assert counts(world) == (3, 3, 6)
        assert wait_until(lambda: gateway.get(None, "/readyz").text == "ok\n")

    def test_also_under_load(self, gateway, up):
        """The replay does not wait for a quiet moment."""
        world = gateway.serving(up, "k-1")
        with refusing_database():
            first = gateway.post(world)
        over = threading.Event()

        def keep_calling():
            while not over.is_set():
                gateway.post(world)

        load = threading.Thread(target=keep_calling)
        load.start()
        try:
            wait_until(lambda: RequestRecord.objects.filter(request_id=request_id_of(first)).exists(), 5)
        finally:
            over.set()
            load.join()

    def test_what_a_killed_process_spooled_is_replayed_by_another(self, gateway, up):
        """Its file is not locked any more; a last line that the crash tore was never promised to anybody."""
        world = gateway.serving(up, "k-1")
        with refusing_database():
            got = gateway.post(world)
            (file,) = spooled()
            line = file.read_bytes()
        wait_until(lambda: not spooled(), 5)
        other = json.loads(line)
        other["record"]["id"] += 1
        other["record"]["request_id"] = "req_of_the_dead"
        for row in (*other["attempts"], *other["ledger"]):
            row["record_id"] = other["record"]["id"]
        left = SPOOL / "999999.jsonl"
        left.write_bytes(line + json.dumps(other).encode() + b"\n" + line[:40])
        wait_until(lambda: not left.exists(), 5)
        assert counts(world) == (2, 2, 4)
        assert ledger(RequestRecord.objects.get(request_id="req_of_the_dead")) == ledger(gateway.record(got))

    def test_a_slow_commit_is_spooled_and_not_written_twice(self, gateway, up, monkeypatch):
        """Past its patience the request is answered from the spool; the commit and the replay make one record."""
        monkeypatch.setattr("billing.recorder.PATIENCE_S", 0.3)
        world = gateway.serving(up, "k-1")
        locked, release = threading.Event(), threading.Event()
        blocker = threading.Thread(target=hold_the_table, args=(locked, release))
        blocker.start()
        locked.wait(5)
        began = time.monotonic()
        got = gateway.post(world)
        assert 0.25 < time.monotonic() - began < 2
        assert got.status_code == 200
        release.set()
        blocker.join()
        wait_until(lambda: not spooled(), 5)
        assert counts(world) == (1, 1, 2)

    def test_nothing_takes_records(self, gateway, up, monkeypatch):
        """Then no answer is given away, new calls are refused, and it recovers unaided."""
        world = gateway.serving(up, "k-1")

        def no_space(*_args):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch, refusing_database():
            patch.setattr("billing.spool.Spool.append", no_space)
            got = gateway.post(world)
            assert (got.status_code, got.json()["error"]["code"]) == (503, "recording_unavailable")
            assert HELLO not in got.text
            assert (got.headers["retry-after"], got.headers["x-pointsman-error-source"]) == ("5", "gateway")
            broken = None
            while broken is None or broken.status_code == 503:
                broken = gateway.post(world, chat(stream=True))
            assert b"recording_unavailable" in broken.content
            assert b"[DONE]" not in broken.content
        wait_until(lambda: gateway.post(world).status_code == 200, 5, "it recovers")
        assert gateway.get(None, "/readyz").status_code == 200

    def test_a_client_that_left_meanwhile_is_recorded(self, gateway, up, monkeypatch):
        """Nobody waits for the record any more; it must not be lost for that."""
        world = gateway.serving(up, "k-1")
        with refusing_database():
            with gateway.streaming(world) as got:
                next(got.iter_raw())
            wait_until(spooled, 5)
        wait_until(lambda: not spooled(), 5)
        assert counts(world)[0] == 1


def hold_the_table(locked, release):
    """Keep writers of records waiting; runs in a thread, with a connection of its own."""
    try:
        with connection.cursor() as cursor:
            if connection.vendor == "sqlite":
                cursor.execute("BEGIN IMMEDIATE")
            else:
                cursor.execute("BEGIN")
                cursor.execute(f"LOCK TABLE {TABLE} IN EXCLUSIVE MODE")
            locked.set()
            release.wait(10)
            cursor.execute("COMMIT")
    finally:
        connection.close()


def test_a_row_that_the_database_refuses_harms_no_other(gateway, up, monkeypatch):
    """It goes to a file for a person; its client has its answer; the others are written."""
    refused = SPOOL / "refused.json"
    world = gateway.serving(up, "k-1")
    table = gateway.runtime.keeper.table
    line = replace(table.lines[world.line.pk], slug=None)  # the column takes no null
    monkeypatch.setattr(gateway.runtime.keeper, "table", replace(table, lines={**table.lines, world.line.pk: line}))
    poisoned = gateway.post(world)
    assert poisoned.json()["choices"][0]["message"]["content"] == HELLO
    monkeypatch.setattr(gateway.runtime.keeper, "table", table)
    assert gateway.record(gateway.post(world)).status == "finished"
    assert [json.loads(line)["record"]["request_id"] for line in refused.read_text().splitlines()] == [
        request_id_of(poisoned)
    ]
    assert counts(world) == (1, 1, 2)
    refused.unlink()


def test_stopping_writes_what_is_queued(gateway, up):
    world = gateway.serving(up, "k-1")
    up.default(answer().but(head_delay_s=0.3))
    answers, count = [], 3
    threads = [threading.Thread(target=lambda: answers.append(gateway.post(world))) for _ in range(count)]
    for thread in threads:
        thread.start()
    up.wait_for_requests(count)
    gateway.restart()
    for thread in threads:
        thread.join()
    assert [got.status_code for got in answers] == [200] * count
    assert counts(world)[0] == count
