"""The page of an upstream key tells what happened to it: changes of state and the latest tries, with evidence."""

import re
from datetime import timedelta
from html import unescape

import pytest
from django.urls import reverse
from django.utils.html import strip_tags
from django.utils.timezone import now

from billing.tries import LOOKED_AT, tries_of
from keys.core.outcome import Cause
from keys.core.state import KeyState, Rest
from keys.core.stored import dumped
from keys.models import KeyEvent, StoredState
from tests import factories
from tests.config.admin_world import member, team

pytestmark = pytest.mark.django_db


@pytest.fixture
def alpha():
    made = team("alpha")
    KeyEvent.objects.all().delete()
    return made


@pytest.fixture
def key(alpha):
    return alpha.rows["keys.UpstreamKey"]


def page(client, alpha, key, role="admin"):
    client.force_login(member(alpha.tenant, role))
    return client.get(reverse("admin:keys_upstreamkey_change", args=[key.pk])).content.decode()


def words(text):
    return re.sub(r"\s+", " ", unescape(strip_tags(text.replace("<", " <"))))


def happened(alpha, **fields):
    return KeyEvent.objects.create(tenant=alpha.tenant, before="healthy", **fields)


def tried(alpha, key, n=1, **fields):
    record = factories.RecordFactory(line=alpha.line, created=now(), request_id=f"req_{n}")
    return factories.AttemptFactory(record=record, n=1, upstream_key_id=key.pk, **fields)


def test_a_key_without_history_says_what_will_stand_there(client, alpha, key):
    text = words(page(client, alpha, key))
    assert "Its state and that of its account have not changed yet." in text
    assert "No call has come to this key yet." in text


def test_failures_that_changed_no_state_are_there_with_what_the_upstream_said(client, alpha, key):
    attempt = tried(alpha, key, outcome="server_error", status=500, message="boom <b>", model_sent="gpt-4o", ms=340)
    tried(alpha, key, 2, outcome="served", status=200)
    tried(alpha, key, 3, outcome="", skipped="cooling")
    html = page(client, alpha, key, "viewer")
    text = words(html)
    assert "1 served, 1 failed and 1 passed over, of the latest 3." in text
    assert re.search(r"✕ server error HTTP 500 · boom <b> gpt-4o 340 req_1", text)
    assert "boom <b>" not in html
    assert reverse("admin:billing_requestrecord_change", args=[attempt.record_id]) in html


def test_what_client_or_person_broke_off_is_no_failure_of_the_key(client, alpha, key):
    tried(alpha, key, outcome="aborted", status=200)
    tried(alpha, key, 2, outcome="served", status=200)
    text = words(page(client, alpha, key))
    assert "1 served, 0 failed and 0 passed over, of the latest 2. 1 was broken off by its client or a person." in text
    assert "○ broken off HTTP 200" in text


def test_other_keys_tries_are_not_its_own(client, alpha, key):
    tried(alpha, factories.UpstreamKeyFactory(upstream=key.upstream), outcome="server_error", status=500)
    assert "No call has come to this key yet." in words(page(client, alpha, key))


def test_what_befell_its_account_is_its_history_too(client, alpha, key):
    until = now() + timedelta(minutes=30)
    happened(alpha, account=key.account, after="cooling", reason="insufficient_balance", message="empty", until=until)
    happened(alpha, upstream_key=key, after="dead", reason="auth_invalid", message="bad <key>", request_id="req_9")
    happened(alpha, account=factories.AccountFactory(tenant=alpha.tenant), after="dead", message="elsewhere")
    html = page(client, alpha, key)
    text = words(html)
    assert f"◐ cooling · account alpha-account · no balance · empty · until {until:%Y-%m-%d %H:%M} UTC" in text
    assert "✕ dead · credentials refused · bad <key> · req_9" in text
    assert "elsewhere" not in text
    assert "bad <key>" not in html
    assert "?q=req_9" in html


def test_resting_models_are_told_with_their_time(client, alpha, key):
    rest = Rest("gpt-<4>", now() + timedelta(seconds=500), Cause.QUOTA_EXHAUSTED)
    StoredState.objects.create(target=f"key:{key.pk}", data={"state": dumped(KeyState(models=(rest,)))})
    html = page(client, alpha, key)
    text = words(html)
    assert "healthy but for 1 model" in text
    assert "gpt-<4> rests (quota used up): 8 min" in text
    assert "gpt-<4>" not in html


def test_the_look_is_bounded_and_costs_one_query(alpha, key, django_assert_num_queries):
    record = factories.RecordFactory(line=alpha.line)
    for n in range(1, 4):
        factories.AttemptFactory(record=record, n=n, upstream_key_id=key.pk, skipped="dead", outcome="")
    with django_assert_num_queries(1):
        found = tries_of(key.pk)
    assert (found.shown, found.skipped, found.looked_at) == ([], 3, 3)
    assert found.looked_at < LOOKED_AT
