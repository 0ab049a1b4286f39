"""The monthly CSV: layout, order, what is in it and what is not."""

import csv
import io
import os
import threading
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from billing.core.csvtext import HEADER
from billing.models import RequestRecord
from tenants.models import Tenant
from tests.factories import ExchangeRateFactory, GatewayKeyFactory, LineFactory, RecordFactory, TenantFactory

pytestmark = pytest.mark.django_db
NOV = "2026-11"


def export(tenant: Tenant, *args: str, month: str = NOV) -> str:
    out = io.StringIO(newline="")
    call_command("billing_export", "--tenant", tenant.slug, "--month", month, *args, stdout=out)
    return out.getvalue()


def parsed(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def rows(tenant: Tenant, *args: str, month: str = NOV) -> list[dict[str, str]]:
    return parsed(export(tenant, *args, month=month))


def test_an_empty_month_is_header_and_total():
    tenant = TenantFactory(currency="CNY")
    assert export(tenant) == HEADER + "TOTAL,,,,,,,,0,0,0,0,0,0,0,0.00,0.00,,0,0\r\n"


def test_one_call_to_the_byte():
    tenant = TenantFactory(slug="acme")
    RecordFactory(
        line=LineFactory(tenant=tenant, slug="bot", name='Bot, "the" first'),
        model_served="gpt-4o-2024",
        cost=Decimal("0.000360000000"),
        charge=Decimal("0.00045"),
        reasoning_tokens=5,
    )
    row = (
        '2026-11-15,acme,bot,"Bot, ""the"" first",prod,wxyz,gpt-4o,gpt-4o-2024,1,0,100,0,0,20,5,0.00036,0.00045,USD,0,0'
    )
    total = "TOTAL,,,,,,,,1,0,100,0,0,20,5,0.00036,0.00045,,0,0"
    assert export(tenant) == f"{HEADER}{row}\r\n{total}\r\n"


def test_rows_are_grouped_and_ordered_bytewise():
    tenant = TenantFactory()
    one, two = LineFactory(tenant=tenant, slug="b"), LineFactory(tenant=tenant, slug="a-z")
    noon, later = datetime(2026, 11, 3, 12, tzinfo=UTC), datetime(2026, 11, 3, 13, tzinfo=UTC)
    for line, key, asked, served, at in [
        (one, "prod", "gpt", "gpt", noon),
        (one, "Prod", "gpt", "gpt", noon),
        (one, "prod", "gpt", "gpt", later),
        (two, "prod", "gpt", "x", noon),
        (two, "prod", "gpt", "gpt", noon),
        (two, "prod", "GPT", "gpt", noon),
        (two, "prod", "é", "gpt", noon),
        (two, "prod", "z", "gpt", datetime(2026, 11, 1, 0, tzinfo=UTC)),
    ]:
        RecordFactory(line=line, key_name=key, model_requested=asked, model_served=served, created=at)
    shown = [
        (r["date"], r["line"], r["gateway_key"], r["model_requested"], r["model_served"], r["calls"])
        for r in rows(tenant)
    ]
    assert shown == [
        ("2026-11-01", "a-z", "prod", "z", "gpt", "1"),
        ("2026-11-03", "a-z", "prod", "GPT", "gpt", "1"),
        ("2026-11-03", "a-z", "prod", "gpt", "gpt", "1"),
        ("2026-11-03", "a-z", "prod", "gpt", "x", "1"),
        ("2026-11-03", "a-z", "prod", "é", "gpt", "1"),
        ("2026-11-03", "b", "Prod", "gpt", "gpt", "1"),
        ("2026-11-03", "b", "prod", "gpt", "gpt", "2"),
        ("TOTAL", "", "", "", "", "8"),
    ]


# What a record adds to its row: calls, failed, input tokens, charge, unpriced, estimated.
ADDS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "finished": ({}, ("1", "0", "100", "0.00045", "0", "0")),
    "cancelled": ({"status": "cancelled"}, ("1", "0", "100", "0.00045", "0", "0")),
    "failed": (
        {"status": "failed", "charge": 0, "cost": None, "waste": Decimal(1), "estimated": True},
        ("0", "1", "0", "0.00", "0", "0"),
    ),
    "unpriced": ({"charge": None, "cost": None, "priced": False}, ("1", "0", "100", "0.00", "1", "0")),
    "estimated": ({"estimated": True}, ("1", "0", "100", "0.00045", "0", "1")),
    "without usage": (
        {"input_tokens": None, "output_tokens": None, "charge": 0, "status": "cancelled"},
        ("1", "0", "0", "0.00", "0", "0"),
    ),
}


@pytest.mark.parametrize("case", ADDS)
def test_what_a_record_adds(case):
    fields, expected = ADDS[case]
    record = RecordFactory(**fields)
    columns = ("calls", "failed_calls", "input_tokens", "charge", "unpriced_calls", "estimated_calls")
    for row in rows(record.tenant):
        assert tuple(row[name] for name in columns) == expected


@pytest.mark.parametrize(
    "fields", [{"replay_of": "req_1", "charge": 0}, {"refusal_limit": "budget:line", "status": "failed", "charge": 0}]
)
def test_replays_and_refusals_are_outside(fields):
    record = RecordFactory(**fields)
    assert [row["date"] for row in rows(record.tenant)] == ["TOTAL"]


def test_deleted_and_renamed_lines_and_keys_keep_their_names():
    key = GatewayKeyFactory(name="old")
    line, tenant = key.line, key.line.tenant
    RecordFactory(line=line, key_name=key.name, key_last4=key.last4, gateway_key_id=key.pk)
    before = export(tenant)
    slug, name = line.slug, line.name
    line.delete()
    assert export(tenant) == before
    assert [(r["line"], r["line_name"], r["gateway_key"]) for r in rows(tenant)[:1]] == [(slug, name, "old")]


def test_formulas_become_text():
    line = LineFactory(name=" =1+1")
    RecordFactory(line=line, key_name="-2", model_requested="\t@x", model_served="+cmd", key_last4="=A1B")
    row = rows(line.tenant)[0]
    shown = (row["line_name"], row["gateway_key"], row["key_last4"], row["model_requested"], row["model_served"])
    assert shown == ("' =1+1", "'-2", "'=A1B", "'\t@x", "'+cmd")
    assert row["charge"] == "0.00045"


def test_other_months_other_tenants_and_other_lines_stay_out():
    record = RecordFactory()
    other = LineFactory(tenant=record.tenant, slug="other")
    RecordFactory(line=other)
    RecordFactory()
    RecordFactory(line=record.line, created=datetime(2026, 10, 31, 23, tzinfo=UTC))
    RecordFactory(line=record.line, created=datetime(2026, 12, 1, 0, tzinfo=UTC))
    assert [row["calls"] for row in rows(record.tenant)] == ["1", "1", "2"]
    assert [row["line"] for row in rows(record.tenant, "--line", "other")] == ["other", ""]
    other.delete()
    assert [row["line"] for row in rows(record.tenant, "--line", "other")] == ["other", ""]
    with pytest.raises(CommandError, match="no line 'nobody'"):
        rows(record.tenant, "--line", "nobody")


def test_amounts_in_a_former_currency_are_converted_at_their_days_rate():
    tenant = TenantFactory(currency="CNY")
    line = LineFactory(tenant=tenant)
    ExchangeRateFactory(source="USD", target="CNY", rate="7.00", starts=date(2026, 11, 10))
    RecordFactory(line=line, currency="CNY", charge=Decimal("1.10"), cost=Decimal(1))
    RecordFactory(line=line, currency="USD", charge=Decimal("0.5"), cost=Decimal("0.4"))
    RecordFactory(line=line, currency="USD", charge=Decimal("0.5"), created=datetime(2026, 11, 9, 12, tzinfo=UTC))
    shown = [(row["date"], row["cost"], row["charge"], row["unpriced_calls"]) for row in rows(tenant)]
    assert shown == [
        ("2026-11-09", "0.00", "0.00", "1"),
        ("2026-11-15", "3.80", "4.60", "0"),
        ("TOTAL", "3.80", "4.60", "1"),
    ]


def test_the_file_has_the_same_bytes_and_a_mark_when_asked(tmp_path):
    tenant = RecordFactory().tenant
    target = tmp_path / "bill.csv"
    call_command("billing_export", "--tenant", tenant.slug, "--month", NOV, "-o", str(target), "--bom")
    assert target.read_bytes() == b"\xef\xbb\xbf" + export(tenant).encode()
    assert list(tmp_path.iterdir()) == [target]


def test_what_is_no_file_is_written_to_and_stays_what_it_is(tmp_path):
    tenant = RecordFactory().tenant
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    call_command("billing_export", "--tenant", tenant.slug, "--month", NOV, "-o", str(pipe))
    reader.join(10)
    assert got == [export(tenant).encode()]
    assert pipe.is_fifo()
    link = tmp_path / "link.csv"
    link.symlink_to(tmp_path / "real.csv")
    call_command("billing_export", "--tenant", tenant.slug, "--month", NOV, "-o", str(link))
    assert link.is_symlink()
    assert (tmp_path / "real.csv").read_bytes() == got[0]


@pytest.mark.parametrize("month", ["2026-13", "2026-1", "November"])
def test_a_month_that_is_none_is_refused(month):
    with pytest.raises(CommandError, match="not a month"):
        export(TenantFactory(), month=month)


def test_an_unknown_tenant_is_refused():
    with pytest.raises(CommandError, match="no tenant 'nobody'"):
        call_command("billing_export", "--tenant", "nobody", "--month", NOV)


def test_requests_are_listed_one_by_one():
    tenant = TenantFactory(timezone="Asia/Shanghai")
    record = RecordFactory(line=LineFactory(tenant=tenant), waste=None, error_code="=x")
    RecordFactory(line=record.line, replay_of=record.request_id, charge=0)
    found = rows(tenant, "--kind", "requests")
    assert [row["request_id"] for row in found] == list(
        RequestRecord.objects.order_by("pk").values_list("request_id", flat=True)
    )
    first = found[0]
    assert first["created"] == "2026-11-15T20:00:00.000+08:00"
    assert (first["charge"], first["waste"], first["priced"], first["error_code"]) == ("0.00045", "", "true", "'=x")
