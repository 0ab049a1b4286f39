"""What a decision is told about the present: key states, rotations, pins, the clock. Plain values."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime

from keys.core.report import Standing
from keys.core.samples import Figures
from tenants.core.values import valueclass


@valueclass(frozen=True, slots=True)
class KeyView:
    """One upstream key at this moment. The default is a healthy key about which nothing is known.

    `standing` is that of the key and the model sent upstream. `cap` names the key's own limit that is reached (`rpm`,
    `tpm`, `per_hour`, `per_day`; "" = none) and `cap_left_s` when it allows the next call. `calls_24h` counts calls
    begun in the last 24 h, those in flight included. `median_ms` is the median time to first content of the last 32
    samples, None below 3; `sample_age_s` the age of the newest, None without any. `ok` of `results` succeeded (the last
    50 within 30 min). `mean_ms` and `baseline_ms` are the 5-minute mean to first content and the key's usual one.
    `water` is the smallest known share left of the account's credit or quota window, 0 to 1. `remaining` is the number
    of calls that its tightest request cap still admits, None = uncapped.
    """

    standing: Standing = field(default_factory=Standing)
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


FRESH = KeyView()


def view_of(standing: Standing, figures: Figures) -> KeyView:
    """Return the view of a key that stands so and has these figures."""
    return KeyView(
        standing=standing,
        cap=figures.cap,
        cap_left_s=figures.cap_left_s,
        in_flight=figures.in_flight,
        calls_24h=figures.calls_24h,
        median_ms=figures.median_ms,
        sample_age_s=figures.sample_age_s,
        ok=figures.ok,
        results=figures.results,
        mean_ms=figures.mean_ms,
        baseline_ms=figures.baseline_ms,
        water=figures.water,
        remaining=figures.remaining,
    )


@valueclass(frozen=True, slots=True)
class Pin:
    """Who answered a conversation last. Stored on completion for 24 h under each of `identity.session_keys()`.

    `cached_tokens`: read + written, as `sticky.cached_tokens()` counts them. `rule_id` and `group_id` are those that
    chose the key; `group_id` None = the rule named an upstream.
    """

    key_id: int
    upstream_id: int
    rule_id: int
    group_id: int | None
    answered_at: datetime
    cached_tokens: int = 0


@valueclass(frozen=True, slots=True)
class Owner:
    """Where an id was made or a thought was signed.

    `balance` is the account, or the key where it has none (see `sticky.balance_of`); `provider` the upstream's host.
    """

    balance: int
    provider: str


@valueclass(frozen=True, slots=True)
class Charge:
    """What a draw costs a rotation. The store adds `add` to the integers of `scope` (a missing one is 0), sets those
    of `put`, and forgets those of `drop`. Additions commute: parallel draws of several processes lose nothing.
    """

    scope: str
    add: Mapping[str, int] = field(default_factory=dict)
    put: Mapping[str, int] = field(default_factory=dict)
    drop: tuple[str, ...] = ()


@valueclass(frozen=True, slots=True)
class Situation:
    """All that `decide` may read beside the facts and the table.

    `rotation` maps the scopes of `Target.scopes` to their integers. `draw` is uniform in [0, 1). `owners` maps hashed
    pin values and signatures to who made them; an unknown one is absent. `one_attempt`: the poison guard caught this
    request's fingerprint before. `pin` is the conversation's, None = nothing was pinned.
    """

    now: datetime
    draw: float
    keys: Mapping[int, KeyView] = field(default_factory=dict)
    rotation: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    pin: Pin | None = None
    owners: Mapping[str, Owner] = field(default_factory=dict)
    one_attempt: bool = False


def charged(values: Mapping[str, int], charge: Charge) -> dict[str, int]:
    """Apply a charge to a scope's integers, as a store does."""
    result = {name: value for name, value in values.items() if name not in charge.drop}
    for name, step in charge.add.items():
        result[name] = result.get(name, 0) + step
    return result | dict(charge.put)
