"""The request page says in words why a key was passed over and how the conversation was treated."""

import pytest
from django.urls import reverse
from django.utils import translation

from billing.chain import chain_of, session_words
from billing.models import Attempt, RequestRecord
from routing.core.sticky import SessionMark
from tests import factories
from tests.config.admin_world import member


def why(**fields):
    return chain_of(RequestRecord(duration_ms=10), [Attempt(n=1, **fields)])[0].why


def test_a_skip_gives_its_reason_in_words():
    assert why(skipped="cooling", reason="rate_limited") == "rate limited"
    assert why(skipped="cooling", reason="", message="as it was said") == "as it was said"


def test_every_treatment_of_a_conversation_has_words_in_both_languages():
    english = {mark: session_words(mark.value) for mark in SessionMark}
    assert english[SessionMark.NEW] == "begins a conversation"
    assert len(set(english.values())) == len(SessionMark)
    with translation.override("zh-hans"):
        assert all(session_words(mark.value) != english[mark] for mark in SessionMark)
    assert session_words("") == ""


@pytest.mark.django_db
def test_a_replay_is_told_apart_in_the_list(client):
    line = factories.LineFactory()
    factories.RecordFactory(line=line, request_id="req_first")
    factories.RecordFactory(line=line, request_id="req_again", replay_of="req_first")
    client.force_login(member(line.tenant, "viewer"))
    page = client.get(reverse("admin:billing_requestrecord_changelist"), {"period": "all"}).content.decode()
    assert page.count("the earlier answer again") == 1
    assert page.index("req_again") < page.index("the earlier answer again") < page.index("req_first")
