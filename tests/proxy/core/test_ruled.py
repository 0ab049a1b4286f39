"""What rules set, in the words of each dialect."""

from typing import Any

import pytest

from keys.core.dialect import Dialect
from proxy.core.ruled import ruled

OPENAI, RESPONSES, ANTHROPIC, GEMINI = Dialect.OPENAI, Dialect.RESPONSES, Dialect.ANTHROPIC, Dialect.GEMINI


@pytest.mark.parametrize(
    ("dialect", "payload", "values", "expected"),
    [
        (OPENAI, {}, {}, {}),
        (OPENAI, {}, {"max_tokens": 5, "temperature": 0.1}, {"max_tokens": 5, "temperature": 0.1}),
        (OPENAI, {"max_completion_tokens": 9}, {"max_tokens": 5}, {"max_completion_tokens": 5}),
        (OPENAI, {"max_tokens": 9}, {"max_completion_tokens": 5}, {"max_tokens": 5}),
        (RESPONSES, {}, {"max_tokens": 5, "top_p": 1}, {"max_output_tokens": 5, "top_p": 1}),
        (ANTHROPIC, {"max_tokens": 9}, {"max_output_tokens": 5}, {"max_tokens": 5}),
        (GEMINI, {}, {"max_tokens": 5, "labels": {}}, {"labels": {}, "generationConfig": {"maxOutputTokens": 5}}),
        (
            GEMINI,
            {"generationConfig": {"temperature": 1, "responseMimeType": "text/plain"}},
            {"temperature": 0.1, "top_p": 0.2, "stop": "x"},
            {
                "generationConfig": {
                    "temperature": 0.1,
                    "responseMimeType": "text/plain",
                    "topP": 0.2,
                    "stopSequences": ["x"],
                }
            },
        ),
        (
            GEMINI,
            {"generation_config": {"max_output_tokens": 9, "seed": 3}},
            {"max_tokens": 5},
            {"generation_config": {"seed": 3, "maxOutputTokens": 5}},
        ),
        (GEMINI, {"generationConfig": "odd"}, {"seed": 5}, {"generationConfig": {"seed": 5}}),
        (GEMINI, {}, {"safetySettings": []}, {"safetySettings": []}),
    ],
)
def test_ruled(dialect: Dialect, payload: dict[str, Any], values: dict[str, Any], expected: dict[str, Any]) -> None:
    assert ruled(dialect, payload, values) == expected
