"""The page of a request that got another's answer again names that one."""

import pytest
from django.urls import reverse

from tests import factories
from tests.config.admin_world import member, team

pytestmark = pytest.mark.django_db


def shown(client, record):
    answer = client.get(reverse("admin:billing_requestrecord_change", args=[record.pk]))
    assert answer.status_code == 200
    return answer.content.decode()


def test_a_replay_links_to_its_request(client):
    alpha, bravo = team("alpha"), team("bravo")
    client.force_login(member(alpha.tenant, "viewer"))
    original = alpha.rows["billing.RequestRecord"]
    replay = factories.RecordFactory(line=alpha.line, replay_of=original.request_id, charge=0)
    page = shown(client, replay)
    assert "Replay of" in page
    assert f'href="{reverse("admin:billing_requestrecord_change", args=[original.pk])}"' in page
    assert "Replay of" not in shown(client, original)
    theirs = bravo.rows["billing.RequestRecord"]
    other = factories.RecordFactory(line=alpha.line, replay_of=theirs.request_id, charge=0)
    page = shown(client, other)
    assert theirs.request_id in page
    assert reverse("admin:billing_requestrecord_change", args=[theirs.pk]) not in page
