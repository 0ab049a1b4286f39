"""The pool's figures survive being stored."""

from datetime import UTC, datetime, timedelta

from keys.core.counts import Counts
from keys.core.outcome import Cause, Outcome, Scope, Verdict
from keys.core.pool import Pool, pool_of_rows, rows_of_pool
from keys.core.state import KeyState, Status

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


def test_rows_read_back_give_the_same_sheets():
    counts = Counts()
    counts.add(Outcome(Cause.RATE_LIMITED, Verdict.NEXT, Scope.KEY, message="slow down"), NOW)
    cooling = KeyState(
        status=Status.COOLING, epoch=3, until=NOW + timedelta(seconds=30), since=NOW, cause=Cause.RATE_LIMITED
    )
    pool = Pool(
        {"key:1": cooling, "account:7": KeyState(status=Status.DEAD, epoch=1)}, {1: counts, 2: Counts(calls=5)}, NOW
    )
    again = pool_of_rows(rows_of_pool(pool), NOW)
    assert again.warnings == ()
    for key_id, account_id in ((1, None), (2, None), (3, 7)):
        assert again.sheet(key_id, account_id) == pool.sheet(key_id, account_id)
    assert again.sheet(1).cooling_left_s == 30
    assert again.sheet(2).calls == 5
