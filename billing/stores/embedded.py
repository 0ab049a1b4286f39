"""Reservations of a single web process, in memory; also what a process goes by while Redis is away.

Nothing is stored: a scope that is not known is loaded from the ledger when it is first asked about.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from billing.core.budget import Held, Standing, closes_blind
from billing.core.reserving import Claim, ReserveAnswer, ReserveRequest, judge, kept
from billing.stores.protocol import LEASE_S, REMEMBER_S

_ZERO = Decimal(0)
_FORGET_S = 86400.0


@dataclass(slots=True)
class _Scope:
    """`since`: settled after the newest mark. `held`: request id -> (estimate, end of the lease)."""

    spent: Decimal | None = None
    since: Decimal = _ZERO
    mark: int = 0
    asked: float = 0.0
    held: dict[str, tuple[Decimal, float]] = field(default_factory=dict)


class EmbeddedReservations:
    """See `Reservations`. `blind`: this stands in for a shared store, so hard budgets close near their end."""

    def __init__(self, *, blind: bool = False) -> None:
        self._scopes: dict[str, _Scope] = {}
        self._settled: dict[str, float] = {}  # request id -> until when it is known; in order of settling
        self._blind = blind
        self._sweep_due = 0.0

    @property
    def shared(self) -> bool:
        """All there is."""
        return not self._blind

    async def reserve(self, request: ReserveRequest, now: datetime) -> ReserveAnswer:
        at = now.timestamp()
        standings: dict[str, Standing] = {}
        for claim in request.claims:
            scope = self._scope(claim.scope, at)
            scope.held.pop(request.request_id, None)
            if scope.spent is not None:
                standings[claim.scope] = _standing(scope, claim.amount, at)
        answer = self._closed_blind(request, standings) or judge(request, standings)
        for claim in kept(request, answer):
            self._scopes[claim.scope].held[request.request_id] = (claim.estimate, at + LEASE_S)
        return answer

    async def settle(self, request_id: str, spent: Mapping[str, Decimal], now: datetime) -> bool:
        at = now.timestamp()
        self._forget(at)
        if request_id in self._settled:
            return False
        self._settled[request_id] = at + REMEMBER_S
        for name, amount in spent.items():
            scope = self._scope(name, at)
            scope.held.pop(request_id, None)
            scope.since += amount
            if scope.spent is not None:
                scope.spent += amount
        return True

    async def release(self, request_id: str, scopes: Sequence[str], now: datetime) -> None:
        for name in scopes:
            self._scope(name, now.timestamp()).held.pop(request_id, None)

    async def renew(self, holds: Mapping[str, Sequence[Claim]], now: datetime) -> None:
        at = now.timestamp()
        for request_id, claims in holds.items():
            if request_id not in self._settled:
                for claim in claims:
                    self._scope(claim.scope, at).held[request_id] = (claim.estimate, at + LEASE_S)

    async def held(self, scopes: Sequence[str], now: datetime) -> Sequence[Held]:
        at = now.timestamp()
        found = []
        for name in scopes:
            standing = _standing(self._scopes.get(name, _Scope()), _ZERO, at)
            found.append(Held(standing.reserved, standing.in_flight))
        return found

    async def open(self) -> None:
        return None

    async def run(self) -> None:
        return None

    async def close(self) -> None:
        return None

    async def mark(self, scope: str, now: datetime) -> str:
        row = self._scope(scope, now.timestamp())
        row.mark += 1
        row.since = _ZERO
        return str(row.mark)

    async def load(self, scope: str, spent: Decimal, mark: str, now: datetime) -> None:
        row = self._scope(scope, now.timestamp())
        if mark == str(row.mark):
            row.spent = spent + row.since

    def saw(self, scope: str, spent: Decimal) -> None:
        """Take over what a shared store says is spent."""
        self._scope(scope, None).spent = spent

    def _closed_blind(self, request: ReserveRequest, standings: Mapping[str, Standing]) -> ReserveAnswer | None:
        if not self._blind or len(standings) < len(request.claims):
            return None
        closed = {name for name, standing in standings.items() if closes_blind(standing)}
        if not closed:
            return None
        shut = {name: Standing(_ZERO, _ZERO, in_flight=1) if name in closed else one for name, one in standings.items()}
        return judge(request, shut)

    def _scope(self, name: str, at: float | None) -> _Scope:
        scope = self._scopes.setdefault(name, _Scope())
        if at is not None:
            scope.asked = at
        return scope

    def _forget(self, at: float) -> None:
        while self._settled and next(iter(self._settled.values())) <= at:
            del self._settled[next(iter(self._settled))]
        if at >= self._sweep_due:
            self._sweep_due = at + _FORGET_S
            for name in [name for name, scope in self._scopes.items() if scope.asked <= at - _FORGET_S]:
                del self._scopes[name]


def _standing(scope: _Scope, amount: Decimal, at: float) -> Standing:
    for request_id in [name for name, (_estimate, until) in scope.held.items() if until <= at]:
        del scope.held[request_id]
    reserved = sum((estimate for estimate, _until in scope.held.values()), _ZERO)
    return Standing(amount, scope.spent or _ZERO, reserved, len(scope.held))
