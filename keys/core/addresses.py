"""Where an upstream, a webhook or a balance page may live, and what its full base address is.

Inner addresses (loopback, private, link-local, metadata, carrier-grade NAT, reserved) are refused unless the
installation allows them. A host has many spellings that lead to the same place: `127.1`, `2130706433`, `0x7f.1`,
`0177.0.0.1`, full-width digits, IPv4 inside IPv6 (mapped, compatible, NAT64, 6to4). All are read as the system's
resolver would read them, and judged by what they mean. Nothing here resolves names: the caller passes what a name
resolved to.
"""

import ipaddress
import re
import unicodedata
from typing import Protocol
from urllib.parse import SplitResult, urlsplit

from keys.core.dialect import Dialect

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_VERSION = re.compile(r"v\d+(?:\.\d+)?(?:(?:alpha|beta|preview)\d*)?", re.IGNORECASE)
_DEFAULT_VERSION = {
    Dialect.OPENAI: "/v1",
    Dialect.RESPONSES: "/v1",
    Dialect.ANTHROPIC: "/v1",
    Dialect.GEMINI: "/v1beta",
}

# Inner by nature although the standard library counts them as global: provider metadata and wire servers, former
# site-local addresses.
_INNER = tuple(
    ipaddress.ip_network(text) for text in ("168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24", "fec0::/10")
)
_NAT64 = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))
_COMPATIBLE = ipaddress.ip_network("::/96")

_INNER_NAMES = frozenset({"localhost", "ip6-localhost", "ip6-loopback", "broadcasthost"})
_INNER_ENDINGS = (".localhost", ".localdomain", ".local", ".internal", ".home.arpa")
_V4_MAX_PARTS = 4
_BYTE = 0xFF


class Allowed(Protocol):
    """Which inner addresses may be called all the same."""

    def allows(self, host: str, address: str) -> bool:
        """Tell whether `host`, which leads to the non-public `address`, may be called."""
        ...


class NothingAllowed:
    """The default: public addresses only."""

    def allows(self, _host: str, _address: str) -> bool:
        return False


NOTHING_ALLOWED = NothingAllowed()


def refusal(host: str, allowed: Allowed, address: str | None = None) -> str | None:
    """Say why a host must not be called, or None when it may.

    `host` is a name or an address in any spelling, with or without brackets. `address`: what the name resolved to,
    None when that is not known (then only the name is judged).
    """
    name = _plain(host)
    if not name:
        return "has no host"
    found = _literal(name) or (_literal(_plain(address)) if address is not None else None)
    if found is not None:
        meant = _meant(found)
        if _is_public(meant) and not _is_inner_name(name):
            return None
        return None if allowed.allows(name, str(meant)) else _text(name, meant)
    if not _is_inner_name(name) or allowed.allows(name, _stand_in(name)):
        return None
    return f"{name} is a name inside a machine or a private network"


def url_problem(url: str) -> str | None:
    """Say what makes an address unusable whatever it leads to, or None. Never shows a password in it."""
    if any(c.isspace() or unicodedata.category(c) == "Cc" for c in url):
        return "contains a space or control character"
    parts = _split(url)
    if parts is None:
        return "is not an address; write one like https://api.example.com/v1"
    faults = (
        ("\\" in url, "contains a backslash"),
        (parts.scheme not in {"http", "https"}, "must begin with http:// or https://"),
        ("@" in parts.netloc, "must not contain a user name or password"),
        (not parts.hostname, "has no host"),
    )
    return next((text for applies, text in faults if applies), None)


def base_url_problem(url: str) -> str | None:
    """As url_problem, for a base address: nothing may follow its path, a single trailing # aside."""
    if problem := url_problem(url):
        return problem
    return "must not contain ? or # (except a single # at its end)" if {"?", "#"} & set(url.removesuffix("#")) else None


def host_of(url: str) -> str:
    """Return the host of an address that url_problem accepts, lower-case, without brackets; "" when unreadable."""
    parts = _split(url)
    return (parts.hostname or "") if parts is not None else ""


def complete_base_url(dialect: Dialect, url: str) -> str:
    """Return the address to which endpoints are appended, without a trailing slash.

    A last path segment that is a version (v1, v1beta, v4 ...) stays; otherwise the dialect's own is appended. A
    trailing # means: exactly this.
    """
    if url.endswith("#"):
        return url.removesuffix("#").rstrip("/")
    bare = url.rstrip("/")
    parts = _split(bare)
    last = parts.path.rpartition("/")[2] if parts is not None else ""
    return bare if _VERSION.fullmatch(last) else bare + _DEFAULT_VERSION[dialect]


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for a port that is no number
    except ValueError:
        return None
    return parts


def _plain(host: str) -> str:
    """Fold a host as resolvers and browsers do: compatibility characters, case, brackets, zone, trailing dot."""
    text = unicodedata.normalize("NFKC", host).replace("。", ".").strip().lower()
    return text.strip("[]").partition("%")[0].rstrip(".")


def _literal(name: str) -> Address | None:
    """Return the address that a host spells, None when it is a name."""
    try:
        return ipaddress.IPv6Address(name) if ":" in name else ipaddress.IPv4Address(_dotted(name))
    except ValueError:
        return None


def _dotted(name: str) -> int:
    """Read an IPv4 address as inet_aton does: one to four decimal, octal or hexadecimal parts. Raises ValueError."""
    numbers = [_number(part) for part in name.split(".")]
    if len(numbers) > _V4_MAX_PARTS or any(number > _BYTE for number in numbers[:-1]):
        raise ValueError(name)
    tail_bits = 8 * (_V4_MAX_PARTS + 1 - len(numbers))
    if numbers[-1] >> tail_bits:
        raise ValueError(name)
    value = 0
    for number in numbers[:-1]:
        value = value << 8 | number
    return value << tail_bits | numbers[-1]


def _number(part: str) -> int:
    if re.fullmatch(r"0x[0-9a-f]*", part):
        return int(part[2:] or "0", 16)
    if re.fullmatch(r"0[0-7]*", part):
        return int(part, 8)
    if re.fullmatch(r"[1-9][0-9]*", part):
        return int(part)
    raise ValueError(part)


def _meant(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address carries, else the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and (
        any(address in network for network in _NAT64) or (address in _COMPATIBLE and int(address) > 1)
    ):
        inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return inner or address


def _is_public(address: Address) -> bool:
    return address.is_global and not address.is_multicast and not any(address in network for network in _INNER)


def _is_inner_name(name: str) -> bool:
    return name in _INNER_NAMES or name.endswith(_INNER_ENDINGS)


def _stand_in(name: str) -> str:
    """Return an address under which a name that was not resolved is looked up among the allowed ones."""
    return "127.0.0.1" if "localhost" in name or name == "ip6-loopback" else "0.0.0.0"  # noqa: S104  # binds nothing


def _text(name: str, meant: Address) -> str:
    where = str(meant) if name == str(meant) else f"{name} ({meant})"
    if _is_public(meant):
        return f"{where} is a name inside a private network"
    kinds = (
        (meant.is_loopback, "a loopback"),
        (meant.is_link_local, "a link-local or metadata"),
        (meant.is_multicast, "a multicast"),
        (meant.is_unspecified, "an unspecified"),
        (meant.is_private, "a private"),
    )
    kind = next((text for applies, text in kinds if applies), "an inner")
    return f"{where} is {kind} address"
