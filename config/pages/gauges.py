"""What only a process that serves knows of upstream keys: the slow mark, what their caps and their account leave."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from keys.core.policy import Policy, overridden
from keys.models import UpstreamKey
from proxy import background
from proxy.runtime import Runtime, current
from routing.core.strategies import is_slow
from routing.snapshot import caps_of

ASK_S = 2.0


@dataclass(frozen=True, slots=True)
class Gauge:
    """One key now. `slow`: its mean and its usual time to first content in ms, None = not marked.

    `left`: what each cap leaves, by the cap's name. `water`: the share left of its account's credit or window where
    that is below the low-water mark, else None.
    """

    slow: tuple[float, float] | None
    left: Mapping[str, int]
    water: float | None


def gauges(keys: Sequence[UpstreamKey]) -> Mapping[int, Gauge]:
    """Return the gauges by key id. Empty where no gateway runs in this process. From a thread of it."""
    try:
        return background.ask(_read(current(), keys), ASK_S)
    except (RuntimeError, TimeoutError):
        return {}


async def _read(runtime: Runtime, keys: Sequence[UpstreamKey]) -> Mapping[int, Gauge]:
    return {key.pk: _gauge(runtime, key) for key in keys}


def _gauge(runtime: Runtime, key: UpstreamKey) -> Gauge:
    now, caps = runtime.now(), caps_of(key)
    policy = overridden(Policy(), key.policy)
    seen = runtime.store.figures.of(key.pk, key.account_id, caps, now)
    mean, usual = seen.mean_ms, seen.baseline_ms
    slow = (mean, usual) if mean is not None and usual is not None else None
    return Gauge(
        slow=slow if is_slow(mean, usual, policy.slow_factor) else None,
        left=runtime.store.figures.left(key.pk, caps, now),
        water=seen.water if seen.water is not None and seen.water < policy.low_water else None,
    )
