"""A state is told once it has held at every look, and its end once that has held."""

import threading
from datetime import timedelta

import pytest
from django.db import connections

from tenants.alerts import Words, forget_others, open_alert, watch_alert
from tenants.models import Alert, AlertDelivery, AlertKind, AlertWatch
from tests.factories import NOON, TenantFactory

pytestmark = pytest.mark.django_db
KIND = AlertKind.LOW_POOL


@pytest.fixture
def tenant():
    return TenantFactory(alert_emails=["a@example.com"])


def looks(tenant, *seen, subject="group:1"):
    """Each is (seconds after noon, wrong)."""
    for second, wrong in seen:
        watch_alert(
            tenant=tenant, kind=KIND, subject=subject, wrong=wrong, now=NOON + timedelta(seconds=second),
            words=lambda since: Words(f"since {since:%H:%M:%S}", {"n": 1}),
        )  # fmt: skip


def told():
    """(occasion, seconds after noon) of each mail."""
    rows = AlertDelivery.objects.order_by("pk").values_list("occasion", "created")
    return [(occasion, (created - NOON).total_seconds()) for occasion, created in rows]


def test_what_holds_for_two_minutes_is_told_once_and_its_end_alike(tenant):
    looks(tenant, (0, True), (30, True), (60, True), (119, True))
    assert told() == []
    looks(tenant, (120, True), (150, True), (600, None), (630, True))
    alert = Alert.objects.get()
    assert (alert.text, alert.details, alert.closed) == ("since 12:00:00", {"n": 1}, None)
    looks(tenant, (660, False), (690, False), (779, False))
    assert told() == [("opened", 120)]
    looks(tenant, (780, False), (900, False), (2000, False))
    assert told() == [("opened", 120), ("resolved", 780)]
    assert not AlertWatch.objects.exists()


def test_what_comes_and_goes_is_not_told(tenant):
    for start in range(0, 3600, 180):
        looks(tenant, (start, True), (start + 60, True), (start + 119, True), (start + 120, False))
    assert told() == []
    assert not AlertWatch.objects.exists()


def test_an_end_that_does_not_hold_is_none(tenant):
    looks(tenant, (0, True), (120, True))
    for start in range(150, 3600, 120):
        looks(tenant, (start, False), (start + 60, False), (start + 90, True))
    assert told() == [("opened", 120)]
    assert Alert.objects.get().closed is None


def test_undecided_keeps_what_was(tenant):
    looks(tenant, (0, None), (60, None))
    assert not AlertWatch.objects.exists()
    looks(tenant, (90, True), (120, None), (209, None))
    assert told() == []
    looks(tenant, (210, None))
    assert told() == [("opened", 210)]
    looks(tenant, (240, False), (300, None), (360, None))
    assert told() == [("opened", 210), ("resolved", 360)]


def test_nothing_is_concluded_over_a_time_in_which_nobody_looked(tenant):
    looks(tenant, (0, True), (301, True))
    assert told() == []
    looks(tenant, (421, True))
    assert told() == [("opened", 421)]
    looks(tenant, (450, False), (4000, False))
    assert told() == [("opened", 421)]
    looks(tenant, (4120, False))
    assert told()[1:] == [("resolved", 4120)]


def test_a_late_or_second_look_changes_nothing(tenant):
    looks(tenant, (0, True), (60, True), (30, False), (60, True), (120, True), (120, True), (60, False))
    assert told() == [("opened", 120)]


def test_each_subject_is_its_own(tenant):
    looks(tenant, (0, True), (120, True))
    looks(tenant, (0, True), (119, True), subject="group:2")
    assert list(Alert.objects.values_list("subject", flat=True)) == ["group:1"]
    assert AlertWatch.objects.count() == 2


def test_what_is_gone_is_over(tenant):
    for subject in ("group:1", "upstream:2", "group:3"):
        looks(tenant, (0, True), (120, True), subject=subject)
    open_alert(tenant=TenantFactory(), kind=KIND, subject="group:1", text="another team's", now=NOON)
    forget_others(tenant=tenant, kind=KIND, subjects=["group:3"], now=NOON, within="group:")
    still = Alert.objects.filter(closed=None).order_by("pk").values_list("subject", flat=True)
    assert list(still) == ["upstream:2", "group:3", "group:1"]
    assert sorted(AlertWatch.objects.values_list("subject", flat=True)) == ["group:3", "upstream:2"]
    assert [occasion for occasion, _at in told()].count("resolved") == 1


@pytest.mark.django_db(transaction=True)
def test_lookers_at_once_tell_once():
    tenant = TenantFactory(alert_emails=["a@example.com"])
    for seen in ((0, True), (120, True), (150, False), (270, False)):
        at_once(lambda seen=seen: looks(tenant, seen))
    assert told() == [("opened", 120), ("resolved", 270)]


def at_once(work, count=6):
    gate, done = threading.Barrier(count), []

    def run():
        try:
            gate.wait(10)
            work()
            done.append(True)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(done) == count
