"""Opened once per state entry, closed once; each address is told of both."""

import threading
from datetime import timedelta

import pytest
from django.db import connection

from tenants.alerts import close_alert, open_alert
from tenants.models import Alert, AlertDelivery, AlertKind
from tests.factories import NOON, TenantFactory

pytestmark = pytest.mark.django_db
LATER = NOON + timedelta(hours=1)


@pytest.fixture(autouse=True)
def ops(settings):
    settings.OPS_EMAILS = ["ops@example.com"]


@pytest.fixture
def tenant():
    return TenantFactory(alert_emails=["a@example.com", "ops@example.com"], alert_webhook="https://hooks.example.com/x")


def opened(tenant, subject="key:1", kind=AlertKind.KEY_DEAD, **details):
    return open_alert(tenant=tenant, kind=kind, subject=subject, text="it is dead", now=NOON, **details)


def closed(tenant, subject="key:1", kind=AlertKind.KEY_DEAD, now=LATER):
    return close_alert(tenant=tenant, kind=kind, subject=subject, now=now)


def told(occasion):
    return sorted(AlertDelivery.objects.filter(occasion=occasion).values_list("channel", "target"))


EVERYBODY = [("mail", "a@example.com"), ("mail", "ops@example.com"), ("webhook", "https://hooks.example.com/x")]


def test_opening_queues_one_delivery_for_each_address(tenant):
    alert = opened(tenant, name="k1")
    assert (alert.text, alert.opened, alert.closed, alert.details) == ("it is dead", NOON, None, {"name": "k1"})
    assert told("opened") == EVERYBODY
    rows = AlertDelivery.objects.all()
    assert {(row.status, row.tries, row.due) for row in rows} == {("pending", 0, NOON)}


def test_a_second_opening_changes_nothing(tenant):
    opened(tenant)
    assert opened(tenant) is None
    assert (Alert.objects.count(), AlertDelivery.objects.count()) == (1, 3)


@pytest.mark.parametrize("other", [{"subject": "key:2"}, {"kind": AlertKind.QUOTA}])
def test_another_subject_or_kind_is_another_alert(tenant, other):
    opened(tenant)
    assert opened(tenant, **other) is not None
    assert Alert.objects.count() == 2


def test_another_teams_is_its_own(tenant):
    opened(tenant)
    other = TenantFactory()
    assert opened(other) is not None
    assert closed(other) is True
    assert Alert.objects.get(tenant=tenant).closed is None


def test_closing_tells_the_same_addresses_once(tenant):
    opened(tenant)
    assert (closed(tenant), closed(tenant)) == (True, False)
    assert Alert.objects.get().closed == LATER
    assert told("resolved") == EVERYBODY


def test_closing_what_is_not_open_does_nothing(tenant):
    assert closed(tenant) is False
    assert AlertDelivery.objects.count() == 0


def test_a_closed_one_may_open_again(tenant):
    opened(tenant)
    closed(tenant)
    assert opened(tenant) is not None
    assert Alert.objects.filter(closed=None).count() == 1


def test_a_clock_that_steps_back_closes_no_earlier_than_it_opened(tenant):
    opened(tenant)
    assert closed(tenant, now=NOON - timedelta(hours=5)) is True
    assert Alert.objects.get().closed == NOON


def test_the_platforms_own_go_to_the_operators():
    assert opened(None, kind=AlertKind.MAIL, subject="mail") is not None
    assert opened(None, kind=AlertKind.MAIL, subject="mail") is None
    assert told("opened") == [("mail", "ops@example.com")]
    assert closed(None, kind=AlertKind.MAIL, subject="mail") is True


def test_nobody_to_tell_is_no_error(settings):
    settings.OPS_EMAILS = []
    assert opened(TenantFactory()) is not None
    assert AlertDelivery.objects.count() == 0


@pytest.mark.django_db(transaction=True)
def test_several_that_notice_at_once_open_one():
    tenant = TenantFactory(alert_emails=["a@example.com"])
    made, start = [], threading.Barrier(4)

    def notice():
        start.wait(5)
        made.append(opened(tenant))
        connection.close()

    threads = [threading.Thread(target=notice) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(alert is not None for alert in made) == 1
    assert (Alert.objects.count(), AlertDelivery.objects.count()) == (1, 2)
