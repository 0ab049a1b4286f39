"""Figures about keys and accounts in memory, shared by pulses: what every process tells the others twice a second.

A pulse carries finished attempts, begun calls and the calls in flight of one process. Losing one costs precision, no
correctness: limits are enforced at admission, figures only order candidates.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from keys.core.admission import Hold
from keys.core.outcome import Cause
from keys.core.report import Part, Report, account_target, key_target
from keys.core.samples import Figures, Sample, Track
from keys.core.sight import FLYING_S, capped, sight_of
from keys.core.state import is_failure
from keys.core.windows import SPANS, Caps, Window
from keys.stores.board import Board
from keys.stores.gate import Gate

PULSE_MAX = 500  # samples in one pulse; the oldest of more are dropped
_UNKNOWN = Figures()
_NO_CAPS = Caps()
PEER_KEPT_S = 30.0  # a process that has been silent for so long has no calls in flight


@dataclass(slots=True)
class _Outbox:
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=PULSE_MAX))
    begun: dict[int, int] = field(default_factory=dict)
    calls: dict[int, int] = field(default_factory=dict)
    facts: dict[str, dict[str, tuple[float, float]]] = field(default_factory=dict)
    told_flying: dict[int, int] = field(default_factory=dict)


class FigureBoard:
    """Not thread-safe: belongs to one event loop."""

    def __init__(self, board: Board, gate: Gate) -> None:
        self._board, self._gate = board, gate
        self._tracks: dict[int, Track] = {}
        self._flying: dict[int, set[str]] = {}
        self._peers: dict[str, tuple[datetime, dict[int, int]]] = {}
        self._facts: dict[str, dict[str, tuple[float, float]]] = {"water": {}, "credit": {}, "poison": {}}  # value, end
        self._out = _Outbox()
        self._touched: set[str] = set()  # targets whose sight has changed since it was last told
        self._told = datetime.min.replace(tzinfo=UTC)  # when calls in flight were last told whole

    # What happened here

    def began(self, hold: Hold) -> None:
        """An attempt with a key holds its slot."""
        key_id = _key_of(hold)
        if key_id is not None:
            self._flying.setdefault(key_id, set()).add(hold.ticket)
            self._touched.add(hold.scope)
            self._out.begun[key_id] = self._out.begun.get(key_id, 0) + 1

    def ended(self, hold: Hold) -> None:
        key_id = _key_of(hold)
        if key_id is not None and key_id in self._flying:
            self._touched.add(hold.scope)
            self._flying[key_id].discard(hold.ticket)
            if not self._flying[key_id]:
                del self._flying[key_id]

    def saw(self, report: Report, now: datetime) -> None:
        """An attempt was reported. Answers about the request alone say nothing about speed or reliability."""
        if report.probe or report.part is Part.LATE:
            return
        self._touched.add(key_target(report.key_id))
        self._out.calls[report.key_id] = self._out.calls.get(report.key_id, 0) + 1
        served = report.outcome.cause is Cause.SERVED
        if served or is_failure(report.outcome):
            sample = Sample(report.key_id, now, served, report.first_ms)
            self._learn(sample)
            self._out.samples.append(sample)

    def saw_water(self, target: str, fraction: float, until: datetime) -> None:
        """An account (or a key with a balance of its own) has this part of a credit or window left, until a reset.

        The smallest known part counts; a new reading replaces the old one of the same target.
        """
        self._note("water", target, fraction, until)

    def saw_credit(self, target: str, fraction: float, until: datetime) -> None:
        """The same of an account's credit by our own ledger; a window's headers do not replace it."""
        self._note("credit", target, fraction, until)

    def poison(self, fingerprint: str, until: datetime) -> None:
        """A request of this likeness failed everywhere: one attempt only, until then."""
        self._note("poison", fingerprint, 1.0, until)

    # What is known

    def of(self, key_id: int, account_id: int | None, caps: Caps, now: datetime) -> Figures:
        """The figures of one key under its caps."""
        at = now.timestamp()
        track = self._tracks.get(key_id)
        # Made where missing: only a window that exists hears of other processes' calls.
        windows = {span.name: self._gate.window(key_target(key_id), span) for span, _ in caps.windows()}
        cap, cap_left_s, remaining = capped(windows, caps, at)
        in_flight = self.in_flight(key_id, now)
        counts = self._board.counts.get(key_id)
        target = key_target(key_id) if account_id is None else account_target(account_id)
        sampled = track.figures(at) if track else _UNKNOWN
        return Figures(
            cap=cap,
            cap_left_s=cap_left_s,
            in_flight=in_flight,
            calls_24h=(counts.calls_24h(now) if counts else 0) + in_flight,
            median_ms=sampled.median_ms,
            sample_age_s=sampled.sample_age_s,
            ok=sampled.ok,
            results=sampled.results,
            mean_ms=sampled.mean_ms,
            baseline_ms=sampled.baseline_ms,
            water=self.water(target, now),
            remaining=remaining,
        )

    def left(self, key_id: int, caps: Caps, now: datetime) -> dict[str, int]:
        """What each cap of a key leaves now, by the cap's name: calls, tokens (tpm), calls at once (concurrency)."""
        at, target = now.timestamp(), key_target(key_id)
        rooms = {s.name: max(0, limit - self._gate.window(target, s).sum_at(at)) for s, limit in caps.windows()}
        if caps.concurrency is not None:
            rooms["concurrency"] = max(0, caps.concurrency - self.in_flight(key_id, now))
        return rooms

    def in_flight(self, key_id: int, now: datetime) -> int:
        """Attempts under way with a key, in all processes."""
        peers = (flying for heard, flying in self._peers.values() if (now - heard).total_seconds() <= PEER_KEPT_S)
        return len(self._flying.get(key_id, ())) + sum(flying.get(key_id, 0) for flying in peers)

    def water(self, target: str, now: datetime) -> float | None:
        """The smallest part known to be left of the target's windows and credit."""
        known = [left for kind in ("water", "credit") if (left := self._known(kind, target, now)) is not None]
        return min(known, default=None)

    def is_poisoned(self, fingerprint: str, now: datetime) -> bool:
        return self._known("poison", fingerprint, now) is not None

    @property
    def knows_poison(self) -> bool:
        """False saves the caller from making a fingerprint."""
        return bool(self._facts["poison"])

    def served_since(self, key_id: int, moment: datetime) -> bool:
        """Whether a key has served any request since."""
        counts = self._board.counts.get(key_id)
        return counts is not None and counts.last_served is not None and counts.last_served >= moment

    # Sights

    def sights(self, now: datetime) -> dict[str, dict[str, Any]]:
        """Return what processes that do not serve should know of the targets that changed since the last time."""
        if (now - self._told).total_seconds() >= FLYING_S / 3:
            self._told = now
            elsewhere = {key_id for _heard, flying in self._peers.values() for key_id in flying}
            self.touch(key_target(key_id) for key_id in {*self._flying, *elsewhere})
        touched, self._touched = self._touched, set()
        return {target: self._sight(target, now) for target in touched}

    def touch(self, targets: Iterable[str]) -> None:
        """Have these told (again): their rows were not kept."""
        self._touched.update(targets)

    def _sight(self, target: str, now: datetime) -> dict[str, Any]:
        kind, _, number = target.partition(":")
        figures = self.of(int(number), None, _NO_CAPS, now) if kind == "key" else _UNKNOWN
        facts = {name: self._facts[name].get(target) for name in ("water", "credit")}
        known = {name: fact for name, fact in facts.items() if fact is not None}
        return sight_of(figures, self._windows(target), known, now.timestamp())

    # Pulses

    def pulse(self) -> dict[str, Any] | None:
        """What to tell the others; None = nothing new."""
        out, flying = self._out, {key_id: len(tickets) for key_id, tickets in self._flying.items()}
        if not (out.calls or out.begun or out.facts or flying or flying != out.told_flying):
            return None
        self._out = _Outbox(told_flying=flying)
        return {
            "samples": [[s.key_id, s.at.timestamp(), s.ok, s.first_ms] for s in out.samples],
            "calls": list(out.calls.items()),
            "begun": list(out.begun.items()),
            "flying": list(flying.items()),
            "facts": out.facts,
        }

    def hear(self, process: str, pulse: Mapping[str, Any], now: datetime) -> None:
        """Take in another process's pulse."""
        for key_id, at, ok, first_ms in pulse["samples"]:
            sample = Sample(int(key_id), datetime.fromtimestamp(at, UTC), bool(ok), first_ms)
            self._learn(sample)
            if sample.ok:
                self._board.hear_served(sample.key_id, sample.at)
        for key_id, number in pulse["calls"]:
            self._board.hear_calls(int(key_id), int(number), now)
            self._touched.add(key_target(key_id))
        for key_id, number in pulse["begun"]:
            self._gate.hear_calls(key_target(key_id), int(number), now)
            self._touched.add(key_target(key_id))
        self._peers[process] = (now, {int(key_id): int(n) for key_id, n in pulse["flying"]})
        for kind, facts in pulse["facts"].items():
            known = self._facts.get(kind)
            if known is not None:
                self._touch_facts(kind, facts)
                known.update({name: (float(value), float(end)) for name, (value, end) in facts.items()})

    def forget_elapsed(self, now: datetime) -> None:
        """Upkeep: drop facts that are over and processes that are gone."""
        at = now.timestamp()
        for kind, facts in self._facts.items():
            self._facts[kind] = {name: fact for name, fact in facts.items() if fact[1] > at}
        gone = [name for name, (heard, _) in self._peers.items() if (now - heard).total_seconds() > PEER_KEPT_S]
        for name in gone:
            del self._peers[name]

    def _learn(self, sample: Sample) -> None:
        self._tracks.setdefault(sample.key_id, Track()).add(sample)

    def _note(self, kind: str, name: str, value: float, until: datetime) -> None:
        fact = (value, until.timestamp())
        self._touch_facts(kind, (name,))
        self._facts[kind][name] = fact
        self._out.facts.setdefault(kind, {})[name] = fact

    def _touch_facts(self, kind: str, names: Iterable[str]) -> None:
        if kind != "poison":
            self._touched.update(names)

    def _known(self, kind: str, name: str, now: datetime) -> float | None:
        fact = self._facts[kind].get(name)
        return fact[0] if fact is not None and fact[1] > now.timestamp() else None

    def _windows(self, target: str) -> dict[str, Window]:
        kept = ((span.name, self._gate.windows.get((target, span.name))) for span in SPANS)
        return {name: window for name, window in kept if window is not None}


def _key_of(hold: Hold) -> int | None:
    kind, _, number = hold.scope.partition(":")
    return int(number) if kind == "key" else None
