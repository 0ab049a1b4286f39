"""Rate windows: at most so many calls or tokens in any sliding minute, hour or day.

A window of n buckets counts every bucket that the last n × width seconds touch, the oldest one whole. So a limit holds
in every interval of the window's length, at the price of being up to one bucket strict (a second in a minute, a minute
in an hour, a quarter of an hour in a day). `keys/stores/lua/shared.lua` repeats this arithmetic; one suite tests both.
"""

from dataclasses import dataclass, field
from functools import lru_cache

from tenants.core.values import valueclass


@valueclass(frozen=True, slots=True)
class Span:
    """How a limit is counted. `buckets` × `width_s` is its length."""

    name: str
    width_s: int
    buckets: int
    of_tokens: bool = False

    @property
    def length_s(self) -> int:
        return self.width_s * self.buckets


SPANS = (
    Span("rpm", 1, 60),
    Span("tpm", 1, 60, of_tokens=True),
    Span("per_hour", 60, 60),
    Span("per_day", 900, 96),
    Span("tokens_per_day", 900, 96, of_tokens=True),
)


@valueclass(frozen=True, slots=True)
class Caps:
    """Limits of one scope (a line, a gateway key, an upstream key). None = no limit."""

    rpm: int | None = None
    tpm: int | None = None
    per_hour: int | None = None
    per_day: int | None = None
    tokens_per_day: int | None = None
    concurrency: int | None = None

    def windows(self) -> tuple[tuple[Span, int], ...]:
        """The spans that are limited, with their limits."""
        return _windows_of(self)


@lru_cache(maxsize=4096)
def _windows_of(caps: Caps) -> tuple[tuple[Span, int], ...]:
    limits = ((span, getattr(caps, span.name)) for span in SPANS)
    return tuple((span, limit) for span, limit in limits if limit is not None)


@dataclass(slots=True)
class Window:
    """Counts of one scope in one span. `now` is in seconds since 1970."""

    span: Span
    counts: dict[int, int] = field(default_factory=dict)
    total: int = 0
    head: int = 0

    def roll(self, now: float) -> int:
        """Forget what has left the window; returns the present bucket.

        A clock that stepped back by more than the window starts it anew; by less, the counts ahead stay.
        """
        head = int(now // self.span.width_s)
        if head == self.head:
            return head
        low, high = head - self.span.buckets, head + self.span.buckets
        if max(self.counts, default=low) > high:
            self.counts.clear()
        self.counts = {bucket: n for bucket, n in self.counts.items() if bucket >= low}
        self.total = sum(self.counts.values())
        self.head = head
        return head

    def sum_at(self, now: float) -> int:
        self.roll(now)
        return self.total

    def fits(self, amount: int, limit: int, now: float) -> bool:
        """Whether an amount may come in. One that alone exceeds the limit needs an empty window."""
        self.roll(now)
        return limit > 0 and self.total + min(amount, limit) <= limit

    def add(self, amount: int, now: float) -> None:
        head = self.roll(now)
        self.counts[head] = self.counts.get(head, 0) + amount
        self.total += amount

    def correct(self, delta: int, at: float, now: float) -> None:
        """Change what was added at `at`; nothing when that has left the window. A bucket never falls below zero."""
        self.roll(now)
        bucket = int(at // self.span.width_s)
        if bucket in self.counts:
            change = max(delta, -self.counts[bucket])
            self.counts[bucket] += change
            self.total += change

    def frees_in(self, amount: int, limit: int, now: float) -> float:
        """Seconds until the amount fits, if nothing else comes in; 0 when it fits."""
        if limit <= 0:
            return float(self.span.length_s)
        if self.fits(amount, limit, now):
            return 0.0
        excess = self.total + min(amount, limit) - limit
        for bucket in sorted(self.counts):
            excess -= self.counts[bucket]
            if excess <= 0:
                return (bucket + self.span.buckets + 1) * self.span.width_s - now
        return float(self.span.length_s)
