"""Rules as sentences."""

import pytest

from keys.models import Upstream
from routing.models import RoutingRule, StrategyGroup
from routing.sentences import sentence

CHEAP = StrategyGroup(pk=1, name="cheap")
OFFICIAL = Upstream(pk=1, name="official")


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (RoutingRule(group=CHEAP), "Always: use group cheap."),
        (
            RoutingRule(when={"model": ["gpt-*", "o1*"], "line": "nightly-*"}, group=CHEAP),
            "When the model is gpt-* or o1* and the line is nightly-*, use group cheap.",
        ),
        (
            RoutingRule(when={"hours": "22:00-07:00", "line": "a", "odd": 1, "model": "x"}, group=CHEAP),
            "When the model is x and the line is a and the time is 22:00-07:00 and odd = 1, use group cheap.",
        ),
        (
            RoutingRule(when={"stream": False, "input_tokens": [">= 32k", "< 1M"]}, upstream=OFFICIAL),
            "When the answer is not streamed and input tokens are >= 32k and < 1M, use upstream official.",
        ),
        (
            RoutingRule(when={"hours": "22:00-07:00"}, deny="too late"),
            "When the time is 22:00-07:00, refuse with “too late”.",
        ),
        (
            RoutingRule(when={"tools": True}, set={"temperature": 0.2, "model": "x"}, proceed=True),
            "When tools are offered, set model to x, set temperature to 0.2, go on to the next rule.",
        ),
    ],
)
def test_a_rule_reads_as_a_sentence(rule, text):
    assert sentence(rule) == text
