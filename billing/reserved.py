"""The persisted copy of what calls in flight have reserved of each budget: pages of any process read it here.

The gateway's processes write it every two seconds. Where several share a store, each writes the same sums. A row that
nobody renews belonged to processes that are gone, and with them their reservations.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from billing.core.budget import Held
from billing.core.reserving import BudgetInfo
from billing.models import Budget, BudgetReserved

NOTHING = Held()
WRITE_EVERY_S = 2.0
RENEW_EVERY = timedelta(seconds=10)
STALE = timedelta(seconds=30)


def save(held: Mapping[str, tuple[int, Held]], now: datetime) -> None:
    """Write, per scope (a budget's period), the budget's id and what is held; nothing held leaves no row."""
    known = set(Budget.objects.filter(pk__in=[pk for pk, _held in held.values()]).values_list("pk", flat=True))
    rows = [
        BudgetReserved(budget_id=pk, scope=scope, amount=one.reserved, in_flight=one.in_flight, updated=now)
        for scope, (pk, one) in held.items()
        if one.in_flight and pk in known
    ]
    BudgetReserved.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["scope"], update_fields=["amount", "in_flight", "updated"]
    )
    gone = [scope for scope, (_pk, one) in held.items() if not one.in_flight]
    if gone:
        BudgetReserved.objects.filter(scope__in=gone).delete()
    BudgetReserved.objects.filter(updated__lt=now - 10 * STALE).delete()


def reserved_now(budgets: Iterable[BudgetInfo], now: datetime) -> dict[int, Held]:
    """Return what is reserved of each budget's present period, by id."""
    scopes = {budget.scope(now): budget.id for budget in budgets}
    found = dict.fromkeys(scopes.values(), NOTHING)
    for row in BudgetReserved.objects.filter(scope__in=list(scopes), updated__gt=now - STALE):
        found[scopes[row.scope]] = Held(row.amount, row.in_flight)
    return found
