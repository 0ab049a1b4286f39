"""Counters of one upstream key: what the pool page shows beside its state."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from keys.core.outcome import Cause, Outcome
from keys.core.state import is_failure

BUCKET_S = 300
BUCKETS = 12  # one hour
HOUR_S = 3600
HOURS = 24
LAST_ERROR_MAX = 160


def bucket_of(now: datetime) -> int:
    """Number of the five minutes that a moment lies in."""
    return int(now.timestamp()) // BUCKET_S


def hour_of(now: datetime) -> int:
    return int(now.timestamp()) // HOUR_S


def error_text(outcome: Outcome) -> str:
    """What `last_error` shows, at most 160 characters. The message is redacted already."""
    text = f"{outcome.cause.value}: {outcome.message}" if outcome.message else outcome.cause.value
    return text if len(text) <= LAST_ERROR_MAX else text[: LAST_ERROR_MAX - 1] + "…"


@dataclass(slots=True)
class Counts:
    """Totals since the key's first call, calls and failures per five minutes of the last hour, calls per hour of a day.

    Answers about the request alone and aborted ones are calls, never failures.
    """

    calls: int = 0
    failures: int = 0
    recent: dict[int, tuple[int, int]] = field(default_factory=dict)
    last_error: str = ""
    last_served: datetime | None = None
    hours: dict[int, int] = field(default_factory=dict)

    def add(self, outcome: Outcome, now: datetime) -> None:
        failed = int(is_failure(outcome))
        self.calls += 1
        self.failures += failed
        bucket = bucket_of(now)
        calls, failures = self.recent.get(bucket, (0, 0))
        if not calls:
            self.recent = {b: n for b, n in self.recent.items() if bucket - BUCKETS < b <= bucket}
        self.recent[bucket] = (calls + 1, failures + failed)
        if failed:
            self.last_error = error_text(outcome)
        elif outcome.cause is Cause.SERVED:
            self.last_served = now
        self.add_hour(1, now)

    def add_hour(self, calls: int, now: datetime) -> None:
        """Count calls of this hour for the figure of 24 h alone."""
        hour = hour_of(now)
        if hour not in self.hours:
            self.hours = {h: n for h, n in self.hours.items() if hour - HOURS < h <= hour}
        self.hours[hour] = self.hours.get(hour, 0) + calls

    def calls_24h(self, now: datetime) -> int:
        """Finished calls of the last 24 h, to an hour's grain."""
        hour = hour_of(now)
        return sum(n for h, n in self.hours.items() if hour - HOURS < h <= hour)

    def failure_rate_1h(self, now: datetime) -> float:
        """Failed part of the last hour's calls, to a bucket's grain; 0.0 without calls."""
        bucket = bucket_of(now)
        window = [n for b, n in self.recent.items() if bucket - BUCKETS < b <= bucket]
        calls = sum(n for n, _ in window)
        return sum(n for _, n in window) / calls if calls else 0.0

    def dumped(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "calls": self.calls,
            "failures": self.failures,
            "recent": {str(b): list(n) for b, n in self.recent.items()},
            "last_error": self.last_error,
            "last_served": self.last_served.timestamp() if self.last_served else None,
            "hours": {str(h): n for h, n in self.hours.items()},
        }


def loaded_counts(values: object) -> Counts:
    """Read stored counters; damage costs the figures, nothing else."""
    if not isinstance(values, Mapping):
        return Counts()
    try:
        served = values.get("last_served")
        return Counts(
            calls=int(values.get("calls", 0)),
            failures=int(values.get("failures", 0)),
            recent={int(b): (int(n[0]), int(n[1])) for b, n in dict(values.get("recent", {})).items()},
            last_error=str(values.get("last_error", ""))[:LAST_ERROR_MAX],
            last_served=datetime.fromtimestamp(served, UTC) if served else None,
            hours={int(h): int(n) for h, n in dict(values.get("hours", {})).items()},
        )
    except (ValueError, TypeError, IndexError, OverflowError, OSError):
        return Counts()
