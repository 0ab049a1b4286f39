"""What a request asks of the store before it is sent, and what it gives back afterwards."""

from datetime import datetime

from keys.core.policy import Policy
from keys.core.report import Report, Standing
from keys.core.windows import Caps
from tenants.core.values import valueclass

UNCAPPED = Caps()
SLOT_LEASE_S = 30.0
WAIT_MAX_S = 60.0  # a waiter's place in the queue is forgotten after this, should its process die


@valueclass(frozen=True, slots=True)
class Caller:
    """A scope that pays for the request: `line:4` or `gateway:9`."""

    scope: str
    caps: Caps


@valueclass(frozen=True, slots=True)
class KeyOption:
    """One upstream key that may serve. `dares`: try it although it cools by strikes (nothing else is left)."""

    key_id: int
    account_id: int | None = None
    caps: Caps = UNCAPPED
    epoch: int = 0
    dares: bool = False


@valueclass(frozen=True, slots=True)
class AdmitRequest:
    """One try to get under way: the first of `keys`, as they are ordered, that has a slot.

    `ticket` is unique per attempt (it names the slot, and the place in the queue). `model` is the name sent upstream,
    empty = whatever. `callers` are charged once per request: leave them out on later hops. `tokens` is the estimate
    that token windows are charged with until `settle`. `slots` False: no concurrency is taken (token counting).
    """

    ticket: str
    model: str
    keys: tuple[KeyOption, ...]
    callers: tuple[Caller, ...] = ()
    tokens: int = 0
    slots: bool = True


@valueclass(frozen=True, slots=True)
class Hold:
    """What an admitted request holds in one scope until it is settled. Slots are leases, renewed by `run()`."""

    scope: str
    ticket: str
    at: datetime
    tokens: int
    caps: Caps
    slot: bool = True


@valueclass(frozen=True, slots=True)
class Block:
    """Why a scope did not let the request in.

    `limit`: concurrency, rpm, tpm, per_hour, per_day, tokens_per_day, probe (somebody holds the half-open lease),
    queue (others wait longer) or cooling (its end is near enough to wait for). `left_s` None = when somebody else is
    done.
    """

    scope: str
    limit: str
    left_s: float | None = None


@valueclass(frozen=True, slots=True)
class Passed:
    """A key that its state ruled out between the decision and the admission."""

    key_id: int
    standing: Standing


@valueclass(frozen=True, slots=True)
class ProbeLease:
    """The right to send the one request that a half-open key or account gets. Empty `targets`: none was needed."""

    holder: str
    targets: tuple[str, ...]


@valueclass(frozen=True, slots=True)
class Admission:
    """The answer to an AdmitRequest.

    Granted: `key_id` serves; settle `holds` when the attempt is over. Not granted: `blocks` say why. `callers_passed`
    with no key: the callers' holds are in `holds` all the same, and stay yours to settle; ask again without `callers`.
    `busy` lists full keys and why, also those passed over before the granted one. `probe` is the half-open lease, None
    when none was needed. `degraded`: the shared store did not answer, so windows were not looked at and slots are this
    process's own count.
    """

    key_id: int | None = None
    callers_passed: bool = False
    holds: tuple[Hold, ...] = ()
    probe: ProbeLease | None = None
    blocks: tuple[Block, ...] = ()
    busy: tuple[Block, ...] = ()
    passed: tuple[Passed, ...] = ()
    waited_s: float = 0.0
    degraded: bool = False

    @property
    def granted(self) -> bool:
        return self.key_id is not None

    @property
    def retry_after_s(self) -> float | None:
        """The nearest time at which something frees; None when nobody knows."""
        return min((block.left_s for block in self.blocks if block.left_s is not None), default=None)


@valueclass(frozen=True, slots=True)
class SettleRequest:
    """Everything that follows an attempt, in one call.

    `tokens` is what the attempt really used; None leaves the estimate in the windows.
    """

    reports: tuple[tuple[Report, Policy], ...] = ()
    holds: tuple[Hold, ...] = ()
    tokens: int | None = None
    probe: ProbeLease | None = None
