"""Whatever upstreams do: the loop ends, no key is asked twice, bytes are one attempt's, slots are calls in flight."""

import asyncio
import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keys.core.dialect import Dialect
from keys.core.policy import Policy
from keys.core.windows import Caps
from keys.stores.embedded import EmbeddedStore
from proxy import background, settle
from proxy.core.answer import Answer
from proxy.core.call import Admitted, Call, Received
from proxy.core.endpoints import Endpoint, find
from proxy.core.errors import Fault
from proxy.failover import Failover
from proxy.plan import plan
from proxy.read import read
from proxy.runtime import Runtime
from proxy.transport import Exchange
from routing.core.table import GatewayKeyInfo, Timeouts
from tests.routing.core.build import LINE, TENANT, key, table, upstream

BODY = json.dumps({"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}).encode()
GOOD = "good"
REPLIES: dict[str, tuple[int | None, dict[str, str], bytes, str | None]] = {
    "html": (200, {}, b"<html></html>", None),
    "bad request": (400, {}, b'{"error": {"message": "no"}}', None),
    "too long": (400, {}, b'{"error": {"message": "maximum context length", "code": "context_length_exceeded"}}', None),
    "auth": (401, {}, b'{"error": {"message": "bad key"}}', None),
    "balance": (402, {}, b"{}", None),
    "permission": (403, {}, b'{"error": {"message": "not here"}}', None),
    "model": (404, {}, b"{}", None),
    "rate": (429, {"retry-after": "1"}, b"{}", None),
    "server": (500, {}, b"{}", None),
    "overload": (529, {}, b"{}", None),
    "reset": (None, {}, b"", "reset"),
    "silence": (None, {}, b"", "silence"),
}


class Scripted(Exchange):
    """An exchange without a network."""

    __slots__ = ("_body",)

    def __init__(self, what: str, secret: str) -> None:
        status, headers, body, fault = REPLIES.get(what, (200, {}, answer_of(secret), None))
        super().__init__(fault=fault)
        self.status, self.headers, self._body = status, headers, body

    async def chunk(self) -> bytes:
        body, self._body = self._body, b""
        return body

    def release(self) -> None:
        return None


def answer_of(secret: str) -> bytes:
    said = {"role": "assistant", "content": f"from {secret}"}
    return json.dumps({"id": "x", "choices": [{"index": 0, "message": said, "finish_reason": "stop"}]}).encode()


class Upstreams:
    """A transport that answers as scripted, by secret; notes who asked whom and how many were in flight."""

    def __init__(self, script: dict[str, str], caps: dict[str, int | None]) -> None:
        self.script, self.caps = script, caps
        self.asked: list[str] = []
        self.flying: Counter[str] = Counter()

    async def send(self, outgoing: Any) -> Scripted:
        told = {name.lower(): value for name, value in outgoing.headers}
        secret = told["authorization"].removeprefix("Bearer ")
        self.asked.append(secret)
        self.flying[secret] += 1
        cap = self.caps[secret]
        assert cap is None or self.flying[secret] <= cap
        try:
            await asyncio.sleep(0)
        finally:
            self.flying[secret] -= 1
        return Scripted(self.script[secret], secret)


class Nothing:
    def submit(self, *_work: Any) -> None:
        return None


def routing(script: dict[str, str], caps: dict[str, int | None], policy: Policy, *, last_resort: bool) -> Any:
    """Two keys an upstream; every second of them on one account."""
    secrets = list(script)
    upstreams = []
    for number in range(1, len(secrets) // 2 + 1):
        keys = tuple(
            replace(
                key(number * 10 + place, number),
                secret=secrets[(number - 1) * 2 + place - 1],
                account_id=7 if place == 2 else None,
                limits=Caps(concurrency=caps[secrets[(number - 1) * 2 + place - 1]]),
            )
            for place in (1, 2)
        )
        upstreams.append(replace(upstream(number), timeouts=Timeouts(), keys=keys))
    last = len(upstreams) if last_resort and len(upstreams) > 1 else None
    return table(upstreams, policy=policy, last_resort_id=last)


def called(routes: Any, number: int) -> Call:
    received = Received(
        request_id=f"req_{number}", record_id=number, at=datetime.now(UTC), clock_s=asyncio.get_running_loop().time(),
        method="POST", path="/v1/chat/completions", query="", dialect=Dialect.OPENAI, headers=(), body=BODY,
    )  # fmt: skip
    who = GatewayKeyInfo(1, LINE, "prod", "last", Caps())
    return Call(Admitted(received, routes, routes.tenants[TENANT], routes.lines[LINE], who), "chat/completions")


async def ran(call: Call, runtime: Runtime) -> Answer | Fault:
    endpoint = find("POST", "/v1/chat/completions")
    assert isinstance(endpoint, Endpoint)
    inbound, call.facts = read(call.admitted, endpoint)
    decision = await plan(call, runtime, 0.5)
    assert decision.refusal is None
    async with asyncio.timeout(10):
        return await Failover(call, inbound, decision, runtime).run()


def runtime_of(upstreams: Upstreams) -> Runtime:
    store = EmbeddedStore(clock=lambda: datetime.now(UTC))
    return Runtime(
        keeper=None, store=store, budgets=None, transport=upstreams, recorder=None, threads=Nothing(),  # type: ignore[arg-type]  # not reached
        clock=asyncio.get_running_loop().time, now=lambda: datetime.now(UTC),
    )  # fmt: skip


WHATS = st.sampled_from([GOOD, *REPLIES])
SCRIPTS = st.lists(WHATS, min_size=2, max_size=8).filter(lambda whats: len(whats) % 2 == 0)
POLICIES = st.builds(
    Policy,
    strikes=st.integers(1, 3),
    max_attempts=st.integers(1, 6),
    slot_wait_s=st.just(0.02),
    on_auth=st.sampled_from(["dead", "strike", "stop"]),
    on_permission=st.sampled_from(["strike", "dead", "stop"]),
    on_balance=st.sampled_from(["cool", "dead"]),
    timeouts_cool=st.booleans(),
)


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.failover._JITTER_S", (0.0, 0.0))


@given(whats=SCRIPTS, policy=POLICIES, last_resort=st.booleans(), full=st.booleans())
def test_a_request_ends_and_asks_each_key_at_most_once(
    whats: list[str], policy: Policy, last_resort: bool, full: bool
) -> None:
    async def scenario() -> None:
        background.bind(asyncio.get_running_loop())
        script = {f"s{number}": what for number, what in enumerate(whats)}
        upstreams = Upstreams(script, dict.fromkeys(script, 1 if full else None))
        runtime = runtime_of(upstreams)
        routes = routing(script, upstreams.caps, policy, last_resort=last_resort)
        for number in range(4):  # the later ones meet what the earlier ones taught
            upstreams.asked.clear()
            call = called(routes, number)
            result = await ran(call, runtime)
            assert len(set(upstreams.asked)) == len(upstreams.asked) <= policy.max_attempts
            assert len(call.chain.attempts) == len(upstreams.asked)
            if isinstance(result, Answer):
                assert result.whole == answer_of(upstreams.asked[-1])
                assert script[upstreams.asked[-1]] == GOOD
                call.ending.finish()
            else:
                assert GOOD not in {script[secret] for secret in upstreams.asked}
                assert 400 <= result.status < 600
                call.ending.fail(result)
            await settle.give_back(call, runtime)
            await background.settle_requests(5)
        assert runtime.store.gate.slots == {}  # type: ignore[attr-defined]
        assert not runtime.store.board.leased(runtime.now())  # type: ignore[attr-defined]

    asyncio.run(scenario())


@given(whats=SCRIPTS, policy=POLICIES, leaving=st.lists(st.integers(0, 6), max_size=6))
def test_slots_are_requests_in_flight_whoever_leaves_when(whats: list[str], policy: Policy, leaving: list[int]) -> None:
    async def scenario() -> None:
        background.bind(asyncio.get_running_loop())
        script = {f"s{number}": what for number, what in enumerate(whats)}
        upstreams = Upstreams(script, dict.fromkeys(script, 1))
        runtime = runtime_of(upstreams)
        routes = routing(script, upstreams.caps, policy, last_resort=False)

        async def one(number: int) -> None:
            call = called(routes, number)
            work = asyncio.ensure_future(ran(call, runtime))
            if number < len(leaving):
                for _ in range(leaving[number]):
                    await asyncio.sleep(0)
                call.abandoned = True
                work.cancel()
            result = (await asyncio.gather(work, return_exceptions=True))[0]
            if not isinstance(result, Answer | Fault | asyncio.CancelledError):
                raise result
            call.ending.cancel()
            await settle.give_back(call, runtime)

        await asyncio.gather(*(one(number) for number in range(8)))
        await background.settle_requests(5)
        assert runtime.store.gate.slots == {}  # type: ignore[attr-defined]
        assert runtime.store.gate.queues == {}  # type: ignore[attr-defined]
        assert all(runtime.store.figures.in_flight(one, runtime.now()) == 0 for one in range(11, 45))

    asyncio.run(scenario())
