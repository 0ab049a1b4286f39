"""Calls without a price are billed later, by the prices and multipliers of their day, once."""

import io
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from django.core.management import CommandError, call_command

from billing.models import Attempt, LedgerEntry, RequestRecord
from billing.pricebook import read_prices
from billing.repricing import reprice
from billing.statements import close_month
from keys.core.windows import Caps
from proxy.core.ending import End
from routing.core.table import GatewayKeyInfo, LineInfo, TenantInfo
from tests.billing.bulk import booked, table_of, usage, write
from tests.factories import ExchangeRateFactory, LineFactory, PriceFactory, RecordFactory, TenantFactory

pytestmark = pytest.mark.django_db
FIRST = date(2026, 11, 1)
USED = usage(1000, 100, cached=400)
CHARGE = Decimal("0.015")  # (600 × 10 + 400 × 5 + 100 × 20) / 1,000,000 × 1.5


@pytest.fixture
def line():
    return LineFactory(tenant=TenantFactory(), charge_multiplier=Decimal("1.5"))


def call(line, number=1, **options):
    tenant = line.tenant
    who = TenantInfo(tenant.pk, tenant.slug, tenant.name, tenant.timezone, tenant.currency)
    info = LineInfo(line.pk, tenant.pk, line.slug, line.name, None, (), Caps(), line.charge_multiplier)
    key = GatewayKeyInfo(1, line.pk, "prod", "wxyz", Caps())
    options = {"model": "alias", "sent": "real", "used": USED, **options}
    write([booked(number, table=table_of(read_prices()), tenant=who, line=info, key=key, **options)])
    return RequestRecord.objects.get(pk=number)


def price(**fields):
    return PriceFactory(**{"model": "real", "input": 10, "cached_input": 5, "output": 20, **fields})


def ledger():
    return list(LedgerEntry.objects.order_by("kind").values_list("kind", "amount", "record_id", "attempt_n"))


def test_an_unpriced_call_is_billed_as_if_the_price_had_been_there(line):
    unpriced = call(line)
    assert (unpriced.charge, unpriced.priced, ledger()) == (None, False, [])
    row = price()
    done = reprice(tenant=line.tenant, first=FIRST)
    assert (done.billed, done.charge, done.left) == (1, CHARGE, {})
    later, priced = RequestRecord.objects.get(pk=unpriced.pk), call(line, 2)
    for name in ("charge", "cost", "priced", "price_id", "price", "currency"):
        assert getattr(later, name) == getattr(priced, name), name
    assert (later.charge, later.price_id) == (CHARGE, row.pk)
    assert Attempt.objects.get(record=later).cost == Decimal("0.01")
    assert [entry[:2] for entry in ledger() if entry[2] == 1] == [entry[:2] for entry in ledger() if entry[2] == 2]
    booked_at = LedgerEntry.objects.filter(record=later).values_list("created", "day").distinct().get()
    assert booked_at == (later.created, later.day)


def test_repricing_twice_bills_once(line):
    call(line)
    price()
    reprice(tenant=line.tenant, first=FIRST)
    before = ledger()
    assert reprice(tenant=line.tenant, first=FIRST).billed == 0
    assert ledger() == before


def test_later_multipliers_do_not_change_what_was_agreed_then(line):
    call(line)
    line.charge_multiplier = Decimal(9)
    line.save()
    price()
    assert reprice(tenant=line.tenant, first=FIRST).charge == CHARGE


def test_a_price_from_a_later_day_does_not_count(line):
    call(line)
    price(starts=date(2026, 11, 16))
    done = reprice(tenant=line.tenant, first=FIRST)
    assert (done.billed, done.left, ledger()) == (0, {"real": 1}, [])


def test_a_missing_rate_that_came_later(line):
    price(currency="CNY")
    unpriced = call(line)
    assert not unpriced.priced
    assert reprice(tenant=line.tenant, first=FIRST).left == {"real": 1}
    ExchangeRateFactory(source="USD", target="CNY", rate=10)
    assert reprice(tenant=line.tenant, first=FIRST).charge == CHARGE / 10


def test_the_price_before_the_alias_serves_when_the_served_model_has_none(line):
    call(line)
    price(model="alias")
    assert reprice(tenant=line.tenant, first=FIRST).billed == 1


def test_failed_calls_stay_free(line):
    failed = call(line, end=End.FAILED)
    price()
    assert reprice(tenant=line.tenant, first=FIRST).billed == 0
    assert RequestRecord.objects.get(pk=failed.pk).charge == 0


def test_other_months_and_tenants_are_left_alone(line):
    RecordFactory(charge=None, cost=None, priced=False, model_served="real")
    call(line, 900, at=datetime(2026, 12, 1, 0, tzinfo=UTC))
    price()
    assert reprice(tenant=line.tenant, first=FIRST).billed == 0


def test_a_closed_month_is_not_repriced(line):
    call(line)
    price()
    close_month(tenant=line.tenant, first=FIRST, by="", now=datetime(2026, 12, 1, tzinfo=UTC))
    with pytest.raises(CommandError, match="2026-11 is closed"):
        call_command("reprice", "--tenant", line.tenant.slug, "--month", "2026-11")
    assert ledger() == []


def test_the_command_says_what_it_did_and_what_is_left(line):
    call(line)
    call(line, 2, model="strange", sent="strange")
    price()
    out = io.StringIO()
    call_command("reprice", "--tenant", line.tenant.slug, "--month", "2026-11", stdout=out)
    assert out.getvalue() == "1 calls billed, 0.015 USD\nstill without a price: strange, 1 calls\n"
