"""When a pool is low and when failures are many. Figures of one moment; how long they must last is the caller's.

Low: no usable key, or of two and more switched-on keys fewer than half usable. Usable = healthy, its account included.

Many failures: of at least 20 attempts of the last 10 to 15 minutes a fifth failed. It is over below a tenth, or when
nothing failed any more; in between, and with too few attempts to judge, what was said before stands.
"""

from collections.abc import Iterable

from keys.core.counts import Counts

FEWEST_CALLS = 20
OPENS_AT, CLOSES_BELOW = 0.2, 0.1
BUCKETS = 3  # of five minutes, the running one included
WINDOW_MIN = 15  # at most


def is_low(usable: int, enabled: int) -> bool:
    """Say whether too few of the switched-on keys may be used. Without any there is nothing to watch."""
    return enabled > 0 and (usable == 0 or usable * 2 < enabled)


def many_failures(calls: int, failed: int) -> bool | None:
    """Say whether failures are many; None = neither, so that a rate near the mark does not flap."""
    if calls >= FEWEST_CALLS and failed >= calls * OPENS_AT:
        return True
    return False if failed == 0 or failed < calls * CLOSES_BELOW else None


def recent(counts: Iterable[Counts], bucket: int) -> tuple[int, int]:
    """Return calls and failures of the window that ends in this bucket, over several keys."""
    calls = failed = 0
    for one in counts:
        for number, (all_, bad) in one.recent.items():
            if bucket - BUCKETS < number <= bucket:
                calls, failed = calls + all_, failed + bad
    return calls, failed
