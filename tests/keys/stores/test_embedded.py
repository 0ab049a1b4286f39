"""What the embedded store saves, when, and what it does while the database is down."""

import asyncio
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import pytest

from keys.core.outcome import Cause
from keys.core.pool import pool_of_rows
from keys.core.report import Skip
from keys.core.state import Status
from keys.stores.embedded import EmbeddedStore
from keys.stores.protocol import PersistenceError
from tests.keys.stores.conftest import NOW
from tests.keys.stores.test_states import SECOND, tell, trip


@dataclass
class Rows:
    """A database in a dict."""

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    saves: int = 0
    down: bool = False

    def load(self) -> dict[str, dict[str, Any]]:
        if self.down:
            raise PersistenceError("down")
        return deepcopy(self.rows)

    def close(self) -> None:
        self.closed = True

    def save(self, rows: Mapping[str, dict[str, Any] | None]) -> None:
        if self.down:
            raise PersistenceError("down")
        self.saves += 1
        for target, row in rows.items():
            if row is None:
                self.rows.pop(target, None)
            else:
                self.rows[target] = dict(row)


async def opened(rows: Rows) -> EmbeddedStore:
    store = EmbeddedStore(rows, clock=lambda: NOW)
    await store.open()
    return store


async def test_a_cooling_is_saved_before_the_report_returns_and_survives() -> None:
    rows = Rows()
    store = await opened(rows)
    await trip(store)
    await tell(store, Cause.AUTH_INVALID, 1, key=2)
    await tell(store, Cause.INSUFFICIENT_BALANCE, 1, key=3, account=7)
    again = await opened(rows)
    assert again.standing(1, None, "gpt", NOW) == store.standing(1, None, "gpt", NOW)
    assert again.standing(1, None, "gpt", NOW).left_s == 60
    assert again.standing(2, None, "gpt", NOW).skip is Skip.DEAD
    assert again.standing(3, 7, "gpt", NOW + SECOND).left_s == 1800


async def test_counters_wait_for_the_tick() -> None:
    rows = Rows()
    store = await opened(rows)
    await tell(store, Cause.SERVED, 1)
    assert rows.saves == 0
    await store.tick(NOW)
    await store.tick(NOW)
    assert rows.saves == 1
    assert pool_of_rows(rows.rows, NOW).sheet(1).calls == 1
    again = await opened(rows)
    await tell(again, Cause.SERVED, 2)
    assert (await again.snapshot(NOW)).sheet(1).calls == 2


async def test_closing_saves_the_rest() -> None:
    rows = Rows()
    store = await opened(rows)
    await tell(store, Cause.SERVED, 1)
    await store.close()
    assert pool_of_rows(rows.rows, NOW).sheet(1).calls == 1


async def test_run_saves_within_a_second() -> None:
    rows = Rows()
    store = await opened(rows)
    task = asyncio.create_task(store.run())
    await tell(store, Cause.SERVED, 1)
    async with asyncio.timeout(1):
        while not rows.saves:  # noqa: ASYNC110  the save has no event of ours
            await asyncio.sleep(0.01)
    task.cancel()


async def test_a_database_that_is_down_stops_nothing_and_gets_everything_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rows = Rows()
    store = await opened(rows)
    rows.down = True
    await tell(store, Cause.AUTH_INVALID, 1)
    await store.notes.remember({"a": 1}, 60, NOW)
    await store.tick(NOW)
    assert store.standing(1, None, "gpt", NOW).skip is Skip.DEAD
    assert "not saved" in caplog.text
    rows.down = False
    await store.tick(NOW)
    again = await opened(rows)
    assert again.standing(1, None, "gpt", NOW).skip is Skip.DEAD
    assert await again.notes.recall(["a"], NOW) == {"a": 1}


async def test_starting_without_the_states_is_refused() -> None:
    with pytest.raises(PersistenceError):
        await opened(Rows(down=True))


async def test_damaged_rows_read_as_healthy_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    rows = Rows({"key:1": {"state": {"status": "frozen"}}, "account:2": {"state": 5}, "record:x": {"until": "soon"}})
    store = await opened(rows)
    assert store.standing(1, 2, "gpt", NOW).available
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


async def test_records_survive_and_elapsed_ones_are_deleted() -> None:
    rows = Rows()
    store = await opened(rows)
    await store.notes.remember({"a": 1}, 60, NOW)
    await store.notes.remember({"b": 2}, 600, NOW)
    await store.tick(NOW)
    again = await opened(rows)
    assert await again.notes.recall(["a", "b"], NOW) == {"a": 1, "b": 2}
    await again.tick(NOW + 61 * SECOND)
    assert sorted(rows.rows) == ["record:b"]


async def test_a_cancelled_report_is_saved_all_the_same() -> None:
    rows = Rows()
    store = await opened(rows)
    task = asyncio.create_task(tell(store, Cause.AUTH_INVALID, 1))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await store.close()
    assert pool_of_rows(rows.rows, NOW).sheet(1).status is Status.DEAD
