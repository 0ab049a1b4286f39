"""Where the addresses in a document lead: inner ones are refused, names that do not resolve are a warning."""

from collections.abc import Callable, Iterable, Mapping

from django.conf import settings

from config.declarative.inspection import Inspection
from keys.core.addresses import refusal
from keys.hosts import look_up

WAIT_S = 4.0

# Host names -> the addresses found for each; None = the name does not resolve. A host left out is not judged.
Resolver = Callable[[Iterable[str]], Mapping[str, tuple[str, ...] | None]]


def no_lookup(_hosts: Iterable[str]) -> Mapping[str, tuple[str, ...] | None]:
    """Judge hosts by their spelling alone."""
    return {}


def system_lookup(hosts: Iterable[str]) -> Mapping[str, tuple[str, ...] | None]:
    """Ask the system for all names at once and wait at most WAIT_S; what is not answered by then has no answer."""
    return look_up(hosts, WAIT_S)


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
