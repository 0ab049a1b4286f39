import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command

from keys.core.counts import Counts
from keys.core.outcome import Cause, Outcome, Scope, Verdict
from keys.core.state import KeyState, Rest, Status
from keys.core.stored import dumped
from keys.models import StoredState
from keys.overview import dumps, overview, text_lines
from tests.factories import NOON, AccountFactory, TenantFactory, UpstreamFactory, UpstreamKeyFactory

pytestmark = pytest.mark.django_db
UNTIL = NOON + timedelta(seconds=90)


@pytest.fixture
def key():
    upstream = UpstreamFactory(tenant=TenantFactory(slug="acme"), name="relay")
    account = AccountFactory(tenant=upstream.tenant, name="wallet")
    return UpstreamKeyFactory(upstream=upstream, name="a1", account=account, secret="sk-0123456789abcdef0123456789")


def store(target, state):
    StoredState.objects.create(target=target, data={"state": dumped(state)})


def row(now=NOON):
    (found,) = overview(now=now)
    return found


def test_a_key_never_used_is_healthy(key):
    found = row()
    named = {name: found[name] for name in ("tenant", "upstream", "key", "account", "tail", "enabled")}
    assert named == {
        "tenant": "acme", "upstream": "relay", "key": "a1", "account": "wallet", "tail": "456789", "enabled": True,
    }  # fmt: skip
    assert (found["status"], found["cooling_left_s"], found["reason"], found["models"]) == ("healthy", 0.0, "", {})
    assert (found["strikes"], found["trips"], found["calls"], found["failure_rate_1h"]) == (0, 0, 0, 0.0)


def test_a_cooling_runs_down(key):
    store(f"key:{key.pk}", KeyState(status=Status.COOLING, cause=Cause.RATE_LIMITED, until=UNTIL, since=NOON, trips=2))
    assert (row()["status"], row()["cooling_left_s"], row()["reason"]) == ("cooling", 90.0, "rate_limited")
    later = row(UNTIL)
    assert (later["status"], later["trips"]) == ("healthy", 2)


def test_a_broke_account_shows_at_its_keys(key):
    store(f"account:{key.account_id}", KeyState(status=Status.COOLING, cause=Cause.INSUFFICIENT_BALANCE, until=UNTIL))
    assert (row()["status"], row()["reason"]) == ("cooling", "insufficient_balance")


def test_a_dead_key_has_no_end(key):
    store(f"key:{key.pk}", KeyState(status=Status.DEAD, cause=Cause.AUTH_INVALID, epoch=3))
    assert (row()["status"], row()["cooling_left_s"], row()["epoch"]) == ("dead", 0.0, 3)


def test_resting_models_are_named(key):
    rest = Rest("gpt-4o", UNTIL, Cause.MODEL_UNAVAILABLE)
    over = Rest("gpt-3", NOON, Cause.MODEL_UNAVAILABLE)
    store(f"key:{key.pk}", KeyState(models=(rest, over)))
    assert row()["models"] == {"gpt-4o": {"reason": "model_unavailable", "left_s": 90.0}}


def test_unknown_stored_values_read_as_healthy(key):
    StoredState.objects.create(target=f"key:{key.pk}", data={"state": {"status": "melted"}})
    assert row()["status"] == "healthy"


def test_a_person_sees_the_keys_of_given_teams(key):
    other = UpstreamKeyFactory()
    everything = {found["key"] for found in overview(now=NOON)}
    assert everything == {"a1", other.name}
    assert [found["key"] for found in overview(now=NOON, tenants=[key.upstream.tenant])] == ["a1"]
    assert overview(now=NOON, tenants=[]) == []


def test_no_secret_is_in_it(key):
    text = dumps(overview(now=NOON))
    assert json.loads(text)[0]["tail"] == "456789"
    assert "0123456789abcdef" not in text


class TestLines:
    """What `manage.py pool` prints."""

    def lines(self, now=NOON):
        return list(text_lines(overview(now=now)))

    def test_nothing_is_nothing(self):
        assert self.lines() == []

    def test_one_of_each_is_singular(self, key):
        rest = Rest("gpt-4o", UNTIL, Cause.MODEL_UNAVAILABLE)
        counts = Counts()
        counts.add(Outcome(Cause.SERVED, Verdict.ANSWERED, Scope.NONE), NOON)
        state = dumped(KeyState(strikes=1, trips=1, models=(rest,)))
        StoredState.objects.create(target=f"key:{key.pk}", data={"state": state, "counts": counts.dumped()})
        assert self.lines() == [
            "acme/relay a1 (…456789): healthy; gpt-4o rests 90 s, model_unavailable; 1 strike; 1 trip; "
            "1 call, 0% failed in the last hour",
            "1 key: 1 healthy",
        ]

    def test_several_are_plural_and_counted_by_state(self, key):
        UpstreamKeyFactory(upstream=key.upstream, name="b2", enabled=False, secret="sk-0123456789abcdef0123400000")
        counts = Counts()
        for _ in range(2):
            counts.add(Outcome(Cause.SERVER_ERROR, Verdict.NEXT, Scope.KEY, message="boom"), NOON)
        state = KeyState(status=Status.COOLING, cause=Cause.SERVER_ERROR, until=UNTIL, since=NOON, strikes=2, trips=2)
        StoredState.objects.create(target=f"key:{key.pk}", data={"state": dumped(state), "counts": counts.dumped()})
        assert self.lines() == [
            "acme/relay a1 (…456789): cooling 90 s, server_error; 2 strikes; 2 trips; "
            "2 calls, 100% failed in the last hour; last error: server_error: boom",
            "acme/relay b2 (…400000): off (healthy); 0 calls, 0% failed in the last hour",
            "2 keys: 1 cooling, 1 off",
        ]

    def test_the_command_prints_them(self, key):
        out = StringIO()
        call_command("pool", stdout=out)
        assert out.getvalue().splitlines()[-1] == "1 key: 1 healthy"


def test_its_queries_do_not_grow_with_the_keys(key, django_assert_num_queries):
    for _ in range(5):
        UpstreamKeyFactory(upstream=key.upstream)
    with django_assert_num_queries(2):
        overview(now=NOON)
