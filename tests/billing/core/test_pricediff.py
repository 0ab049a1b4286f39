"""Which rows an import writes: history stays, operators' prices stay, a change begins today."""

from datetime import date
from decimal import Decimal

import pytest

from billing.core.pricediff import Act, Change, Kept, Listed, Rates, changes

TODAY = date(2026, 11, 15)
OLD, NEW, SOON = date(1970, 1, 1), date(2026, 11, 1), date(2026, 12, 1)
ONE, TWO, THREE = (Rates(input=Decimal(n), output=Decimal(2 * n)) for n in (1, 2, 3))
STEPS = ((OLD, ONE), (NEW, TWO))


def row(starts, rates, used=True):
    return Kept(starts, rates, used)


# (what, catalogue, rows of earlier imports, changes)
CASES = [
    ("a new model gets its whole history", STEPS, [], [(Act.ADD, OLD, ONE, None), (Act.ADD, NEW, TWO, None)]),
    ("nothing changed", STEPS, [row(OLD, ONE), row(NEW, TWO)], []),
    ("a change that was heard of late begins today", STEPS, [row(OLD, ONE)], [(Act.ADD, TODAY, TWO, ONE)]),
    ("and is then known", STEPS, [row(OLD, ONE), row(TODAY, TWO)], []),
    ("history is not rewritten", ((OLD, THREE), (NEW, TWO)), [row(OLD, ONE), row(NEW, TWO)], []),
    ("a second change on one day", STEPS, [row(OLD, ONE), row(TODAY, THREE, False)],
     [(Act.REPLACE, TODAY, TWO, THREE)]),
    (
        "a second change on one day, billed by already",
        STEPS,
        [row(OLD, ONE), row(TODAY, THREE)],
        [(Act.ADD, date(2026, 11, 16), TWO, None)],
    ),
    ("an announced change", (*STEPS, (SOON, THREE)), [row(OLD, TWO)], [(Act.ADD, SOON, THREE, None)]),
    ("an announcement changed", ((OLD, ONE), (SOON, TWO)), [row(OLD, ONE), row(SOON, THREE, False)],
     [(Act.REPLACE, SOON, TWO, THREE)]),
    ("only future rows so far", STEPS, [row(SOON, TWO, False)], [(Act.ADD, TODAY, TWO, None)]),
    ("a model that is only announced", ((SOON, ONE),), [row(SOON, ONE, False)], []),
]  # fmt: skip


@pytest.mark.parametrize(("dated", "rows", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_changes(dated, rows, expected):
    found = changes([Listed("m", dated)], {"m": rows} if rows else {}, TODAY)
    assert found == [Change(act, "m", starts, rates, before) for act, starts, rates, before in expected]
