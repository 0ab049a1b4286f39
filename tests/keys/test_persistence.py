"""The database behind an embedded state store, and the inbox that other processes write to."""

import pytest

from keys.models import StateInbox, StoredState
from keys.persistence import DatabasePersistence, take_requests
from keys.services import revive, save_key
from tenants.models import ConfigVersion
from tenants.services import BadSecretError
from tests.factories import UpstreamKeyFactory

pytestmark = pytest.mark.django_db


class TestStates:
    @pytest.fixture
    def stored(self):
        return DatabasePersistence()

    def test_what_was_saved_is_loaded(self, stored):
        assert stored.load() == {}
        stored.save({"key:1": {"state": {"status": "dead"}}, "account:2": {"state": {}}})
        stored.save({"key:1": {"state": {"status": "cooling"}, "counts": {"calls": 3}}})
        assert stored.load() == {
            "key:1": {"state": {"status": "cooling"}, "counts": {"calls": 3}},
            "account:2": {"state": {}},
        }
        assert StoredState.objects.count() == 2

    def test_none_deletes(self, stored):
        stored.save({"key:1": {"a": 1}, "key:2": {"a": 2}})
        stored.save({"key:1": None, "key:3": None})
        assert stored.load() == {"key:2": {"a": 2}}

    def test_nothing_is_nothing(self, stored):
        stored.save({})
        assert StoredState.objects.count() == 0

    def test_many_rows_at_once(self, stored):
        rows = {f"key:{n}": {"n": n} for n in range(450)}
        stored.save(rows)
        assert stored.load() == rows


class TestInbox:
    def test_oldest_first_and_once(self):
        for number in range(3):
            StateInbox.objects.create(command="revive", payload={"key_id": number})
        assert [request.payload["key_id"] for request in take_requests(2)] == [0, 1]
        assert [request.payload["key_id"] for request in take_requests()] == [2]
        assert take_requests() == []
        assert not StateInbox.objects.exists()

    def test_a_revival_is_asked_for_with_its_epoch(self):
        key = UpstreamKeyFactory()
        before = ConfigVersion.objects.get().version
        revive(key=key)
        (request,) = take_requests()
        assert (request.command, request.payload) == ("revive", {"key_id": key.pk, "epoch": 2})
        assert (key.epoch, ConfigVersion.objects.get().version) == (2, before + 1)

    def test_reviving_twice_is_two_epochs(self):
        key = UpstreamKeyFactory()
        for _ in range(2):
            revive(key=key)
        assert key.epoch == 3


class TestSecrets:
    def test_a_new_secret_is_a_new_epoch(self):
        key = UpstreamKeyFactory(secret="sk-old-0123456789")
        save_key(key=key, secret="sk-new-0123456789")
        assert (key.epoch, key.secret, key.tail) == (2, "sk-new-0123456789", "6789"[-4:])
        digest = key.digest
        save_key(key=key, secret="sk-new-0123456789")
        assert (key.epoch, key.digest) == (2, digest)

    def test_other_edits_leave_epoch_and_secret(self):
        key = UpstreamKeyFactory(secret="sk-old-0123456789")
        key.weight = 5
        save_key(key=key)
        key.refresh_from_db()
        assert (key.epoch, key.weight, key.secret) == (1, 5, "sk-old-0123456789")

    @pytest.mark.parametrize("secret", ["", "a b", "a\n", "ключ", "\x07"])
    def test_a_malformed_one_is_refused_and_not_shown(self, secret):
        key = UpstreamKeyFactory(secret="sk-old-0123456789")
        with pytest.raises(BadSecretError) as caught:
            save_key(key=key, secret=secret)
        assert not secret.strip() or secret not in str(caught.value)
        key.refresh_from_db()
        assert (key.epoch, key.secret) == (1, "sk-old-0123456789")
