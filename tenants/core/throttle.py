"""How long a login has to wait: a few failures are free, then each one doubles the wait.

A wait is a slow-down and no lock-out: it falls on the pair of account and address, so that a stranger elsewhere does
not keep the owner out, and more mildly on the address, for one that tries many accounts.
"""

import ipaddress
from dataclasses import dataclass
from datetime import datetime, timedelta

_NEIGHBOURS = 64  # bits of an IPv6 address that one customer usually has to himself


@dataclass(frozen=True, slots=True)
class Limit:
    """`free` failures cost nothing; then `first`, doubling up to `longest`. All is forgotten after `memory`."""

    free: int
    first: timedelta = timedelta(seconds=30)
    longest: timedelta = timedelta(minutes=15)
    memory: timedelta = timedelta(hours=2)

    def wait(self, failures: int) -> timedelta:
        """Return the wait after so many failures in a row."""
        beyond = failures - self.free
        if beyond < 0:
            return timedelta(0)
        return self.longest if beyond >= self._doublings else min(self.longest, self.first * 2**beyond)

    @property
    def _doublings(self) -> int:
        return (self.longest // self.first).bit_length()


PAIR = Limit(free=5)
ADDRESS = Limit(free=50)
CODE = Limit(free=5)  # of a second factor, by account: whoever is asked for it knew the password


@dataclass(frozen=True, slots=True)
class Count:
    """Failures in a row, the last of them, and until when nobody is let through."""

    failures: int = 0
    last: datetime | None = None
    until: datetime | None = None


def left(count: Count, now: datetime) -> timedelta:
    """Return how long there is still to wait."""
    return max(timedelta(0), count.until - now) if count.until is not None else timedelta(0)


def counted(count: Count, limit: Limit, now: datetime) -> Count:
    """Return the count with one more failure; an old row of failures has ended by itself."""
    fresh = count.last is None or now - count.last > limit.memory
    failures = 1 if fresh else count.failures + 1
    wait = limit.wait(failures)
    return Count(failures, now, now + wait if wait else None)


def neighbourhood(address: str) -> str:
    """Return what is counted as one address: IPv4 whole, of IPv6 the network; an unreadable one as it is."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, _NEIGHBOURS), strict=False))
    return str(found)
