"""Classification must rest on families of codes and words, not on the strings of the corpus.

tests/cases/upstream_wordings.jsonl holds answers that the corpus does not have: other numbers, paraphrases, wrappers,
evidence in headers only. `expected` is `class scope [reason]`; `a|b` = either, `*` = any. A str body is sent as it is.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from keys.core.classify import classify
from keys.core.outcome import Reply

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
CASES = Path(__file__).parents[2] / "cases" / "upstream_wordings.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in CASES.read_text().splitlines()]


@pytest.mark.parametrize("row", [pytest.param(row, id=row["id"]) for row in ROWS])
def test_a_paraphrase_means_the_same(row: dict[str, Any]) -> None:
    body = row["body"] if isinstance(row["body"], str) else json.dumps(row["body"], ensure_ascii=False)
    outcome = classify(Reply(row["status"], row["headers"], body.encode()), now=NOW)
    cause, scope, *reason = row["expected"].split()
    assert cause == "*" or outcome.cause in cause.split("|"), outcome
    if scope != "*":
        assert outcome.scope == scope, outcome
        assert outcome.reason == "".join(reason), outcome


def test_there_are_enough_of_them_and_each_class_is_among_them() -> None:
    assert len(ROWS) > 300
    assert len({row["expected"].split()[0] for row in ROWS}) >= 13
