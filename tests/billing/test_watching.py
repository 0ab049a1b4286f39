"""Alerts about calls without a price and requests that wait in the spool."""

import os
from datetime import UTC, date, datetime, timedelta

import pytest

from billing.models import LineHour, RequestRecord, Statement
from billing.rollups import roll_up
from billing.spool import Spool
from billing.watching import watch_failures, watch_refused, watch_spool, watch_unpriced
from tenants.mails import compose
from tenants.models import Alert, AlertDelivery
from tests.billing.bundles import bundle
from tests.factories import LineFactory, RecordFactory, TenantFactory

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 20, tzinfo=UTC)


def unpriced(line, **fields):
    return RecordFactory(line=line, **{"charge": None, "cost": None, "priced": False, **fields})


@pytest.fixture
def line():
    return LineFactory(tenant=TenantFactory(alert_emails=["a@example.com"]))


def alerts():
    return list(Alert.objects.order_by("pk").values_list("subject", "closed"))


def test_one_alert_per_model_and_one_when_it_is_over(line):
    unpriced(line, model_served="x")
    unpriced(line, model_served="x")
    unpriced(line, model_served="y")
    unpriced(line, model_served="failed", status="failed", charge=0, priced=True)
    for _ in range(3):
        watch_unpriced(now=NOW)
    assert alerts() == [("model:x", None), ("model:y", None)]
    first = Alert.objects.earliest("pk")
    assert (first.tenant, first.details) == (line.tenant, {"model": "x", "calls": 2, "month": "2026-11"})
    RequestRecord.objects.filter(model_served="x").update(priced=True, charge=1)
    later = NOW + timedelta(hours=1)
    watch_unpriced(now=later)
    assert alerts() == [("model:x", later), ("model:y", None)]
    assert AlertDelivery.objects.filter(alert=first).count() == 2


def test_calls_whose_client_left_are_told_too(line):
    unpriced(line, model_served="x", status="cancelled", created=NOW - timedelta(hours=3))
    roll_up(now=NOW)
    watch_unpriced(now=NOW)
    assert alerts() == [("model:x", None)]
    assert Alert.objects.get().details["calls"] == 1
    RequestRecord.objects.update(priced=True, charge=1)
    LineHour.objects.update(unpriced=0)
    watch_unpriced(now=NOW)
    assert alerts() == [("model:x", NOW)]


def test_closed_months_are_settled(line):
    unpriced(line, created=datetime(2026, 10, 15, tzinfo=UTC))
    watch_unpriced(now=NOW)
    assert alerts() == [("model:gpt-4o", None)]
    Statement.objects.create(
        tenant=line.tenant, month=date(2026, 10, 1), csv=b"", digest="", total_charge=0, payable=0, currency="USD"
    )
    watch_unpriced(now=NOW)
    assert alerts() == [("model:gpt-4o", NOW)]


def test_a_file_that_stays_in_the_spool_is_told(settings, tmp_path):
    settings.POINTSMAN_DATA = tmp_path
    watch_spool(now=NOW, machine="one")
    (tmp_path / "spool").mkdir()
    file = tmp_path / "spool" / "1.jsonl"
    file.write_bytes(b"")
    watch_spool(now=NOW, machine="one")
    assert alerts() == []
    os.utime(file, (1, 1))
    watch_spool(now=NOW, machine="one")
    assert alerts() == [("spool:one", None)]
    file.unlink()
    watch_spool(now=NOW, machine="one")
    assert alerts() == [("spool:one", NOW)]


def test_what_the_database_refused_for_good_is_told_until_the_file_is_gone(settings, tmp_path, line):
    settings.POINTSMAN_DATA = tmp_path
    settings.OPS_EMAILS = ["ops@example.com"]
    watch_refused(now=NOW, machine="one")
    assert alerts() == []
    spool = Spool(tmp_path / "spool")
    spool.set_aside(bundle(line))
    spool.set_aside(bundle(line))
    for _ in range(2):
        watch_refused(now=NOW, machine="one")
    assert alerts() == [("refused:one", None)]
    alert = Alert.objects.get()
    assert (alert.kind, alert.tenant) == ("recording", None)
    assert alert.text == (
        f"2 finished requests were refused by the database for good; on no bill until written: {spool.refused} on one."
    )
    subject, body = compose(AlertDelivery.objects.get())
    assert subject == "[Pointsman] Records refused by the database"
    assert f"rename the file to\n{tmp_path}/spool/again.jsonl\n" in body
    spool.refused.rename(alert.details["again"])
    watch_refused(now=NOW, machine="one")
    assert alerts() == [("refused:one", NOW)]
    assert spool.waiting()


def call(line, count=1, **fields):
    for _ in range(count):
        RecordFactory(line=line, **{"created": NOW, **fields})


def failures(*seconds):
    for second in seconds:
        watch_failures(now=NOW + timedelta(seconds=second))


FAILED = {"status": "failed", "http_status": 502, "error_code": "upstream_failed", "charge": 0}


def test_a_team_whose_calls_are_not_served_is_told_until_they_are(line):
    other = LineFactory()
    call(other, 40)
    call(line, 19)
    call(line, 4, **FAILED)
    failures(0, 119)
    assert alerts() == []
    call(line, 1, **{**FAILED, "http_status": 200})  # broke in the middle of a stream
    failures(60, 120)
    assert alerts() == []  # it has not held for two minutes yet
    failures(180, 240)
    assert alerts() == [("calls", None)]
    alert = Alert.objects.get()
    assert (alert.tenant, alert.text) == (line.tenant, "5 of 24 calls of the last 10 minutes were not served (21 %).")
    failures(500, 601, 719)
    assert alerts() == [("calls", None)]
    failures(721)
    assert alerts() == [("calls", NOW + timedelta(seconds=721))]
    assert list(AlertDelivery.objects.order_by("pk").values_list("occasion", flat=True)) == ["opened", "resolved"]


@pytest.mark.parametrize(
    "fields",
    [
        {"http_status": 400, "error_code": "upstream_refused_request"},
        {"http_status": 404, "error_code": "model_not_found"},
        {"http_status": 503, "error_code": "aborted"},
        {"http_status": 429, "error_code": "limit_reached", "refusal_limit": "rpm"},
        {"replay_of": "req_x"},
    ],
)
def test_what_is_not_the_upstreams_doing_is_left_out(line, fields):
    call(line, 10)
    call(line, 30, **{**FAILED, **fields})
    failures(0, 120, 240)
    assert alerts() == []


def test_rate_limits_of_upstreams_count(line):
    call(line, 30, **{**FAILED, "http_status": 429, "error_code": "upstream_rate_limited"})
    failures(0, 120)
    assert alerts() == [("calls", None)]
    line.tenant.enabled = False
    line.tenant.save()
    failures(150)
    assert alerts() == [("calls", NOW + timedelta(seconds=150))]
