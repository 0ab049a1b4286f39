"""When a pool is low and failures are many."""

import pytest

from keys.core.counts import Counts
from keys.core.watch import is_low, many_failures, recent


@pytest.mark.parametrize(
    ("usable", "enabled", "low"),
    [
        (0, 0, False), (0, 1, True), (1, 1, False), (0, 2, True), (1, 2, False), (2, 2, False), (1, 3, True),
        (2, 3, False), (1, 4, True), (2, 4, False), (2, 5, True), (49, 100, True), (50, 100, False),
    ],
)  # fmt: skip
def test_low_is_none_or_fewer_than_half(usable, enabled, low):
    assert is_low(usable, enabled) is low


@pytest.mark.parametrize(
    ("calls", "failed", "found"),
    [
        (0, 0, False), (1000, 0, False), (19, 19, None), (20, 4, True), (20, 3, None), (20, 2, None), (20, 1, False),
        (1, 1, None), (100, 10, None), (101, 10, False), (100, 19, None), (100, 20, True),
    ],
)  # fmt: skip
def test_many_failures_have_a_mark_to_begin_and_a_lower_one_to_end(calls, failed, found):
    assert many_failures(calls, failed) is found


def test_only_the_last_three_buckets_count():
    one = Counts(recent={7: (100, 100), 8: (1, 1), 9: (2, 0), 10: (4, 1), 11: (64, 64)})
    other = Counts(recent={10: (8, 2)})
    assert recent([one, other], 10) == (15, 4)
    assert recent([], 10) == (0, 0)
