"""The language of patterns and the conditions of a row."""

import pytest

from keys.core.dialect import Dialect
from keys.core.evidence import Evidence, normalised
from keys.core.outcome import Cause
from keys.core.rulebook import DEFAULT_RULES
from keys.core.wording import Rules, WordingRule, checked, whole, within


def says(message: str, **fields: object) -> Evidence:
    return Evidence(429, message=message, wording=normalised(message), **fields)  # type: ignore[arg-type]


def row(**conditions: object) -> WordingRule:
    return WordingRule("row", Cause.RATE_LIMITED, **conditions)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("rate limit", "the rate limit is", True),
        ("rate limit", "the rate limits", False),
        ("rate limit*", "the rate limits", True),
        ("rate", "operate", False),
        ("*rate", "operate", True),
        ("a*b", "a" + " " * 60 + "b", True),
        ("a*b", "a" + " " * 61 + "b", False),
        ("no (credit|credits) left", "no credits left", True),
        ("no (very |)bad luck", "no bad luck", True),
        ("# hours", "in 5 hours", True),
        ("^busy", "busy now", True),
        ("^busy", "is busy", False),
        ("余额*不足", "您的余额已经不足了", True),
        ("a.c", "abc", False),
        ("RATE", "rate", True),
    ],
)
def test_patterns_within_a_text(pattern: str, text: str, found: bool) -> None:
    assert (within((pattern,)).search(text) is not None) is found


@pytest.mark.parametrize(
    ("pattern", "token", "found"),
    [
        ("*rate_limit*", "upstream_rate_limited", True),
        ("rate_limit", "rate_limits", False),
        ("base_resp:1008", "base_resp:1008", True),
    ],
)
def test_patterns_of_whole_tokens(pattern: str, token: str, found: bool) -> None:
    assert (whole((pattern,)).fullmatch(token) is not None) is found


@pytest.mark.parametrize("pattern", ["", " ", "*", "^", "a*b*c*d*e", "(a", "a)", ")(", "((((a))))", "x" * 401])
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"pattern|brackets"):
        checked(pattern)
    with pytest.raises(ValueError, match=r"pattern|brackets"):
        row(message=("fine", pattern))


def test_a_row_needs_a_condition() -> None:
    with pytest.raises(ValueError, match="no condition"):
        row()


def test_all_conditions_must_hold() -> None:
    evidence = says("slow down", tokens=("burst",), headers={"server": "edge"}, dialect=Dialect.OPENAI)
    assert row(message=("slow down",)).matches(evidence)
    assert row(codes=("nothing", "burst")).matches(evidence)
    assert row(headers=(("server", "ed*"),)).matches(evidence)
    assert row(statuses=(4,)).matches(evidence)
    assert row(statuses=(429,), dialect=Dialect.OPENAI, message=("slow*",)).matches(evidence)
    assert not row(message=("slow down",), unless=("down",)).matches(evidence)
    assert not row(message=("slow down",), codes=("other",)).matches(evidence)
    assert not row(headers=(("server", "ed"), ("via", "*x"))).matches(evidence)
    assert not row(statuses=(5, 400, 0)).matches(evidence)
    assert not row(dialect=Dialect.GEMINI, message=("slow down",)).matches(evidence)
    assert row(statuses=(0,)).matches(Evidence(None))


def test_a_doubtful_text_must_say_it_at_its_beginning() -> None:
    late = "x " * 100 + "insufficient balance"
    poison = WordingRule("row", Cause.INSUFFICIENT_BALANCE, message=("insufficient balance",))
    harmless = WordingRule("row", Cause.CONTEXT_TOO_LONG, message=("insufficient balance",))
    for status, found in (
        (400, False),
        (404, False),
        (422, False),
        (None, False),
        (500, False),
        (403, True),
        (429, True),
    ):
        assert poison.matches(Evidence(status, wording=late)) is found
        assert poison.matches(Evidence(status, wording=late[190:]))
        assert harmless.matches(Evidence(status, wording=late))


def test_rows_are_tried_in_order_and_an_operators_first() -> None:
    first, second = row(statuses=(4,)), row(statuses=(429,))
    assert Rules((first, second)).first(Evidence(429)) is first
    assert Rules((first,)).with_first([second]).first(Evidence(429)) is second
    assert Rules((first,)).first(Evidence(500)) is None


def test_built_in_rows_have_distinct_names_and_never_match_nothing() -> None:
    names = [rule.name for rule in DEFAULT_RULES.rows]
    assert len(names) == len(set(names))
    assert DEFAULT_RULES.first(Evidence(429)) is None
    assert DEFAULT_RULES.first(Evidence(None)) is None


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("The model `gpt-5` doesn’t exist", "the model does not exist"),
        ('Bad "insufficient quota" here', "bad here"),
        ("supplied: insufficient_quota", "supplied:"),
        ("insufficient_quota", "insufficient quota"),
        ("No endpoints found for a-b-c/d.", "no endpoints found for"),
        ("剩余额度: ＄0.1（request）", "剩余额度: $0.1 request"),
        ("model: some long name, then", "model: , then"),
    ],
)
def test_wording_is_without_names_and_quotes(message: str, expected: str) -> None:
    assert normalised(message) == expected
