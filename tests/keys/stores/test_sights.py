"""The rows that stores keep for processes that do not serve."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings

from keys.core.admission import AdmitRequest, KeyOption, SettleRequest
from keys.core.outcome import Cause, Outcome, Scope, Verdict
from keys.core.policy import Policy
from keys.core.report import Report
from keys.core.windows import Caps
from keys.models import StoredState
from keys.stores.embedded import EmbeddedStore
from keys.stores.protocol import PersistenceError
from keys.stores.reading import stored_records
from keys.stores.redis import RedisStore, client_of
from keys.stores.wheels import Spin

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


class Rows:
    """A persistence in memory that can be down."""

    def __init__(self) -> None:
        self.rows: dict[str, Any] = {}
        self.down = False

    def load(self) -> dict[str, Any]:
        return {}

    def save(self, rows: Any) -> None:
        if self.down:
            raise PersistenceError("down")
        self.rows.update(rows)

    def close(self) -> None:
        return None


def sights(rows: Rows) -> dict[str, Any]:
    return {name: row for name, row in rows.rows.items() if name.startswith(("sight:", "wheel:"))}


async def began(store: EmbeddedStore, key_id: int = 1) -> Any:
    option = KeyOption(key_id=key_id, account_id=None, caps=Caps(rpm=5))
    return await store.admit(AdmitRequest(ticket="t", keys=(option,), model="m", callers=(), tokens=3), NOW)


async def test_a_call_is_seen_while_it_flies_and_when_it_is_over():
    rows = Rows()
    store = EmbeddedStore(rows, clock=lambda: NOW)
    await store.open()
    admission = await began(store)
    await store.tick(NOW)
    assert sights(rows)["sight:key:1"]["flying"] == 1
    assert sights(rows)["sight:key:1"]["windows"] == {"rpm": [(int(NOW.timestamp()), 1)]}
    outcome = Outcome(Cause.SERVED, Verdict.ANSWERED, Scope.NONE)
    report = Report(key_id=1, account_id=None, model="m", outcome=outcome, began=NOW, epoch=0, first_ms=120.0)
    await store.settle(SettleRequest(((report, Policy()),), holds=admission.holds), NOW)
    await store.tick(NOW)
    assert "flying" not in sights(rows)["sight:key:1"]
    assert sights(rows)["sight:key:1"]["results"] == [1, 1]
    await store.close()


async def test_nothing_new_is_not_written_but_what_flies_is_told_again_and_again():
    store = EmbeddedStore(clock=lambda: NOW)
    await began(store)
    assert set(store.sight_rows(NOW)) == {"sight:key:1"}
    assert store.sight_rows(NOW + timedelta(seconds=9)) == {}
    assert set(store.sight_rows(NOW + timedelta(seconds=10))) == {"sight:key:1"}
    await store.close()


async def test_water_and_wheels_are_told_and_poison_is_not():
    store = EmbeddedStore(clock=lambda: NOW)
    store.figures.saw_credit("account:3", 0.4, NOW + timedelta(minutes=1))
    store.figures.poison("a1", NOW + timedelta(minutes=1))
    store.notes.spin(Spin("group:1:weighted", {"4": 7}))
    rows = store.sight_rows(NOW)
    assert set(rows) == {"sight:account:3", "wheel:group:1:weighted"}
    assert rows["wheel:group:1:weighted"] == {"4": 7}
    assert rows["sight:account:3"]["facts"] == {"credit": [0.4, (NOW + timedelta(minutes=1)).timestamp()]}
    await store.close()


async def test_what_others_tell_is_seen_too():
    store, other = EmbeddedStore(clock=lambda: NOW), EmbeddedStore(clock=lambda: NOW)
    await began(other, 7)
    other.figures.saw_water("key:7", 0.2, NOW + timedelta(minutes=1))
    store.figures.hear("other", other.figures.pulse() or {}, NOW)
    row = store.sight_rows(NOW)["sight:key:7"]
    assert (row["flying"], set(row["facts"])) == (1, {"water"})
    await store.close()
    await other.close()


async def test_rows_that_were_not_kept_come_again():
    rows = Rows()
    rows.down = True
    store = EmbeddedStore(rows, clock=lambda: NOW)
    await began(store)
    store.notes.spin(Spin("upstream:1:random", {"1": 1}))
    await store.tick(NOW)
    assert rows.rows == {}
    rows.down = False
    for _ in range(2):
        await store.tick(NOW)
    assert set(sights(rows)) == {"sight:key:1", "wheel:upstream:1:random"}
    store.sight_lost(["key:1", "sight:key:9"])
    assert set(store.sight_rows(NOW)) == {"sight:key:9"}
    await store.close()


@pytest.mark.django_db
def test_records_are_read_without_a_store():
    until = NOW.timestamp()
    StoredState.objects.create(target="record:a", data={"value": {"key": 1}, "until": until + 1})
    StoredState.objects.create(target="record:b", data={"value": 2, "until": until})
    StoredState.objects.create(target="record:c", data=[])
    assert stored_records(["a", "b", "c", "d"], NOW) == {"a": {"key": 1}}
    assert stored_records([], NOW) == {}


def test_without_redis_nothing_is_remembered():
    assert stored_records(["a"], NOW, "redis://127.0.0.1:1/0") == {}


@pytest.mark.skipif(not settings.REDIS_URL, reason="needs Redis")
async def test_records_are_read_from_redis():
    store = RedisStore(client_of(settings.REDIS_URL), clock=lambda: NOW)
    await store.notes.remember({"sight-test": {"key": 5}}, 60.0, datetime.now(UTC))
    try:
        assert stored_records(["sight-test", "gone"], datetime.now(UTC), settings.REDIS_URL) == {
            "sight-test": {"key": 5}
        }
    finally:
        await store.notes.forget(["sight-test"])
        await store.courier.client.aclose()
