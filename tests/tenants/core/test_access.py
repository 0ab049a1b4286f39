"""Which model names an allow-list admits."""

import pytest

from tenants.core.access import glob_matches, model_allowed


@pytest.mark.parametrize(
    ("globs", "model", "allowed"),
    [
        ((), "anything", True),
        (("gpt-*",), "gpt-4o", True),
        (("gpt-*",), "GPT-4O", True),
        (("GPT-*",), "gpt-4o", True),
        (("gpt-*",), "openai/gpt-4o", False),
        (("gpt-*", "claude-*"), "claude-5", True),
        (("gpt-4o",), "gpt-4o-mini", False),
        (("gpt-?",), "gpt-5", True),
        (("gpt-?",), "gpt-4o", False),
        (("claude[1m]",), "claude[1m]", True),
        (("claude[1m]",), "claude1", False),
        (("gpt.4",), "gptx4", False),
        (("*",), "", True),
        (("",), "x", False),
        (("**a**",), "bab", True),
        (("gpt-*",), "gpt-\n4", True),
    ],
)
def test_model_allowed(globs: tuple[str, ...], model: str, allowed: bool) -> None:
    assert model_allowed(globs, model) is allowed


def test_an_absurdly_long_name_matches_everything_only() -> None:
    assert glob_matches("*", "x" * 513)
    assert not glob_matches("x*", "x" * 513)
    assert not glob_matches("", "x" * 513)
    assert glob_matches("x*", "x" * 512)
