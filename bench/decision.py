"""What deciding and keeping state costs a request, without a network: µs of CPU, and round trips to Redis.

    python -m bench.decision                       # the embedded store
    python -m bench.decision --redis redis://…     # and the shared one

Prints a table, and replaces the section of bench/report.md that is its own.
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from billing.core.pricing import PriceBook
from keys.core.admission import AdmitRequest, Caller, KeyOption, SettleRequest
from keys.core.dialect import Dialect
from keys.core.outcome import Cause, Outcome, Scope, Verdict
from keys.core.policy import Policy
from keys.core.report import Report
from keys.core.windows import Caps
from keys.stores.embedded import EmbeddedStore
from keys.stores.protocol import StateStore
from keys.stores.redis import RedisStore, client_of
from routing.core.decide import decide
from routing.core.facts import Facts
from routing.core.table import (
    GroupInfo,
    KeyInfo,
    LineInfo,
    MemberInfo,
    RouteInfo,
    RoutingTable,
    RuleInfo,
    TenantInfo,
    Timeouts,
    UpstreamInfo,
)
from routing.core.views import KeyView, Situation

REPORT = Path(__file__).with_name("report.md")
TITLE = "## Decision and state"
POLICY = Policy()
SERVED = Outcome(Cause.SERVED, Verdict.ANSWERED, Scope.NONE, status=200)


def table(members: int, keys: int, rules: int, strategy: str) -> RoutingTable:
    """One line, a route of so many rules (the last takes everything), a group of so many upstreams and keys."""
    upstreams = {number: _upstream(number, keys) for number in range(1, members + 1)}
    chosen = tuple(MemberInfo(number, number) for number in upstreams)
    group = GroupInfo(1, 1, "main", strategy, "share", chosen, None, "first_content", POLICY)
    above = [RuleInfo(n, f"r{n}", {"model": f"other-{n}-*", "max_tokens": ">= 32k"}, {}, 1) for n in range(1, rules)]
    route = RouteInfo(1, 1, "default", (*above, RuleInfo(rules, "everything", {}, {}, 1)))
    return RoutingTable(
        version=1,
        tenants={1: TenantInfo(1, "acme", "Acme", "Asia/Shanghai", "CNY")},
        lines={1: LineInfo(1, 1, "bot", "Bot", None, ("gpt-*",), Caps())},
        gateway_keys={},
        upstreams=upstreams,
        accounts={},
        groups={1: group},
        routes={1: route},
        default_routes={1: 1},
        prices=PriceBook(),
    )


def _upstream(number: int, keys: int) -> UpstreamInfo:
    made = tuple(KeyInfo(number * 100 + n, number, f"k{n}", "tail00", 1, None, "sk") for n in range(keys))
    return UpstreamInfo(
        number, 1, f"up{number}", Dialect.OPENAI, f"https://up{number}.example/v1", ("gpt-4o", "gpt-4o-mini"), {},
        128_000, Decimal(1), "round_robin", "", "", {}, Timeouts(), made,
    )  # fmt: skip


def decisions(seconds: float) -> Iterator[tuple[str, float]]:
    """Yield (what, µs) for `decide` on tables of several sizes."""
    facts = replace(
        Facts(1, 1, "bot", "prod", Dialect.OPENAI, "gpt-4o"), input_tokens=500, operation="chat/completions"
    )
    now = datetime(2026, 11, 30, 12, tzinfo=UTC)
    for members, keys, rules, strategy in ((1, 2, 1, "priority"), (3, 3, 5, "weighted"), (10, 10, 20, "fastest")):
        routing = table(members, keys, rules, strategy)
        views = {key.id: KeyView() for upstream in routing.upstreams.values() for key in upstream.keys}
        situation = Situation(now, 0.5, views)
        took = timed(lambda r=routing, s=situation: decide(facts, r, s), seconds)
        yield f"decide: {members} upstreams × {keys} keys, {rules} rules, {strategy}", took


def timed(work: Callable[[], Any], seconds: float) -> float:
    """Return µs of CPU a call."""
    until, count, began = time.monotonic() + seconds, 0, time.process_time()
    while time.monotonic() < until:
        for _ in range(20):
            work()
        count += 20
    return (time.process_time() - began) / count * 1e6


async def timed_async(work: Callable[[int], Awaitable[Any]], seconds: float, at_once: int) -> float:
    """The same for a coroutine, so many at once: what requests share is shared."""
    until, count, began = time.monotonic() + seconds, 0, time.process_time()
    while time.monotonic() < until:
        await asyncio.gather(*(work(count + n) for n in range(at_once)))
        count += at_once
    return (time.process_time() - began) / count * 1e6


def request(number: int, caps: Caps, callers: tuple[Caller, ...]) -> AdmitRequest:
    keys = (KeyOption(1, caps=caps), KeyOption(2, caps=caps))
    return AdmitRequest(f"req_{number}:0", "", keys, callers, 500)


async def one(store: StateStore, number: int, caps: Caps, callers: tuple[Caller, ...], pin: str) -> None:
    """What a served request asks of the store: recall, admit, settle with the pin."""
    now = datetime.now(UTC)
    if pin:
        await store.notes.recall([f"{pin}{number}"], now)
    admission = await store.admit(request(number, caps, callers), now)
    report = Report(admission.key_id or 1, None, "gpt-4o", SERVED, now, 0, first_ms=300)
    settle = store.settle(SettleRequest(((report, POLICY),), admission.holds, 700, admission.probe), now)
    if pin:
        await asyncio.gather(settle, store.notes.remember({f"{pin}{number}": {"key": 1}}, 60, now))
    else:
        await settle


CASES: tuple[tuple[str, Caps, tuple[Caller, ...], str], ...] = (
    ("no limits, no conversation", Caps(), (), ""),
    ("no limits, a conversation", Caps(), (), "pin"),
    ("key with concurrency and rpm, a conversation", Caps(concurrency=1000, rpm=10**9), (), "pin"),
    (
        "key and line with concurrency, rpm and tpm, a conversation",
        Caps(concurrency=1000, rpm=10**9, tpm=10**9),
        (Caller("line:1", Caps(concurrency=1000, rpm=10**9, tpm=10**9)),),
        "pin",
    ),
)


async def stores(url: str | None, seconds: float) -> list[list[str]]:
    """Measure the cases on the embedded store, and on Redis where its address is given."""
    rows = []
    for what, caps, callers, pin in CASES:
        row = [what]
        embedded = EmbeddedStore(clock=lambda: datetime.now(UTC))
        row.append(f"{await timed_async(lambda n, s=embedded: one(s, n, caps, callers, pin), seconds, 1):.0f}")  # noqa: B023
        if url:
            row += await on_redis(url, caps, callers, pin, seconds)
        rows.append(row)
    return rows


async def on_redis(url: str, caps: Caps, callers: tuple[Caller, ...], pin: str, seconds: float) -> list[str]:
    """µs a request alone and 64 at once; round trips of one request alone."""
    store = RedisStore(client_of(url), clock=lambda: datetime.now(UTC), prefix="{bench}:")
    await store.open()
    running = asyncio.ensure_future(store.courier.run())
    trips = 0
    plain = store.courier._pipelined

    async def counted(commands: Any) -> Any:
        nonlocal trips
        trips += 1
        return await plain(commands)

    store.courier._pipelined = counted  # type: ignore[method-assign]  # counts what really travels
    await one(store, -1, caps, callers, pin)
    trips = 0
    await one(store, -2, caps, callers, pin)
    found = trips
    alone = await timed_async(lambda n: one(store, n, caps, callers, pin), seconds, 1)
    many = await timed_async(lambda n: one(store, n, caps, callers, pin), seconds, 64)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    async for name in store.courier.client.scan_iter("{bench}:*", 1000):
        await store.courier.client.delete(name)
    await store.close()
    return [f"{alone:.0f}", f"{many:.0f}", str(found)]


def section(seconds: float, url: str | None) -> str:
    lines = [
        TITLE,
        "",
        "Written by `python -m bench.decision`. µs of this process's CPU a request; Redis's own is not in it.",
        "",
        "| what | µs |",
        "|---|--:|",
        *(f"| {what} | {took:.0f} |" for what, took in decisions(seconds)),
        "",
        "A served request's calls to the state store: recall of the conversation, admission, settling with the pin.",
        "",
        "| request | embedded, µs | Redis, one at a time, µs | Redis, 64 at once, µs | round trips |",
        "|---|--:|--:|--:|--:|",
    ]
    for row in asyncio.run(stores(url, seconds)):
        lines.append(f"| {' | '.join([*row, *['–'] * (5 - len(row))])} |")
    lines += [
        "",
        "Of the round trips, one admits (none where nothing is limited) and one settles, the pin with it. The recall",
        "is a trip of its own: the decision that an admission asks for depends on it.",
    ]
    return "\n".join(lines) + "\n"


def put(text: str) -> None:
    """Replace the section in the report, or append it."""
    known = REPORT.read_text() if REPORT.exists() else ""
    head, _, rest = known.partition(f"{TITLE}\n")
    _, mark, tail = rest.partition("\n## ")
    above = f"{head.rstrip()}\n\n" if head.strip() else ""
    REPORT.write_text(f"{above}{text}{f'{chr(10)}## {tail}' if mark else ''}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--redis", metavar="URL", help="measure the shared store there; its keys start with {bench}:")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each figure")
    parser.add_argument("--no-report", action="store_true", help="print only")
    options = parser.parse_args()
    text = section(options.seconds, options.redis)
    print(text)
    if not options.no_report:
        put(text)


if __name__ == "__main__":
    main()
