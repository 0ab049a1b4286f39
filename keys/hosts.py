"""Where the host of an address leads at the moment: the check at save. Asks the system's resolver, in a thread."""

import socket
import threading
from dataclasses import dataclass

from django.conf import settings

from keys.core.addresses import host_of, refusal

WAIT_S = 4.0


@dataclass(frozen=True, slots=True)
class HostVerdict:
    """`problem` refuses the address, `warning` only says so; both empty = fine."""

    problem: str = ""
    warning: str = ""


def judge_address(url: str) -> HostVerdict:
    """Judge the host of a well-formed address. Call it outside a transaction: it may wait WAIT_S seconds."""
    allowed = settings.POINTSMAN_ALLOW_PRIVATE_UPSTREAMS
    host = host_of(url)
    if problem := refusal(host, allowed):
        return HostVerdict(problem=problem)
    found = addresses_of(host)
    for address in found:
        if problem := refusal(host, allowed, address):
            return HostVerdict(problem=problem)
    return HostVerdict() if found else HostVerdict(warning=f"{host} does not resolve at present")


def addresses_of(host: str) -> tuple[str, ...]:
    """Return what a name resolves to; empty when it does not, or not within WAIT_S seconds."""
    found: list[str] = []
    thread = threading.Thread(target=_look_up, args=(host, found), daemon=True)
    thread.start()
    thread.join(WAIT_S)
    return tuple(dict.fromkeys(found))


def _look_up(host: str, found: list[str]) -> None:
    try:
        answers = socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)
    except (OSError, UnicodeError):
        return
    found.extend(str(answer[4][0]) for answer in answers)
