"""Reservations that all gateway processes share through one Redis, exact and atomic by Lua.

While Redis is down each process goes by what it saw last and by its own calls: hard budgets close at 95 %, others go
on (DESIGN 11). What is spent meanwhile comes back from the ledger, the truth, at the next look. Redis refusing scripts
counts as down: a budget cannot be held without them.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from billing.core.budget import Held, Standing
from billing.core.reserving import Claim, ReserveAnswer, ReserveRequest
from billing.stores.embedded import EmbeddedReservations
from billing.stores.protocol import LEASE_S, REMEMBER_S
from keys.stores.courier import Courier, Health, StoreDown
from keys.stores.upkeep import goes_on

PREFIX = "{pm}:"
PROBE_S = 0.5
_LUA = Path(__file__).with_name("lua")
SCRIPTS = {
    name: (_LUA / "shared.lua").read_text() + (_LUA / f"{name}.lua").read_text()
    for name in ("reserve", "settle", "renew", "ledger", "held")
}
_PLACES = 12
_SCALE = 10**_PLACES
_EXACT = Context(prec=60)


class RedisReservations:
    """See `Reservations`."""

    def __init__(self, client: Redis, prefix: str = PREFIX) -> None:
        self.courier = Courier(client, prefix, SCRIPTS)
        self._here = EmbeddedReservations(blind=True)

    @property
    def shared(self) -> bool:
        """Whether Redis answers and takes scripts."""
        return self.courier.health is Health.UP

    async def reserve(self, request: ReserveRequest, now: datetime) -> ReserveAnswer:
        words = {
            "now": now.timestamp(),
            "lease": LEASE_S,
            "request": request.request_id,
            "free": request.free,
            "claims": [_claim(claim) for claim in request.claims],
        }
        try:
            answer = await self.courier.script("reserve", words)
        except StoreDown:
            return await self._here.reserve(request, now)
        limits = {claim.scope: claim.amount for claim in request.claims}
        standings = {}
        for scope, spent, reserved, in_flight in answer["standings"]:
            standings[scope] = Standing(limits[scope], _amount(spent), _amount(reserved), int(in_flight))
            self._here.saw(scope, standings[scope].spent)
        return ReserveAnswer(bool(answer["granted"]), tuple(answer["refused"]), tuple(answer["unknown"]), standings)

    async def settle(self, request_id: str, spent: Mapping[str, Decimal], now: datetime) -> bool:
        first_here = await self._here.settle(request_id, spent, now)
        words = {"now": now.timestamp(), "request": request_id, "remember": int(REMEMBER_S), "released": False}
        words["spent"] = [[scope, _limbs(amount)] for scope, amount in spent.items()]
        try:
            return bool(await self.courier.script("settle", words))
        except StoreDown:
            return first_here

    async def release(self, request_id: str, scopes: Sequence[str], now: datetime) -> None:
        await self._here.release(request_id, scopes, now)
        words = {"now": now.timestamp(), "request": request_id, "released": True}
        words["spent"] = [[scope, [0, 0]] for scope in scopes]
        with suppress(StoreDown):
            await self.courier.script("settle", words)

    async def renew(self, holds: Mapping[str, Sequence[Claim]], now: datetime) -> None:
        await self._here.renew(holds, now)
        listed = [[one.scope, name, _limbs(one.estimate)] for name, claims in holds.items() for one in claims]
        if listed:
            with suppress(StoreDown):
                await self.courier.script("renew", {"now": now.timestamp(), "lease": LEASE_S, "holds": listed})

    async def held(self, scopes: Sequence[str], now: datetime) -> Sequence[Held]:
        try:
            answer = await self.courier.script("held", {"now": now.timestamp(), "scopes": list(scopes)})
        except StoreDown:
            return await self._here.held(scopes, now)
        return [Held(_amount(row[:2]), int(row[2])) for row in answer]

    async def mark(self, scope: str, now: datetime) -> str:
        here = await self._here.mark(scope, now)
        with suppress(StoreDown):
            return f"{await self.courier.script('ledger', {'now': now.timestamp(), 'scope': scope})}/{here}"
        return f"/{here}"

    async def load(self, scope: str, spent: Decimal, mark: str, now: datetime) -> None:
        there, _, here = mark.partition("/")
        await self._here.load(scope, spent, here, now)
        if there:
            words = {"now": now.timestamp(), "scope": scope, "spent": _limbs(spent), "mark": there}
            with suppress(StoreDown):
                await self.courier.script("ledger", words)

    async def run(self) -> None:
        """Serve calls and look for Redis while it is down, until cancelled."""
        await asyncio.gather(self.courier.run(), self._probe())

    async def open(self) -> None:
        """Look whether Redis is there; its being down is no error."""
        await self.courier.probe()

    async def close(self) -> None:
        """Send what is queued."""
        with suppress(StoreDown):
            await self.courier.flush()
        await self.courier.client.aclose()

    async def _probe(self) -> None:
        while goes_on():
            await asyncio.sleep(PROBE_S)
            if self.courier.health is not Health.UP and await self.courier.probe() is Health.UP:
                self.courier.up()


def _claim(claim: Claim) -> dict[str, Any]:
    words: dict[str, Any] = {
        "scope": claim.scope,
        "amount": _limbs(claim.amount),
        "estimate": _limbs(claim.estimate),
    }
    return words if claim.account_id is None else {**words, "account": claim.account_id}


def _limbs(amount: Decimal) -> tuple[int, int]:
    """Return whole units and 1e-12ths; the second is never negative."""
    units = int(_EXACT.scaleb(amount, _PLACES).to_integral_value())
    return units // _SCALE, units % _SCALE


def _amount(limbs: Sequence[float]) -> Decimal:
    return _EXACT.scaleb(Decimal(int(limbs[0]) * _SCALE + int(limbs[1])), -_PLACES)
