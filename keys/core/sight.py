"""What a serving process sees of its keys, as JSON values for processes that do not serve: `explain` and the dry run.

A row per target (`key:12`, `account:3`). Windows are kept as counts, so that the reader lets them roll on to its own
moment; times to first content as they were worked out when the row was made.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from keys.core.samples import PACE_S, RESULTS_S, Figures
from keys.core.windows import SPANS, Caps, Window

SIGHT_PREFIX, WHEEL_PREFIX = "sight:", "wheel:"  # of rows with a target's sight, and a rotation's integers
FLYING_S = 30.0  # as long calls in flight are believed without a new row: their process may be gone

Facts = Mapping[str, tuple[float, float]]  # kind -> value, end (seconds since 1970)


def sight_of(figures: Figures, windows: Mapping[str, Window], facts: Facts, at: float) -> dict[str, Any]:
    """Return the row of a target; `windows` by the span's name. What is empty is left out."""
    values: dict[str, Any] = {
        "flying": figures.in_flight,
        "windows": {name: sorted(window.counts.items()) for name, window in windows.items() if window.counts},
        "median_ms": figures.median_ms,
        "newest": None if figures.sample_age_s is None else at - figures.sample_age_s,
        "results": [figures.ok, figures.results] if figures.results else None,
        "pace": [figures.mean_ms, figures.baseline_ms],
        "facts": {kind: list(fact) for kind, fact in facts.items()},
    }
    return {"at": at, **{name: value for name, value in values.items() if value}}


def figures_of(
    row: Mapping[str, Any], account_row: Mapping[str, Any], caps: Caps, calls_24h: int, now: datetime
) -> Figures:
    """Read a key's figures back, under its caps. Damage costs the figures, nothing else.

    `account_row` is the row of who holds the balance: the account, else the key itself.
    """
    try:
        return _figures(row, account_row, caps, calls_24h, now.timestamp())
    except (KeyError, TypeError, ValueError):
        return Figures(calls_24h=calls_24h)


def _figures(row: Mapping[str, Any], account_row: Mapping[str, Any], caps: Caps, calls_24h: int, at: float) -> Figures:
    age = at - float(row.get("at", 0.0))
    flying = int(row.get("flying", 0)) if age <= FLYING_S else 0
    cap, cap_left_s, remaining = capped(_windows(row), caps, at)
    newest = row.get("newest")
    ok, results = row.get("results") or (0, 0)
    mean_ms, baseline_ms = row.get("pace") or (None, None)
    facts = dict(account_row.get("facts", {}))
    shares = [float(value) for kind in ("water", "credit") for value, end in [facts.get(kind, (0, 0))] if end > at]
    return Figures(
        cap=cap,
        cap_left_s=cap_left_s,
        in_flight=flying,
        calls_24h=calls_24h + flying,
        median_ms=row.get("median_ms"),
        sample_age_s=None if newest is None else max(0.0, at - float(newest)),
        ok=int(ok) if age <= RESULTS_S else 0,
        results=int(results) if age <= RESULTS_S else 0,
        mean_ms=mean_ms if age <= PACE_S else None,
        baseline_ms=baseline_ms,
        water=min(shares, default=None),
        remaining=remaining,
    )


def capped(windows: Mapping[str, Window], caps: Caps, at: float) -> tuple[str, float, int | None]:
    """Return the cap that is reached ("" = none), for how long, and how many calls the tightest one still admits."""
    cap, cap_left_s, remaining = "", 0.0, None
    for span, limit in caps.windows():
        window = windows.get(span.name) or Window(span)
        left = window.frees_in(1, limit, at)
        if left > cap_left_s:
            cap, cap_left_s = span.name, left
        if not span.of_tokens:
            room = max(0, limit - window.sum_at(at))
            remaining = room if remaining is None else min(remaining, room)
    return cap, cap_left_s, remaining


def _windows(row: Mapping[str, Any]) -> dict[str, Window]:
    found = {}
    for span in SPANS:
        counts = {int(bucket): int(n) for bucket, n in row.get("windows", {}).get(span.name, ())}
        if counts:
            found[span.name] = Window(span, counts)  # it rolls before it is read
    return found
