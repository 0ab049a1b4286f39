from decimal import Decimal

import pytest

from billing.core.estimate import completed, estimate_request, estimate_tokens
from billing.core.usage import NO_USAGE, Usage, UsageSource

ESTIMATED, PARTIAL, UPSTREAM = UsageSource.ESTIMATED, UsageSource.PARTIAL, UsageSource.UPSTREAM


@pytest.mark.parametrize(
    ("size", "expected"), [(0, 0), (1, 1), (3, 1), (4, 1), (5, 2), (4096, 1024), (4097, 1025), (-5, 0)]
)
def test_four_bytes_are_a_token(size, expected):
    assert estimate_tokens(size) == expected


@pytest.mark.parametrize(
    ("max_tokens", "p95", "output"),
    [
        (None, None, 1024),
        (100, None, 100),
        (5000, None, 1024),
        (None, 300, 300),
        (100, 300, 100),
        (5000, 300, 300),
        (None, 4000, 4000),
        (0, None, 0),
        (-1, None, 0),
    ],
)
def test_a_request_reserves_input_by_size_and_the_likely_output(max_tokens, p95, output):
    assert estimate_request(10, max_tokens, p95) == Usage(3, None, None, None, output, None, ESTIMATED)


def test_nothing_reported_is_estimated_whole():
    assert completed(None, 10, 9) == Usage(3, None, None, None, 3, None, ESTIMATED)
    assert completed(NO_USAGE, 10, 9) == Usage(3, None, None, None, 3, None, ESTIMATED)


def test_what_was_reported_stays():
    reported = Usage(25, 5, 2, 1, None, 0, PARTIAL, ("x",), Decimal("0.1"))

    assert completed(reported, 4000, 9) == Usage(25, 5, 2, 1, 3, 0, ESTIMATED, ("x",), Decimal("0.1"))
    assert completed(Usage(None, 0, 0, 0, 7, 0, PARTIAL), 10, 400) == Usage(3, 0, 0, 0, 7, 0, ESTIMATED)


def test_a_whole_report_is_left_alone():
    reported = Usage(25, 5, 2, 1, 0, 0, UPSTREAM)

    assert completed(reported, 4000, 4000) is reported


def test_an_estimate_is_never_smaller_than_its_known_parts():
    reported = Usage(None, 900, 100, 0, None, 40, PARTIAL)

    assert completed(reported, 4, 4) == Usage(1000, 900, 100, 0, 40, 40, ESTIMATED)


def test_zeros_beside_a_text_are_no_report():
    zeros = Usage(0, 0, 0, 0, 0, 0, UPSTREAM, ("all_zero",), Decimal("0.1"))

    assert completed(zeros, 10, 9) == Usage(3, None, None, None, 3, None, ESTIMATED, ("all_zero",), Decimal("0.1"))
    assert completed(zeros, 10, 0) is zeros
