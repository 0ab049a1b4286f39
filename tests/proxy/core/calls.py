"""A finished call without a database: two upstreams, their keys, prices, and tries to put into its chain."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from billing.core.pricing import PriceBook, PriceRow, PriceUnit, RateRow
from billing.core.tokens import Usage, UsageSource
from keys.core.dialect import Dialect
from keys.core.outcome import Cause, Outcome, Scope, Verdict
from keys.core.windows import Caps
from proxy.core.call import Admitted, Call, Received
from proxy.core.chain import Chain, Target, Try
from proxy.core.ending import Ending
from routing.core.facts import Facts
from routing.core.table import GatewayKeyInfo
from tests.routing.core.build import TENANT, table, upstream

AT = datetime(2026, 11, 30, 20, 30, tzinfo=UTC)
LINE = 10
ALWAYS = datetime(2020, 1, 1, tzinfo=UTC).date()
PER_TOKEN = PriceRow(
    id=1, tenant_id=None, model="*", unit=PriceUnit.PER_MILLION_TOKENS, currency="USD", input=Decimal("2.5"),
    cached_input=Decimal("1.25"), cache_write=None, cache_write_1h=None, output=Decimal(10), call=None, starts=ALWAYS,
)  # fmt: skip
PER_CALL = replace(
    PER_TOKEN, unit=PriceUnit.PER_CALL, input=None, cached_input=None, output=None, call=Decimal("0.031")
)
CNY = RateRow("USD", "CNY", Decimal("7.10"), ALWAYS)


def usage(input_tokens: int | None = 100, output_tokens: int | None = 20, **more: Any) -> Usage:
    counts = {"cached_read_tokens": 0, "cache_write_tokens": 0, "cache_write_1h_tokens": 0, "reasoning_tokens": 0}
    made = {"source": UsageSource.UPSTREAM, **counts, **more}
    return Usage(input_tokens=input_tokens, output_tokens=output_tokens, **made)


def target(number: int = 1, **changes: Any) -> Target:
    """Key k11 of up1, k21 of up2 …"""
    made = Target(number, f"up{number}", number * 10 + 1, f"k{number}1", "tail00", None, "gpt-4o", Dialect.OPENAI)
    return replace(made, **changes)


def outcome(cause: Cause, verdict: Verdict = Verdict.NEXT, **more: Any) -> Outcome:
    return Outcome(cause, verdict, Scope.KEY, **more)


SERVED = outcome(Cause.SERVED, Verdict.ANSWERED, status=200)


def attempt(number: int = 1, cause: Cause | Outcome = Cause.SERVER_ERROR, **fields: Any) -> Try:
    how = cause if isinstance(cause, Outcome) else outcome(cause)
    return Try(target(number), outcome=how, **fields)


def skip(number: int, why: str = "cooling", **fields: Any) -> Try:
    return Try(target(number), skipped=why, **fields)


def chain(*tries: Try) -> Chain:
    made = Chain()
    for one in tries:
        made = made.with_try(one)
    return made


def call(
    *tries: Try,
    prices: tuple[PriceRow, ...] = (PER_TOKEN,),
    ending: Ending | None = None,
    body: bytes = b"x" * 41,
    currency: str = "USD",
    timezone: str = "UTC",
    **changes: Any,
) -> Call:
    """A call that served unless told, of a line with these prices. The body stands for 11 tokens."""
    book = PriceBook(prices=prices, rates=(CNY,))
    known = replace(table([upstream(1), upstream(2)]), prices=book)
    tenant = replace(known.tenants[TENANT], currency=currency, timezone=timezone)
    received = Received("req_1", 77, AT, 5.0, "POST", "/v1/chat/completions", "", Dialect.OPENAI, (), body)
    key = GatewayKeyInfo(9, LINE, "prod", "wxyz", Caps())
    line = replace(known.lines[LINE], charge_multiplier=changes.pop("charge_multiplier", Decimal(1)))
    made = Call(Admitted(received, known, tenant, line, key), "chat/completions")
    made.facts = Facts(
        tenant_id=TENANT, line_id=LINE, line=line.slug, key_name="prod", dialect=Dialect.OPENAI, model="gpt-4o"
    )
    made.chain = chain(*tries)
    made.ending = ending if ending is not None else finished()
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def finished(**fields: Any) -> Ending:
    made = Ending(delivered=True, http_status=200, **fields)
    made.finish()
    return made
