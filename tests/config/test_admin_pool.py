"""The pool page, its fragment, and pasting many keys."""

import json
import re
from datetime import timedelta
from html import unescape

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils.html import strip_tags
from django.utils.timezone import now

from keys.core.counts import Counts
from keys.core.outcome import Cause, Outcome, Scope, Verdict
from keys.core.state import KeyState, Rest, Status
from keys.core.stored import dumped
from keys.models import StoredState, UpstreamKey
from tenants.models import AuditEntry
from tests import factories
from tests.config.admin_world import UPSTREAM_SECRET, member, person, team

pytestmark = pytest.mark.django_db

GOOD = ["sk-pasted-one-00000000001", "sk-pasted-two-00000000002"]


@pytest.fixture
def alpha():
    return team("alpha")


def pool(client, query=""):
    return client.get(reverse("admin:pool") + query)


def test_the_pool_shows_the_own_keys_by_upstream(client, alpha):
    team("bravo")
    client.force_login(member(alpha.tenant, "viewer"))
    answer = pool(client)
    text = answer.content.decode()
    assert [block.upstream.name for block in answer.context["blocks"]] == ["alpha-upstream"]
    assert "bravo" not in text
    assert "Test now" not in text
    assert UPSTREAM_SECRET.format("alpha") not in text


def test_only_those_who_may_write_get_buttons(client, alpha):
    client.force_login(member(alpha.tenant, "admin"))
    text = pool(client).content.decode()
    assert "Test now" in text
    assert "Switch off" in text
    assert "Revive" not in text  # it is healthy


def test_the_fragment_is_the_moving_part_alone(client, alpha):
    client.force_login(member(alpha.tenant, "admin"))
    text = pool(client, "?fragment=1").content.decode()
    assert "alpha-key" in text
    assert "<html" not in text


def test_the_pool_costs_the_same_for_two_keys_and_for_thirty(client, alpha):
    client.force_login(person("root", is_superuser=True))

    def cost():
        with CaptureQueriesContext(connection) as asked:
            assert pool(client).status_code == 200
        return len(asked)

    few = cost()
    for _ in range(4):
        upstream = factories.UpstreamFactory(tenant=alpha.tenant)
        factories.UpstreamKeyFactory.create_batch(7, upstream=upstream)
    assert cost() == few


# --- what a row says ---


def row_of(client, name):
    blocks = pool(client).context["blocks"]
    return next(row for block in blocks for row in block.rows if row.key.name == name)


def words_of(client):
    """The moving part as a person reads it."""
    return re.sub(r"\s+", " ", unescape(strip_tags(pool(client, "?fragment=1").content.decode())))


def stands(key, counts=None, **state):
    data = {"state": dumped(KeyState(**state))} | ({"counts": counts.dumped()} if counts is not None else {})
    StoredState.objects.create(target=f"key:{key.pk}", data=data)


def counted(*outcomes, at=None):
    counts = Counts()
    for cause in outcomes:
        counts.add(Outcome(cause, Verdict.NEXT, Scope.KEY, message="said so"), at or now())
    return counts


@pytest.fixture
def key(client, alpha):
    client.force_login(member(alpha.tenant, "admin"))
    return alpha.rows["keys.UpstreamKey"]


def test_a_key_whose_models_rest_says_so_in_words(client, key):
    rests = [
        Rest("gpt-4o", now() + timedelta(seconds=41), Cause.MODEL_UNAVAILABLE),
        Rest("gpt-5", now() + timedelta(seconds=500), Cause.QUOTA_EXHAUSTED),
        Rest("over", now() - timedelta(seconds=1), Cause.MODEL_UNAVAILABLE),
    ]
    stands(key, models=tuple(rests))
    words = words_of(client)
    assert "healthy but for 2 models" in words
    assert re.search(r"gpt-4o rests \(no such model there\): (40|41) s gpt-5 rests \(quota used up\): 8 min", words)
    assert "over rests" not in words
    assert pool(client).content.decode().count('class="countdown"') == 2


def test_one_resting_model_is_singular(client, key):
    stands(key, models=(Rest("gpt-4o", now() + timedelta(seconds=41), Cause.MODEL_UNAVAILABLE),))
    assert "healthy but for 1 model " in words_of(client)


def test_the_last_hour_is_counted_and_drawn(client, key):
    stands(key, counted(Cause.SERVED, Cause.SERVED, Cause.SERVED, Cause.SERVER_ERROR), strikes=1)
    row = row_of(client, key.name)
    assert row.hour == (4, 1)
    assert [(bar.calls, bar.failed) for bar in row.bars if bar.calls] == [(100, 25)]
    words = words_of(client)
    assert "4 calls, 1 failed" in words
    assert "last error: server error: said so" in words


def test_a_cooling_keys_reason_is_not_its_last_error(client, key):
    state = {"status": Status.COOLING, "cause": Cause.RATE_LIMITED, "until": now() + timedelta(seconds=90)}
    stands(key, counted(Cause.SERVER_ERROR), message="wait 90 s", **state)
    words = words_of(client)
    assert "rate limited: wait 90 s last error: server error: said so" in words
    StoredState.objects.all().delete()
    stands(key, counted(Cause.RATE_LIMITED), message="said so", **state)
    words = words_of(client)
    assert "rate limited: said so" in words
    assert "last error" not in words.replace("why, last error", "")


def test_what_is_older_than_an_hour_counts_in_all_only(client, key):
    stands(key, counted(Cause.SERVED, at=now() - timedelta(hours=2)))
    row = row_of(client, key.name)
    assert (row.hour, row.sheet.calls) == ((0, 0), 1)
    assert 'title="1 call in all">0 calls<' in pool(client).content.decode()


@pytest.mark.parametrize(
    ("policy", "strikes", "shown"),
    [({}, 0, "○○○"), ({}, 2, "●●○"), ({}, 9, "●●●"), ({"strikes": 5}, 2, "●●○○○"), ({"strikes": 50}, 1, "●○○○○○")],
)
def test_strikes_are_dots_of_the_keys_own_policy(client, key, policy, strikes, shown):
    UpstreamKey.objects.filter(pk=key.pk).update(policy=policy)
    stands(key, strikes=strikes)
    assert row_of(client, key.name).strikes == shown


def test_caps_stand_alone_where_no_gateway_runs(client, key):
    UpstreamKey.objects.filter(pk=key.pk).update(rpm=60, concurrency=1)
    assert row_of(client, key.name).caps == ["60 calls/min", "1 at once"]


@pytest.mark.parametrize(
    ("age_h", "probed_h", "served_h", "stale"),
    [(1, None, None, ""), (25, None, None, "25 h"), (99, 23, None, ""), (99, 25, None, "25 h"), (99, 60, 26, "26 h"),
     (99, 60, 2, "")],
)  # fmt: skip
def test_a_spare_without_a_sign_of_life_is_marked(client, key, age_h, probed_h, served_h, stale):
    moment = now()

    def past(hours):
        return None if hours is None else moment - timedelta(hours=hours, seconds=1)

    UpstreamKey.objects.filter(pk=key.pk).update(created=past(age_h), probed=past(probed_h))
    if served_h is not None:
        stands(key, counted(Cause.SERVED, at=past(served_h)))
    words = words_of(client)
    assert ("stale spare" in words) is bool(stale)
    assert not stale or f"stale spare: {stale} without a sign" in words


def test_a_failing_key_is_no_stale_spare_and_neither_is_one_that_is_off(client, key):
    UpstreamKey.objects.filter(pk=key.pk).update(created=now() - timedelta(days=9))
    stands(key, counted(Cause.SERVER_ERROR))
    assert "stale spare" not in words_of(client)
    StoredState.objects.all().delete()
    UpstreamKey.objects.filter(pk=key.pk).update(enabled=False)
    assert "stale spare" not in words_of(client)


def test_refused_credentials_lead_to_a_new_secret(client, alpha, key):
    stands(key, status=Status.DEAD, cause=Cause.AUTH_INVALID)
    address = reverse("admin:keys_upstreamkey_rotate", args=[key.pk])
    assert address in pool(client).content.decode()
    client.force_login(member(alpha.tenant, "viewer"))
    assert address not in pool(client).content.decode()


def test_one_key_is_singular(client, alpha, key):
    assert "1 of 1 key usable" in words_of(client)
    factories.UpstreamKeyFactory(upstream=key.upstream, enabled=False)
    assert "1 of 2 keys usable" in words_of(client)


# --- pasting ---


def test_those_who_may_paste_do_it_beside_the_pool(client, alpha, key):
    page = pool(client).content.decode()
    assert f'action="{reverse("admin:pool_paste")}"' in page
    assert "data-paste" in page
    assert "data-paste" not in pool(client, "?fragment=1").content.decode()
    client.force_login(member(alpha.tenant, "viewer"))
    assert "data-paste" not in pool(client).content.decode()


def paste(client, upstream, lines, **data):
    base = {"upstream": upstream.pk, "name_prefix": "k", "secrets": "\n".join(lines)}
    return client.post(reverse("admin:pool_paste"), base | data)


def test_good_lines_are_stored_and_bad_ones_named_by_number(client, alpha):
    client.force_login(member(alpha.tenant, "admin"))
    upstream = alpha.rows["keys.Upstream"]
    lines = [GOOD[0], "", GOOD[1], GOOD[0], "two words", UPSTREAM_SECRET.format("alpha")]
    answer = paste(client, upstream, lines)
    assert [(line.number, line.problem) for line in answer.context["refused"]] == [
        (4, "the same as line 1"),
        (5, "this contains a space or line break"),
        (6, "the upstream has this key already"),
    ]
    stored = UpstreamKey.objects.filter(upstream=upstream, name__startswith="k").order_by("name")
    assert [(key.name, key.secret) for key in stored] == [("k1", GOOD[0]), ("k2", GOOD[1])]
    text = answer.content.decode() + json.dumps(list(AuditEntry.objects.values()), default=str)
    for secret in [*GOOD, "two words", UPSTREAM_SECRET.format("alpha")]:
        assert secret not in text


def test_names_go_on_where_they_ended(client, alpha):
    client.force_login(member(alpha.tenant, "admin"))
    upstream = alpha.rows["keys.Upstream"]
    assert paste(client, upstream, GOOD[:1]).status_code == 302
    assert paste(client, upstream, GOOD[1:]).status_code == 302
    assert sorted(UpstreamKey.objects.filter(name__startswith="k").values_list("name", flat=True)) == ["k1", "k2"]


def test_keys_are_pasted_into_the_own_team_only(client, alpha):
    bravo = team("bravo")
    client.force_login(member(alpha.tenant, "admin"))
    answer = paste(client, bravo.rows["keys.Upstream"], GOOD)
    assert "upstream" in answer.context["form"].errors
    answer = paste(client, alpha.rows["keys.Upstream"], GOOD, account=bravo.rows["keys.Account"].pk)
    assert "account" in answer.context["form"].errors
    assert "bravo" not in answer.content.decode()
    client.force_login(member(alpha.tenant, "viewer"))
    assert paste(client, alpha.rows["keys.Upstream"], GOOD).status_code == 403
    assert not UpstreamKey.objects.filter(name="k1").exists()
