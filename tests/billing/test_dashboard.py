"""The home page's reads: sums of days and fresh records together are what the records say, whatever is summed up."""

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing import dashboard
from billing.core.histogram import histogram, merged, percentile
from billing.dashboard import Asked, Sums, active_conversations, added, keys_by_hour, traffic
from billing.kinds import ATTEMPTS, BILLED, COUNTED, RECORDS, of_model
from billing.models import Attempt, DaySpeed, LineDay, RequestRecord, RollupMark
from billing.models.fields import MoneySum
from billing.rollup_check import day_differences
from billing.rollups import add_up_days, roll_up
from tests.factories import AttemptFactory, LineFactory, RecordFactory

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 15, 12, 40, tzinfo=UTC)
TODAY = NOW.date()
ENDINGS = ("finished", "finished", "finished", "cancelled", "failed")
OUTCOMES = ("rate_limited", "timeout", "bad_request", "aborted")


@pytest.fixture
def lines():
    """Two lines of one tenant and one of another, with three days of calls of every kind up to this minute."""
    draw = random.Random(7)
    first = LineFactory(slug="bot")
    made = [first, LineFactory(tenant=first.tenant, slug="batch"), LineFactory(slug="other")]
    for _ in range(150):
        status = draw.choice(ENDINGS)
        failed = status == "failed"
        record = RecordFactory(
            line=draw.choice(made),
            created=NOW - timedelta(seconds=draw.choice([draw.randrange(3600), draw.randrange(3 * 86400)])),
            status=status,
            http_status=draw.choice([None, 400, 429, 502]) if failed else 200,
            currency=draw.choice(["USD", "USD", "CNY"]),
            model_served=draw.choice(["a", "b", ""]),
            model_requested=draw.choice(["a", "c"]),
            priced=failed or draw.random() < 0.9,
            estimated=draw.random() < 0.2,
            charge=Decimal(0) if failed else None,
            cost=None if failed else Decimal(draw.randrange(10**9)).scaleb(-12),
            waste=Decimal(draw.randrange(10**9)).scaleb(-12) if failed else None,
            attempt_count=draw.choice([1, 1, 2]),
            first_content_ms=None if failed else draw.choice([0, 1, 2, 64, 1024, draw.randrange(5000)]),
            cached_read_tokens=draw.randrange(50),
            refusal_limit="rpm" if failed and draw.random() < 0.3 else "",
            replay_of="req_x" if draw.random() < 0.05 else "",
            conversation=draw.choice(["", "c1", "c2", "c3"]),
        )
        if record.priced and not failed:
            RequestRecord.objects.filter(pk=record.pk).update(charge=Decimal(draw.randrange(10**9)).scaleb(-12))
        for n in range(1, record.attempt_count + 1):
            served = n == record.attempt_count and not failed
            AttemptFactory(
                record=record, n=n, upstream_key_id=draw.choice([1, 2]), upstream="u", upstream_key="k",
                outcome="served" if served else draw.choice(OUTCOMES),
            )  # fmt: skip
    return made


def asked(tenants, line=None, days=3):
    return Asked(tenants, line, TODAY - timedelta(days=days), TODAY - timedelta(days=days), TODAY)


def reckoned(rows) -> Sums:
    """The same from the records alone, set by set."""
    rows = rows.filter(COUNTED)
    called = rows.filter(BILLED)
    amounts = called.aggregate(charge=MoneySum("charge"), cost=MoneySum("cost"))
    return Sums(
        calls=called.count(),
        **{name: rows.filter(RECORDS[name]).count()
           for name in ("failed", "lost", "refused", "cancelled", "unpriced", "estimated", "retried", "rescued")},
        **{name: sum(called.values_list(name, flat=True))
           for name in ("input_tokens", "cached_read_tokens", "output_tokens")},
        charge=amounts["charge"] or Decimal(0),
        cost=amounts["cost"] or Decimal(0),
        waste=rows.aggregate(waste=MoneySum("waste"))["waste"] or Decimal(0),
    )  # fmt: skip


@pytest.mark.parametrize("rolled", [None, NOW - timedelta(hours=30), NOW - timedelta(hours=5), NOW])
def test_figures_are_those_of_the_records_whatever_is_summed_up(lines, rolled):
    if rolled is not None:
        roll_up(now=rolled)
        assert day_differences(TODAY - timedelta(days=9), TODAY).wrong == []
    else:  # what lies further back than a day is in the sums only
        RequestRecord.objects.filter(created__lt=NOW - timedelta(hours=25)).delete()
    for tenants in ([lines[0].tenant_id], None):
        mine = RequestRecord.objects.all() if tenants is None else RequestRecord.objects.filter(tenant__in=tenants)
        found = traffic(asked(tenants), now=NOW)
        lags = rolled is not None and rolled < NOW - timedelta(hours=26)
        assert found.behind == (NOW.replace(hour=6, minute=0) - timedelta(days=1) if lags else None)
        if lags:
            continue
        for row in found.lines:
            same = mine.filter(line_id=row.line_id, day=row.day, currency=row.currency)
            assert row.sums == reckoned(same)
        for row in found.models:
            assert row.sums == reckoned(mine.filter(of_model(row.model), currency=row.currency))
        assert added(found.lines) == added(found.models) == reckoned(mine)
        for day, counts in found.times.items():
            timed = mine.filter(RECORDS["timed"], day=day).values_list("first_content_ms", flat=True)
            assert counts == histogram(timed)
    for line in lines:
        one = traffic(asked(None, line.pk), now=NOW)
        if not one.behind:
            assert added(one.lines) == reckoned(RequestRecord.objects.filter(line_id=line.pk))


@pytest.mark.parametrize("rolled", [None, NOW - timedelta(hours=5), NOW])
def test_keys_by_hour_are_those_of_the_attempts(lines, rolled):
    if rolled is not None:
        roll_up(now=rolled)
    since = NOW.replace(minute=0) - timedelta(hours=23)
    for tenants in ([lines[0].tenant_id], None):
        found = keys_by_hour(tenants, since=since, now=NOW)
        assert found
        for row in found:
            hour = Attempt.objects.filter(
                upstream_key_id=row.upstream_key_id, record__tenant_id=row.tenant_id, record__created__gte=row.hour,
                record__created__lt=row.hour + timedelta(hours=1),
            )  # fmt: skip
            counted = tuple(hour.filter(ATTEMPTS[name]).count() for name in ("tried", "failed", "moved_on"))
            assert (row.attempts, row.failed, row.moved_on) == counted
        mine = Attempt.objects.filter(record__created__gte=since)
        mine = mine if tenants is None else mine.filter(record__tenant_id__in=tenants)
        assert sum(row.attempts for row in found) == mine.count()


def test_a_fresh_record_is_seen_at_once_and_never_twice(lines):
    roll_up(now=NOW)
    before = added(traffic(asked(None), now=NOW).lines)
    RecordFactory(line=lines[0], created=NOW, charge=Decimal(3))
    now = added(traffic(asked(None), now=NOW).lines)
    assert (now.calls, now.charge) == (before.calls + 1, before.charge + 3)
    for minutes in (1, 30, 90):
        roll_up(now=NOW + timedelta(minutes=minutes))
        assert added(traffic(asked(None), now=NOW + timedelta(minutes=minutes)).lines) == now


def test_sums_that_move_on_while_they_are_read_are_read_again(lines, monkeypatch):
    roll_up(now=NOW - timedelta(hours=5))
    wanted = traffic(asked(None), now=NOW)
    real, reads = dashboard._traffic, []

    def moved_meanwhile(*args):
        reads.append(args)
        found = real(*args)
        if len(reads) == 1:
            roll_up(now=NOW)
            found = real(*args)  # sums with the hours that the tail has, too
            assert added(found.lines).admitted > added(wanted.lines).admitted
        return found

    monkeypatch.setattr(dashboard, "_traffic", moved_meanwhile)
    assert traffic(asked(None), now=NOW) == wanted
    assert len(reads) == 2


def test_sums_that_lag_are_owned_up_to(lines):
    roll_up(now=NOW)
    late = NOW + timedelta(days=2)
    assert traffic(asked(None), now=late).behind == RollupMark.objects.get().days_until
    assert traffic(asked(None), now=NOW).behind is None


def test_conversations_with_a_call_lately_are_counted_once(lines):
    line = LineFactory()
    for minutes, name in ((5, "x"), (6, "x"), (7, "y"), (31, "z"), (1, "")):
        RecordFactory(line=line, created=NOW - timedelta(minutes=minutes), conversation=name)
    since = NOW - dashboard.ACTIVE
    assert active_conversations([line.tenant_id], None, since=since) == 2
    assert active_conversations(None, line.pk, since=since) == 2
    assert active_conversations([], None, since=since) == 0


def test_percentiles_are_as_near_as_stated():
    draw = random.Random(5)
    for _ in range(20):
        values = sorted(round(draw.lognormvariate(6, 1)) for _ in range(draw.randrange(1, 400)))
        parts = [histogram(values[start::3]) for start in range(3)]
        for share in (0.5, 0.95):
            exact = values[max(0, -(-len(values) * share // 1).__int__() - 1)] if values else 0
            told = percentile(merged(parts), share)
            assert told is not None
            assert exact <= told + 0.5 <= exact * 2**0.25 + 1


def test_the_reads_cost_the_same_for_few_and_many_records(lines):
    def cost():
        with CaptureQueriesContext(connection) as caught:
            traffic(asked(None), now=NOW)
            keys_by_hour(None, since=NOW.replace(minute=0), now=NOW)
        return len(caught)

    few = cost()
    for _ in range(20):
        RecordFactory(line=lines[0], created=NOW)
    assert cost() == few == 10


def test_days_say_which_of_their_sums_differ(lines):
    roll_up(now=NOW)
    first = TODAY - timedelta(days=9)
    LineDay.objects.filter(pk=LineDay.objects.earliest("pk").pk).update(charge=99)
    DaySpeed.objects.filter(pk=DaySpeed.objects.earliest("pk").pk).delete()
    assert [line.split()[1] for line in day_differences(first, TODAY).wrong] == ["LineDay", "DaySpeed"]
    add_up_days(_hours())
    assert day_differences(first, TODAY).wrong == []


def _hours():
    start = datetime(2026, 11, 11, tzinfo=UTC)
    return [start + timedelta(hours=n) for n in range(120)]


def test_the_day_of_a_tenant_is_that_of_its_zone():
    line = LineFactory(tenant__timezone="Asia/Shanghai")
    late = datetime(2026, 11, 14, 20, tzinfo=UTC)
    RecordFactory(line=line, created=late, day=date(2026, 11, 15))
    for rolled in (False, True):
        if rolled:
            roll_up(now=NOW)
        assert [row.day for row in traffic(asked([line.tenant_id]), now=NOW).lines] == [date(2026, 11, 15)]
