"""Which budgets bind whom, and what is decided by what they hold."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from billing.core.budget import Standing
from billing.core.reserving import (
    BudgetBook,
    BudgetInfo,
    BudgetRefused,
    Claim,
    ReserveRequest,
    closed_accounts,
    judge,
    kept,
)

D = Decimal
AT = datetime(2026, 11, 15, 20, tzinfo=UTC)


def budget(pk=1, line=None, account=None, **fields):
    values = {"amount": D(10), "currency": "USD", "period": "month", "hard": True, "zone": "Asia/Shanghai", **fields}
    return BudgetInfo(id=pk, tenant_id=7, line_id=line, account_id=account, **values)


def test_the_book_finds_budgets_by_owner_and_the_hard_ones_among_them():
    rows = (budget(1, line=3), budget(2, line=3, hard=False), budget(3), budget(4, account=3))
    book = BudgetBook(rows)
    assert [row.owner for row in rows] == ["line", "line", "tenant", "account"]
    assert [row.id for row in book.of("line", 3)] == [1, 2]
    assert [row.id for row in book.hard("line", 3)] == [1]
    assert [row.id for row in book.of("tenant", 7)] == [3]
    assert [row.id for row in book.of("account", 3)] == [4]
    assert book.of("account", None) == book.of("line", 4) == ()


@pytest.mark.parametrize(
    ("period", "scope"),
    [
        ("day", f"1:USD:day:{int(datetime(2026, 11, 15, 16, tzinfo=UTC).timestamp())}"),
        ("week", f"1:USD:week:{int(datetime(2026, 11, 15, 16, tzinfo=UTC).timestamp())}"),
        ("month", f"1:USD:month:{int(datetime(2026, 10, 31, 16, tzinfo=UTC).timestamp())}"),
        ("total", "1:USD:total:0"),
    ],
)
def test_a_scope_names_budget_and_period_in_the_budgets_zone(period, scope):
    assert budget(period=period).scope(AT) == scope


FULL, ROOM = Standing(D(10), D(10)), Standing(D(10), D(0))


def request(*claims, free=False):
    return ReserveRequest("r", tuple(Claim(scope, D(10), D(1), account) for scope, account in claims), free)


# claims, free, standings -> granted, refused, unknown, scopes kept, closed accounts
CASES = [
    ("room", [("l", None)], False, {"l": ROOM}, True, (), (), ["l"], set()),
    ("full", [("l", None)], False, {"l": FULL}, False, ("l",), (), [], set()),
    ("unknown", [("l", None), ("t", None)], False, {"l": FULL}, False, (), ("t",), [], set()),
    ("the line binds before the account", [("l", None), ("a", 1)], True, {"l": FULL, "a": FULL}, False, ("l",), (), [],
     set()),
    ("an account is left out", [("l", None), ("a", 1), ("b", 2)], False, {"l": ROOM, "a": FULL, "b": ROOM}, True,
     ("a",), (), ["l", "b"], {1}),
    ("no account is left", [("l", None), ("a", 1)], False, {"l": ROOM, "a": FULL}, False, ("a",), (), [], {1}),
    ("a free one is left", [("l", None), ("a", 1)], True, {"l": ROOM, "a": FULL}, True, ("a",), (), ["l"], {1}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("claims", "free", "standings", "granted", "refused", "unknown", "scopes", "closed"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_judging(claims, free, standings, granted, refused, unknown, scopes, closed):
    asked = request(*claims, free=free)
    answer = judge(asked, standings)
    assert (answer.granted, answer.refused, answer.unknown) == (granted, refused, unknown)
    assert [claim.scope for claim in kept(asked, answer)] == scopes
    assert closed_accounts(asked, answer.refused) == closed


def test_a_refusal_names_its_limit():
    assert BudgetRefused(budget(account=1, period="day"), D(1), None).limit == "budget:account:day"
