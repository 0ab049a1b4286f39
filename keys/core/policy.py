"""The numbers of failover, each a field that a group or an upstream key may override (DESIGN 5)."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Policy:
    """Seconds where the name ends in `_s`, bytes where it ends in `_bytes`."""

    strikes: int = 3
    cool_strike_s: float = 60
    cool_strike_max_s: float = 600
    cool_429_s: float = 60
    cool_429_max_s: float = 3600
    cool_balance_s: float = 1800
    cool_quota_s: float = 3600
    on_balance: str = "cool"  # cool | dead
    on_auth: str = "dead"  # dead | strike | stop
    on_permission: str = "strike"  # strike | dead | stop
    timeouts_cool: bool = True
    obey_retry_after: bool = True
    model_memory_s: float = 600
    max_attempts: int = 5
    connect_s: float = 10
    silence_s: float = 300
    first_content_deadline_s: float | None = None  # None = 120, streams 900
    slot_wait_s: float = 30
    sticky_wait_s: float = 3
    hold_s: float = 15
    hold_bytes: int = 1048576
    drain_s: float = 30
    low_water: float = 0.2
    slow_factor: float = 3

    def deadline_s(self, *, stream: bool) -> float:
        """No attempt starts later than this after the request came in."""
        if self.first_content_deadline_s is not None:
            return self.first_content_deadline_s
        return 900 if stream else 120


# keypool: 402 -> dead; a fixed 60 s on 429; timeouts count but never cool.
# relay: 15 s bounds everything. strict: a refusal of credentials never moves on.
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "standard": {},
    "keypool": {
        "cool_429_s": 60,
        "cool_429_max_s": 60,
        "obey_retry_after": False,
        "strikes": 3,
        "cool_strike_s": 300,
        "cool_strike_max_s": 300,
        "on_balance": "dead",
        "timeouts_cool": False,
        "max_attempts": 2,
    },
    "relay": {
        "strikes": 3,
        "cool_strike_s": 60,
        "connect_s": 10,
        "silence_s": 15,
        "first_content_deadline_s": 15,
        "slot_wait_s": 15,
    },
    "strict": {"on_auth": "stop", "on_permission": "stop"},
}

FIELDS = frozenset(f.name for f in fields(Policy))


def overridden(base: Policy, values: Mapping[str, Any]) -> Policy:
    """Lay a mapping of the file (`preset` and any field) over a policy. Unknown names raise ValueError.

    A preset replaces every number of the policy below it; without one they are inherited.
    """
    preset = values.get("preset", "standard")
    if preset not in PRESETS:
        raise ValueError(f"unknown preset {preset!r}; known: {', '.join(PRESETS)}")
    merged = {**PRESETS[preset], **{k: v for k, v in values.items() if k != "preset"}}
    unknown = merged.keys() - FIELDS
    if unknown:
        raise ValueError(f"unknown policy field {sorted(unknown)[0]!r}")
    return replace(Policy() if "preset" in values else base, **merged)
