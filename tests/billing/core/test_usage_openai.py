"""OpenAI's dialect beyond the corpus: the same providers on another day, and reports that cannot be right."""

import pytest

from billing.core.usage import UsageSource, read_usage
from keys.core.dialect import Dialect
from tests.billing.core.reports import OPENAI, chat, read, usage

CACHE = {"prompt_tokens_details": {"cached_tokens": 900}}
REASONED = {"completion_tokens_details": {"reasoning_tokens": 50}}


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        # xAI chat: completion excludes reasoning
        ({"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 91, **REASONED}, (32, 0, 0, 0, 59, 50)),
        ({"prompt_tokens": 32, "completion_tokens": 90, "total_tokens": 172, **REASONED}, (32, 0, 0, 0, 140, 50)),
        ({"prompt_tokens": 32, "completion_tokens": 90, "total_tokens": 122, **REASONED}, (32, 0, 0, 0, 90, 50)),
        ({"prompt_tokens": 32, "completion_tokens": 9, **REASONED}, (32, 0, 0, 0, 59, 50)),
        (
            {"prompt_tokens": 1000, "completion_tokens": 9, "total_tokens": 1059, **CACHE, **REASONED},
            (1000, 900, 0, 0, 59, 50),
        ),
        # as many reasoning as cached tokens: what the total has over is the reasoning
        (
            {"prompt_tokens": 5000, "completion_tokens": 60, "total_tokens": 5110, "cached_tokens": 50, **REASONED},
            (5000, 50, 0, 0, 110, 50),
        ),
        # SGLang and Perplexity name it at the top
        (
            {"prompt_tokens": 32, "completion_tokens": 90, "total_tokens": 122, "reasoning_tokens": 50},
            (32, 0, 0, 0, 90, 50),
        ),
        (
            {"prompt_tokens": 33, "completion_tokens": 7, "total_tokens": 40, "reasoning_tokens": 60},
            (33, 0, 0, 0, 67, 60),
        ),
        # details that say "no reasoning" are details: the gap is not output
        (
            {
                "prompt_tokens": 20,
                "completion_tokens": 4,
                "total_tokens": 30,
                "completion_tokens_details": {"reasoning_tokens": 0},
            },
            (20, 0, 0, 0, 4, 0),
        ),
        (
            {
                "prompt_tokens": 20,
                "completion_tokens": 4,
                "total_tokens": 30,
                "completion_tokens_details": {"audio_tokens": 0},
            },
            (20, 0, 0, 0, 10, 6),
        ),
        # DeepSeek: hit + miss make the prompt
        (
            {"completion_tokens": 4, "prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 6},
            (70, 64, 0, 0, 4, 0),
        ),
        (
            {"prompt_tokens": 70, "completion_tokens": 4, "prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 6},
            (70, 64, 0, 0, 4, 0),
        ),
        # new-api in front of Claude
        (
            {
                "prompt_tokens": 3000,
                "completion_tokens": 20,
                "total_tokens": 3020,
                "usage_semantic": "anthropic",
                "prompt_tokens_details": {"cached_tokens": 900, "cached_creation_tokens": 100},
                "claude_cache_creation_5_m_tokens": 40,
                "claude_cache_creation_1_h_tokens": 60,
                "input_tokens": 0,
                "output_tokens": 0,
            },
            (4000, 900, 100, 60, 20, 0),
        ),
        (
            {
                "prompt_tokens": 25,
                "completion_tokens": 206,
                "total_tokens": 231,
                "prompt_tokens_details": {"cached_tokens": 900, "cached_creation_tokens": 100},
            },
            (1025, 900, 100, 0, 206, 0),
        ),
        # a total that shows caches outside the prompt, or one of them
        (
            {
                "prompt_tokens": 25000,
                "completion_tokens": 206,
                "total_tokens": 26653,
                "cache_creation_input_tokens": 1447,
            },
            (26447, 0, 1447, 0, 206, 0),
        ),
        (
            {
                "prompt_tokens": 5000,
                "completion_tokens": 206,
                "total_tokens": 5306,
                "prompt_tokens_details": {"cached_tokens": 900, "cache_creation_tokens": 100},
            },
            (5100, 900, 100, 0, 206, 0),
        ),
        (
            {"prompt_tokens": 5000, "completion_tokens": 60, "total_tokens": 6010, **CACHE, **REASONED},
            (5900, 900, 0, 0, 110, 50),
        ),
        # Anthropic's own object passed on, with and without a total that decides
        (
            {"input_tokens": 60000, "cache_read_input_tokens": 50000, "output_tokens": 300},
            (110000, 50000, 0, 0, 300, 0),
        ),
        (
            {"input_tokens": 60000, "cache_read_input_tokens": 50000, "output_tokens": 300, "total_tokens": 60300},
            (60000, 50000, 0, 0, 300, 0),
        ),
        # an explicit zero is a number
        ({"prompt_tokens": 12, "completion_tokens": 0, "total_tokens": 12}, (12, 0, 0, 0, 0, 0)),
        # the prompt is what the total leaves
        ({"completion_tokens": 4, "total_tokens": 30}, (26, 0, 0, 0, 4, 0)),
    ],
)
def test_chat_shapes(reported, expected):
    assert read_usage(OPENAI, chat(**reported)) == usage(expected)
    assert read(OPENAI, {"choices": [], "usage": reported}) == usage(expected)


@pytest.mark.parametrize(
    ("semantics", "expected"),
    [
        ("", 6394),  # nothing shows that the prompt leaves the cache out
        ("auto", 6394),
        ("inclusive", 6394),
        ("openai", 6394),
        ("exclusive", 12666),
        ("anthropic", 12666),
    ],
)
def test_an_upstreams_switch_decides_for_chat(semantics, expected):
    report = chat(prompt_tokens=6394, completion_tokens=3, total_tokens=6397, cached_tokens=6272)

    assert read_usage(OPENAI, report, semantics) == usage((expected, 6272, 0, 0, 3, 0))


def test_the_switch_overrules_the_reports_own_word():
    report = chat(prompt_tokens=6394, completion_tokens=3, cached_tokens=6272, usage_semantic="anthropic")

    assert read_usage(OPENAI, report, "inclusive") == usage((6394, 6272, 0, 0, 3, 0))
    assert read_usage(OPENAI, report) == usage((12666, 6272, 0, 0, 3, 0))


@pytest.mark.parametrize("kept", ["embedding", "rerank"])
def test_answers_without_output_imply_zero(kept):
    items = {"embedding": {"data": [{"embedding": [0.1]}]}, "rerank": {"results": [{"index": 0}]}}[kept]

    assert read_usage(OPENAI, {**items, "usage": {"prompt_tokens": 8}}) == usage((8, 0, 0, 0, 0, 0))
    assert read_usage(OPENAI, {**items, "usage": {"total_tokens": 8}}) == usage((8, 0, 0, 0, 0, 0))


def test_images_with_output_alone():
    answer = {"data": [{"url": "x"}], "usage": {"generated_images": 1, "output_tokens": 4096, "total_tokens": 4096}}

    assert read_usage(OPENAI, answer) == usage((0, 0, 0, 0, 4096, 0))


@pytest.mark.parametrize(
    "event",
    [
        {"type": "transcript.text.done", "text": "hi"},
        {"type": "image_generation.completed"},
        {"type": "speech.audio.done"},
        {"text": "hi"},
    ],
)
def test_media_answers_metered_in_tokens(event):
    reported = {
        "type": "tokens",
        "input_tokens": 14,
        "input_token_details": {"text_tokens": 10, "audio_tokens": 4},
        "output_tokens": 45,
        "total_tokens": 59,
    }

    assert read(OPENAI, {**event, "usage": reported}) == usage((14, 0, 0, 0, 45, 0))


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"usage": None},
        {"usage": {}},
        {"usage": []},
        {"usage": "12"},
        {"choices": None, "usage": None},
        {"choices": [None, {"usage": None}]},
        {"object": "response.input_tokens", "input_tokens": 11},
        {"usage": {"type": "duration", "seconds": 12.5}},
        {"usage": {"prompt_tokens": None, "completion_tokens": None, "total_tokens": None}},
    ],
)
@pytest.mark.parametrize("dialect", list(Dialect))
def test_nothing_reported_is_none(dialect, answer):
    assert read_usage(dialect, answer) is None


@pytest.mark.parametrize("bad", [-1, 12.0, 1.5, True, False, "12", "", 10**9, 2**63, [1], {"n": 1}])
def test_a_number_that_cannot_be_is_unknown_and_flagged(bad):
    partial = UsageSource.PARTIAL

    assert read_usage(OPENAI, chat(prompt_tokens=bad, completion_tokens=4, total_tokens=9)) == usage(
        (None, 0, 0, 0, 4, 0), "bad_number:input", source=partial
    )
    assert read_usage(OPENAI, chat(prompt_tokens=5, completion_tokens=bad, total_tokens=9)) == usage(
        (5, 0, 0, 0, None, 0), "bad_number:output", source=partial
    )
    assert read_usage(OPENAI, chat(prompt_tokens=5, completion_tokens=4, total_tokens=bad)) == usage(
        (5, 0, 0, 0, 4, 0), "bad_number:total"
    )
    assert read_usage(OPENAI, chat(prompt_tokens=5, completion_tokens=4, cached_tokens=bad)) == usage(
        (5, None, 0, 0, 4, 0), "bad_number:cached"
    )
    assert read_usage(
        OPENAI, chat(prompt_tokens=5, completion_tokens=4, total_tokens=20, reasoning_tokens=bad)
    ) == usage((5, 0, 0, 0, 4, None), "bad_number:reasoning")
    assert read_usage(OPENAI, chat(completion_tokens=bad, total_tokens=20)) == usage(
        (None,) * 6, "bad_number:output", "total_only", source=UsageSource.NONE
    )


def test_every_number_bad_is_no_usage_with_flags():
    assert read_usage(OPENAI, chat(prompt_tokens="5", completion_tokens="4")) == usage(
        (None,) * 6, "bad_number:input", "bad_number:output", source=UsageSource.NONE
    )


def test_a_good_name_stands_in_for_a_bad_one():
    assert read_usage(
        OPENAI, chat(prompt_tokens=5, completion_tokens=4, cached_tokens=3, num_cached_tokens=-1)
    ) == usage((5, 3, 0, 0, 4, 0), "bad_number:cached")


def test_a_total_alone_says_nothing_about_a_chat():
    assert read_usage(OPENAI, chat(total_tokens=100)) == usage((None,) * 6, "total_only", source=UsageSource.NONE)


def test_only_zeros_are_reported_and_flagged():
    assert read_usage(OPENAI, chat(prompt_tokens=0, completion_tokens=0, total_tokens=0)) == usage(
        (0, 0, 0, 0, 0, 0), "all_zero"
    )


@pytest.mark.parametrize(
    ("content", "expected", "source"),
    [("ok", None, UsageSource.PARTIAL), (None, 0, UsageSource.UPSTREAM)],
)
def test_a_missing_output_is_zero_only_beside_no_content(content, expected, source):
    assert read_usage(OPENAI, chat(content, prompt_tokens=12, total_tokens=12)) == usage(
        (12, 0, 0, 0, expected, 0), source=source
    )


def test_a_missing_output_is_what_the_total_leaves():
    assert read_usage(OPENAI, chat(prompt_tokens=12, total_tokens=20)) == usage((12, 0, 0, 0, 8, 0))
    assert read_usage(OPENAI, chat(prompt_tokens=12, total_tokens=20, reasoning_tokens=30)) == usage(
        (12, 0, 0, 0, 30, 30)
    )
    assert read_usage(OPENAI, chat(prompt_tokens=12)) == usage((12, 0, 0, 0, None, 0), source=UsageSource.PARTIAL)
