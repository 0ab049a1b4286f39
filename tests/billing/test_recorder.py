"""The writer thread on a real database. What it does for whole requests stands in tests/proxy/test_durable.py."""

import asyncio
import threading
from dataclasses import replace

import pytest
from django.db import connection

from billing import recorder as recorder_module
from billing.models import Attempt, LedgerEntry, RequestRecord
from billing.recorder import Ids, NotDurableError, Recorder
from billing.rows import storable
from billing.spool import Spool, decode
from tests.billing.bundles import bundle
from tests.factories import LineFactory

pytestmark = pytest.mark.usefixtures("clean_database")
TABLE = RequestRecord._meta.db_table


@pytest.fixture
def line(clean_database):
    return LineFactory()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "spool"


def run(folder, work):
    """Run `work(recorder)` with a recorder that is started and stopped; return what it returns."""

    async def main():
        recorder = Recorder(folder)
        recorder.start()
        try:
            return await work(recorder)
        finally:
            await recorder.stop()

    return asyncio.run(main())


def write(folder, *bundles):
    async def work(recorder):
        await asyncio.gather(*(recorder.write(one) for one in bundles))
        await until(lambda: not Spool(folder).waiting())

    run(folder, work)


async def until(holds):
    """Wait a few seconds at most."""
    for _ in range(250):
        if holds():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("not in time")


def rows(line):
    """How many records, attempts and ledger rows the line's tenant has."""
    records = RequestRecord.objects.filter(tenant_id=line.tenant_id)
    return (
        records.count(),
        Attempt.objects.filter(record__in=records).count(),
        LedgerEntry.objects.filter(tenant_id=line.tenant_id).count(),
    )


def rename(old, new):
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {old} RENAME TO {new}")


def test_a_bundle_is_there_when_write_returns(line, folder):
    made = bundle(line)
    write(folder, made)
    row = RequestRecord.objects.get(pk=made.record.id)
    assert (row.request_id, row.charge, row.created) == (
        made.record.request_id,
        made.record.charge,
        made.record.created,
    )
    assert (row.decision, row.usage_flags, row.day) == (made.record.decision, ["odd"], made.record.day)
    assert row.attempts.get().upstream == "u1"
    assert LedgerEntry.objects.get(record=row).amount == made.record.charge
    assert not folder.exists()


def test_many_at_once(line, folder):
    write(folder, *(bundle(line) for _ in range(1200)))
    assert rows(line) == (1200, 1200, 1200)


def test_writing_the_same_twice_changes_nothing(line, folder):
    made = bundle(line)
    write(folder, made, made)
    write(folder, made)
    assert rows(line) == (1, 1, 1)


def test_an_id_that_was_drawn_twice_is_drawn_anew(line, folder):
    first = bundle(line, number=900_001)
    other = bundle(line, number=900_001, request_id="req_other")
    write(folder, first)
    write(folder, other)
    records = RequestRecord.objects.filter(tenant_id=line.tenant_id)
    assert {row.request_id: row.attempts.count() for row in records} == {"req_900001": 1, "req_other": 1}
    assert rows(line) == (2, 2, 2)


@pytest.mark.parametrize("field", ["line_slug", "currency"])
def test_a_row_that_is_refused_harms_no_other(line, folder, field):
    poisoned = bundle(line, **{field: None})
    good = [bundle(line) for _ in range(5)]
    write(folder, *good[:2], poisoned, *good[2:])
    assert rows(line) == (5, 5, 5)
    spool = Spool(folder)
    assert (spool.waiting(), len(spool.refused.read_bytes().splitlines())) == (False, 1)


def test_a_refused_row_in_the_spool_harms_no_other(line, folder):
    spool = Spool(folder)
    spool.append([bundle(line), bundle(line, currency=None), bundle(line)])
    spool.close()

    async def wait(recorder):
        await until(lambda: not Spool(folder).waiting())
        return recorder.healthy

    assert run(folder, wait) is True
    assert rows(line) == (2, 2, 2)
    assert len(Spool(folder).refused.read_bytes().splitlines()) == 1


@pytest.mark.parametrize("text", ["a\x00b", "half \ud83d", "\u0000", "名" * 300])
def test_any_text_is_taken(line, folder, text):
    made = bundle(line, message=text, line_name=text[:200], decision={text: [text, {"a": text}]}, usage_flags=[text])
    made = replace(made, attempts=tuple(replace(row, message=text) for row in made.attempts))
    write(folder, made)
    row = RequestRecord.objects.get(pk=made.record.id)
    assert (row.message, row.attempts.get().message) == (storable(text), storable(text))
    assert row.decision == {storable(text): [storable(text), {"a": storable(text)}]}


@pytest.mark.parametrize(
    ("text", "stored"), [("abc", "abc"), ("a\x00b", "ab"), ("\ud83d", "?"), ("\U0001f682é", "\U0001f682é"), ("", "")]
)
def test_what_databases_do_not_take_is_replaced(text, stored):
    assert storable(text) == stored


class TestDatabaseAway:
    @pytest.fixture
    def away(self, line):
        rename(TABLE, "away")
        back = threading.Event()

        def bring_back():
            if not back.is_set():
                back.set()
                rename("away", TABLE)

        yield bring_back
        bring_back()

    def test_rows_go_to_the_spool_and_are_replayed(self, line, folder, away):
        made = [bundle(line) for _ in range(3)]

        async def work(recorder):
            await asyncio.gather(*(recorder.write(one) for one in made))
            lost = recorder.healthy, recorder.writable, Spool(folder).waiting()
            await asyncio.to_thread(in_thread, away)
            await until(lambda: recorder.healthy and not Spool(folder).waiting())
            return lost, recorder.healthy

        assert run(folder, work) == ((False, True, True), True)
        assert rows(line) == (3, 3, 3)

    def test_when_the_spool_fails_too_the_caller_is_told(self, line, folder, away):
        folder.parent.mkdir(exist_ok=True)
        folder.write_text("in the way")

        async def work(recorder):
            with pytest.raises(NotDurableError):
                await recorder.write(bundle(line))
            refused = recorder.writable
            await asyncio.to_thread(in_thread, away)
            await until(lambda: recorder.writable)
            return refused, recorder.writable

        assert run(folder, work) == (False, True)

    def test_a_caller_that_is_cancelled_loses_nothing(self, line, folder, away):
        async def work(recorder):
            writing = asyncio.create_task(recorder.write(bundle(line)))
            await asyncio.sleep(0)
            writing.cancel()
            await asyncio.wait([writing])
            await until(Spool(folder).waiting)

        run(folder, work)
        away()
        write(folder)
        assert rows(line) == (1, 1, 1)


class TestUnforeseen:
    """An error of our own in the writer: it goes on, and nothing is lost."""

    @pytest.fixture
    def failing(self, monkeypatch):
        """`failing(ids)`: inserting any of these requests raises what nobody foresaw, until told otherwise."""
        real, poisoned = Recorder._insert, set()

        def insert(recorder, bundles):
            if poisoned & {one.record.request_id for one in bundles}:
                raise ZeroDivisionError("nobody foresaw this")
            real(recorder, bundles)

        monkeypatch.setattr(Recorder, "_insert", insert)
        return poisoned

    def test_the_writer_goes_on_and_the_spool_keeps_what_it_could_not_write(self, line, folder, failing, caplog):
        made = [bundle(line) for _ in range(4)]
        failing.add(made[1].record.request_id)

        async def work(recorder):
            await asyncio.gather(*(recorder.write(one) for one in made))
            seen = recorder.alive, recorder.faulty, recorder.writable
            failing.clear()
            await until(lambda: not Spool(folder).waiting())
            await recorder.write(bundle(line))
            return seen

        assert run(folder, work) == (True, True, True)
        assert rows(line) == (5, 5, 5)
        assert "recording met an unforeseen ZeroDivisionError and goes on" in caplog.text
        assert not Spool(folder).refused.exists()

    def test_what_fails_again_from_the_spool_is_set_aside_and_holds_up_nobody(self, line, folder, failing):
        made = [bundle(line) for _ in range(3)]
        failing.add(made[1].record.request_id)
        spool = Spool(folder)
        spool.append(made)
        spool.close()
        run(folder, lambda _recorder: until(lambda: not Spool(folder).waiting()))
        assert rows(line) == (2, 2, 2)
        (kept,) = spool.refused.read_bytes().splitlines()
        assert decode(kept) == made[1]
        failing.clear()
        spool.refused.rename(folder / "again.jsonl")  # what the alert tells a person to do
        run(folder, lambda _recorder: until(lambda: not Spool(folder).waiting()))
        assert rows(line) == (3, 3, 3)

    @pytest.mark.parametrize("where", ["log_requests", "_answer"])
    def test_an_error_after_the_commit_doubles_nothing(self, line, folder, monkeypatch, where):
        real, calls = getattr(recorder_module, where), []

        def once(*args, **options):
            calls.append(args)
            if len(calls) == 1:
                raise ZeroDivisionError("nobody foresaw this")
            return real(*args, **options)

        monkeypatch.setattr(recorder_module, where, once)

        async def work(recorder):
            await recorder.write(bundle(line))
            await recorder.write(bundle(line))
            await until(lambda: not Spool(folder).waiting())
            return recorder.alive

        assert run(folder, work) is True
        assert rows(line) == (2, 2, 2)

    def test_a_cancelled_callers_rows_are_kept_too(self, line, folder, failing):
        made = bundle(line)
        failing.add(made.record.request_id)

        async def work(recorder):
            writing = asyncio.create_task(recorder.write(made))
            await asyncio.sleep(0)
            writing.cancel()
            await asyncio.wait([writing])
            await until(lambda: Spool(folder).waiting() or Spool(folder).refused.exists())

        run(folder, work)
        failing.clear()
        kept = Spool(folder).refused
        if kept.exists():
            kept.rename(folder / "again.jsonl")
        write(folder)
        assert rows(line) == (1, 1, 1)

    def test_replaying_may_fail_for_any_reason(self, line, folder, monkeypatch):
        calls = []

        def take(_spool):
            calls.append(1)
            raise ZeroDivisionError("nobody foresaw this")

        Spool(folder).set_aside(bundle(line))
        (folder / "1.jsonl").write_bytes(b"")
        monkeypatch.setattr(Spool, "take", take)

        async def work(recorder):
            await until(lambda: len(calls) > 1)
            await recorder.write(bundle(line))
            return recorder.alive

        assert run(folder, work) is True
        assert rows(line) == (1, 1, 1)


def in_thread(work):
    """Use the database in a thread and leave no connection behind."""
    try:
        work()
    finally:
        connection.close()


def test_stopping_writes_what_waits(line, folder):
    async def work(recorder):
        return [asyncio.create_task(recorder.write(bundle(line))) for _ in range(20)]

    async def main():
        recorder = Recorder(folder)
        recorder.start()
        tasks = await work(recorder)
        await asyncio.sleep(0)
        await recorder.stop()
        await asyncio.gather(*tasks)

    asyncio.run(main())
    assert rows(line) == (20, 20, 20)


class TestIds:
    def test_they_grow_with_time_and_do_not_repeat(self):
        ids = Ids()
        made = [ids.next(now) for now in (1000, 1000, 1001, 1002) for _ in range(500)]
        assert len(set(made)) == len(made)
        assert [one >> 22 for one in made[::500]] == [1000, 1000, 1001, 1002]

    def test_they_fit_the_column_for_decades(self):
        assert Ids().next(2**41 - 1) < 2**63

    def test_the_counter_turns_over(self):
        ids = Ids()
        made = [ids.next(5) for _ in range(5000)]
        assert len(set(made)) == 4096
