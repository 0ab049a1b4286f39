"""`manage.py reconcile`: cost and waste of an account's attempts against its invoice."""

import io
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from django.core.management import CommandError, call_command

from tests.factories import (
    AccountFactory,
    AttemptFactory,
    ExchangeRateFactory,
    LineFactory,
    RecordFactory,
    TenantFactory,
    UpstreamFactory,
    UpstreamKeyFactory,
)

pytestmark = pytest.mark.django_db
D = Decimal


@pytest.fixture
def account():
    tenant = TenantFactory()
    account = AccountFactory(tenant=tenant, name="relay-a", quota_timezone="Asia/Shanghai")
    upstream = UpstreamFactory(tenant=tenant)
    for name, secret in (("a1", "sk-upstream-aaaaaa111111"), ("a2", "sk-upstream-bbbbbb222222")):
        UpstreamKeyFactory(upstream=upstream, name=name, secret=secret, account=account)
    line = LineFactory(tenant=tenant)
    for hour, name, model, cost, waste in (
        (8, "a1 (…111111)", "gpt", "1.5", None),
        (15, "a1 (…111111)", "mini", "0.25", "0.125"),
        (16, "a1 (…111111)", "gpt", "2", None),  # the next day in Shanghai
        (9, "a2 (…222222)", "gpt", None, "4"),
    ):
        record = RecordFactory(line=line, created=datetime(2026, 11, 15, hour, tzinfo=UTC))
        costs = {"cost": D(cost) if cost else None, "waste": D(waste) if waste else None}
        AttemptFactory(record=record, account_id=account.pk, upstream_key=name, model_sent=model, **costs)
    other = RecordFactory(line=line, created=datetime(2026, 11, 15, 8, tzinfo=UTC))
    AttemptFactory(record=other, account_id=None, cost=D(100))
    return account


def run(account, tmp_path, invoice, *args):
    file = tmp_path / "invoice.csv"
    file.write_text(invoice)
    out = io.StringIO(newline="")
    call_command("reconcile", str(file), "--tenant", account.tenant.slug, "--account", account.name, *args, stdout=out)
    return out.getvalue().split("\r\n")[:-1]


def test_by_key_named_or_by_the_end_of_its_secret(account, tmp_path):
    lines = run(
        account, tmp_path, "day,key,amount\n2026-11-15,a1,1.875\n2026-11-15,sk-...222222,5\n2026-11-16,a1,2.5\n"
    )
    assert lines == [
        "day,name,theirs,ours,drift,currency",
        "2026-11-15,a2,5.00,4.00,1.00,USD",
        "2026-11-16,a1,2.50,2.00,0.50,USD",
        "TOTAL,,9.375,7.875,1.50,USD",
    ]


def test_by_model(account, tmp_path):
    lines = run(account, tmp_path, "day,model,amount\n2026-11-15,gpt,5.5\n2026-11-15,ghost,1\n")
    assert lines[1:] == [
        "2026-11-15,ghost,1.00,0.00,1.00,USD",
        "2026-11-15,mini,0.00,0.375,-0.375,USD",
        "TOTAL,,6.50,5.875,0.625,USD",
    ]


def test_by_account_with_a_tolerance_in_the_invoices_currency(account, tmp_path):
    ExchangeRateFactory(source="USD", target="CNY", rate=10, starts=date(2026, 1, 1))
    invoice = "day,amount\n2026-11-15,58.76\n2026-11-16,30\n"
    lines = run(account, tmp_path, invoice, "--currency", "CNY", "--tolerance", "0.05")
    assert lines[1:] == ["2026-11-16,,30.00,20.00,10.00,CNY", "TOTAL,,88.76,78.75,10.01,CNY"]


def test_an_empty_invoice_and_mistakes(account, tmp_path):
    with pytest.raises(CommandError, match=r"invoice.csv: no rows to compare"):
        run(account, tmp_path, "day,amount\n")
    with pytest.raises(CommandError, match=r"two or more are needed"):
        run(account, tmp_path, "time,balance\n2026-11-15T08:00:00Z,5\n")
    with pytest.raises(CommandError, match=r"usd is not a currency code"):
        run(account, tmp_path, "day,amount\n2026-11-15,1\n", "--currency", "usd")
    with pytest.raises(CommandError, match=r"invoice.csv: line 1: no column"):
        run(account, tmp_path, "x\n")
    account.name = "nobody"
    with pytest.raises(CommandError, match="no account 'nobody'"):
        run(account, tmp_path, "day,amount\n")


def test_readings_of_a_balance(account, tmp_path, capsys):
    """Times without an offset are the account's; 08:00 and 09:00 UTC are 16:00 and 17:00 in Shanghai."""
    readings = """time,balance
2026-11-15T17:30:00,94.00
2026-11-15T16:00:00+08:00,100
2026-11-15T23:30:00,93.6
2026-11-16T00:00:00,200
2026-11-16T08:00:00,198
"""
    lines = run(account, tmp_path, readings)
    assert lines[1:] == [
        "2026-11-15,2026-11-15T16:00:00 to 2026-11-15T17:30:00,6.00,5.50,0.50,USD",
        "2026-11-15,2026-11-15T17:30:00 to 2026-11-15T23:30:00,0.40,0.375,0.025,USD",
        "TOTAL,,8.40,7.875,0.525,USD",
    ]
    assert "The balance rose 1 time between two readings" in capsys.readouterr().err


def test_an_amount_without_a_rate_is_not_nothing(account, tmp_path):
    with pytest.raises(CommandError, match=r"no exchange rate from USD to CNY on 2026-11-15"):
        run(account, tmp_path, "day,amount\n2026-11-15,58.76\n", "--currency", "CNY")


@pytest.mark.parametrize(
    "text", ["day,amount\n2026-11-15,\x00\n", "time,balance\nnever,1\n", "time,balance\n2026-11-15,NaN\n"]
)
def test_files_that_cannot_be_read_are_named(account, tmp_path, text):
    with pytest.raises(CommandError, match=r"invoice\.csv: line 2"):
        run(account, tmp_path, text)


def test_a_missing_file_and_a_bad_tolerance_are_no_tracebacks(account, tmp_path):
    given = ["--tenant", account.tenant.slug, "--account", account.name]
    with pytest.raises(CommandError, match="No such file"):
        call_command("reconcile", str(tmp_path / "none.csv"), *given)
    for amount in ("much", "nan", "-1"):
        with pytest.raises(CommandError, match="tolerance: not an amount"):
            call_command("reconcile", str(tmp_path / "none.csv"), *given, f"--tolerance={amount}")
    (tmp_path / "excel.csv").write_bytes(b"\xff\xfed\x00a\x00y\x00")
    with pytest.raises(CommandError, match=r"excel\.csv: not UTF-8 text"):
        call_command("reconcile", str(tmp_path / "excel.csv"), *given)
