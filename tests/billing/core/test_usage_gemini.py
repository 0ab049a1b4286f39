"""Gemini's usage beyond the corpus."""

import pytest

from billing.core.usage import UsageSource, read_usage
from tests.billing.core.reports import GEMINI, gemini, read, usage


@pytest.mark.parametrize("payload", [[], [None, "x", 3], [{"candidates": []}]])
def test_an_array_without_usage_is_none(payload):
    assert read_usage(GEMINI, payload) is None


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        # older answers count thoughts only in the total
        ({"promptTokenCount": 20, "candidatesTokenCount": 424, "totalTokenCount": 1016}, (20, 0, 0, 0, 996, 572)),
        # thoughts inside, beside a tool-use prompt
        (
            {
                "promptTokenCount": 10,
                "toolUsePromptTokenCount": 5,
                "candidatesTokenCount": 60,
                "thoughtsTokenCount": 50,
                "totalTokenCount": 75,
            },
            (15, 0, 0, 0, 60, 50),
        ),
        # more thoughts than candidates cannot be inside them
        (
            {"promptTokenCount": 10, "candidatesTokenCount": 20, "thoughtsTokenCount": 50, "totalTokenCount": 30},
            (10, 0, 0, 0, 70, 50),
        ),
        ({"promptTokenCount": 10, "candidatesTokenCount": 4}, (10, 0, 0, 0, 4, 0)),
        ({"promptTokenCount": 10, "thoughtsTokenCount": 4}, (10, 0, 0, 0, 4, 4)),
        ({"prompt_token_count": 10, "candidates_token_count": 4, "total_token_count": 14}, (10, 0, 0, 0, 4, 0)),
    ],
)
def test_gemini_shapes(reported, expected):
    assert read_usage(GEMINI, gemini(**reported)) == usage(expected)


@pytest.mark.parametrize(
    ("reported", "expected", "flag"),
    [
        ({"promptTokenCount": "1"}, (None, 0, 0, 0, 4, 0), "bad_number:input"),
        ({"toolUsePromptTokenCount": -1}, (None, 0, 0, 0, 4, 0), "bad_number:tool"),
        ({"candidatesTokenCount": 4.0}, (10, 0, 0, 0, None, 0), "bad_number:output"),
    ],
)
def test_gemini_numbers_that_cannot_be(reported, expected, flag):
    base = {"promptTokenCount": 10, "candidatesTokenCount": 4, "totalTokenCount": 14}

    assert read_usage(GEMINI, gemini(**{**base, **reported})) == usage(expected, flag, source=UsageSource.PARTIAL)


def test_gemini_thoughts_that_cannot_be_leave_the_rest():
    report = gemini(promptTokenCount=10, candidatesTokenCount=4, totalTokenCount=20, thoughtsTokenCount=-6)

    assert read_usage(GEMINI, report) == usage((10, 0, 0, 0, 4, None), "bad_number:reasoning")


def test_gemini_stream_cut_before_its_first_count():
    spoken = gemini([{"text": "Hi"}], promptTokenCount=10, totalTokenCount=10)

    assert read(GEMINI, spoken) == usage((10, 0, 0, 0, None, 0), source=UsageSource.PARTIAL)
    assert read(GEMINI, gemini([{}], promptTokenCount=10, totalTokenCount=10)) == usage((10, 0, 0, 0, 0, 0))


@pytest.mark.parametrize("kind", ["embedding", "embeddings"])
def test_gemini_embeddings_have_no_output(kind):
    assert read_usage(GEMINI, {kind: {}, "usageMetadata": {"promptTokenCount": 8}}) == usage((8, 0, 0, 0, 0, 0))


def test_gemini_cache_larger_than_the_prompt_is_flagged():
    report = gemini(promptTokenCount=10, candidatesTokenCount=4, totalTokenCount=14, cachedContentTokenCount=11)

    assert read_usage(GEMINI, report) == usage((10, 11, 0, 0, 4, 0), "cache_exceeds_input")
