"""The corridor on SQLite and the embedded state store: what differs from PostgreSQL and Redis, and the main path."""

from decimal import Decimal

import pytest
from django.db import connection

from billing.models import LedgerEntry, RequestRecord
from billing.models.fields import MoneySum
from keys.models import StoredState
from keys.services import revive
from tests.fake_upstream import answer, sse_error_after, status, stream
from tests.gateway import CHARGE, HELLO, chat, ledger, outcomes, wait_until
from tests.proxy.asking import ask

pytestmark = pytest.mark.embedded


def test_it_is_sqlite_in_a_file(gateway):
    assert connection.vendor == "sqlite"
    assert "memory" not in str(connection.settings_dict["NAME"])


@pytest.mark.parametrize("stream_asked", [False, True])
def test_failover_record_and_money(gateway, up, stream_asked):
    up.script("k-1", status(429, retry_after=30))
    world = gateway.serving(up, "k-1", "k-2")
    said = ask(gateway, world, stream=stream_asked)
    record = gateway.record(said)
    assert (said.text, outcomes(record)) == (HELLO, [("k1", "rate_limited"), ("k2", "served")])
    assert (record.charge, ledger(record)) == (CHARGE, [("charge", CHARGE), ("cost", CHARGE)])


def test_amounts_keep_every_digit(gateway, up):
    """SQLite's own numbers would lose them behind the fifteenth."""
    price = {"currency": "USD", "input": "123456789.123456789012", "output": "0.000000000003"}
    world = gateway.serving(up, "k-1", price=price)
    for _ in range(3):
        gateway.post(world)
    record = RequestRecord.objects.filter(tenant=world.tenant).first()
    exact = (25 * Decimal(price["input"]) + 7 * Decimal(price["output"])) / 1_000_000
    assert record.charge == exact.quantize(Decimal("1e-12"))
    entries = LedgerEntry.objects.filter(tenant=world.tenant, kind="charge")
    assert entries.aggregate(total=MoneySum("amount"))["total"] == 3 * record.charge


def test_states_are_stored_and_a_person_may_change_them(gateway, up):
    up.script("k-1", status(401))
    world = gateway.serving(up, "k-1", "k-2")
    gateway.post(world)
    wait_until(StoredState.objects.filter(target=f"key:{world.keys[0].pk}", data__state__status="dead").exists, 3)
    gateway.restart()
    assert outcomes(gateway.record(gateway.post(world)))[0] == ("k1", "skipped: dead")
    revive(key=world.keys[0])
    wait_until(lambda: outcomes(gateway.record(gateway.post(world))) == [("k1", "served")], 2)


def test_a_broken_stream(gateway, up):
    up.script("k-1", sse_error_after(2))
    record = gateway.record(gateway.post(gateway.serving(up, "k-1"), chat(stream=True)))
    assert (record.status, record.charge, record.estimated) == ("failed", 0, True)


def test_records_are_listed_newest_first(gateway, up):
    up.default(stream(["a"]))
    world = gateway.serving(up, "k-1")
    ids = [gateway.post(world).headers["x-request-id"] for _ in range(3)]
    assert [row["id"] for row in gateway.get(world, "/v1/requests").json()["data"]] == ids[::-1]


def test_odd_text_is_stored(gateway, up):
    up.script("k-1", answer(), status(400, "\x00"))
    world = gateway.serving(up, "k-1")
    assert [gateway.record(gateway.post(world)).status for _ in range(3)] == ["finished", "failed", "finished"]
