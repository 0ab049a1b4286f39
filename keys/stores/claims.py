"""Who runs a call that must not run twice: a claim by name, leased, of one process or of all.

A holder renews its claim while it works. One that dies lets its lease lapse; then the next to ask takes the claim. What
a call came to without success is said to those who wait for it and forgotten soon.
"""

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

import orjson

from keys.stores.courier import Courier

LEASE_S = 30.0
RENEW_EVERY_S = 5.0
_SWEEP_AT = 1000  # claims that may stand in memory before those that are over are looked for


@dataclass(frozen=True, slots=True)
class Claim:
    """`owner` is unlike any other; `about` what is claimed, to be compared. `written`: the call is over and its rows
    are safe, but the database may not show them yet.
    """

    owner: str
    about: str
    written: bool = False


class Claims:
    """In memory, for one process. No call waits."""

    def __init__(self) -> None:
        self._claims: dict[str, tuple[Claim, datetime]] = {}
        self._said: dict[str, tuple[str, datetime]] = {}

    async def take(self, name: str, claim: Claim, now: datetime) -> Claim | None:
        """Claim a name; None when it is ours now, else the claim that stands. Raises StoreDown, as all that wait."""
        held = await self.look(name, now)
        if held is None:
            self._put(name, claim, now, LEASE_S)
        return held

    async def look(self, name: str, now: datetime) -> Claim | None:
        """Return the claim that stands."""
        claim, until = self._claims.get(name, (None, now))
        return claim if until > now else None

    async def keep(self, name: str, claim: Claim, now: datetime, lease_s: float = LEASE_S) -> bool:
        """Renew or change a claim; also puts a lost one back. False when another's stands by now."""
        held = await self.look(name, now)
        if held is not None and held.owner != claim.owner:
            return False
        self._put(name, claim, now, lease_s)
        return True

    def free(self, name: str, claim: Claim, now: datetime, said: str = "") -> None:
        """Give a claim up without waiting; `said` is kept for those who wait for its owner."""
        if said:
            self._said[claim.owner] = (said, now + timedelta(seconds=LEASE_S))
        held = self._claims.get(name)
        if held is not None and held[0].owner == claim.owner:
            del self._claims[name]

    async def said(self, owner: str, now: datetime) -> str:
        """Return what an owner left behind, "" when nothing."""
        said, until = self._said.get(owner, ("", now))
        return said if until > now else ""

    def _put(self, name: str, claim: Claim, now: datetime, lease_s: float) -> None:
        self._claims[name] = (claim, now + timedelta(seconds=lease_s))
        if len(self._claims) > _SWEEP_AT or len(self._said) > _SWEEP_AT:
            self._claims = {held: row for held, row in self._claims.items() if row[1] > now}
            self._said = {owner: row for owner, row in self._said.items() if row[1] > now}


class SharedClaims(Claims):
    """In Redis, for all processes. While Redis is down or takes no scripts nothing can be claimed: StoreDown."""

    def __init__(self, courier: Courier) -> None:
        super().__init__()
        self._courier = courier

    async def take(self, name: str, claim: Claim, now: datetime) -> Claim | None:
        def unheard(held: Any) -> None:
            if not held:
                self.free(name, claim, now)

        held = await self._courier.script("claim", self._words("take", name, claim, now), unheard)
        return Claim(**held) if held else None

    async def look(self, name: str, now: datetime) -> Claim | None:
        del now  # Redis forgets by itself
        text = await self._courier.command("GET", f"{self._courier.prefix}claim:{name}")
        return Claim(**orjson.loads(text)) if text else None

    async def keep(self, name: str, claim: Claim, now: datetime, lease_s: float = LEASE_S) -> bool:
        return bool(await self._courier.script("claim", self._words("keep", name, claim, now, lease_s)))

    def free(self, name: str, claim: Claim, now: datetime, said: str = "") -> None:
        self._courier.post("claim", self._words("free", name, claim, now) | ({"said": said} if said else {}))

    async def said(self, owner: str, now: datetime) -> str:
        del now
        return str(await self._courier.command("GET", f"{self._courier.prefix}said:{owner}") or "")

    def _words(self, op: str, name: str, claim: Claim, now: datetime, lease_s: float = LEASE_S) -> dict[str, Any]:
        return {"now": now.timestamp(), "op": op, "name": name, "claim": asdict(claim), "lease": lease_s}
