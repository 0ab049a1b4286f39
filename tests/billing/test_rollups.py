"""Hours equal the records, however often, late or interrupted they are made."""

import io
import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.core.management import CommandError, call_command

from billing import rollups
from billing.models import KeyHour, LedgerEntry, LineHour, OutputSize, RequestRecord, RollupMark
from billing.models.fields import MoneySum
from billing.rollup_check import day_differences, differences
from billing.rollups import measure_outputs, rebuild_hour, roll_up
from tests.factories import AttemptFactory, LedgerEntryFactory, LineFactory, RecordFactory

pytestmark = pytest.mark.django_db
START = datetime(2026, 11, 15, 10, tzinfo=UTC)
NOW = START + timedelta(hours=3, minutes=30)
HOURS = [START + timedelta(hours=n) for n in range(4)]


def fill(calls=120):
    draw = random.Random(3)
    lines = [LineFactory(), LineFactory()]
    for _ in range(calls):
        status = draw.choice(["finished", "finished", "cancelled", "failed"])
        failed = status == "failed"
        record = RecordFactory(
            line=draw.choice(lines),
            created=START + timedelta(seconds=draw.randrange(4 * 3600)),
            status=status,
            model_served=draw.choice(["a", "b", ""]),
            charge=Decimal(0) if failed else Decimal(draw.randrange(10**9)).scaleb(-12),
            cost=None if failed else Decimal(draw.randrange(10**9)).scaleb(-12),
            waste=Decimal(draw.randrange(10**9)).scaleb(-12) if failed else None,
            attempt_count=draw.choice([1, 2]),
            first_content_ms=None if failed else draw.randrange(5000),
            output_tokens=draw.randrange(3000),
            refusal_limit="rpm" if failed and draw.random() < 0.3 else "",
            replay_of="req_x" if draw.random() < 0.05 else "",
        )
        for n in range(1, record.attempt_count + 1):
            outcome = "served" if n == record.attempt_count and not failed else draw.choice(["rate_limited", "timeout"])
            AttemptFactory(record=record, n=n, upstream_key_id=draw.choice([1, 2]), outcome=outcome, cost=record.cost)
    return lines


def snapshot():
    def rows(kind):
        names = [one.name for one in kind._meta.concrete_fields if one.name != "id"]
        return sorted(map(str, kind.objects.values_list(*names)))

    return rows(LineHour), rows(KeyHour)


def test_the_sums_equal_the_records():
    fill()
    assert roll_up(now=NOW) == 4 + 2
    assert [differences(hour).wrong for hour in HOURS] == [[]] * 4
    mine = RequestRecord.objects.filter(replay_of="", refusal_limit="")
    called = mine.exclude(status="failed")
    wanted = called.aggregate(charge=MoneySum("charge"), cost=MoneySum("cost"))
    assert LineHour.objects.aggregate(charge=MoneySum("charge"), cost=MoneySum("cost")) == wanted
    assert sum(LineHour.objects.values_list("calls", flat=True)) == called.count()
    assert sum(LineHour.objects.values_list("failed", flat=True)) == mine.filter(status="failed").count()
    assert sum(LineHour.objects.values_list("waste", flat=True)) == sum(
        row.waste for row in RequestRecord.objects.filter(replay_of="", waste__isnull=False)
    )
    assert sum(KeyHour.objects.values_list("attempts", flat=True)) == sum(
        row.attempt_count for row in RequestRecord.objects.all()
    )


def test_running_again_changes_nothing():
    fill()
    roll_up(now=NOW)
    before = snapshot()
    for _ in range(2):
        roll_up(now=NOW)
    assert snapshot() == before


def test_a_run_that_was_cut_short_is_gone_on_with(monkeypatch):
    fill()
    real, made = rollups.rebuild_hour, []

    def fails_at_the_third(hour):
        if len(made) == 3:
            raise KeyboardInterrupt
        made.append(hour)
        real(hour)

    monkeypatch.setattr(rollups, "rebuild_hour", fails_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        roll_up(now=NOW)
    monkeypatch.setattr(rollups, "rebuild_hour", real)
    roll_up(now=NOW)
    assert [differences(hour).wrong for hour in HOURS] == [[]] * 4


def test_a_late_record_with_an_amount_is_found():
    (line, _) = fill()
    roll_up(now=NOW)
    later = NOW + timedelta(hours=20)
    roll_up(now=later)
    record = RecordFactory(line=line, created=START, charge=Decimal(5))
    assert differences(START).wrong != []
    LedgerEntryFactory(record=record)
    roll_up(now=later)
    assert differences(START).wrong == []
    assert RollupMark.objects.get().ledger_id == LedgerEntry.objects.latest("pk").pk


def test_a_late_failure_of_the_last_day_is_found_though_it_costs_nothing():
    (line, _) = fill(20)
    roll_up(now=NOW)
    later = NOW + timedelta(hours=20)
    roll_up(now=later)
    RecordFactory(line=line, created=START, status="failed", charge=Decimal(0), cost=None)
    assert differences(START).wrong != []
    roll_up(now=later)
    assert differences(START).wrong == []
    assert day_differences(START.date(), START.date()).wrong == []


def test_the_command_checks_and_mends():
    fill(30)
    out = io.StringIO()
    call_command("rebuild_rollups", "--to", "2026-11-15", stdout=out)
    call_command("rebuild_rollups", "--from", "2026-11-15", "--to", "2026-11-15", "--check", stdout=out)
    assert out.getvalue().splitlines()[-1] == "24 hours are as the records say."
    LineHour.objects.filter(pk=LineHour.objects.earliest("pk").pk).update(charge=99)
    KeyHour.objects.filter(pk=KeyHour.objects.earliest("pk").pk).delete()
    with pytest.raises(CommandError, match=r"^2 sums differ"):
        call_command("rebuild_rollups", "--to", "2026-11-15", "--check", stdout=out)
    call_command("rebuild_rollups", "--to", "2026-11-15", stdout=out)
    call_command("rebuild_rollups", "--to", "2026-11-15", "--check", stdout=out)


def test_failures_of_the_request_are_not_held_against_the_key():
    record = RecordFactory(created=START)
    outcomes = ["served", "aborted", "bad_request", "content_filtered", "context_too_long", "rate_limited", "timeout"]
    for n, outcome in enumerate(outcomes, start=1):
        AttemptFactory(record=record, n=n, upstream_key_id=1, outcome=outcome)
    AttemptFactory(record=record, n=9, upstream_key_id=1, outcome="", skipped="cooling")
    rebuild_hour(START)
    row = KeyHour.objects.get()
    assert (row.attempts, row.failed) == (7, 2)


def test_sizes_of_answers_are_learnt_from_enough_of_them():
    line = LineFactory()
    for n in range(40):
        RecordFactory(line=line, created=START, output_tokens=100 if n < 37 else 5000, model_served="a")
    for _ in range(19):
        RecordFactory(line=line, created=START, output_tokens=100, model_served="rare")
    rebuild_hour(START)
    for _ in range(2):
        assert measure_outputs(now=NOW) == 1
    row = OutputSize.objects.get()
    assert (row.line_id, row.model, row.samples) == (line.pk, "a", 40)
    assert 5000 <= row.p95 <= 6000
    assert measure_outputs(now=NOW + timedelta(days=8)) == 0
