"""What is remembered of an upstream key's speed and reliability: the figures that strategies and the slow mark read.

Times to first content are in milliseconds; a silent attempt counts with the time it was silent. The usual pace is the
mean of a day in five-minute buckets, without the present five minutes and without buckets that were slow themselves:
a key that stays slow does not come to look normal.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median

FIRSTS, FIRSTS_MIN = 32, 3
RESULTS, RESULTS_S = 50, 1800.0
PACE_S, PACE_MIN = 300.0, 3
BASELINE_BUCKETS, BASELINE_MIN = 288, 20
SLOW_FACTOR = 3.0  # what keeps a bucket out of the baseline


@dataclass(frozen=True, slots=True)
class Sample:
    """One finished attempt. `first_ms` None = it failed before content otherwise than by silence."""

    key_id: int
    at: datetime
    ok: bool
    first_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """One key's figures at a moment; field by field what `routing.core.views.KeyView` asks for."""

    cap: str = ""
    cap_left_s: float = 0.0
    in_flight: int = 0
    calls_24h: int = 0
    median_ms: float | None = None
    sample_age_s: float | None = None
    ok: int = 0
    results: int = 0
    mean_ms: float | None = None
    baseline_ms: float | None = None
    water: float | None = None
    remaining: int | None = None


@dataclass(slots=True)
class Track:
    """The last samples of one key."""

    firsts: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=FIRSTS))  # at, ms
    results: deque[tuple[float, bool]] = field(default_factory=lambda: deque(maxlen=RESULTS))
    pace: deque[tuple[float, float]] = field(default_factory=deque)  # the last five minutes
    usual: dict[int, tuple[int, float]] = field(default_factory=dict)  # bucket -> count, sum

    def add(self, sample: Sample) -> None:
        at = sample.at.timestamp()
        self.results.append((at, sample.ok))
        if sample.first_ms is not None:
            self.firsts.append((at, sample.first_ms))
            self._age(at)
            self.pace.append((at, sample.first_ms))

    def median_ms(self) -> float | None:
        """Median of the last 32; None below 3."""
        return float(median(ms for _, ms in self.firsts)) if len(self.firsts) >= FIRSTS_MIN else None

    def sample_age_s(self, now: float) -> float | None:
        return max(0.0, now - self.firsts[-1][0]) if self.firsts else None

    def reliability(self, now: float) -> tuple[int, int]:
        """How many succeeded, of how many: the last 50 within half an hour."""
        recent = [ok for at, ok in self.results if now - at <= RESULTS_S]
        return sum(recent), len(recent)

    def mean_ms(self, now: float) -> float | None:
        """Mean of the last five minutes; None below 3 samples."""
        return _mean([ms for at, ms in self.pace if now - at <= PACE_S], PACE_MIN)

    def baseline_ms(self, now: float) -> float | None:
        """The usual pace; None below 20 samples."""
        self._age(now)
        newest = int(now // PACE_S)
        kept = [entry for bucket, entry in self.usual.items() if newest - BASELINE_BUCKETS <= bucket <= newest]
        count = sum(n for n, _ in kept)
        return sum(total for _, total in kept) / count if count >= BASELINE_MIN else None

    def _age(self, now: float) -> None:
        """Move what is older than five minutes from the pace to the usual."""
        leaving: dict[int, list[float]] = {}
        while self.pace and now - self.pace[0][0] > PACE_S:
            at, ms = self.pace.popleft()
            leaving.setdefault(int(at // PACE_S), []).append(ms)
        for bucket, times in leaving.items():
            self._accustom(bucket, times)

    def _accustom(self, bucket: int, times: list[float]) -> None:
        count, total = sum(n for n, _ in self.usual.values()), sum(t for _, t in self.usual.values())
        if count >= BASELINE_MIN and sum(times) / len(times) > SLOW_FACTOR * total / count:
            return
        known, known_sum = self.usual.get(bucket, (0, 0.0))
        self.usual[bucket] = (known + len(times), known_sum + sum(times))
        while len(self.usual) > BASELINE_BUCKETS:
            del self.usual[min(self.usual)]


def _mean(values: Iterable[float], least: int) -> float | None:
    found = list(values)
    return sum(found) / len(found) if len(found) >= least else None
