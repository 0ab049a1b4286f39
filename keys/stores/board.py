"""States, counters and probe leases in memory: the embedded store's truth, the Redis store's mirror."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from keys.core.admission import AdmitRequest, Passed
from keys.core.counts import Counts
from keys.core.policy import Policy
from keys.core.pool import Pool
from keys.core.report import (
    Change,
    Part,
    Report,
    Skip,
    Standing,
    account_target,
    key_target,
    reported,
    standing_of,
    targets_of,
)
from keys.core.state import FRESH, KeyState, is_half_open
from keys.stores.gate import Eligible

PROBE_LEASE_S = 10.0
_PLAIN = Standing()


class Board:
    """Not thread-safe: belongs to one event loop. Targets are `key:12`, `account:3`."""

    def __init__(self) -> None:
        self.states: dict[str, KeyState] = {}
        self.counts: dict[int, Counts] = {}
        self.leases: dict[str, tuple[str, datetime]] = {}  # target -> holder, end

    def state(self, target: str) -> KeyState:
        return self.states.get(target, FRESH)

    def standing(self, key_id: int, account_id: int | None, model: str, now: datetime, epoch: int = 0) -> Standing:
        """Judge one pair. A higher `epoch` than the known one means that the key was edited: it is fresh."""
        key = self.states.get(key_target(key_id), FRESH)
        if epoch > key.epoch:
            key = KeyState(epoch=epoch)
        account = None if account_id is None else self.states.get(account_target(account_id))
        if key is FRESH and account is None:
            return _PLAIN
        standing = standing_of(key, account, model, now)
        if standing.available and standing.half_open:
            return self._unless_leased(standing, (key_target(key_id), account_id), now)
        return standing

    def half_open(self, key_id: int, account_id: int | None, now: datetime, epoch: int = 0) -> tuple[str, ...]:
        """The targets whose lease a request with this key must hold. `epoch` as in `standing`."""
        targets = [key_target(key_id)] if epoch <= self.state(key_target(key_id)).epoch else []
        if account_id is not None:
            targets.append(account_target(account_id))
        return tuple(target for target in targets if is_half_open(self.state(target), now))

    def eligible(self, request: AdmitRequest, now: datetime) -> tuple[tuple[Eligible, ...], tuple[Passed, ...]]:
        """Sort a request's keys by their states: who may serve, with the leases needed, and who may not."""
        keys, passed = [], []
        for key in request.keys:
            standing = self.standing(key.key_id, key.account_id, request.model, now, key.epoch)
            if standing.skip in (None, Skip.BUSY):
                keys.append(Eligible(key, self.half_open(key.key_id, key.account_id, now, key.epoch)))
            elif key.dares and standing.by_strikes and standing.skip is Skip.COOLING:
                keys.append(Eligible(key))
            else:
                passed.append(Passed(key.key_id, standing))
        return tuple(keys), tuple(passed)

    def leased(self, now: datetime) -> frozenset[str]:
        """Targets whose half-open lease is out."""
        return frozenset(target for target in self.leases if self.lease_left_s(target, now) > 0)

    def decide(self, report: Report, policy: Policy, now: datetime) -> tuple[Change, ...]:
        """What a report would change, without doing it."""
        found = []
        for target in targets_of(report):
            old = self.state(target)
            new = reported(old, report, policy, now, target)
            if new is not old:
                found.append(Change(target, old, new, now))
        return tuple(change for change in found if change.changed)

    def accept(self, changes: Iterable[Change]) -> None:
        for change in changes:
            self.states[change.target] = change.new

    def count(self, report: Report, now: datetime) -> None:
        """Counters move for every real call, stale or not, and once per attempt."""
        if not report.probe and report.part is not Part.LATE:
            self.counts.setdefault(report.key_id, Counts()).add(report.outcome, now)

    def hear_calls(self, key_id: int, number: int, now: datetime) -> None:
        """Another process finished so many calls."""
        self.counts.setdefault(key_id, Counts()).add_hour(number, now)

    def hear_served(self, key_id: int, at: datetime) -> None:
        """Another process was served."""
        counts = self.counts.setdefault(key_id, Counts())
        if counts.last_served is None or counts.last_served < at:
            counts.last_served = at

    def lease(self, targets: Iterable[str], holder: str, now: datetime) -> bool:
        """Take all leases or none."""
        wanted = tuple(targets)
        if any(self.lease_left_s(target, now) > 0 for target in wanted):
            return False
        self.note_lease(wanted, holder, now)
        return True

    def note_lease(self, targets: Iterable[str], holder: str, now: datetime) -> None:
        until = now + timedelta(seconds=PROBE_LEASE_S)
        self.leases.update(dict.fromkeys(targets, (holder, until)))

    def release(self, targets: Iterable[str], holder: str) -> None:
        for target in targets:
            if self.leases.get(target, ("",))[0] == holder:
                del self.leases[target]

    def lease_left_s(self, target: str, now: datetime) -> float:
        held = self.leases.get(target)
        # Clocks of several machines differ a little. Far more than a whole lease left means that one stepped back.
        left = (held[1] - now).total_seconds() if held else 0.0
        return left if 0 < left <= 2 * PROBE_LEASE_S else 0.0

    def pool(self, now: datetime) -> Pool:
        return Pool(dict(self.states), dict(self.counts), now)

    def _unless_leased(self, standing: Standing, pair: tuple[str, int | None], now: datetime) -> Standing:
        targets = (pair[0],) if pair[1] is None else (pair[0], account_target(pair[1]))
        left = max(self.lease_left_s(target, now) for target in targets)
        if left <= 0:
            return standing
        return Standing(skip=Skip.BUSY, left_s=left, epoch=standing.epoch, strikes=standing.strikes, half_open=True)
