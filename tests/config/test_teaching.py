"""A list without rows says what it is for, and offers the next step to those who may take it."""

import pytest
from django.apps import apps
from django.contrib import admin
from django.urls import reverse

from config.teaching import EMPTY_LISTS
from tests import factories
from tests.config.admin_world import member, person

pytestmark = pytest.mark.django_db


def listed(client, label, query=""):
    name = label.lower().replace(".", "_")
    return client.get(reverse(f"admin:{name}_changelist") + query).content.decode()


def test_every_page_of_the_menu_has_its_words():
    # Attempts, deliveries, notices and members are read on the pages that they belong to.
    apart = {
        "billing.Attempt", "billing.BudgetAlert", "tenants.AlertDelivery", "routing.GroupMember", "routing.LineRoute",
    }  # fmt: skip
    assert set(EMPTY_LISTS) <= {model._meta.label for model in apps.get_models()}
    assert {model._meta.label for model in admin.site._registry} - apart <= set(EMPTY_LISTS)


def test_an_empty_list_teaches_and_offers_the_next_step(client):
    client.force_login(person("root", is_superuser=True))
    page = listed(client, "keys.Upstream")
    assert "one address that answers" in page
    assert '<a class="button" href="/admin/keys/upstream/add/">Add upstream</a>' in page


def test_who_may_not_add_is_offered_nothing(client):
    client.force_login(member(factories.TenantFactory(), "viewer"))
    page = listed(client, "keys.Upstream")
    assert "one address that answers" in page
    assert 'class="button"' not in page
    page = listed(client, "billing.RequestRecord")
    assert "No requests in the last seven days" in page
    assert "Create a gateway key" not in page


def test_a_search_without_hits_is_no_empty_list(client):
    factories.UpstreamFactory(name="relay-a")
    client.force_login(person("root", is_superuser=True))
    assert "Nothing here yet" not in listed(client, "keys.Upstream", "?q=nowhere")
    assert "Nothing here yet" not in listed(client, "keys.Upstream")
