"""An operator's wording rules come before the built-in ones."""

from datetime import UTC, datetime

import pytest

from keys.core.classify import classify
from keys.core.outcome import Cause, Reply, Scope
from keys.core.rulebook import DEFAULT_RULES
from keys.models import WordingRule
from keys.wordings import read_rules

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
REPLY = Reply(503, {"x-relay": "nap"}, b'{"error": {"message": "the hamster is asleep", "code": "nap_time"}}')

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("field", "pattern"), [("message", "hamster*asleep"), ("code", "nap_time"), ("header:x-relay", "nap")]
)
def test_a_row_decides(field, pattern):
    assert classify(REPLY, now=NOW, rules=read_rules()).cause is Cause.OVERLOADED
    WordingRule.objects.create(
        name="nap", field=field, pattern=pattern, cause="quota_exhausted", scope="account", reason="nap"
    )
    outcome = classify(REPLY, now=NOW, rules=read_rules())
    assert (outcome.cause, outcome.scope, outcome.evidence) == (Cause.QUOTA_EXHAUSTED, Scope.ACCOUNT, "operator:nap")


@pytest.mark.parametrize(
    "fields",
    [
        {"cause": "no_such_class"},
        {"pattern": "((("},
        {"field": "moon"},
        {"field": "header:"},
        {"scope": "galaxy"},
        {"statuses": ["many"]},
    ],
)
def test_a_row_that_is_not_understood_is_left_out(fields):
    WordingRule.objects.create(**{"name": "odd", "pattern": "x", "cause": "overloaded", **fields})
    assert read_rules() == DEFAULT_RULES


def test_a_row_that_is_switched_off_does_nothing():
    WordingRule.objects.create(name="off", pattern="hamster", cause="quota_exhausted", enabled=False)
    assert read_rules() == DEFAULT_RULES
