"""The calls that both stores derive from the same two: `settle`, and a turn of one target's state."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from keys.core.admission import ProbeLease, SettleRequest
from keys.core.policy import Policy
from keys.core.report import Change, Report, Standing, account_target, key_target
from keys.core.sight import SIGHT_PREFIX, WHEEL_PREFIX
from keys.core.state import KeyState, funded, probed, revived
from keys.stores.board import Board
from keys.stores.figures import FigureBoard
from keys.stores.notes import Notes
from keys.stores.waiting import Admitting


class Verbs(Admitting):
    """See `StateStore` for what each call means. `board` is what this process knows of the states."""

    board: Board
    figures: FigureBoard
    notes: Notes

    @abstractmethod
    async def settle(self, request: SettleRequest, now: datetime) -> tuple[Change, ...]:
        """See StateStore."""

    @abstractmethod
    async def _turn(self, target: str, turn: Callable[[KeyState], KeyState], now: datetime) -> tuple[Change, ...]:
        """Replace a target's state by what `turn` makes of it, atomically."""

    def standing(self, key_id: int, account_id: int | None, model: str, now: datetime, epoch: int = 0) -> Standing:
        return self.board.standing(key_id, account_id, model, now, epoch)

    async def report(self, report: Report, policy: Policy, now: datetime) -> tuple[Change, ...]:
        return await self.settle(SettleRequest(((report, policy),)), now)

    async def report_chain(self, reports: Sequence[tuple[Report, Policy]], now: datetime) -> tuple[Change, ...]:
        return await self.settle(SettleRequest(tuple(reports)), now)

    async def end_probe(self, lease: ProbeLease) -> None:
        self.let_go((), lease)

    async def revive(self, key_id: int, now: datetime, epoch: int | None = None) -> tuple[Change, ...]:
        return await self._turn(key_target(key_id), lambda state: revived(state, now, epoch), now)

    async def revive_account(self, account_id: int, now: datetime) -> tuple[Change, ...]:
        return await self._turn(account_target(account_id), lambda state: revived(state, now), now)

    async def set_epoch(self, key_id: int, epoch: int, now: datetime) -> tuple[Change, ...]:
        def turn(state: KeyState) -> KeyState:
            return revived(state, now, epoch) if epoch > state.epoch else state

        return await self._turn(key_target(key_id), turn, now)

    async def probe_succeeded(self, key_id: int, now: datetime) -> tuple[Change, ...]:
        return await self._turn(key_target(key_id), lambda state: probed(state, now), now)

    async def balance_seen(self, target: str, now: datetime) -> tuple[Change, ...]:
        return await self._turn(target, lambda state: funded(state, now), now)

    def sight_rows(self, now: datetime) -> dict[str, dict[str, Any]]:
        """See StateStore."""
        rows: dict[str, dict[str, Any]] = {
            f"{SIGHT_PREFIX}{target}": row for target, row in self.figures.sights(now).items()
        }
        wheels = self.notes.wheels
        turned, wheels.turned = wheels.turned, set()
        return rows | {f"{WHEEL_PREFIX}{scope}": dict(wheels.of(scope)) for scope in turned}

    def sight_lost(self, rows: Iterable[str]) -> None:
        """See StateStore."""
        for row in rows:
            if row.startswith(SIGHT_PREFIX):
                self.figures.touch((row.removeprefix(SIGHT_PREFIX),))
            elif row.startswith(WHEEL_PREFIX):
                self.notes.wheels.turned.add(row.removeprefix(WHEEL_PREFIX))

    def _counted(self, request: SettleRequest, now: datetime) -> None:
        """Note a settling's attempts in the counters and figures of this process."""
        for report, _ in request.reports:
            self.board.count(report, now)
            self.figures.saw(report, now)

    def _decided(self, request: SettleRequest, now: datetime) -> tuple[Change, ...]:
        """Apply a settling's reports to the board, in order."""
        found: list[Change] = []
        for report, policy in request.reports:
            changes = self.board.decide(report, policy, now)
            self.board.accept(changes)
            found.extend(changes)
        return joined_changes(found)

    def _turned(self, target: str, turn: Callable[[KeyState], KeyState], now: datetime) -> tuple[Change, ...]:
        old = self.board.state(target)
        change = Change(target, old, turn(old), now)
        if not change.changed:
            return ()
        self.board.accept((change,))
        return (change,)


def joined_changes(changes: Sequence[Change]) -> tuple[Change, ...]:
    """Several steps of one target as one change, in the order of the targets' first step."""
    joined: dict[str, Change] = {}
    for change in changes:
        first = joined.get(change.target, change)
        joined[change.target] = Change(change.target, first.old, change.new, change.now)
    return tuple(change for change in joined.values() if change.changed)
