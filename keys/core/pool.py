"""The pool as it is shown: one figure sheet per key, from stored rows or from a live store."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from keys.core.counts import Counts, loaded_counts
from keys.core.report import account_target, key_target
from keys.core.state import FRESH, KeyState, Status, left_s, rested, status_at
from keys.core.stored import dumped, loaded
from tenants.core.values import valueclass


@valueclass(frozen=True, slots=True)
class Sheet:
    """One key, its account included: a key whose account is out of balance shows as cooling for that reason.

    `cooling_left_s` is 0 unless cooling. `models` maps each resting model to its reason and seconds left.
    `half_open`: healthy, but nobody has succeeded since its cooling ended. `message`: what the upstream said when the
    present cooling or death came; `last_error` may be younger and about something else.
    """

    status: Status
    cooling_left_s: float
    reason: str
    strikes: int
    trips: int
    calls: int
    failures: int
    failure_rate_1h: float
    last_error: str
    epoch: int
    half_open: bool
    models: Mapping[str, Mapping[str, Any]]
    message: str = ""

    def as_json(self) -> dict[str, Any]:
        """The store's part of a row of `manage.py pool --json`."""
        return {
            "status": self.status.value,
            "cooling_left_s": round(self.cooling_left_s, 1),
            "reason": self.reason,
            "strikes": self.strikes,
            "trips": self.trips,
            "calls": self.calls,
            "failure_rate_1h": round(self.failure_rate_1h, 4),
            "last_error": self.last_error,
            "epoch": self.epoch,
            "models": {name: dict(rest) for name, rest in self.models.items()},
        }


@valueclass(frozen=True, slots=True)
class Pool:
    """States by target (`key:12`, `account:3`) and counters by key id, at one moment."""

    states: Mapping[str, KeyState]
    counts: Mapping[int, Counts]
    now: datetime
    warnings: tuple[str, ...] = ()

    def sheet(self, key_id: int, account_id: int | None = None) -> Sheet:
        """The figures of one key; a key never reported on is healthy and zero."""
        now = self.now
        key = rested(self.states.get(key_target(key_id), FRESH), now)
        account = FRESH if account_id is None else self.states.get(account_target(account_id), FRESH)
        worst = max((key, rested(account, now)), key=lambda s: (s.status is Status.DEAD, left_s(s, now)))
        shown = worst.status is not Status.HEALTHY
        counts = self.counts.get(key_id, Counts())
        return Sheet(
            status=worst.status,
            cooling_left_s=left_s(worst, now),
            reason=reason_text(worst) if shown else "",
            message=worst.message if shown else "",
            strikes=key.strikes,
            trips=key.trips,
            calls=counts.calls,
            failures=counts.failures,
            failure_rate_1h=counts.failure_rate_1h(now),
            last_error=counts.last_error,
            epoch=key.epoch,
            half_open=any(s.until is not None and status_at(s, now) is Status.HEALTHY for s in (key, account)),
            models={
                rest.model: {"reason": rest.cause.value, "left_s": round((rest.until - now).total_seconds(), 1)}
                for rest in key.models
                if rest.until > now
            },
        )


def reason_text(state: KeyState) -> str:
    """The cause, refined where the answer said more: `quota_exhausted (per_day)`."""
    if state.cause is None:
        return ""
    return f"{state.cause.value} ({state.reason})" if state.reason else state.cause.value


def pool_of_rows(rows: Mapping[str, object], now: datetime) -> Pool:
    """Read the persisted copy (targets to the JSON that a store saved). Rows of other kinds are passed over."""
    states: dict[str, KeyState] = {}
    counts: dict[int, Counts] = {}
    warnings: list[str] = []
    for target, row in _of_targets(rows):
        values = row if isinstance(row, Mapping) else {}
        read = loaded(values.get("state"))
        states[target] = read.state
        if read.warning:
            warnings.append(f"{target}: {read.warning}")
        kind, _, number = target.partition(":")
        if kind == "key" and number.isdigit():
            counts[int(number)] = loaded_counts(values.get("counts"))
    return Pool(states, counts, now, tuple(warnings))


def rows_of_pool(pool: Pool) -> dict[str, dict[str, Any]]:
    """Return the rows that `pool_of_rows` reads back: every target with a state or counters."""
    rows: dict[str, dict[str, Any]] = {target: {"state": dumped(state)} for target, state in pool.states.items()}
    for key_id, counts in pool.counts.items():
        rows.setdefault(key_target(key_id), {"state": dumped(FRESH)})["counts"] = counts.dumped()
    return rows


def _of_targets(rows: Mapping[str, object]) -> Iterable[tuple[str, object]]:
    return ((target, row) for target, row in rows.items() if target.startswith(("key:", "account:")))
