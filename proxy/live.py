"""What is under way: one line per request for people to look at, in all processes, and orders to end one.

With a shared store each process pins what it serves on a board once a second, and reads the orders on another. Where
one process serves, its own calls are all there are.
"""

import asyncio
import os
import socket
from dataclasses import asdict, dataclass
from typing import Any

from keys.stores.notes import SharedNotes
from proxy import background
from proxy.core.call import Call
from proxy.core.ending import End
from proxy.core.errors import Code, Fault
from proxy.runtime import Runtime, current

SHARE_S = 1.0
KEPT_S = 4.0  # a process that says nothing for so long is gone
ORDER_S = 10.0
SHOWN_MAX = 300  # calls of one process, oldest first
ASK_S = 3.0
ABORTED = Fault(Code.ABORTED, "An administrator aborted this request.")

_CALLS, _ORDERS = "calls", "aborts"


@dataclass(frozen=True, slots=True)
class Glance:
    """One request. `at` and `sent` are Unix seconds: when it came, when the attempt under way was sent.

    `attempts` counts the one under way.
    `phase`: queued (no key yet) | waiting (for content) | streaming | left (the client did) | stopping (aborted).
    """

    id: str
    tenant_id: int
    line_id: int
    line: str
    key: str
    model: str
    stream: bool
    upstream: str
    upstream_key: str
    tail: str
    attempts: int
    at: float
    sent: float | None
    phase: str
    first_content_ms: int | None
    silence_s: float


@dataclass(frozen=True, slots=True)
class Seen:
    """`whole` False = a process serves more calls than it tells of."""

    glances: tuple[Glance, ...]
    whole: bool = True


def seen() -> Seen:
    """Return what all processes serve, oldest first. From a thread of a process that serves; else RuntimeError."""
    return background.ask(_everywhere(current()), ASK_S)


def order_abort(request_id: str) -> None:
    """End a request wherever it is served, within about a second. From a thread of a process that serves."""
    background.ask(_ordered(current(), request_id), ASK_S)


async def share(runtime: Runtime) -> None:
    """Tell other processes what is under way here and hear their orders, until cancelled."""
    notes, had = runtime.store.notes, False
    while isinstance(notes, SharedNotes):
        await asyncio.sleep(SHARE_S)
        for request_id in await notes.pinned(_ORDERS, runtime.now()):
            abort(runtime, request_id)
        here = [asdict(glance) for glance in glances(runtime)[: SHOWN_MAX + 1]]
        if here or had:
            await notes.pin_up(_CALLS, process_name(), here, KEPT_S, runtime.now())
        had = bool(here)


def abort(runtime: Runtime, request_id: str) -> bool:
    """End a request of this process: the client gets an error, the key is not blamed. False when it has ended."""
    call = runtime.calls.get(request_id)
    if call is None:
        return False
    if call.stopped is None:
        call.stopped = ABORTED
        if call.stop is not None:
            call.stop()
    return True


def glances(runtime: Runtime) -> list[Glance]:
    """Return this process's calls, oldest first."""
    return sorted((glance_of(call) for call in runtime.calls.values()), key=lambda glance: glance.at)


def glance_of(call: Call) -> Glance:
    """Return what people may know of a call."""
    on, admitted, phase = call.on, call.admitted, _phase(call)
    silence_s = call.policy.silence_s
    if on is not None and (upstream := admitted.table.upstreams.get(on.upstream_id)) is not None:
        silence_s = upstream.timeouts.silence_s or silence_s
    return Glance(
        id=call.received.request_id,
        tenant_id=admitted.tenant.id,
        line_id=admitted.line.id,
        line=admitted.line.slug,
        key=admitted.key.name,
        model=call.model,
        stream=call.facts is not None and call.facts.stream,
        upstream=on.upstream if on is not None else "",
        upstream_key=on.key if on is not None else "",
        tail=on.tail if on is not None else "",
        attempts=len(call.chain.attempts) + (phase == "waiting"),
        at=call.received.at.timestamp(),
        sent=call.began.timestamp() if call.began is not None else None,
        phase=phase,
        first_content_ms=call.ending.first_content_ms,
        silence_s=silence_s,
    )


def process_name() -> str:
    """Return what tells this process from all others of the installation."""
    return f"{socket.gethostname()}:{os.getpid()}"


def _phase(call: Call) -> str:
    if call.stopped is not None:
        return "stopping"
    if call.handed_over or call.ending.end is End.CANCELLED:
        return "left"
    if call.ending.delivered:
        return "streaming"
    return "queued" if call.on is None or call.idle else "waiting"


async def _everywhere(runtime: Runtime) -> Seen:
    here = glances(runtime)
    told: dict[str, Any] = await runtime.store.notes.pinned(_CALLS, runtime.now())
    others = [rows for process, rows in told.items() if process != process_name()]
    found = here + [Glance(**row) for rows in others for row in rows[:SHOWN_MAX]]
    whole = all(len(rows) <= SHOWN_MAX for rows in others)
    return Seen(tuple(sorted(found, key=lambda glance: glance.at)), whole)


async def _ordered(runtime: Runtime, request_id: str) -> None:
    if not abort(runtime, request_id):
        await runtime.store.notes.pin_up(_ORDERS, request_id, True, ORDER_S, runtime.now())
