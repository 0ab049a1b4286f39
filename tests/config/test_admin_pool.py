"""The pool page, its fragment, and pasting many keys."""

import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from keys.models import UpstreamKey
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
