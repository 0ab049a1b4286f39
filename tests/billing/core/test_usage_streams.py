"""Usage that a stream reports more than once."""

import pytest

from billing.core.usage import UsageSource
from tests.billing.core.reports import OPENAI, RESPONSES, chunk, read, usage


def test_details_of_an_earlier_chunk_survive_a_shorter_tail():
    head = chunk({"prompt_tokens": 30, "completion_tokens": 4, "total_tokens": 34, "cached_tokens": 20}, "stop")
    tail = {"choices": [], "usage": {"prompt_tokens": 30, "completion_tokens": 5, "cached_tokens": None}}

    assert read(OPENAI, head, tail) == usage((30, 20, 0, 0, 5, 0))


def test_the_total_of_an_earlier_chunk_explains_nothing():
    head = chunk({"prompt_tokens": 11, "completion_tokens": 0, "total_tokens": 500})
    tail = chunk({"prompt_tokens": 11, "completion_tokens": 3}, "stop")

    assert read(OPENAI, head, tail) == usage((11, 0, 0, 0, 3, 0))


def test_a_stream_cut_after_cumulative_chunks_keeps_the_last():
    counts = [chunk({"prompt_tokens": 11, "completion_tokens": n, "total_tokens": 11 + n}) for n in (1, 2)]

    assert read(OPENAI, *counts) == usage((11, 0, 0, 0, 2, 0))


def test_zeros_before_the_end_are_no_report():
    assert read(OPENAI, chunk({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0})) is None


def test_zeros_at_the_end_are_one():
    assert read(OPENAI, chunk({"prompt_tokens": 0, "completion_tokens": 0}, "stop")) == usage((0,) * 6, "all_zero")


def test_a_bad_number_never_replaces_a_good_one():
    found = read(OPENAI, chunk({"prompt_tokens": 9, "completion_tokens": 4}), chunk({"prompt_tokens": -9}, "stop"))

    assert found == usage((9, 0, 0, 0, 4, 0), "bad_number:input")


def test_moonshot_reports_in_the_choice():
    choice = {"index": 0, "delta": {}, "finish_reason": "stop"}
    choice["usage"] = {"prompt_tokens": 19, "completion_tokens": 13, "total_tokens": 32, "cached_tokens": 16}

    assert read(OPENAI, {"choices": [choice]}) == usage((19, 16, 0, 0, 13, 0))


@pytest.mark.parametrize("kind", ["response.created", "response.in_progress", "response.queued"])
def test_a_response_that_has_only_begun_has_no_output(kind):
    def event(**reported):
        return {"type": kind, "response": {"usage": reported}}

    assert read(RESPONSES, event(input_tokens=0, output_tokens=0, total_tokens=0)) is None
    assert read(RESPONSES, event(input_tokens=7, output_tokens=1)) == usage(
        (7, 0, 0, 0, None, 0), source=UsageSource.PARTIAL
    )
    assert read(RESPONSES, event(input_tokens=7, output_tokens="1")) == usage(
        (7, 0, 0, 0, None, 0), source=UsageSource.PARTIAL
    )


@pytest.mark.parametrize("kind", ["response.completed", "response.incomplete", "response.failed"])
def test_a_response_that_is_over_has(kind):
    reported = {
        "input_tokens": 7,
        "output_tokens": 60,
        "output_tokens_details": {"reasoning_tokens": 50},
        "total_tokens": 67,
        "cost_in_usd_ticks": 37756000,
    }

    assert read(RESPONSES, {"type": kind, "response": {"usage": reported}}) == usage(
        (7, 0, 0, 0, 60, 50), cost="0.0037756"
    )
