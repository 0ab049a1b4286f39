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

from tenants.core.values import valueclass

FIRSTS, FIRSTS_MIN = 32, 3
RESULTS, RESULTS_S = 50, 1800.0
PACE_S, PACE_GRAIN_S, PACE_MIN = 300.0, 10.0, 3
BASELINE_BUCKETS, BASELINE_MIN = 288, 20
SLOW_FACTOR = 3.0  # what keeps a bucket out of the baseline


@valueclass(frozen=True, slots=True)
class Sample:
    """One finished attempt. `first_ms` None = it failed before content otherwise than by silence."""

    key_id: int
    at: datetime
    ok: bool
    first_ms: float | None = None


@valueclass(frozen=True, slots=True)
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
class Tally:
    """A count of times and their sum."""

    count: int = 0
    total: float = 0.0

    def add(self, other: "Tally") -> None:
        self.count += other.count
        self.total += other.total

    def mean(self, least: int) -> float | None:
        return self.total / self.count if self.count >= least else None


@dataclass(slots=True)
class Track:
    """The last samples of one key. Moments are seconds since 1970."""

    firsts: deque[float] = field(default_factory=lambda: deque(maxlen=FIRSTS))
    newest: float | None = None  # when the last of them came
    results: deque[tuple[float, bool]] = field(default_factory=lambda: deque(maxlen=RESULTS))
    pace: dict[int, Tally] = field(default_factory=dict)  # ten seconds each, the last five minutes
    usual: dict[int, Tally] = field(default_factory=dict)  # five minutes each, the day before that
    _known: tuple[int, Figures] | None = None  # figures of the present second

    def figures(self, now: float) -> Figures:
        """The six figures that samples tell, to a second; the rest at their defaults."""
        if self._known is None or self._known[0] != int(now):
            ok, results = self.reliability(now)
            found = Figures(
                median_ms=self.median_ms(),
                sample_age_s=self.sample_age_s(now),
                ok=ok,
                results=results,
                mean_ms=self.mean_ms(now),
                baseline_ms=self.baseline_ms(now),
            )
            self._known = (int(now), found)
        return self._known[1]

    def add(self, sample: Sample) -> None:
        self._known = None
        at = sample.at.timestamp()
        self.results.append((at, sample.ok))
        if sample.first_ms is not None:
            self.firsts.append(sample.first_ms)
            self.newest = at
            self._age(at)
            self.pace.setdefault(int(at // PACE_GRAIN_S), Tally()).add(Tally(1, sample.first_ms))

    def median_ms(self) -> float | None:
        """Median of the last 32; None below 3."""
        return float(median(self.firsts)) if len(self.firsts) >= FIRSTS_MIN else None

    def sample_age_s(self, now: float) -> float | None:
        return None if self.newest is None else max(0.0, now - self.newest)

    def reliability(self, now: float) -> tuple[int, int]:
        """How many succeeded, of how many: the last 50 within half an hour."""
        recent = [ok for at, ok in self.results if now - at <= RESULTS_S]
        return sum(recent), len(recent)

    def mean_ms(self, now: float) -> float | None:
        """Mean of the last five minutes, to ten seconds; None below 3 samples."""
        self._age(now)
        return _sum(self.pace.values()).mean(PACE_MIN)

    def baseline_ms(self, now: float) -> float | None:
        """The usual pace; None below 20 samples."""
        self._age(now)
        return _sum(self.usual.values()).mean(BASELINE_MIN)

    def _age(self, now: float) -> None:
        """Move what is older than five minutes from the pace to the usual, and forget what is older than a day."""
        oldest = int((now - PACE_S) // PACE_GRAIN_S)
        leaving: dict[int, Tally] = {}
        for grain in [grain for grain in self.pace if grain < oldest]:
            leaving.setdefault(int(grain * PACE_GRAIN_S // PACE_S), Tally()).add(self.pace.pop(grain))
        for bucket, tally in leaving.items():
            self._accustom(bucket, tally)
        day_ago = int(now // PACE_S) - BASELINE_BUCKETS
        if any(bucket < day_ago for bucket in self.usual):
            self.usual = {bucket: tally for bucket, tally in self.usual.items() if bucket >= day_ago}

    def _accustom(self, bucket: int, tally: Tally) -> None:
        usual = _sum(self.usual.values()).mean(BASELINE_MIN)
        if usual is None or tally.total <= SLOW_FACTOR * usual * tally.count:
            self.usual.setdefault(bucket, Tally()).add(tally)


def _sum(tallies: Iterable[Tally]) -> Tally:
    result = Tally()
    for tally in tallies:
        result.add(tally)
    return result
