"""What the request path, the prober and the admin may ask of a state store; both stores pass one conformance suite."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from keys.core.admission import Admission, AdmitRequest, Hold, ProbeLease, SettleRequest
from keys.core.policy import Policy
from keys.core.pool import Pool
from keys.core.report import Change, Report, Standing
from keys.stores.claims import Claims
from keys.stores.figures import FigureBoard
from keys.stores.notes import Notes


class PersistenceError(Exception):
    """The database could not be read or written now; the store keeps what is unsaved and tries again."""


class Persistence(Protocol):
    """Rows that outlive the process. Called from a thread, one call at a time; raises PersistenceError alone."""

    def load(self) -> dict[str, dict[str, Any]]: ...

    def save(self, rows: Mapping[str, dict[str, Any] | None]) -> None:
        """Insert or replace these rows in one transaction; None deletes a row."""

    def close(self) -> None:
        """The last call: let go of what this thread holds."""


class StateStore(Protocol):
    """Key states. Every `now` is aware and UTC. No call raises for a store that is down or waits longer than 1 s."""

    @property
    def figures(self) -> FigureBoard:
        """Speed, reliability, load, low water, poison: sync, from memory."""

    @property
    def notes(self) -> Notes:
        """Rotations (sync) and records (one round trip)."""

    @property
    def claims(self) -> Claims:
        """Who runs a call that must not run twice. The one part whose calls raise StoreDown."""

    def standing(self, key_id: int, account_id: int | None, model: str, now: datetime, epoch: int = 0) -> Standing:
        """Judge a key for a model from memory; no I/O. `epoch` is the routing table's."""

    async def report(self, report: Report, policy: Policy, now: datetime) -> tuple[Change, ...]:
        """Apply one attempt's outcome to its key or account; returns what really changed (0, 1 or 2 targets)."""

    async def report_chain(self, reports: Sequence[tuple[Report, Policy]], now: datetime) -> tuple[Change, ...]:
        """Apply several, in order; how a chain's late parts arrive."""

    async def admit(self, request: AdmitRequest, now: datetime, wait_s: float = 0.0) -> Admission:
        """Pass the callers' limits, take a slot of the first key that has one, and the lease if it is half open.

        Waits up to `wait_s` in first-come order when everything is full (the first free slot wins), or for a cooling
        that ends in time; `Admission.waited_s` is what it took. Not granted is an answer, not an exception.
        """

    async def settle(self, request: SettleRequest, now: datetime) -> tuple[Change, ...]:
        """Report, release slots and leases, and correct token windows, in one go. Safe to repeat."""

    def let_go(self, holds: Sequence[Hold], probe: ProbeLease | None = None) -> None:
        """Release without waiting, for places that must not await."""

    async def lease_probe(self, key_id: int, account_id: int | None, now: datetime) -> ProbeLease | None:
        """Take the lease that a half-open key needs; None = somebody else holds it. Ends by itself after 10 s."""

    async def end_probe(self, lease: ProbeLease) -> None:
        """Give a lease back: at first content, failure or abort. Safe to repeat."""

    async def revive(self, key_id: int, now: datetime, epoch: int | None = None) -> tuple[Change, ...]:
        """A person revives a key: new epoch (given, or the next), no cooling, no resting models."""

    async def revive_account(self, account_id: int, now: datetime) -> tuple[Change, ...]:
        """A person ends an account's cooling or death."""

    async def set_epoch(self, key_id: int, epoch: int, now: datetime) -> tuple[Change, ...]:
        """The key's secret was edited: fresh in the new epoch. An epoch that is not newer changes nothing."""

    async def probe_succeeded(self, key_id: int, now: datetime) -> tuple[Change, ...]:
        """A health probe succeeded: a strike cooling becomes half open now."""

    async def balance_seen(self, target: str, now: datetime) -> tuple[Change, ...]:
        """A balance read above zero (`account:3`, or `key:12` for a balance of its own)."""

    def sight_rows(self, now: datetime) -> dict[str, dict[str, Any]]:
        """Rows about load, caps, speed, low water and rotations, of what changed since the last call; from memory."""

    def sight_lost(self, rows: Iterable[str]) -> None:
        """These rows could not be kept: they come again."""

    async def snapshot(self, now: datetime) -> Pool:
        """All states and counters."""

    async def open(self) -> None:
        """Load what is stored. Call once, in the event loop that uses the store."""

    async def run(self) -> None:
        """Upkeep until cancelled: persistence, leases, news from other processes. Start it in the background."""

    async def close(self) -> None:
        """Save what is unsaved."""
