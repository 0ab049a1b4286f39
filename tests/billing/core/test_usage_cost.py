"""What providers say that a call cost."""

import pytest

from billing.core.usage import NO_USAGE, UsageSource, read_usage
from tests.billing.core.reports import ANTHROPIC, OPENAI, chat, chunk, message, read, usage


@pytest.mark.parametrize(
    ("reported", "cost", "flags"),
    [
        ({"cost": 0.0011, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.0225}}, "0.0236", ()),
        ({"cost": 0.0011, "is_byok": True, "cost_details": None}, "0.0011", ()),
        ({"cost": 0, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.0225}}, "0.0225", ()),
        ({"cost": 0.0225, "is_byok": False, "cost_details": {"upstream_inference_cost": 0.0225}}, "0.0225", ()),
        ({"cost": 0}, "0", ()),
        ({"cost": {"total_cost": 0.006, "request_cost": 0.005}}, "0.006", ()),
        ({"cost": {}}, None, ()),
        ({"cost_in_usd_ticks": 37756000}, "0.0037756000", ()),
        ({"cost": -1}, None, ("bad_number:cost",)),
        ({"cost": "0.1"}, None, ("bad_number:cost",)),
        ({"cost": True}, None, ("bad_number:cost",)),
        ({"cost": float("nan")}, None, ("bad_number:cost",)),
        ({"cost": float("inf")}, None, ("bad_number:cost",)),
        ({"cost": 10**5000}, None, ("bad_number:cost",)),
    ],
)
@pytest.mark.parametrize(
    ("dialect", "report"),
    [
        (OPENAI, chat(prompt_tokens=5, completion_tokens=4)),
        (ANTHROPIC, message(input_tokens=5, output_tokens=4)),
    ],
)
def test_reported_cost(dialect, report, reported, cost, flags):
    answer = {**report, "usage": {**report["usage"], **reported}}

    assert read_usage(dialect, answer) == usage((5, 0, 0, 0, 4, 0), *flags, cost=cost)


def test_the_last_cost_that_is_not_zero_wins():
    events = [chunk({"prompt_tokens": 5, "completion_tokens": 4, "cost": cost}, "stop") for cost in (0, 0.5, 0, None)]

    assert read(OPENAI, *events) == usage((5, 0, 0, 0, 4, 0), cost="0.5")


def test_a_cost_alone_is_kept():
    assert read_usage(OPENAI, chat(cost=0.5)) == usage((None,) * 6, source=UsageSource.NONE, cost="0.5")


def test_no_usage_holds_nothing():
    assert usage((None,) * 6, source=UsageSource.NONE) == NO_USAGE
