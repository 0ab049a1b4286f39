"""A made-up body says just what it was asked to say, in every dialect."""

import pytest

from keys.core.dialect import Dialect
from keys.core.windows import Caps
from proxy.core.explain import DryRun, facts_for
from proxy.core.sample import Sample, body_of
from routing.core.table import LineInfo

LINE = LineInfo(1, 1, "line", "Line", None, (), Caps())


def read(sample):
    facts = facts_for(DryRun("line", sample.dialect, {}, body_of(sample)), LINE)
    return (
        facts.model, facts.stream, facts.tool_count, facts.image, facts.thinking, facts.input_tokens, facts.max_tokens
    )  # fmt: skip


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize(
    "asked",
    [
        (False, 0, False, False, 500, None),
        (True, 3, True, True, 40_000, 77),
        (True, 0, False, True, 1000, 1),
        (False, 1, True, False, 1000, 0),
    ],
)
def test_the_facts_are_read_back_as_they_were_asked(dialect, asked):
    assert read(Sample(dialect, "some-model", *asked)) == ("some-model", *asked)


@pytest.mark.parametrize("dialect", list(Dialect))
def test_a_body_is_never_smaller_than_it_has_to_be(dialect):
    assert 0 < read(Sample(dialect, "m", input_tokens=0))[5] < 60
