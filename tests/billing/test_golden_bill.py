"""Ten thousand generated calls: the bill, reckoned independently in fractions, equals the CSV to the last digit."""

import random
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from billing.core.record import Bundle
from billing.core.tokens import Usage
from billing.models import LedgerEntry
from billing.models.fields import MoneySum
from billing.pricebook import read_prices
from keys.core.windows import Caps
from proxy.core.ending import End
from routing.core.table import GatewayKeyInfo, LineInfo, TenantInfo
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


COLUMNS = ("calls", "failed_calls", "input_tokens", "output_tokens", "charge", "cost", "unpriced_calls")
IDENTITY = ("date", "line", "gateway_key", "model_requested", "model_served")
Bill = dict[tuple[str, ...], list[Any]]


def made_calls(tenant: Any, lines: Any, expected: Bill) -> Iterator[Bundle]:
    """Draw calls; put what they must come to into `expected`, by the numbers of COLUMNS."""
    draw = random.Random(20261130)
    table = table_of(read_prices(), {1: SimpleNamespace(cost_multiplier=COST_MULTIPLIER)})
    who = TenantInfo(tenant.pk, tenant.slug, tenant.name, tenant.timezone, tenant.currency)
    infos = [
        LineInfo(line.pk, tenant.pk, line.slug, line.name, None, (), Caps(), charge_multiplier=line.charge_multiplier)
        for line in lines
    ]
    keys = [GatewayKeyInfo(n, info.id, f"key{n}", f"000{n}", Caps()) for n, info in enumerate(infos)]
    month = datetime(2026, 11, 1, tzinfo=ZONE).astimezone(UTC)
    for number in range(1, CALLS + 1):
        info, key = draw.choice(list(zip(infos, keys, strict=True)))
        model = draw.choice(["gpt-a", "claude-b", "per-call", "nobody-knows"])
        asked = draw.choice([model, "alias"])
        at = month + timedelta(seconds=draw.randrange(30 * 86400 + 3600))  # 30 days and an hour
        whole = draw.randrange(200_000)
        cached = draw.randrange(whole + 1)
        used = usage(whole, draw.randrange(9000), cached=cached, written=draw.randrange(whole - cached + 1))
        end = draw.choices([End.FINISHED, End.CANCELLED, End.FAILED], [90, 5, 5])[0]
        who_asks = {"table": table, "tenant": who, "line": info, "key": key}
        yield booked(number, **who_asks, model=asked, sent=model, at=at, used=used, end=end)
        day = at.astimezone(ZONE).date()
        count(expected[day.isoformat(), info.slug, key.name, asked, model], end, model, day, used, info.slug)


def count(row: list[Any], end: End, model: str, day: date, used: Usage, line: str) -> None:
    if end is End.FAILED:
        row[1] += 1
        return
    charge = amount(model, day, used, MULTIPLIERS[line])
    cost = amount(model, day, used, COST_MULTIPLIER)
    added = (1, 0, used.input_tokens, used.output_tokens, charge or 0, cost or 0, charge is None)
    row[:] = [one + other for one, other in zip(row, added, strict=True)]


def test_the_bill_equals_an_independent_reckoning(priced):
    tenant, lines = priced
    expected: Bill = defaultdict(lambda: [0, 0, 0, 0, Decimal(0), Decimal(0), 0])
    write(made_calls(tenant, lines, expected))
    found = rows(tenant)
    assert [tuple(row[name] for name in IDENTITY) for row in found[:-1]] == sorted(expected)
    for row in found[:-1]:
        assert [Decimal(row[name]) for name in COLUMNS] == expected[tuple(row[name] for name in IDENTITY)], row
    total = [sum(Decimal(row[name]) for row in found[:-1]) for name in COLUMNS]
    assert [Decimal(found[-1][name]) for name in COLUMNS] == total
    booked_charges = LedgerEntry.objects.filter(tenant=tenant, kind="charge").aggregate(sum=MoneySum("amount"))["sum"]
    assert booked_charges == Decimal(found[-1]["charge"])
    assert sum(wanted[0] + wanted[1] for wanted in expected.values()) == CALLS
