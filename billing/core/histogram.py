"""Counts of values in buckets that grow by a fixed factor: small, addable, and good for percentiles to about 9 %.

A bucket's number is text, as JSON keeps it: "0" holds 0 and 1, "n" what is in (2^((n-1)/4), 2^(n/4)].
"""

import math
from collections.abc import Iterable, Mapping

STEPS = 4  # buckets per doubling


def bucket_of(value: int) -> str:
    """Return the bucket that holds a value; below zero counts as zero."""
    return "0" if value <= 1 else str(math.ceil(math.log2(value) * STEPS - 1e-9))


def histogram(values: Iterable[int]) -> dict[str, int]:
    """Count values."""
    counts: dict[str, int] = {}
    for value in values:
        bucket = bucket_of(value)
        counts[bucket] = counts.get(bucket, 0) + 1
    return counts


def merged(histograms: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Add histograms up."""
    counts: dict[str, int] = {}
    for one in histograms:
        for bucket, count in one.items():
            counts[bucket] = counts.get(bucket, 0) + count
    return counts


def percentile(counts: Mapping[str, int], share: float) -> int | None:
    """Return the upper edge of the bucket that holds this share of the values; None when there are none."""
    wanted, seen = share * sum(counts.values()), 0
    for bucket in sorted(counts, key=int):
        seen += counts[bucket]
        if seen >= wanted:
            return round(2 ** (int(bucket) / STEPS))
    return None
