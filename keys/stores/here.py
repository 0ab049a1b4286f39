"""Admission from this process's own memory: always for the embedded store, for Redis's while Redis is away."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from keys.core.admission import UNCAPPED, Admission, AdmitRequest, Caller, Hold, ProbeLease
from keys.core.windows import Caps
from keys.stores.board import Board
from keys.stores.gate import Eligible, Gate
from keys.stores.waiting import Patience


def admit_here(board: Board, gate: Gate, request: AdmitRequest, now: datetime, patience: Patience) -> Admission:
    """One try; queues the ticket when it may wait, takes the leases when it is granted."""
    keys, passed = board.eligible(request, now)
    answer = gate.admit(request, keys, board.leased(now), now)
    if passed:
        answer = replace(answer, passed=passed)
    gate.leave(request.ticket, patience.queued)
    if not answer.granted:
        scopes = [block.scope for block in answer.blocks if patience.allows(block)]
        gate.queue(request.ticket, scopes, patience.arrived)
        return answer
    probes = next(one.probes for one in keys if one.key.key_id == answer.key_id)
    if not probes:
        return answer
    board.lease(probes, request.ticket, now)
    return replace(answer, probe=ProbeLease(request.ticket, probes))


def is_free(one: Eligible) -> bool:
    """Whether nothing limits a key: no cap, no half-open lease."""
    return one.key.caps == UNCAPPED and not one.probes


def without_rates(request: AdmitRequest) -> AdmitRequest:
    """The same request with no limit but concurrency: rates fail open (DESIGN 11)."""
    keys = tuple(replace(key, caps=_slots_of(key.caps)) for key in request.keys)
    callers = tuple(Caller(caller.scope, _slots_of(caller.caps)) for caller in request.callers)
    return replace(request, keys=keys, callers=callers)


def freed(board: Board, gate: Gate, holds: Sequence[Hold], probe: ProbeLease | None) -> list[str]:
    """Release in memory; returns the scopes in which something came free."""
    scopes = [hold.scope for hold in holds if gate.release(hold)]
    if probe is not None:
        board.release(probe.targets, probe.holder)
        scopes.extend(probe.targets)
    return scopes


def _slots_of(caps: Caps) -> Caps:
    return Caps(concurrency=caps.concurrency)
