"""Low pools and failing upstreams, as the sweep finds them in the persisted states."""

from datetime import UTC, datetime, timedelta

import pytest
from django.core import mail

from keys.core.counts import Counts, bucket_of
from keys.core.outcome import Cause
from keys.core.report import account_target, key_target
from keys.core.state import FRESH, KeyState, Status
from keys.core.stored import dumped
from keys.models import StoredState
from keys.watching import watch_upstreams, watched
from routing.models import GroupMember
from routing.watching import watch_pool
from tenants.delivery import due_deliveries, send_delivery
from tenants.models import Alert, AlertDelivery, AlertKind
from tests.factories import (
    AccountFactory,
    GroupFactory,
    MemberFactory,
    RuleFactory,
    TenantFactory,
    UpstreamFactory,
    UpstreamKeyFactory,
)

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.fixture
def tenant(settings):
    settings.POINTSMAN_MAIL_CONFIGURED = True
    settings.POINTSMAN_PUBLIC_URL = "https://gateway.example.com"
    settings.OPS_EMAILS = []
    return TenantFactory(slug="acme", timezone="Asia/Shanghai", alert_emails=["a@example.com"])


def pool(tenant, *counts, group="main"):
    """A group with one upstream per count, each with so many keys; returns all keys."""
    made = GroupFactory(tenant=tenant, name=group)
    keys = []
    for number, count in enumerate(counts, start=1):
        upstream = UpstreamFactory(tenant=tenant, name=f"{group}-u{number}")
        MemberFactory(group=made, upstream=upstream)
        keys += [UpstreamKeyFactory(upstream=upstream, name=f"k{n}") for n in range(count)]
    return keys


def put(target, state=FRESH, counts=None):
    row = {"state": dumped(state)} | ({"counts": counts.dumped()} if counts else {})
    StoredState.objects.update_or_create(target=target, defaults={"data": row})


DEAD = KeyState(status=Status.DEAD, cause=Cause.AUTH_INVALID, since=NOW)
BROKE = KeyState(
    status=Status.COOLING, cause=Cause.INSUFFICIENT_BALANCE, until=NOW + timedelta(hours=1), since=NOW
)  # fmt: skip


def dead(*keys):
    for key in keys:
        put(key_target(key.pk), DEAD)


def healthy(*keys):
    for key in keys:
        put(key_target(key.pk))


def sweep(*minutes):
    for minute in minutes:
        now = NOW + timedelta(minutes=minute)
        seen = watched(now)
        watch_pool(seen, now=now)
        watch_upstreams(seen, now=now)


def still_open(kind=AlertKind.LOW_POOL):
    return list(Alert.objects.filter(kind=kind, closed=None).order_by("subject").values_list("details__of", flat=True))


def test_a_group_with_fewer_than_half_of_its_keys_is_told_of(tenant):
    keys = pool(tenant, 2, 3)
    dead(*keys[:2])
    sweep(0, 2)
    assert still_open() == ["upstream main-u1"]
    dead(keys[2])
    sweep(3, 5, 6)
    assert still_open() == ["group main", "upstream main-u1"]
    healthy(keys[0])
    sweep(7, 9)
    assert still_open() == []
    assert list(AlertDelivery.objects.order_by("pk").values_list("occasion", flat=True)) == [
        "opened", "opened", "resolved", "resolved",
    ]  # fmt: skip


def test_one_alert_where_a_group_is_one_upstream(tenant):
    dead(*pool(tenant, 2))
    sweep(0, 2)
    assert still_open() == ["group main"]


def test_a_single_key_matters_to_the_group_and_to_the_rule_that_depend_on_it(tenant):
    (key, _other) = pool(tenant, 1, 1)
    dead(key)
    sweep(0, 2)
    assert still_open() == []
    RuleFactory(route__tenant=tenant, upstream=key.upstream)
    sweep(3, 5)
    assert still_open() == ["upstream main-u1"]


def test_an_account_takes_all_its_keys_away(tenant):
    keys = pool(tenant, 4)
    account = AccountFactory(tenant=tenant)
    for key in keys[:3]:
        key.account = account
        key.save()
    put(account_target(account.pk), BROKE)
    sweep(0, 2)
    details = Alert.objects.get().details
    assert (details["usable"], details["enabled"], details["dead"]) == (1, 4, 0)
    assert [one["reason"] for one in details["keys"]] == ["insufficient_balance"] * 3
    sweep(61, 63)  # the cooling has ended by itself
    assert still_open() == []


def test_what_is_switched_off_counts_for_nothing(tenant):
    keys = pool(tenant, 4)
    dead(*keys[:3])
    sweep(0, 2)
    assert still_open() == ["group main"]
    for key in keys[:3]:
        key.enabled = False
        key.save()
    sweep(3, 5)
    assert still_open() == []


def test_a_group_that_is_gone_is_over_at_once(tenant):
    dead(*pool(tenant, 1))
    sweep(0, 2)
    assert still_open() == ["group main"]
    GroupMember.objects.all().delete()
    sweep(3)
    assert still_open() == []
    assert AlertDelivery.objects.filter(occasion="resolved").count() == 1


def test_each_team_sees_its_own(tenant):
    other = TenantFactory()
    pool(tenant, 2)
    dead(*pool(other, 2))
    sweep(0, 2)
    assert list(Alert.objects.values_list("tenant", flat=True)) == [other.pk]


def counted(key, calls, failed, at=NOW):
    put(key_target(key.pk), counts=Counts(calls=calls, failures=failed, recent={bucket_of(at): (calls, failed)}))


def test_an_upstream_at_which_much_fails_is_told_of_until_it_is_better(tenant):
    one, two, _other = pool(tenant, 2, 1)
    counted(one, 12, 2)
    counted(two, 12, 3)
    sweep(0, 2)
    assert still_open(AlertKind.ERROR_RATE) == ["upstream main-u1"]
    alert = Alert.objects.get()
    assert alert.text == "5 of the last 24 attempts at upstream main-u1 failed (21 %)."
    assert alert.details["since"] == NOW.isoformat()
    counted(two, 30, 3)
    sweep(3, 6)  # 5 of 42: neither
    assert still_open(AlertKind.ERROR_RATE) == ["upstream main-u1"]
    counted(two, 40, 3)
    sweep(7, 9)
    assert still_open(AlertKind.ERROR_RATE) == []


def test_few_attempts_and_old_ones_tell_nothing(tenant):
    one, two = pool(tenant, 2)
    counted(one, 19, 19)
    counted(two, 500, 500, NOW - timedelta(minutes=15))
    sweep(0, 2, 4)
    assert still_open(AlertKind.ERROR_RATE) == []


def test_an_upstream_that_nobody_calls_any_more_is_over(tenant):
    (one,) = pool(tenant, 1)
    counted(one, 50, 50)
    sweep(0, 2, 6, 10)
    assert still_open(AlertKind.ERROR_RATE) == ["upstream main-u1"]
    sweep(15, 16, 17)
    assert still_open(AlertKind.ERROR_RATE) == []


def test_a_switched_off_upstream_is_over(tenant):
    (one,) = pool(tenant, 1)
    counted(one, 50, 50)
    sweep(0, 2)
    one.upstream.enabled = False
    one.upstream.save()
    sweep(3)
    assert still_open(AlertKind.ERROR_RATE) == []


def mails():
    later = NOW + timedelta(days=1)
    mail.outbox.clear()
    for pk in due_deliveries(now=later):
        send_delivery(delivery_id=pk, now=later, post=None)
    return [(message.subject, message.body) for message in mail.outbox]


def test_the_mails_say_what_since_when_what_to_do_and_where(tenant):
    keys = pool(tenant, 4)
    dead(*keys[:2])
    put(key_target(keys[2].pk), BROKE)
    counted(keys[3], 50, 20)
    sweep(0, 2)
    (low_subject, low), (rate_subject, rate) = mails()
    assert low_subject == "[Pointsman acme] group main: 1 of 4 keys usable"
    assert "1 of the 4 keys of group main is usable." in low
    assert "Since:         2026-11-15 20:00 (Asia/Shanghai)" in low
    assert f"- main-u1 · …{keys[0].tail}: dead, auth_invalid" in low
    assert f"- main-u1 · …{keys[2].tail}: cooling, insufficient_balance, until 2026-11-15 21:00" in low
    assert "What to do: replace or revive dead keys" in low
    page = f"https://gateway.example.com/admin/pool/?team={tenant.pk}"
    assert f"Look at it:    {page}\n" in low
    assert rate_subject == "[Pointsman acme] upstream main-u1: 40 % of attempts fail"
    assert "Failed:        20 of 50 attempts in at most 15 minutes" in rate
    assert "What to do: look at the last errors of its keys" in rate
    assert page in rate
    healthy(*keys)
    sweep(3, 5)
    (over_subject, over), (rate_over, _body) = mails()
    assert over_subject == "[Pointsman acme] Over: group main: few usable keys left"
    assert over.startswith("This is over since 2026-11-15 20:05 (Asia/Shanghai):")
    assert "What to do" not in over
    assert rate_over == "[Pointsman acme] Over: upstream main-u1: many failures"


def test_the_mails_in_chinese(tenant, settings):
    settings.LANGUAGE_CODE = "zh-hans"
    keys = pool(tenant, 3)
    dead(*keys[:2])
    counted(keys[2], 50, 20)
    sweep(0, 2)
    (low_subject, low), (rate_subject, rate) = mails()
    assert low_subject == "[Pointsman acme] 策略组 main：3 个密钥中仅 1 个可用"
    assert f"- main-u1 · …{keys[0].tail}：已失效" in low
    assert f"查看：　　　https://gateway.example.com/admin/pool/?team={tenant.pk}" in low
    assert rate_subject == "[Pointsman acme] 上游 main-u1：40 % 的尝试失败"
    assert "处理办法" in rate
