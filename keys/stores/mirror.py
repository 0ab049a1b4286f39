"""What one process knows of the shared states: a board kept fresh by news, and what it could not yet share."""

import logging
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from keys.core.report import Change
from keys.core.state import FRESH, KeyState, merged
from keys.core.stored import dumped, loaded
from keys.stores.board import Board

logger = logging.getLogger(__name__)


class Mirror:
    """A stored row is `version|json`. Rows of older versions than the known one are ignored."""

    def __init__(self) -> None:
        self.board = Board()
        self.versions: dict[str, int] = {}
        self.gen = 0  # number of changes ever made, as far as the news have come
        self.unshared: set[str] = set()  # targets changed while Redis was away

    def take_row(self, target: str, row: str) -> None:
        """Believe a stored row, whatever was thought before. An empty row means that nothing is stored."""
        if not row:
            self.versions.pop(target, None)
            self.board.states.pop(target, None)
            return
        head, _, text = row.partition("|")
        version = int(head) if head.isdigit() else 0
        read = loaded(_json(text))
        if read.warning:
            logger.warning("%s: %s", target, read.warning)
        self.versions[target] = version
        self.board.states[target] = read.state

    def hear(self, message: object) -> None:
        """Take in one message about states or leases; others are passed over."""
        match message:
            case ["state", str(target), str(row), int(gen)]:
                self._hear_state(target, row, gen)
            case ["lease", str(target), str(value)]:
                self._hear_lease(target, value)
            case ["unlease", str(target), str(holder)]:
                self.board.release((target,), holder)

    def load(self, rows: Mapping[str, str], leases: Mapping[str, str], gen: int) -> dict[str, KeyState]:
        """Replace what is known by what is stored; returns the states known here that are to be joined with it.

        That is what changed while Redis was away, and everything that Redis has forgotten. None of it is forgotten here
        until Redis has it: a key that is dead must not serve in between.
        """
        mine = {
            target: state
            for target, state in self.board.states.items()
            if target in self.unshared or (target not in rows and state != FRESH)
        }
        for target in list(self.board.states):
            if target not in rows:
                self.take_row(target, "")
        for target, row in rows.items():
            self.take_row(target, row)
        for target, state in mine.items():
            self.board.states[target] = merged(self.board.state(target), state)
        self.unshared = set(mine)
        self.board.leases.clear()
        for target, value in leases.items():
            self._hear_lease(target, value)
        self.gen = gen
        return mine

    def moves(self, targets: Iterable[str]) -> list[dict[str, Any]]:
        """Compare-and-set requests that make the stored states equal to these."""
        return [
            {
                "target": target,
                "expect": self.versions.get(target, 0),
                "state": orjson.dumps(dumped(self.board.state(target))).decode(),
            }
            for target in targets
        ]

    def moved(self, changes: Iterable[Change], moves: Iterable[Mapping[str, Any]]) -> None:
        """The compare-and-set succeeded. News may have been faster, with this or a later version."""
        for change, move in zip(changes, moves, strict=True):
            version = int(move["expect"]) + 1
            if self.versions.get(change.target, 0) < version:
                self.versions[change.target] = version
                self.board.states[change.target] = change.new
            self.unshared.discard(change.target)

    def conflicted(self, changes: Iterable[Change], rows: Mapping[str, str]) -> None:
        """The compare-and-set failed: believe what is stored, take back what was assumed."""
        for change in changes:
            if change.target in rows:
                self.take_row(change.target, rows[change.target])
            elif self.board.state(change.target) is change.new:
                self.board.states[change.target] = change.old

    def _hear_state(self, target: str, row: str, gen: int) -> None:
        self.gen = max(self.gen, gen)
        head = row.partition("|")[0]
        if head.isdigit() and int(head) > self.versions.get(target, 0):
            self.take_row(target, row)

    def _hear_lease(self, target: str, value: str) -> None:
        holder, _, end = value.rpartition("|")
        try:
            self.board.leases[target] = (holder, datetime.fromtimestamp(float(end), UTC))
        except (ValueError, OverflowError, OSError):
            logger.warning("Lease of %s not understood", target)


def _json(text: str) -> object:
    try:
        return orjson.loads(text)
    except ValueError:
        return None
