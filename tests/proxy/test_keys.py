"""What a failure does to its key, account or pair, and to the requests that follow."""

import time
from datetime import timedelta
from threading import Thread

import pytest
from django.utils import timezone

from keys.models import KeyEvent, StateInbox
from keys.overview import overview
from keys.services import revive, save_key
from tenants.models import Alert, AlertDelivery
from tests.factories import AccountFactory
from tests.fake_upstream import Gate, answer, status
from tests.gateway import chat, outcomes, wait_until

QUOTA = status(429, "You exceeded your current quota", error_code="insufficient_quota", error_type="insufficient_quota")


def served_by(gateway, world, **fields):
    """What one request tried, as (key, outcome)."""
    return outcomes(gateway.record(gateway.post(world, chat(**fields))))


def tried(gateway, world, **fields):
    """The same without what was skipped."""
    return [(key, what) for key, what in served_by(gateway, world, **fields) if "skipped" not in what]


def states(world):
    """(status, seconds of cooling left, reason) of each key, as `manage.py pool` shows them."""
    rows = {row["key"]: row for row in overview(now=timezone.now(), tenants=[world.tenant])}
    return {name: (row["status"], row["cooling_left_s"], row["reason"]) for name, row in rows.items()}


def status_of(world, key):
    return states(world)[key][0]


def kept(world, key, wanted):
    """Wait until the persisted copy says so."""
    wait_until(lambda: status_of(world, key) == wanted, 3, f"{key} is {wanted}")
    return states(world)[key]


class TestDead:
    """Report 30: 401 is dead at once, until revived or edited."""

    @pytest.fixture
    def world(self, gateway, up):
        up.script("k-1", status(401, "Incorrect API key provided"))
        world = gateway.serving(up, "k-1", "k-2")
        assert served_by(gateway, world) == [("k1", "auth_invalid"), ("k2", "served")]
        return world

    def test_later_requests_leave_it_alone(self, gateway, up, world):
        for _ in range(3):
            assert served_by(gateway, world) == [("k1", "skipped: dead"), ("k2", "served")]
        assert up.keys() == ["k-1", "k-2", "k-2", "k-2", "k-2"]
        kept(world, "k1", "dead")

    def test_it_leaves_an_event_and_one_alert(self, gateway, world):
        event = wait_until(KeyEvent.objects.filter(upstream_key=world.keys[0]).first)
        assert (event.before, event.after, event.reason, event.until) == ("healthy", "dead", "auth_invalid", None)
        assert "Incorrect API key" in event.message
        assert event.request_id.startswith("req_")
        alert = wait_until(Alert.objects.filter(tenant=world.tenant).first)
        assert (alert.kind, alert.subject, alert.closed) == ("key_dead", f"key:{world.keys[0].pk}", None)
        served_by(gateway, world)
        assert Alert.objects.filter(tenant=world.tenant).count() == 1

    def test_revived_it_works_by_itself(self, gateway, up, world):
        wait_until(Alert.objects.filter(tenant=world.tenant).exists)
        revive(key=world.keys[0])
        wait_until(lambda: served_by(gateway, world) == [("k1", "served")], 10)
        wait_until(lambda: not StateInbox.objects.filter(payload__key_id=world.keys[0].pk).exists())
        alert = wait_until(Alert.objects.filter(tenant=world.tenant).exclude(closed=None).first)
        assert alert.kind == "key_dead"
        events = KeyEvent.objects.filter(upstream_key=world.keys[0]).order_by("pk").values_list("after", flat=True)
        wait_until(lambda: list(events.all()) == ["dead", "healthy"])

    def test_a_new_secret_starts_anew(self, gateway, up, world):
        up.default(status(401), key="k-1")
        save_key(key=world.keys[0], secret="k-1-new")
        wait_until(lambda: served_by(gateway, world) == [("k1", "served")], 10)
        assert up.keys()[-1] == "k-1-new"

    def test_the_old_secret_cannot_kill_the_new_one(self, gateway, up, world, monkeypatch):
        """A process that has not read the new table yet calls with the old secret; its refusal says nothing now."""
        up.default(status(401), key="k-1")
        with monkeypatch.context() as patch:
            patch.setattr(gateway.runtime.keeper, "_look", lambda: None)
            save_key(key=world.keys[0], secret="k-1-new")
            wait_until(lambda: not StateInbox.objects.exists(), 3)
            wait_until(lambda: served_by(gateway, world) == [("k1", "auth_invalid"), ("k2", "served")], 3)
        gateway.refresh()
        assert served_by(gateway, world) == [("k1", "served")]

    def test_it_stays_dead_over_a_restart(self, gateway, up, world):
        kept(world, "k1", "dead")
        gateway.restart()
        assert served_by(gateway, world) == [("k1", "skipped: dead"), ("k2", "served")]
        assert up.keys().count("k-1") == 1

    def test_a_late_success_does_not_wake_it(self, gateway, up):
        """An attempt that began before the death changes counters only."""
        gate = Gate()
        up.script("k-1", answer().but(holds=((-1, gate),)), status(401))
        world = gateway.serving(up, "k-1", "k-2")
        slow = Thread(target=gateway.post, args=(world,))
        slow.start()
        up.wait_for_requests(1)
        assert served_by(gateway, world) == [("k1", "auth_invalid"), ("k2", "served")]
        gate.open()
        slow.join()
        assert served_by(gateway, world) == [("k1", "skipped: dead"), ("k2", "served")]


def test_no_balance_cools_the_account_across_its_keys(gateway, up):
    """Report 31: one alert, 1800 s, and no other key of the account is asked for the same answer."""
    up.script("k-1", status(402, "Insufficient Balance"))
    world = gateway.serving(up, "k-1", "k-2", "k-3")
    account = AccountFactory(tenant=world.tenant, name="relay")
    for key in world.keys[:2]:
        key.account = account
        key.save()
    gateway.refresh()
    assert tried(gateway, world) == [("k1", "insufficient_balance"), ("k3", "served")]
    assert served_by(gateway, world) == [("k1", "skipped: cooling"), ("k2", "skipped: cooling"), ("k3", "served")]
    assert up.keys() == ["k-1", "k-3", "k-3"]
    for name in ("k1", "k2"):
        word, left, _ = kept(world, name, "cooling")
        assert (word, 1700 < left <= 1800) == ("cooling", True)
    alert = wait_until(Alert.objects.filter(tenant=world.tenant).first)
    assert (alert.kind, alert.subject) == ("no_balance", f"account:{account.pk}")
    event = KeyEvent.objects.get(account=account)
    assert timedelta(seconds=1790) < event.until - event.at <= timedelta(seconds=1801)


def test_a_balance_that_is_gone_may_be_a_death(gateway, up):
    """Report 31: `on_balance: dead` parks the key."""
    up.script("k-1", status(402))
    world = gateway.serving(up, "k-1", "k-2", group={"policy": {"on_balance": "dead"}})
    served_by(gateway, world)
    assert served_by(gateway, world) == [("k1", "skipped: dead"), ("k2", "served")]
    assert kept(world, "k1", "dead")


def test_a_refusal_about_one_model_rests_that_pair(gateway, up):
    """Report 30: the key stays usable for other models."""
    up.default(lambda seen: status(403) if seen.json["model"] == "a" else answer(), key="k-1")
    world = gateway.serving(up, "k-1", "k-2")
    assert served_by(gateway, world, model="a") == [("k1", "permission_denied"), ("k2", "served")]
    assert served_by(gateway, world, model="a") == [("k1", "skipped: model"), ("k2", "served")]
    assert served_by(gateway, world, model="b") == [("k1", "served")]
    assert status_of(world, "k1") == "healthy"
    assert not Alert.objects.filter(tenant=world.tenant).exists()


def test_a_model_that_is_not_there_is_remembered_without_a_strike(gateway, up):
    up.default(lambda seen: status(404) if seen.json["model"] == "a" else answer(), key="k-1")
    world = gateway.serving(up, "k-1", "k-2", group={"policy": {"strikes": 1}})
    served_by(gateway, world, model="a")
    assert served_by(gateway, world, model="a") == [("k1", "skipped: model"), ("k2", "served")]
    assert served_by(gateway, world, model="b") == [("k1", "served")]


class TestStrikes:
    def test_the_third_in_a_row_cools(self, gateway, up):
        up.script("k-1", status(500), status(502), status(503))
        world = gateway.serving(up, "k-1", "k-2")
        for _ in range(3):
            assert served_by(gateway, world)[0][0] == "k1"
        assert up.keys().count("k-1") == 3
        assert served_by(gateway, world) == [("k1", "skipped: cooling"), ("k2", "served")]
        assert 50 < kept(world, "k1", "cooling")[1] <= 60
        assert not Alert.objects.filter(tenant=world.tenant).exists()

    def test_a_success_between_starts_the_count_anew(self, gateway, up):
        up.script("k-1", status(500), status(500), answer(), status(500), status(500))
        world = gateway.serving(up, "k-1", "k-2")
        for _ in range(5):
            served_by(gateway, world)
        assert served_by(gateway, world) == [("k1", "served")]

    @pytest.mark.parametrize("code", [400, 422])
    def test_a_bad_request_is_neither_strike_nor_success(self, gateway, up, code):
        up.script("k-1", status(500), status(500), *[status(code, "bad")] * 3, status(500))
        world = gateway.serving(up, "k-1", "k-2")
        for _ in range(6):
            served_by(gateway, world)
        assert served_by(gateway, world)[0] == ("k1", "skipped: cooling")

    def test_a_cooling_survives_a_restart(self, gateway, up):
        up.script("k-1", status(500))
        world = gateway.serving(up, "k-1", "k-2", group={"policy": {"strikes": 1}})
        served_by(gateway, world)
        gateway.restart()
        assert served_by(gateway, world) == [("k1", "skipped: cooling"), ("k2", "served")]

    def test_a_sole_key_is_tried_all_the_same(self, gateway, up):
        up.script("k-1", *[status(500)] * 3)
        world = gateway.serving(up, "k-1")
        for _ in range(3):
            served_by(gateway, world)
        assert served_by(gateway, world) == [("k1", "served")]


class TestRates:
    def test_a_limit_cools_its_key_alone(self, gateway, up):
        """Report 28: the other keys of the provider go on."""
        up.script("k-1", status(429, retry_after=30))
        world = gateway.serving(up, "k-1", "k-2", "k-3", "k-4", one_upstream=True, upstream={"rotation": "round_robin"})
        for _ in range(8):
            gateway.post(world)
        assert up.keys().count("k-1") == 1
        assert set(up.keys()) == {"k-1", "k-2", "k-3", "k-4"}
        assert 20 < kept(world, "k1", "cooling")[1] <= 30

    def test_it_ends_when_it_is_over(self, gateway, up):
        up.script("k-1", status(429, retry_after=1))
        world = gateway.serving(up, "k-1", "k-2")
        assert served_by(gateway, world) == [("k1", "rate_limited"), ("k2", "served")]
        assert served_by(gateway, world) == [("k1", "skipped: cooling"), ("k2", "served")]
        time.sleep(1.05)
        assert served_by(gateway, world) == [("k1", "served")]

    def test_a_quota_is_no_burst(self, gateway, up):
        """Report 17: tried once, parked long, ops told."""
        up.default(QUOTA, key="k-1")
        world = gateway.serving(up, "k-1", "k-2")
        world.tenant.alert_emails = ["ops@example.com"]
        world.tenant.save()
        for _ in range(20):
            assert served_by(gateway, world)[-1] == ("k2", "served")
        assert up.keys().count("k-1") == 1
        assert kept(world, "k1", "cooling")[1] > 3000
        alert = wait_until(Alert.objects.filter(tenant=world.tenant).first)
        assert (alert.kind, Alert.objects.filter(tenant=world.tenant).count()) == ("quota", 1)
        mails = AlertDelivery.objects.filter(alert=alert)
        assert [(mail.target, mail.occasion, mail.status) for mail in mails] == [
            ("ops@example.com", "opened", "pending")
        ]


def test_parallel_failures_are_one_trip(gateway, up):
    """Fifty requests that began before the cooling make one cooling of 60 s, not one of 600."""
    up.default(status(500).but(head_delay_s=0.2), key="k-1")
    world = gateway.serving(up, "k-1", "k-2", group={"policy": {"strikes": 3}})
    run_together(lambda: gateway.post(world), 12)
    word, left, _ = kept(world, "k1", "cooling")
    assert (word, 50 < left <= 60) == ("cooling", True)


def run_together(call, count):
    threads = [Thread(target=call) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_the_pool_lists_every_key(gateway, up):
    up.script("k-1", status(429, retry_after=60))
    world = gateway.serving(up, "k-1", "k-2")
    gateway.post(world)
    kept(world, "k1", "cooling")
    rows = overview(now=timezone.now(), tenants=[world.tenant])
    assert [(row["upstream"], row["key"], row["status"]) for row in rows] == [
        ("u1", "k1", "cooling"),
        ("u2", "k2", "healthy"),
    ]
    assert rows[0]["tenant"] == world.tenant.slug
