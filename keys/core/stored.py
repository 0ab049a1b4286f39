"""Key states and counters as JSON values, for the database and for Redis.

Times are seconds since 1970 (float, microseconds kept). Reading never raises: what is unknown or damaged reads as
healthy, and says so in a warning, so that an older or newer process cannot lock keys out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from keys.core.outcome import Cause
from keys.core.state import KeyState, Rest, Status


@dataclass(frozen=True, slots=True)
class Loaded:
    """A state read back; `warning` is empty unless something in it was not understood."""

    state: KeyState
    warning: str = ""


def dumped(state: KeyState) -> dict[str, Any]:
    """JSON form of a state; fields that have their default are left out."""
    values: dict[str, Any] = {
        "status": state.status.value,
        "epoch": state.epoch,
        "until": _seconds(state.until),
        "since": _seconds(state.since),
        "cause": state.cause.value if state.cause else None,
        "reason": state.reason,
        "message": state.message,
        "by_strikes": state.by_strikes,
        "strikes": state.strikes,
        "trips": state.trips,
        "waits": state.waits,
        "models": [[rest.model, _seconds(rest.until), rest.cause.value, rest.reason] for rest in state.models],
    }
    return {name: value for name, value in values.items() if value or name in ("status", "epoch")}


def loaded(values: object) -> Loaded:
    """Read a stored state. An unknown status, a cooling without end or any damaged field means healthy."""
    if not isinstance(values, Mapping):
        return Loaded(KeyState(), "stored state is no object: read as healthy")
    epoch = _count(values.get("epoch"))
    try:
        state = _read(values, epoch)
    except (ValueError, TypeError, OverflowError, OSError) as exc:
        return Loaded(KeyState(epoch=epoch), f"stored state not understood ({exc}): read as healthy")
    if state.status is Status.COOLING and state.until is None:
        return Loaded(KeyState(epoch=epoch), "stored cooling without an end: read as healthy")
    return Loaded(state)


def _read(values: Mapping[str, Any], epoch: int) -> KeyState:
    cause = values.get("cause")
    return KeyState(
        status=Status(values.get("status", Status.HEALTHY)),
        epoch=epoch,
        until=_moment(values.get("until")),
        since=_moment(values.get("since")),
        cause=Cause(cause) if cause else None,
        reason=str(values.get("reason", "")),
        message=str(values.get("message", "")),
        by_strikes=bool(values.get("by_strikes", False)),
        strikes=_count(values.get("strikes")),
        trips=_count(values.get("trips")),
        waits=_count(values.get("waits")),
        models=tuple(_rest(row) for row in values.get("models", ())),
    )


def _rest(row: Any) -> Rest:
    model, until, cause, reason = row
    return Rest(str(model), datetime.fromtimestamp(until, UTC), Cause(cause), str(reason))


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
