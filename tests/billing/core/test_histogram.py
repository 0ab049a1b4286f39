"""Histograms add up, and their percentiles are off by less than a bucket."""

import random

import pytest

from billing.core.histogram import bucket_of, histogram, merged, percentile


@pytest.mark.parametrize(
    ("value", "bucket"), [(-5, "0"), (0, "0"), (1, "0"), (2, "4"), (3, "7"), (4, "8"), (5, "10"), (1024, "40")]
)
def test_buckets(value, bucket):
    assert bucket_of(value) == bucket


@pytest.mark.parametrize("share", [0.01, 0.5, 0.95, 1.0])
def test_a_percentile_is_at_most_a_bucket_above_the_truth(share):
    draw = random.Random(7)
    values = sorted(round(draw.lognormvariate(6, 1.5)) + 2 for _ in range(5000))
    truth = values[max(0, -(-int(share * 10000) * len(values) // 10000) - 1)]
    found = percentile(histogram(values), share)
    assert found is not None
    assert truth <= found + 1
    assert found <= truth * 2**0.25 + 1


def test_merging_is_counting_together():
    one, two = [1, 5, 900], [5, 5, 7]
    assert merged([histogram(one), histogram(two)]) == histogram(one + two)
    assert merged([]) == {}
    assert percentile({}, 0.5) is None


def test_small_values():
    assert percentile({"0": 3}, 0.95) == 1
