"""The poison guard: a request that fails everywhere must not take the keys down with it.

Strikes and deaths of a request wait for the end of its chain. Strikes are dropped when the request failed at two or
more balances while every struck key served another request within the last minute: then the request is at fault. A
second account that refuses its credentials in the same chain is no coincidence either: neither key dies, both are
probed.
"""

from collections.abc import Collection, Sequence

from keys.core.outcome import Cause
from keys.core.policy import Policy
from keys.core.report import Report
from tenants.core.values import valueclass

SERVED_WITHIN_S = 60.0
POISON_S = 600.0  # how long the request's like gets one attempt only
_SEVERAL = 2


@valueclass(frozen=True, slots=True)
class Late:
    """An effect that waits. `balance` tells accounts apart (a key without one is its own)."""

    report: Report
    policy: Policy
    balance: int


@valueclass(frozen=True, slots=True)
class Judgement:
    """`apply`: effects that count. `probe`: keys to ask instead. `poisoned`: the request is at fault."""

    apply: tuple[Late, ...] = ()
    probe: tuple[int, ...] = ()
    poisoned: bool = False


def judge(late: Sequence[Late], *, served: bool, served_lately: Collection[int]) -> Judgement:
    """Return what becomes of a chain's held-back effects.

    `served`: some attempt of the chain answered; such a request is never called poisoned. `served_lately`: the keys
    that served another request within the last 60 s.
    """
    refused = [one for one in late if one.report.outcome.cause is Cause.AUTH_INVALID]
    struck = [one for one in late if one.report.outcome.cause is not Cause.AUTH_INVALID]
    probe: tuple[int, ...] = ()
    if len({one.balance for one in refused}) >= _SEVERAL:
        probe, refused = tuple(one.report.key_id for one in refused), []
    several = len({one.balance for one in struck}) >= _SEVERAL
    excused = several and all(one.report.key_id in served_lately for one in struck)
    if excused:
        struck = []
    kept = tuple(one for one in late if one in refused or one in struck)
    return Judgement(apply=kept, probe=probe, poisoned=not served and (excused or bool(probe)))
