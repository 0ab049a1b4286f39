"""An upstream's wording goes into rows, logs and mails: whatever it holds, they must take it."""

import json
from datetime import UTC, datetime

import pytest

from keys.core.classify import MAX_MESSAGE, classify
from keys.core.outcome import Reply

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


def told(message):
    return classify(Reply(500, body=json.dumps({"error": {"message": message}}).encode()), now=NOW).message


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("a\x00b", "ab"),
        ("half \ud83d", "half ?"),
        ("bell\x07 \x7f", "bell "),
        ("two\n  lines\r\n\tand a tab", "two lines and a tab"),
        ("余额不足 🚂", "余额不足 🚂"),
        ("plain", "plain"),
    ],
)
def test_messages_are_one_line_that_everything_takes(message, shown):
    assert told(message) == shown


def test_they_are_short():
    assert told("x" * 2000) == "x" * MAX_MESSAGE
