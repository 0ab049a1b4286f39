"""What only waits for the next roll-up is told apart from what is wrong."""

import io
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.core.management import CommandError, call_command

from billing.models import KeyHour, LineDay, LineHour, RequestRecord
from billing.repricing import reprice
from billing.rollup_check import differences, next_run
from billing.rollups import roll_up
from config.management.commands import rebuild_rollups
from tests.factories import AttemptFactory, LedgerEntryFactory, LineFactory, PriceFactory, RecordFactory

pytestmark = pytest.mark.django_db
START = datetime(2026, 11, 15, 10, tzinfo=UTC)
NOW = START + timedelta(hours=3, minutes=30)


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr(rebuild_rollups, "now", lambda: NOW)


@pytest.fixture
def line():
    return LineFactory()


def call(line, at=START, **fields):
    record = RecordFactory(line=line, created=at, **fields)
    AttemptFactory(record=record, upstream_key_id=1, cost=record.cost)
    return record


def check(*arguments):
    out = io.StringIO()
    call_command("rebuild_rollups", "--check", *arguments, stdout=out)
    return out.getvalue().splitlines()


def test_calls_that_the_next_run_counts_are_pending(line):
    call(line)
    call(line, NOW - timedelta(minutes=20))
    roll_up(now=NOW)
    assert check() == ["4 hours are as the records say."]
    call(line, NOW - timedelta(minutes=5))
    lines = check()
    assert [text.split()[0] for text in lines[:-1]] == ["pending:"] * 2
    assert lines[-1] == "3 hours are as the records say; 1 hour waits for the next roll-up."
    call(line, NOW - timedelta(minutes=45), model_served="another")
    assert check()[-1] == "2 hours are as the records say; 2 hours wait for the next roll-up."
    roll_up(now=NOW)
    assert check() == ["4 hours are as the records say."]


def test_before_the_first_run_everything_is_pending(line):
    call(line, NOW - timedelta(days=40))
    assert check("--from", "2026-10-06", "--to", "2026-10-06")[-1] == (
        "23 hours are as the records say; 1 hour waits for the next roll-up."
    )


def test_a_sum_that_is_ahead_of_its_records_is_wrong_however_new(line):
    call(line, NOW)
    roll_up(now=NOW)
    LineHour.objects.update(charge=Decimal(99))
    with pytest.raises(CommandError, match=r"^1 sum differs from the records; run rebuild_rollups without --check\.$"):
        check()
    RequestRecord.objects.all().delete()
    with pytest.raises(CommandError, match=r"^2 sums differ"):
        check()


def test_an_old_sum_that_nothing_settles_is_wrong(line):
    call(line, START - timedelta(days=2))
    roll_up(now=NOW)
    KeyHour.objects.all().delete()
    with pytest.raises(CommandError, match=r"^1 sum differs"):
        check()
    out = io.StringIO()
    call_command("rebuild_rollups", stdout=out)
    assert out.getvalue() == "52 hours made.\n"
    assert check() == ["52 hours are as the records say."]


def test_late_records_and_prices_are_pending_until_the_next_run(line):
    old = START - timedelta(days=3)
    call(line, old)
    call(line, old, priced=False, charge=None, cost=None)
    roll_up(now=NOW)
    LedgerEntryFactory(record=call(line, old))
    assert (len(differences(old, next_run(NOW)).behind), differences(old, next_run(NOW)).wrong) == (2, [])
    roll_up(now=NOW)
    PriceFactory(tenant=line.tenant)
    reprice(tenant=line.tenant, first=old.date().replace(day=1))
    found = differences(old, next_run(NOW))
    assert (len(found.behind), found.wrong) == (2, [])
    roll_up(now=NOW)
    assert check()[-1].endswith("hours are as the records say.")


def test_days_are_compared_and_made_anew_too(line):
    call(line, START - timedelta(days=9))
    call(line, NOW)
    roll_up(now=NOW)
    LineDay.objects.update(calls=7)
    with pytest.raises(CommandError, match=r"^1 sum differs"):
        check()
    call_command("rebuild_rollups", stdout=io.StringIO())
    assert check()[-1] == "220 hours are as the records say."


def test_one_hour_is_one(line):
    call(line, NOW)
    out = io.StringIO()
    call_command("rebuild_rollups", stdout=out)
    assert out.getvalue() == "1 hour made.\n"
    assert check() == ["1 hour is as the records say."]
