"""Ten thousand generated calls: the bill, reckoned independently in fractions, equals the CSV to the last digit."""

import random
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from billing.core.tokens import Usage
from billing.models import LedgerEntry
from billing.models.fields import MoneySum
from billing.pricebook import read_prices
from proxy.core.ending import End
from routing.core.table import GatewayKeyInfo, Limits, LineInfo, TenantInfo
from tests.billing.bulk import booked, table_of, usage, write
from tests.billing.test_monthly import rows
from tests.factories import ExchangeRateFactory, LineFactory, PriceFactory, TenantFactory

pytestmark = pytest.mark.django_db
CALLS = 10_000
ZONE = ZoneInfo("America/Los_Angeles")
# per million: input, cached read, cache write, output; from day 16 on gpt-a is dearer
LIST = {
    "gpt-a": ("2.50", "1.25", "2.50", "10"),
    "gpt-a late": ("2.75", "0.333333333333", "2.75", "11"),
    "claude-b": ("3", "0.30", "3.75", "15"),
}
CALL_PRICE = Decimal("0.031")
RATE = Decimal("7.0123")
MULTIPLIERS = {"bot": Decimal("1.15"), "batch": Decimal("0.333333333")}
COST_MULTIPLIER = Decimal("0.8")


def amount(model: str, day: date, tokens: Usage, factor: Decimal) -> Decimal | None:
    """The contract's rule, written again without the product's code."""
    if model == "nobody-knows":
        return None
    with localcontext(prec=90):
        if model == "per-call":
            exact = CALL_PRICE * factor
        else:
            name = "gpt-a late" if model == "gpt-a" and day.day >= 16 else model
            i, r, w, o = (Decimal(text) for text in LIST[name])
            cached, written = tokens.cached_read_tokens or 0, tokens.cache_write_tokens or 0
            plain = (tokens.input_tokens or 0) - cached - written
            million = plain * i + cached * r + written * w + (tokens.output_tokens or 0) * o
            exact = million / 1_000_000 * factor * RATE
        return exact.quantize(Decimal("1E-12"), rounding=ROUND_HALF_EVEN)


@pytest.fixture
def priced() -> Any:
    ExchangeRateFactory(source="USD", target="CNY", rate=RATE, starts=date(2026, 1, 1))
    for name, (i, r, w, o) in LIST.items():
        starts = date(2026, 11, 16) if name.endswith("late") else date(1970, 1, 1)
        PriceFactory(model=name.split()[0], input=i, cached_input=r, cache_write=w, output=o, starts=starts)
    none = {"input": None, "cached_input": None, "output": None}
    PriceFactory(model="per-call", unit="per_call", call=CALL_PRICE, currency="CNY", **none)
    tenant = TenantFactory(currency="CNY", timezone=ZONE.key)
    lines = [LineFactory(tenant=tenant, slug=slug, charge_multiplier=by) for slug, by in MULTIPLIERS.items()]
    return tenant, lines


def test_the_bill_equals_an_independent_reckoning(priced):
    tenant, lines = priced
    draw = random.Random(20261130)
    table = table_of(read_prices(), {1: SimpleNamespace(cost_multiplier=COST_MULTIPLIER)})
    who = TenantInfo(tenant.pk, tenant.slug, tenant.name, tenant.timezone, tenant.currency)
    infos = [
        LineInfo(line.pk, tenant.pk, line.slug, line.name, None, (), Limits(), charge_multiplier=line.charge_multiplier)
        for line in lines
    ]
    keys = [GatewayKeyInfo(n, info.id, f"key{n}", f"000{n}", Limits()) for n, info in enumerate(infos)]
    expected: dict[tuple[str, ...], list[Any]] = defaultdict(lambda: [0, 0, 0, 0, Decimal(0), Decimal(0), 0])
    bundles = []
    month = datetime(2026, 11, 1, tzinfo=ZONE).astimezone(UTC)
    for number in range(1, CALLS + 1):
        info, key = draw.choice(list(zip(infos, keys, strict=True)))
        model = draw.choice(["gpt-a", "claude-b", "per-call", "nobody-knows"])
        at = month + timedelta(seconds=draw.randrange(30 * 86400 + 3600))  # 30 days and an hour
        whole = draw.randrange(200_000)
        cached = draw.randrange(whole + 1)
        used = usage(whole, draw.randrange(9000), cached=cached, written=draw.randrange(whole - cached + 1))
        end = draw.choices([End.FINISHED, End.CANCELLED, End.FAILED], [90, 5, 5])[0]
        asked = draw.choice([model, "alias"])
        bundles.append(
            booked(
                number, table=table, tenant=who, line=info, key=key, model=asked, sent=model, at=at, used=used, end=end
            )
        )
        day = at.astimezone(ZONE).date()
        row = expected[(day.isoformat(), info.slug, key.name, asked, model)]
        if end is End.FAILED:
            row[1] += 1
            continue
        charge = amount(model, day, used, MULTIPLIERS[info.slug])
        row[0] += 1
        row[2] += used.input_tokens
        row[3] += used.output_tokens
        row[4] += charge or 0
        row[5] += amount(model, day, used, COST_MULTIPLIER) or 0
        row[6] += charge is None
    write(bundles)
    found = rows(tenant)
    assert [
        tuple(row[n] for n in ("date", "line", "gateway_key", "model_requested", "model_served")) for row in found[:-1]
    ] == sorted(expected)
    columns = ("calls", "failed_calls", "input_tokens", "output_tokens", "charge", "cost", "unpriced_calls")
    for row in found[:-1]:
        wanted = expected[tuple(row[n] for n in ("date", "line", "gateway_key", "model_requested", "model_served"))]
        assert [Decimal(row[name]) for name in columns] == wanted, row
    total = [sum(Decimal(row[name]) for row in found[:-1]) for name in columns]
    assert [Decimal(found[-1][name]) for name in columns] == total
    booked_charges = LedgerEntry.objects.filter(tenant=tenant, kind="charge").aggregate(sum=MoneySum("amount"))["sum"]
    assert booked_charges == Decimal(found[-1]["charge"])
    assert sum(wanted[0] + wanted[1] for wanted in expected.values()) == CALLS
