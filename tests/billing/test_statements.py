"""A closed month: frozen once, the same bytes for ever, corrected by rows of their own."""

import hashlib
import io
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from django.core.management import CommandError, call_command

from billing.models import LedgerEntry, RequestRecord, Statement
from billing.statements import StatementError, close_month, credit, credits_of, due_to_close, late
from tenants.models import AuditEntry
from tests.billing.test_monthly import export, parsed, rows
from tests.factories import LineFactory, RecordFactory, TenantFactory

pytestmark = pytest.mark.django_db
FIRST = date(2026, 11, 1)
OVER = datetime(2026, 12, 1, 8, tzinfo=UTC)  # midnight in Los Angeles


def closed(tenant, now=OVER):
    return close_month(tenant=tenant, first=FIRST, by="fin", now=now)


@pytest.fixture
def record():
    line = LineFactory(tenant=TenantFactory(timezone="America/Los_Angeles"))
    return RecordFactory(line=line, charge=Decimal("1.005000000001"))


def test_a_month_is_closed_when_it_is_over_in_the_tenants_zone(record):
    with pytest.raises(StatementError, match="2026-11 is not over yet in America/Los_Angeles"):
        closed(record.tenant, OVER - timedelta(microseconds=1))
    assert not Statement.objects.exists()
    row = closed(record.tenant)
    assert (row.total_charge, row.payable, row.currency) == (Decimal("1.005000000001"), Decimal("1.01"), "USD")
    assert (row.month, row.closed_by, row.digest) == (FIRST, "fin", hashlib.sha256(bytes(row.csv)).hexdigest())


def test_closing_twice_and_later_records_change_nothing(record):
    before = export(record.tenant)
    row = closed(record.tenant)
    RecordFactory(line=record.line, charge=Decimal(5))
    RequestRecord.objects.filter(pk=record.pk).update(charge=Decimal(7))
    again = closed(record.tenant, OVER + timedelta(days=400))
    assert again.pk == row.pk
    assert (again.closed, bytes(again.csv)) == (row.closed, bytes(row.csv))
    assert export(record.tenant) == before == bytes(row.csv).decode()
    assert late(row).booked == Decimal("10.994999999999")


def test_one_line_of_a_closed_month_comes_from_its_bytes(record):
    other = LineFactory(tenant=record.tenant, slug="other", name="=x")
    RecordFactory(line=other, charge=Decimal("0.25"))
    before = export(record.tenant, "--line", "other")
    closed(record.tenant)
    RequestRecord.objects.all().update(charge=Decimal(9))
    assert export(record.tenant, "--line", "other") == before
    assert [row["charge"] for row in parsed(before)] == ["0.25", "0.25"]


def test_the_payable_total_is_rounded_to_the_currency():
    line = LineFactory(tenant=TenantFactory(currency="JPY"))
    for _ in range(2):
        RecordFactory(line=line, currency="JPY", charge=Decimal("0.75"))
    row = closed(line.tenant)
    assert (row.total_charge, row.payable) == (Decimal("1.5"), Decimal(2))


def test_a_correction_is_a_row_beside_the_statement(record):
    tenant = record.tenant
    with pytest.raises(StatementError, match="not closed"):
        credit(tenant=tenant, first=FIRST, amount=Decimal(1), note="outage", now=OVER)
    row = closed(tenant)
    frozen = export(tenant)
    entry = credit(tenant=tenant, first=FIRST, amount=Decimal("0.40"), note="=outage", now=OVER, line=record.line)
    assert (entry.kind, entry.amount, entry.day, entry.line_id) == ("credit", Decimal("-0.40"), date(2026, 11, 30),
                                                                    record.line_id)  # fmt: skip
    assert credits_of(row) == [entry]
    assert (late(row).credits, late(row).booked) == (Decimal("0.40"), 0)
    assert export(tenant) == frozen
    assert rows(tenant, "--kind", "credits") == [
        {"created": "2026-12-01T00:00:00.000-08:00", "line": record.line.slug, "amount": "0.40", "currency": "USD",
         "note": "'=outage"}
    ]  # fmt: skip


def test_the_command_closes_says_what_is_payable_and_is_noted(record):
    tenant = record.tenant
    RequestRecord.objects.update(day=date(2025, 1, 31))
    out = io.StringIO()
    for _ in range(2):
        call_command("close_month", "--tenant", tenant.slug, "--month", "2025-01", stdout=out)
    digest = Statement.objects.get().digest
    lines = out.getvalue().splitlines()
    assert lines[0].startswith(f"{tenant.slug} 2025-01: closed ")
    assert lines[0].endswith(f"payable 1.01 USD, SHA-256 {digest}")
    assert lines[1].startswith(f"{tenant.slug} 2025-01: was closed ")
    assert [(entry.action, entry.fields) for entry in AuditEntry.objects.all()] == [("close_month", {"digest": digest})]


def test_the_command_refuses_a_running_month(record):
    with pytest.raises(CommandError, match="not over yet"):
        call_command("close_month", "--tenant", record.tenant.slug, "--month", "2199-01")


def test_the_credit_command(record):
    tenant = record.tenant
    closed(tenant)
    call_command("credit", "--tenant", tenant.slug, "--month", "2026-11", "--amount", "2.5", "--note", "goodwill")
    assert LedgerEntry.objects.get().amount == Decimal("-2.5")
    for amount in ("NaN", "x", "0", "0.0000000000001", "1000000000000000000", "1e40", "-Infinity", "-1e999999999",
                   "1.0000000000000000000000000000000001"):  # fmt: skip
        with pytest.raises(CommandError):
            call_command("credit", "--tenant", tenant.slug, "--month", "2026-11", "--amount", amount, "--note", "n")
    with pytest.raises(CommandError, match="say why"):
        call_command("credit", "--tenant", tenant.slug, "--month", "2026-11", "--amount", "1", "--note", "  ")
    assert LedgerEntry.objects.count() == 1


@pytest.mark.parametrize("amount", ["0.000000000001", "999999999999999999.999999999999", "-1e17", "1.50000000000000"])
def test_a_credit_is_kept_to_the_last_digit(record, amount):
    closed(record.tenant)
    given = ["--tenant", record.tenant.slug, "--month", "2026-11", f"--amount={amount}", "--note", "n"]
    call_command("credit", *given)
    assert LedgerEntry.objects.get().amount == Decimal(amount).copy_negate()


@pytest.mark.parametrize("month", ["9999-12", "0001-01", "1999-12", "2201-01"])
@pytest.mark.parametrize("command", ["close_month", "billing_export", "reprice"])
def test_months_that_nobody_means_are_no_tracebacks(record, command, month):
    with pytest.raises(CommandError, match="is not between 2000-01 and 2200-12"):
        call_command(command, "--tenant", record.tenant.slug, "--month", month)


def test_months_close_by_themselves_when_all_their_calls_have_a_price(record):
    grace = timedelta(days=3)
    after = OVER + grace
    assert due_to_close(now=after - timedelta(microseconds=1), grace=grace) == []
    assert due_to_close(now=after, grace=grace) == [(record.tenant, FIRST)]
    unpriced = RecordFactory(line=record.line, charge=None, cost=None, priced=False)
    assert due_to_close(now=after, grace=grace) == []
    unpriced.delete()
    closed(record.tenant)
    assert due_to_close(now=after, grace=grace) == []
