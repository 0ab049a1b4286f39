"""Where hosts lead, and whether they may be called: the one check at save, and of every call outside the hot path.

The system's resolver is asked in threads, because it cannot be told to stop.
"""

import socket
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

from django.conf import settings

from keys.core.addresses import host_of, refusal

WAIT_S = 4.0


@dataclass(frozen=True, slots=True)
class Judged:
    """A host as it stands now. `problem`: why it must not be called; otherwise `addresses` may be, empty = unknown."""

    addresses: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class HostVerdict:
    """`problem` refuses the address, `warning` only says so; both empty = fine."""

    problem: str = ""
    warning: str = ""


def judge_address(url: str) -> HostVerdict:
    """Judge the host of a well-formed address. Call it outside a transaction: it may wait WAIT_S seconds."""
    host = host_of(url)
    judged = judge_host(host)
    if judged.problem:
        return HostVerdict(problem=judged.problem)
    return HostVerdict() if judged.addresses else HostVerdict(warning=f"{host} does not resolve at present")


def judge_host(host: str, wait_s: float = WAIT_S) -> Judged:
    """Look a host up once and judge it with everything it leads to; one inner address refuses the whole name.

    Who connects must use the addresses returned: a second look-up may have another answer.
    """
    allowed = settings.POINTSMAN_ALLOW_PRIVATE_UPSTREAMS
    if problem := refusal(host, allowed):
        return Judged(problem=problem)
    found = look_up([host], wait_s)[host] or ()
    problems = (refusal(host, allowed, address) for address in found)
    return Judged(found, next((problem for problem in problems if problem), ""))


def look_up(hosts: Iterable[str], wait_s: float = WAIT_S) -> dict[str, tuple[str, ...] | None]:
    """Ask the system for all names at once; None = no answer, or none within `wait_s`."""
    found: dict[str, tuple[str, ...] | None] = dict.fromkeys(hosts)
    threads = [threading.Thread(target=_look_up, args=(host, found), daemon=True) for host in list(found)]
    for thread in threads:
        thread.start()
    ends = time.monotonic() + wait_s
    for thread in threads:
        thread.join(max(0.0, ends - time.monotonic()))
    return dict(found)


def _look_up(host: str, found: dict[str, tuple[str, ...] | None]) -> None:
    try:
        answers = socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)
    except (OSError, UnicodeError):
        return
    found[host] = tuple(dict.fromkeys(str(answer[4][0]) for answer in answers))
