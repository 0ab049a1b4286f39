"""The dashboard's reads, from the hourly sums."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from billing import dashboard
from billing.models import KeyHour, RequestRecord
from billing.rollups import roll_up
from tests.factories import AttemptFactory, LineFactory, RecordFactory

pytestmark = pytest.mark.django_db
TODAY = date(2026, 11, 15)
AT = datetime(2026, 11, 15, 12, tzinfo=UTC)
D = Decimal


@pytest.fixture
def line():
    made = LineFactory(slug="bot")
    RecordFactory(line=made, created=AT, charge=D("0.1"), cost=D("0.05"), cached_read_tokens=50, first_content_ms=100)
    RecordFactory(line=made, created=AT, charge=D("0.2"), cost=D("0.1"), attempt_count=2, first_content_ms=900)
    RecordFactory(line=made, created=AT, status="failed", charge=0, cost=None, waste=D("0.01"), attempt_count=2)
    RecordFactory(line=made, created=AT, status="failed", charge=0, cost=None, refusal_limit="rpm")
    RecordFactory(line=made, created=AT - timedelta(days=1), charge=None, cost=None, priced=False, estimated=True)
    RecordFactory(line=made, created=AT - timedelta(days=9))
    RecordFactory(created=AT)
    for key, outcomes in {1: ["served"] * 18 + ["timeout"] * 2, 2: ["served"] * 10 + ["rate_limited"] * 10}.items():
        record = RequestRecord.objects.filter(line=made, status="finished").first()
        for n, outcome in enumerate(outcomes, start=1):
            AttemptFactory(record=record, n=100 * key + n, upstream_key_id=key, upstream_key=f"k{key}", outcome=outcome)
    roll_up(now=AT)
    return made


def test_spend_by_line_and_day(line):
    found = dashboard.spend_by_line_and_day([line.tenant_id], today=TODAY, days=7)
    assert [(one.day, one.line, one.charge, one.cost, one.waste) for one in found] == [
        (date(2026, 11, 14), "bot", 0, 0, 0),
        (TODAY, "bot", D("0.3"), D("0.15"), D("0.01")),
    ]
    assert [(one.calls, one.failed, one.unpriced, one.estimated) for one in found] == [(1, 0, 1, 1), (2, 1, 0, 0)]
    assert len(dashboard.spend_by_line_and_day(None, today=TODAY, days=7)) == 3
    assert dashboard.spend_by_line_and_day([], today=TODAY) == []


def test_health(line):
    found = dashboard.health([line.tenant_id], today=TODAY)
    assert (found.calls, found.failed, found.refused, found.retried, found.rescued) == (2, 1, 1, 2, 1)
    assert found.available == pytest.approx(2 / 3)
    assert found.without_failover == pytest.approx(1 / 3)
    assert found.failover_rate == pytest.approx(2 / 3)
    assert found.cache_share == 50 / 200
    assert found.p50_ms is not None
    assert found.p95_ms is not None
    assert 100 <= found.p50_ms <= 119
    assert 900 <= found.p95_ms <= 1071
    nothing = dashboard.health([line.tenant_id], today=TODAY, line="nobody")
    assert (nothing.calls, nothing.available, nothing.cache_share, nothing.p50_ms) == (0, None, None, None)


def test_first_content_by_day(line):
    found = dashboard.first_content_by_day([line.tenant_id], today=TODAY, days=7)
    assert list(found) == [date(2026, 11, 14), TODAY]
    assert found[TODAY] == (108, 1024)


def test_keys_that_fail_three_times_as_often_as_the_others_stand_out(line):
    found = dashboard.keys_by_failure([line.tenant_id], since=AT - timedelta(hours=24 * 60))
    assert [(one.upstream_key, one.attempts, one.failed, one.suspicious) for one in found] == [
        ("k2", 20, 10, True),
        ("k1", 20, 2, False),
    ]
    assert dashboard.keys_by_failure([], since=AT) == []
    hours = dashboard.keys_by_hour([line.tenant_id], since=AT - timedelta(hours=24 * 60))
    assert [(one.upstream_key_id, one.attempts, one.failed) for one in hours] == [(1, 20, 2), (2, 20, 10)]
    assert {one.hour for one in hours} == set(KeyHour.objects.values_list("hour", flat=True))


def test_a_single_key_or_a_handful_of_calls_never_stands_out():
    record = RecordFactory(created=AT)
    for n in range(9):
        AttemptFactory(record=record, n=n, upstream_key_id=1, outcome="timeout")
    for n in range(20):
        AttemptFactory(record=record, n=50 + n, upstream_key_id=2)
    roll_up(now=AT)
    assert not any(one.suspicious for one in dashboard.keys_by_failure(None, since=AT))
