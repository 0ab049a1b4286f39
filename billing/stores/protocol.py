"""What the request path needs of a store of reservations. One conformance suite holds both stores to it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Protocol

from billing.core.budget import Held
from billing.core.reserving import Claim, ReserveAnswer, ReserveRequest

LEASE_S = 120.0  # a reservation whose process is gone ends by itself
RENEW_EVERY_S = 30.0
REMEMBER_S = 3600.0  # how long a settled request id is known


class Reservations(Protocol):
    """What is spent and reserved per scope. Amounts are exact to 12 places. No call raises for a store that is down."""

    @property
    def shared(self) -> bool:
        """Whether what is reserved elsewhere is known now; False while a shared store is down."""

    async def reserve(self, request: ReserveRequest, now: datetime) -> ReserveAnswer:
        """Decide and reserve in one step; a repeated id replaces its reservation."""

    async def settle(self, request_id: str, spent: Mapping[str, Decimal], now: datetime) -> bool:
        """Put what a call really spent in place of its reservations; False when that was done before.

        `spent` names every scope in which the call may hold something, 0 included.
        """

    async def release(self, request_id: str, scopes: Sequence[str], now: datetime) -> None:
        """Take back the reservations of a call that spent nothing."""

    async def renew(self, holds: Mapping[str, Sequence[Claim]], now: datetime) -> None:
        """Extend the leases of calls in flight (request id -> what it holds); makes lost ones again."""

    async def held(self, scopes: Sequence[str], now: datetime) -> Sequence[Held]:
        """Return what is reserved in each scope, in this order; nothing in one that is not known."""

    async def open(self) -> None:
        """Look whether the store is there; its being down is no error."""

    async def run(self) -> None:
        """Upkeep until cancelled."""

    async def close(self) -> None:
        """Send what is queued."""

    async def mark(self, scope: str, now: datetime) -> str:
        """Begin a look at the ledger; returns what `load` wants to know of it."""

    async def load(self, scope: str, spent: Decimal, mark: str, now: datetime) -> None:
        """Replace what is spent by the ledger's sum, read after `mark`; what was settled since is added to it.

        A mark that is not the newest changes nothing.
        """
