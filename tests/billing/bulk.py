"""Many finished calls without a server: made by the real booking, written by the recorder's own statements."""

from collections.abc import Iterable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

from django.db import connection, transaction

from billing import rows
from billing.core.record import Bundle
from billing.core.tokens import Usage, UsageSource
from keys.core.dialect import Dialect
from keys.core.outcome import Cause, Outcome, Scope, Verdict
from proxy.core.booking import bundle_of
from proxy.core.call import Admitted, Call, Received
from proxy.core.chain import Chain, Target, Try
from proxy.core.ending import End, Ending
from proxy.core.errors import Code, Fault
from routing.core.facts import Facts
from routing.core.table import GatewayKeyInfo, LineInfo, RoutingTable, TenantInfo

SERVED = Outcome(Cause.SERVED, Verdict.ANSWERED, Scope.NONE, status=200)
BROKE = Outcome(Cause.SERVER_ERROR, Verdict.STOP, Scope.NONE, status=500)


def write(bundles: Iterable[Bundle], group: int = 500) -> None:
    statements = rows.inserts(connection)
    waiting: list[Bundle] = []
    for bundle in bundles:
        waiting.append(bundle)
        if len(waiting) >= group:
            _flush(statements, waiting)
    _flush(statements, waiting)


def _flush(statements: Any, waiting: list[Bundle]) -> None:
    if waiting:
        with transaction.atomic():
            rows.write(connection, statements, waiting)
        waiting.clear()


def usage(input_tokens: int, output_tokens: int, *, cached: int = 0, written: int = 0) -> Usage:
    return Usage(input_tokens, cached, written, 0, output_tokens, 0, UsageSource.UPSTREAM)


def table_of(prices: Any, upstreams: Any = None) -> RoutingTable:
    """A routing table of which booking reads only the prices and the upstreams' multipliers."""
    return cast(RoutingTable, SimpleNamespace(prices=prices, upstreams=upstreams or {}))


def booked(
    number: int,
    *,
    table: RoutingTable,
    tenant: TenantInfo,
    line: LineInfo,
    key: GatewayKeyInfo,
    model: str,
    sent: str | None = None,
    at: datetime = datetime(2026, 11, 15, 12, tzinfo=UTC),
    used: Usage | None = None,
    end: End = End.FINISHED,
    delivered: bool = True,
    upstream_id: int = 1,
) -> Bundle:
    """What settle hands to the recorder for one call with one attempt."""
    received = Received(f"req_{number:032x}", number, at, 0.0, "POST", "/v1/chat/completions", "", Dialect.OPENAI, ())
    facts = Facts(tenant.id, line.id, line.slug, key.name, Dialect.OPENAI, model)
    target = Target(upstream_id, f"u{upstream_id}", 7, "k1", "abcdef", None, sent or model, Dialect.OPENAI)
    outcome = BROKE if end is End.FAILED else SERVED
    made = Try(target=target, outcome=outcome, usage=used, content=delivered, ms=5)
    ending = Ending(delivered=delivered)
    admitted = Admitted(received, table, tenant, line, key)
    call = Call(admitted, "chat", facts=facts, chain=Chain((made,)), ending=ending)
    if end is End.FAILED:
        ending.fail(Fault(Code.UPSTREAM_FAILED, "it broke"))
    elif end is End.CANCELLED:
        ending.cancel()
    else:
        ending.finish()
    return bundle_of(call, 0.005)
