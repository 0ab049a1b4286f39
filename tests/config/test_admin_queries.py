"""Lists cost the same number of queries whatever they hold, and never a full count."""

from datetime import date, timedelta

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from billing.admin.periods import PeriodFilter
from keys.models import WordingRule
from tenants.adminbase import COUNT_CAP, CappedPaginator
from tenants.models import BusinessLine
from tests import factories
from tests.config.admin_world import member, person, team

pytestmark = pytest.mark.django_db

MODELS = sorted(admin.site._registry, key=lambda model: model._meta.label)


def queries(client, address):
    with CaptureQueriesContext(connection) as caught:
        answer = client.get(address)
    assert answer.status_code == 200, address
    return [query["sql"] for query in caught.captured_queries]


def lists(client):
    """Return each list's number of queries and of rows; of all time where a list is cut to a period."""
    found = {}
    for model in MODELS:
        page = admin.site._registry[model]
        query = "?period=all" if PeriodFilter in page.list_filter else ""
        address = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist") + query
        with CaptureQueriesContext(connection) as caught:
            answer = client.get(address)
        found[model._meta.label] = (len(caught), answer.context["cl"].result_count)
    return found


def shared(number):
    """A row in each table that no team owns."""
    factories.ExchangeRateFactory(starts=date(2026, 1, 1) + timedelta(days=number))
    WordingRule.objects.create(name=f"rule-{number}", pattern=f"no more credit {number}", cause="insufficient_balance")
    Group.objects.create(name=f"group {number}")


def test_every_list_costs_the_same_for_two_rows_and_for_thirty(client):
    client.force_login(person("root", is_superuser=True))
    for number in range(2):
        team(f"team-{number:02}")
        shared(number)
    lists(client)  # what is read once per process
    few = lists(client)
    for number in range(2, 30):
        team(f"team-{number:02}")
        shared(number)
    many = lists(client)
    assert {label: cost for label, (cost, _rows) in many.items()} == {label: cost for label, (cost, _) in few.items()}
    assert {label: rows for label, (_cost, rows) in few.items() if not 2 <= rows < 30} == {}
    assert {label: rows for label, (_cost, rows) in many.items() if rows < 30} == {}
    assert max(cost for cost, _rows in few.values()) <= 12


def test_the_request_page_costs_the_same_for_one_try_and_for_nine(client):
    alpha = team("alpha")
    client.force_login(member(alpha.tenant, "viewer"))
    record = alpha.rows["billing.RequestRecord"]
    page = reverse("admin:billing_requestrecord_change", args=[record.pk])
    queries(client, page)
    few = len(queries(client, page))
    for n in range(2, 10):
        factories.AttemptFactory(record=record, n=n)
    assert len(queries(client, page)) == few


def test_the_list_of_requests_is_bounded_by_days_and_counts_no_more_than_the_cap(client, monkeypatch):
    alpha = team("alpha")
    client.force_login(member(alpha.tenant, "viewer"))
    factories.RecordFactory.create_batch(51, line=alpha.line, created=timezone.now())
    page = reverse("admin:billing_requestrecord_changelist")
    asked = [sql for sql in queries(client, page) if "requestrecord" in sql]
    sums = [sql for sql in asked if "GROUP BY" in sql]
    assert len(sums) == 1  # a list shorter than the cap is added up
    monkeypatch.setattr("tenants.adminbase.COUNT_CAP", 51)
    asked = [sql for sql in queries(client, page) if "requestrecord" in sql]
    assert asked
    for sql in asked:
        assert '"day" >=' in sql
        assert "LIMIT" in sql


def test_a_request_is_found_by_its_whole_id_by_the_unique_index(client):
    alpha = team("alpha")
    client.force_login(member(alpha.tenant, "viewer"))
    record = alpha.rows["billing.RequestRecord"]  # older than the default period
    page = reverse("admin:billing_requestrecord_changelist") + f"?q={record.request_id}"
    assert record.request_id in client.get(page).content.decode()
    assert any(f"\"request_id\" = '{record.request_id}'" in sql for sql in queries(client, page))


def test_the_paginator_stops_counting(monkeypatch):
    monkeypatch.setattr("tenants.adminbase.COUNT_CAP", 2)
    factories.LineFactory.create_batch(3)
    capped = CappedPaginator(BusinessLine.objects.order_by("pk"), 1)
    assert (capped.count, capped.capped, capped.num_pages) == (2, True, 2)
    assert COUNT_CAP == 5000
