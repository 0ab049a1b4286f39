"""Every labelled usage shape, read as the proxy reads it."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from billing.core.usage import NO_USAGE, Usage, UsageMeter, read_usage
from keys.core.dialect import Dialect

CORPUS = Path(__file__).parents[2] / "corpus" / "usage_shapes.jsonl"
SHAPES = [json.loads(line) for line in CORPUS.read_text().splitlines()]
DIALECTS = {
    "openai_responses": Dialect.RESPONSES,
    "anthropic_messages": Dialect.ANTHROPIC,
    "gemini": Dialect.GEMINI,
}


def used(shape: dict[str, Any]) -> Usage | None:
    dialect = DIALECTS.get(shape["protocol"], Dialect.OPENAI)
    if not shape["stream"]:
        return read_usage(dialect, shape["payload"])
    meter = UsageMeter(dialect)
    for line in shape["payload"]:
        data = line.removeprefix("data:").strip()
        if line.startswith("data:") and data != "[DONE]":
            meter.feed(json.loads(data))
    return meter.result()


def test_the_corpus_is_read_whole():
    assert len(SHAPES) == 58


@pytest.mark.parametrize("shape", SHAPES, ids=[shape["id"] for shape in SHAPES])
def test_shape(shape):
    found = asdict(used(shape) or NO_USAGE)

    assert {name: found[name] for name in shape["expected"]} == shape["expected"]
    assert found["flags"] == ()


@pytest.mark.parametrize(
    ("shape_id", "expected"),
    [
        ("anth-cache-read-and-write-split", 1500),
        ("anth-thinking-details", 48009),
        ("chat-dashscope-cache-creation", 0),
        ("resp-cache-write-ttl", 0),  # 30 min and 12 h: neither is the hour
    ],
)
def test_the_hour_part_of_the_writes(shape_id, expected):
    (shape,) = [shape for shape in SHAPES if shape["id"] == shape_id]

    found = used(shape)

    assert found is not None
    assert found.cache_write_1h_tokens == expected


@pytest.mark.parametrize(
    ("shape_id", "expected"),
    [
        ("chat-openrouter-cost", "0.092374"),  # not BYOK: the upstream's cost is the same money
        ("chat-stream-openrouter-byok", "0.0236"),
        ("chat-basic", "None"),
    ],
)
def test_the_cost_that_the_provider_states(shape_id, expected):
    (shape,) = [shape for shape in SHAPES if shape["id"] == shape_id]

    found = used(shape)

    assert found is not None
    assert str(found.reported_cost_usd) == expected
