"""Anthropic's usage beyond the corpus."""

import pytest

from billing.core.usage import UsageSource, read_usage
from tests.billing.core.reports import ANTHROPIC, delta, message, read, start, usage


@pytest.mark.parametrize(
    ("semantics", "expected"), [("", 12666), ("inclusive", 6394), ("exclusive", 12666), ("openai", 6394)]
)
def test_an_upstreams_switch_decides_for_messages(semantics, expected):
    report = message(input_tokens=6394, cache_read_input_tokens=6272, output_tokens=3)

    assert read_usage(ANTHROPIC, report, semantics) == usage((expected, 6272, 0, 0, 3, 0))


def test_an_inclusive_switch_cannot_make_the_cache_larger_than_the_input():
    report = message(input_tokens=10, cache_read_input_tokens=6272, output_tokens=3)

    assert read_usage(ANTHROPIC, report, "inclusive") == usage((6282, 6272, 0, 0, 3, 0))


def test_glm_starts_with_zeros():
    zeros = start(input_tokens=0, output_tokens=0)

    assert read(ANTHROPIC, zeros) is None
    assert read(ANTHROPIC, zeros, delta(input_tokens=120, cache_read_input_tokens=64, output_tokens=9)) == usage(
        (184, 64, 0, 0, 9, 0)
    )


def test_zeros_in_the_delta_erase_nothing():
    found = read(ANTHROPIC, start(input_tokens=25, output_tokens=1), delta(input_tokens=0, output_tokens=9))

    assert found == usage((25, 0, 0, 0, 9, 0))


def test_the_delta_may_correct_the_start():
    """Server tools add their results to the input while the answer runs."""
    found = read(
        ANTHROPIC,
        start(input_tokens=2679, cache_creation_input_tokens=0, cache_read_input_tokens=0, output_tokens=3),
        delta(input_tokens=10682, cache_creation_input_tokens=0, cache_read_input_tokens=0, output_tokens=510),
    )

    assert found == usage((10682, 0, 0, 0, 510, 0))


def test_a_delta_with_zero_output_is_a_zero():
    assert read(ANTHROPIC, start(input_tokens=25, output_tokens=1), delta(output_tokens=0)) == usage(
        (25, 0, 0, 0, 0, 0)
    )


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ({"cache_creation_input_tokens": 100}, (130, 0, 100, 0, 5, 0)),
        (
            {"cache_creation_input_tokens": 30, "cache_creation": {"ephemeral_5m_input_tokens": 40}},
            (70, 0, 40, 0, 5, 0),
        ),
        (
            {"cache_creation": {"ephemeral_5m_input_tokens": 40, "ephemeral_1h_input_tokens": 60}},
            (130, 0, 100, 60, 5, 0),
        ),
        (
            {"cache_creation_input_tokens": 0, "cache_creation": {"ephemeral_1h_input_tokens": 60}},
            (90, 0, 60, 60, 5, 0),
        ),
        (
            {"cache_creation_input_tokens": -1, "cache_creation": {"ephemeral_5m_input_tokens": 40}},
            (70, 0, 40, 0, 5, 0),
        ),
    ],
)
def test_cache_writes_and_their_split(reported, expected):
    found = read_usage(ANTHROPIC, message(input_tokens=30, output_tokens=5, **reported))

    flags = ["bad_number:write"] if reported.get("cache_creation_input_tokens") == -1 else []
    assert found == usage(expected, *flags)


@pytest.mark.parametrize(
    ("reported", "expected", "flag"),
    [
        ({"cache_read_input_tokens": 1.5}, (None, None, 0, 0, 5, 0), "bad_number:cached"),
        ({"input_tokens": "9"}, (None, 0, 0, 0, 5, 0), "bad_number:input"),
        ({"output_tokens": True}, (30, 0, 0, 0, None, 0), "bad_number:output"),
    ],
)
def test_an_exclusive_input_is_unknown_when_one_of_its_parts_is(reported, expected, flag):
    found = read_usage(ANTHROPIC, message(**{"input_tokens": 30, "output_tokens": 5, **reported}))

    assert found == usage(expected, flag, source=UsageSource.PARTIAL)


def test_compaction_is_added_with_its_caches():
    entry = {
        "type": "compaction",
        "input_tokens": 50,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 30,
        "cache_creation": {"ephemeral_1h_input_tokens": 20, "ephemeral_5m_input_tokens": 10},
        "output_tokens": 5,
        "output_tokens_details": {"thinking_tokens": 2},
    }
    others = [{"type": "message", "input_tokens": 7}, {"type": "advisor_message", "input_tokens": 900}, "junk"]
    report = message(input_tokens=7, output_tokens=1, iterations=[entry, entry, *others])

    assert read_usage(ANTHROPIC, report) == usage((367, 200, 60, 40, 11, 4))


def test_compaction_counts_without_any_top_level():
    report = delta(iterations=[{"type": "compaction", "input_tokens": 54453, "output_tokens": 883}])

    assert read(ANTHROPIC, start(input_tokens=0, output_tokens=0), report, report) == usage((54453, 0, 0, 0, 883, 0))


def test_a_bad_compaction_makes_the_sum_unknown():
    report = message(
        input_tokens=7, output_tokens=1, iterations=[{"type": "compaction", "input_tokens": -1, "output_tokens": 5}]
    )

    assert read_usage(ANTHROPIC, report) == usage(
        (None, 0, 0, 0, 6, 0), "bad_number:compaction_input", source=UsageSource.PARTIAL
    )


def test_bad_top_level_numbers_are_not_replaced_by_compaction():
    report = message(
        input_tokens="7", output_tokens="1", iterations=[{"type": "compaction", "input_tokens": 9, "output_tokens": 5}]
    )

    assert read_usage(ANTHROPIC, report) == usage(
        (None,) * 6, "bad_number:input", "bad_number:output", source=UsageSource.NONE
    )
