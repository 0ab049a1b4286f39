"""Hard budgets at admission: what a call asks of them and what the answer is. Amounts are in the budget's currency.

Line and tenant budgets count what is charged and must all have room. Account budgets count cost and waste; each
closes its own account only, and the call goes on as long as one of the accounts that may serve it has room.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

from billing.core.budget import Standing, admits
from billing.core.periods import Span, period_of
from tenants.core.values import valueclass

SINCE_EVER = datetime(1970, 1, 1, tzinfo=UTC)


@valueclass(frozen=True, slots=True)
class BudgetInfo:
    """A budget as the request path knows it. Neither line nor account = the whole tenant's. `zone` rules its days."""

    id: int
    tenant_id: int
    line_id: int | None
    account_id: int | None
    amount: Decimal
    currency: str
    period: str
    hard: bool
    zone: str

    @property
    def owner(self) -> str:
        """Return `line`, `tenant` or `account`."""
        if self.line_id is not None:
            return "line"
        return "tenant" if self.account_id is None else "account"

    def span(self, at: datetime) -> Span:
        """Return the period that holds `at`."""
        return period_of(at, self.period, ZoneInfo(self.zone))

    def scope(self, at: datetime) -> str:
        """Name the budget's period in the stores: what is spent there is its own sum."""
        start = self.span(at).start or SINCE_EVER
        return f"{self.id}:{self.currency}:{self.period}:{int(start.timestamp())}"


@valueclass(frozen=True, slots=True)
class BudgetBook:
    """All budgets, by whom they bind."""

    budgets: tuple[BudgetInfo, ...] = ()
    _owned: Mapping[tuple[str, int], tuple[BudgetInfo, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found: dict[tuple[str, int], list[BudgetInfo]] = {}
        for budget in self.budgets:
            found.setdefault((budget.owner, _owner_id(budget)), []).append(budget)
        object.__setattr__(self, "_owned", {key: tuple(rows) for key, rows in found.items()})

    def of(self, owner: str, owner_id: int | None) -> tuple[BudgetInfo, ...]:
        """Return the budgets of a line, tenant or account."""
        return () if owner_id is None else self._owned.get((owner, owner_id), ())

    def hard(self, owner: str, owner_id: int | None) -> tuple[BudgetInfo, ...]:
        """Return those that refuse calls."""
        return tuple(budget for budget in self.of(owner, owner_id) if budget.hard)


@valueclass(frozen=True, slots=True)
class Claim:
    """What a call wants of one budget's period. `account_id` None = the call cannot go on without it."""

    scope: str
    amount: Decimal
    estimate: Decimal
    account_id: int | None = None


@valueclass(frozen=True, slots=True)
class ReserveRequest:
    """`free`: an account without a budget may serve as well."""

    request_id: str
    claims: tuple[Claim, ...]
    free: bool = True


@valueclass(frozen=True, slots=True)
class ReserveAnswer:
    """`unknown` scopes must be loaded from the ledger first; nothing was reserved then.

    `refused` are the scopes without room: fatal ones when not `granted`, else those of accounts to leave out.
    """

    granted: bool
    refused: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    standings: Mapping[str, Standing] = field(default_factory=dict)


def judge(request: ReserveRequest, standings: Mapping[str, Standing]) -> ReserveAnswer:
    """Decide by what is spent and reserved now; the store reserves what `kept` names in the same step."""
    unknown = tuple(claim.scope for claim in request.claims if claim.scope not in standings)
    if unknown:
        return ReserveAnswer(granted=False, unknown=unknown)
    full = [claim for claim in request.claims if not admits(standings[claim.scope], claim.estimate)]
    fatal = tuple(claim.scope for claim in full if claim.account_id is None)
    if fatal:
        return ReserveAnswer(granted=False, refused=fatal, standings=standings)
    closed = {claim.account_id for claim in full}
    open_accounts = {claim.account_id for claim in request.claims} - closed - {None}
    granted = not closed or request.free or bool(open_accounts)
    return ReserveAnswer(granted, tuple(claim.scope for claim in full), (), standings)


def kept(request: ReserveRequest, answer: ReserveAnswer) -> Sequence[Claim]:
    """Return the claims to reserve: none of a refused call, none of a closed account."""
    if not answer.granted:
        return ()
    closed = {claim.account_id for claim in request.claims if claim.scope in answer.refused}
    return [claim for claim in request.claims if claim.account_id is None or claim.account_id not in closed]


def closed_accounts(request: ReserveRequest, refused: Iterable[str]) -> frozenset[int]:
    """Return the accounts that a granted call must leave out."""
    scopes = set(refused)
    return frozenset(
        claim.account_id for claim in request.claims if claim.scope in scopes and claim.account_id is not None
    )


@valueclass(frozen=True, slots=True)
class Ask:
    """A call that wants to start. `claims` pairs each hard budget with the call's estimate in its currency.

    `budgets` are the ids of all budgets that the call will count in, soft ones included. `currency` is that of the
    amounts it will be settled with.
    """

    request_id: str
    tenant_id: int
    at: datetime
    currency: str
    claims: tuple[tuple[BudgetInfo, Decimal], ...]
    budgets: frozenset[int] = frozenset()
    free: bool = True


@valueclass(frozen=True, slots=True)
class Granted:
    """`closed`: accounts whose own budget is spent; the call goes without them."""

    closed: frozenset[int] = frozenset()


@valueclass(frozen=True, slots=True)
class BudgetRefused:
    """`spent` None = not known here. `resets_at` None = never by itself."""

    budget: BudgetInfo
    spent: Decimal | None
    resets_at: datetime | None

    @property
    def limit(self) -> str:
        """Name the limit for the record."""
        return f"budget:{self.budget.owner}:{self.budget.period}"


def _owner_id(budget: BudgetInfo) -> int:
    if budget.line_id is not None:
        return budget.line_id
    return budget.tenant_id if budget.account_id is None else budget.account_id
