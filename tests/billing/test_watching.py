"""Alerts about calls without a price and requests that wait in the spool."""

import os
from datetime import UTC, date, datetime, timedelta

import pytest

from billing.models import RequestRecord, Statement
from billing.watching import watch_spool, watch_unpriced
from tenants.models import Alert, AlertDelivery
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
