"""Where the addresses in a document lead: inner ones are refused, names that do not resolve are a warning."""

import socket
import threading
from collections.abc import Callable, Iterable, Mapping

from django.conf import settings

from config.declarative.inspection import Inspection
from keys.core.addresses import refusal

WAIT_S = 4.0

# Host names -> the addresses found for each; None = the name does not resolve. A host left out is not judged.
Resolver = Callable[[Iterable[str]], Mapping[str, tuple[str, ...] | None]]


def no_lookup(_hosts: Iterable[str]) -> Mapping[str, tuple[str, ...] | None]:
    """Judge hosts by their spelling alone."""
    return {}


def system_lookup(hosts: Iterable[str]) -> Mapping[str, tuple[str, ...] | None]:
    """Ask the system for all names at once and wait at most WAIT_S; what is not answered by then has no answer."""
    found: dict[str, tuple[str, ...] | None] = dict.fromkeys(hosts)
    threads = [threading.Thread(target=_look_up, args=(host, found), daemon=True) for host in list(found)]
    for thread in threads:
        thread.start()
    pause = threading.Event()
    for _ in range(int(WAIT_S / 0.05)):
        if not any(thread.is_alive() for thread in threads):
            break
        pause.wait(0.05)
    return dict(found)


def _look_up(host: str, found: dict[str, tuple[str, ...] | None]) -> None:
    try:
        answers = socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)
    except (OSError, UnicodeError):
        return
    found[host] = tuple(dict.fromkeys(str(answer[4][0]) for answer in answers))


def judge_hosts(inspection: Inspection, resolve: Resolver, *, stored: bool = False) -> None:
    """Refuse inner addresses unless POINTSMAN_ALLOW_PRIVATE_UPSTREAMS admits them. Call outside a transaction.

    `stored`: rows that were saved under another setting only earn a warning; calls there are refused at connect.
    """
    allowed = settings.POINTSMAN_ALLOW_PRIVATE_UPSTREAMS
    answers = resolve([host for host in inspection.hosts if refusal(host, allowed) is None])
    for host, spots in inspection.hosts.items():
        found = answers.get(host, ())
        problems = [refusal(host, allowed, address) for address in found or ()] or [refusal(host, allowed)]
        problem = next((text for text in problems if text), None)
        for spot in spots:
            if problem and stored:
                spot.warn(f"{problem}: calls are refused unless POINTSMAN_ALLOW_PRIVATE_UPSTREAMS allows it")
            elif problem:
                spot.error(f"{problem}; POINTSMAN_ALLOW_PRIVATE_UPSTREAMS can allow it")
            elif found is None:
                spot.warn(f"{host} does not resolve at present")
