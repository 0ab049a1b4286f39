"""What the pool page learns from the gateway that runs in its process."""

from datetime import timedelta

import pytest
from django.utils.timezone import now

from config.pages.gauges import gauges
from config.pages.pool import blocks
from keys.core.samples import BASELINE_MIN, PACE_MIN, Sample
from tests.gateway import clean_database, committed_database, gateway, up

__all__ = ["clean_database", "committed_database", "gateway", "up"]


@pytest.fixture
def world(gateway, up):
    return gateway.serving(up, "k-1")


def shown(world):
    (block,) = blocks([world.tenant], frozenset(), now())
    return block.rows[0]


def test_caps_say_what_is_left(gateway, world):
    (key,) = world.keys
    key.rpm, key.per_day, key.concurrency = 3, 1000, 8
    key.save()
    gateway.refresh()
    assert gateway.post(world).status_code == 200
    assert shown(world).caps == ["2 of 3 calls/min left", "999 of 1,000 calls/day left", "8 of 8 at once free"]


def test_a_key_without_caps_has_none(world):
    assert shown(world).caps == []
    (gauge,) = gauges(world.keys).values()
    assert (gauge.slow, gauge.left, gauge.water) == (None, {}, None)


def test_a_slow_key_is_marked_with_its_figures(gateway, world):
    figures, moment = gateway.runtime.store.figures, now()
    for n in range(BASELINE_MIN):
        figures._learn(Sample(world.keys[0].pk, moment - timedelta(seconds=3600 - n), True, 300.0))
    for _ in range(PACE_MIN):
        figures._learn(Sample(world.keys[0].pk, moment, True, 1204.0))
    row = shown(world)
    assert "◌" in row.chips[1]
    assert "slow" in row.chips[1]
    assert row.notes == ["1,204 ms to first content in the last 5 min, usually 300 ms"]


def test_low_water_is_told(gateway, world):
    target, until, figures = f"key:{world.keys[0].pk}", now() + timedelta(hours=1), gateway.runtime.store.figures
    figures.saw_water(target, 0.12, until)
    assert shown(world).notes == ["12% of its credit or limit left: last for new conversations"]
    figures.saw_water(target, 0.5, until)
    assert shown(world).notes == []


@pytest.mark.usefixtures("clean_database")
def test_without_a_gateway_nothing_is_known():
    assert gauges([]) == {}
