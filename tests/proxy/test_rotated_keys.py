"""Secrets that are replaced while calls go on: ours (gateway keys) and theirs (upstream keys)."""

from dataclasses import replace
from datetime import timedelta
from threading import Thread

import pytest
from django.urls import reverse
from django.utils import timezone

from keys.models import KeyEvent, UpstreamKey
from keys.overview import overview
from keys.services import save_key, use_old_secret
from tenants.models import Alert, AlertKind, AuditEntry, GatewayKey
from tenants.services import end_old_secret, rotate_gateway_key
from tests.fake_upstream import Gate, answer, status
from tests.gateway import chat, outcomes, wait_until

HOUR = timedelta(hours=1)


def code(gateway, world):
    return gateway.post(world).status_code


class TestOurs:
    @pytest.fixture
    def world(self, gateway, up):
        return gateway.serving(up, "k-1")

    def rotated(self, world, keep):
        moment = timezone.now()
        issued = rotate_gateway_key(key=world.gateway_key, keep_until=moment + keep, now=moment)
        return replace(world, secret=issued.secret)

    def test_both_serve_as_the_same_key_within_two_seconds(self, gateway, world):
        new = self.rotated(world, HOUR)
        wait_until(lambda: code(gateway, new) == 200, 2, "the new secret is known")
        records = [gateway.record(gateway.post(one)) for one in (world, new)]
        assert {(record.gateway_key_id, record.key_name) for record in records} == {(world.gateway_key.pk, "prod")}
        assert [record.key_last4 for record in records] == [world.secret[-4:], new.secret[-4:]]

    def test_without_overlap_the_old_one_is_refused_within_two_seconds(self, gateway, world):
        new = self.rotated(world, timedelta(0))
        wait_until(lambda: code(gateway, world) == 401, 2, "the old secret is refused")
        assert "expired" in gateway.post(world).json()["error"]["message"]
        assert code(gateway, new) == 200

    def test_the_old_one_ends_by_itself(self, gateway, world):
        new = self.rotated(world, timedelta(seconds=1.5))
        gateway.refresh()
        assert (code(gateway, world), code(gateway, new)) == (200, 200)
        version = gateway.runtime.keeper.table.version
        wait_until(lambda: code(gateway, world) == 401, 4, "its time is over")
        assert gateway.runtime.keeper.table.version == version
        assert code(gateway, new) == 200

    def test_it_is_ended_at_once(self, gateway, world):
        self.rotated(world, HOUR)
        gateway.refresh()
        assert code(gateway, world) == 200
        assert end_old_secret(key=GatewayKey.objects.get(pk=world.gateway_key.pk), now=timezone.now())
        wait_until(lambda: code(gateway, world) == 401, 2, "the old secret is refused")


def tried(gateway, world):
    found = outcomes(gateway.record(gateway.post(world, chat())))
    return [(key, what) for key, what in found if "skipped" not in what]


def status_of(world):
    (row, *_rest) = overview(now=timezone.now(), tenants=[world.tenant])
    return row["status"]


def replaced(gateway, world, secret, keep=HOUR):
    key = save_key(key=world.keys[0], secret=secret, keep_old_until=timezone.now() + keep)
    gateway.refresh()
    return key


class TestTheirs:
    @pytest.fixture
    def world(self, gateway, up):
        return gateway.serving(up, "k-1", "k-2")

    def test_the_new_secret_is_used_and_a_call_under_way_ends_with_the_old_one(self, gateway, up, world):
        gate = Gate()
        up.script("k-1", answer().but(holds=((-1, gate),)))
        found = []
        slow = Thread(target=lambda: found.append(gateway.post(world)))
        slow.start()
        up.wait_for_requests(1)
        replaced(gateway, world, "k-1-new")
        assert tried(gateway, world) == [("k1", "served")]
        gate.open()
        slow.join()
        assert found[0].status_code == 200
        assert up.keys() == ["k-1", "k-1-new"]

    def test_a_late_refusal_of_the_old_one_harms_nothing(self, gateway, up, world):
        gate = Gate()
        up.script("k-1", status(401, "Incorrect API key").but(holds=((0, gate),)))
        slow = Thread(target=gateway.post, args=(world,))
        slow.start()
        up.wait_for_requests(1)
        replaced(gateway, world, "k-1-new")
        gate.open()
        slow.join()
        assert tried(gateway, world) == [("k1", "served")]
        key = UpstreamKey.objects.get(pk=world.keys[0].pk)
        assert (key.secret, key.old_secret) == ("k-1-new", "k-1")

    def test_a_new_secret_that_is_refused_gives_way_to_the_old_one(self, gateway, up, world):
        up.default(status(401, "Incorrect API key provided"), key="k-1-bad")
        replaced(gateway, world, "k-1-bad")
        assert tried(gateway, world) == [("k1", "auth_invalid"), ("k2", "served")]
        wait_until(lambda: tried(gateway, world) == [("k1", "served")], 5, "the old secret serves again")
        assert up.keys()[-1] == "k-1"
        key = UpstreamKey.objects.get(pk=world.keys[0].pk)
        assert (key.secret, key.old_secret, key.old_digest, key.epoch) == ("k-1", "", "", 3)
        alert = Alert.objects.get(tenant=world.tenant)
        assert (alert.kind, alert.closed) == (AlertKind.NEW_SECRET, None)
        assert alert.text == (
            "u1 · k1: the new secret …d was refused, so the old one …1 is used again (Incorrect API key provided)"
        )
        assert alert.details == {"page": reverse("admin:keys_upstreamkey_change", args=[key.pk])}
        assert AuditEntry.objects.filter(action="rotated back", object_id=str(key.pk), username="").count() == 1
        wait_until(lambda: KeyEvent.objects.filter(upstream_key=key).count() == 2, 3, "both events")
        save_key(key=key, secret="k-1-better")
        assert Alert.objects.get(tenant=world.tenant).closed is not None

    def test_an_old_one_that_is_refused_too_leaves_the_key_dead(self, gateway, up, world):
        up.default(status(401), key="k-1-bad")
        up.default(status(401), key="k-1")
        replaced(gateway, world, "k-1-bad")
        tried(gateway, world)
        wait_until(lambda: tried(gateway, world) and up.keys().count("k-1"), 5, "the old secret was tried")
        wait_until(lambda: status_of(world) == "dead", 3, "the key is dead")
        kinds = wait_until(lambda: Alert.objects.filter(kind=AlertKind.KEY_DEAD, closed=None).first(), 3)
        assert kinds.subject == f"key:{world.keys[0].pk}"
        assert tried(gateway, world) == [("k2", "served")]

    def test_after_its_time_the_old_one_does_not_come_back(self, gateway, up, world):
        up.default(status(401), key="k-1-bad")
        replaced(gateway, world, "k-1-bad", keep=timedelta(seconds=-1))
        tried(gateway, world)
        wait_until(lambda: status_of(world) == "dead", 3, "the key is dead")
        assert UpstreamKey.objects.get(pk=world.keys[0].pk).secret == "k-1-bad"

    def test_a_person_puts_the_old_one_back(self, gateway, up, world):
        key = replaced(gateway, world, "k-1-new")
        assert use_old_secret(key=key, now=timezone.now()) is not None
        gateway.refresh()
        assert tried(gateway, world) == [("k1", "served")]
        assert up.keys() == ["k-1"]
