"""Redis down: a hard budget at 95 % stays closed, lines with room go on; found again when Redis is back."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.conf import settings

from billing.models import LedgerEntry
from tests.factories import BudgetFactory, RecordFactory
from tests.gateway import chat, spawned, wait_until
from tests.keys.stores.conftest import own_redis, start_redis, stop_redis

__all__ = ["own_redis"]
D = Decimal


def spent(world, amount):
    record = RecordFactory(line=world.line, created=datetime.now(UTC), charge=D(amount))
    LedgerEntry.objects.create(
        tenant=world.tenant, kind="charge", record=record, line_id=world.line.pk, amount=D(amount), currency="USD",
        day=record.day, created=record.created,
    )  # fmt: skip
    BudgetFactory(tenant=world.tenant, line=world.line, amount=10, hard=True)


@pytest.mark.skipif(not settings.REDIS_URL, reason="needs a database that several processes share")
def test_a_hard_cap_holds_without_redis(gateway, up, own_redis, tmp_path):
    near, far = gateway.serving(up, "k-1"), gateway.serving(up, "k-1")
    spent(near, "9.6")
    spent(far, "1")
    gateway.refresh()
    with spawned(tmp_path, REDIS_URL=own_redis.url) as door:
        assert [door.post(world, chat()).status_code for world in (near, far)] == [200, 200]
        stop_redis(own_redis)
        refused = door.post(near, chat())
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "insufficient_quota")
        assert door.post(far, chat()).status_code == 200
        again = start_redis(own_redis.port)
        try:
            wait_until(lambda: door.post(near, chat()).status_code == 200, 15)
        finally:
            stop_redis(again)
