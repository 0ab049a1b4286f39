"""POINTSMAN_ALLOW_PRIVATE_UPSTREAMS as a value: which inner addresses an upstream or a webhook may have."""

import ipaddress
from dataclasses import dataclass, replace

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class PrivateUpstreams:
    """What is allowed besides public addresses. Host names are lower-case, without a trailing dot."""

    everything: bool = False
    hosts: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()

    def allows(self, host: str, address: str) -> bool:
        """Tell whether `host`, which resolved to the non-public `address`, may be called.

        A listed host name is allowed whatever it resolves to; a listed network allows every name that leads into it.
        """
        if self.everything or host.lower().rstrip(".") in self.hosts:
            return True
        ip = ipaddress.ip_address(address.partition("%")[0])
        mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
        return any((mapped or ip) in network for network in self.networks)

    def with_network(self, text: str) -> "PrivateUpstreams":
        """Return the same with one more network or single address."""
        network = ipaddress.ip_network(text)
        return self if network in self.networks else replace(self, networks=(*self.networks, network))

    def __str__(self) -> str:
        """The text that parse() reads back to an equal value."""
        if self.everything:
            return "on"
        return ",".join([*sorted(self.hosts), *(str(network) for network in self.networks)]) or "off"


def parse(text: str) -> PrivateUpstreams:
    """Read `off`, `on`, or a comma-separated list of host names, addresses and networks.

    Raises ValueError that names the item.
    """
    match text.strip().lower():
        case "" | "off":
            return PrivateUpstreams()
        case "on":
            return PrivateUpstreams(everything=True)
        case listed:
            return _parse_list([item.strip() for item in listed.split(",")])


def _parse_list(items: list[str]) -> PrivateUpstreams:
    hosts: set[str] = set()
    networks: list[Network] = []
    for position, item in enumerate(items, start=1):
        if not item:
            raise ValueError(f"item {position} is empty")
        network = _network(item)
        if network is not None:
            networks.append(network)
        elif _is_host(item):
            hosts.add(item.rstrip("."))
        else:
            raise ValueError(f"item {position} ({item!r}) is neither a host name nor a network")
    return PrivateUpstreams(hosts=frozenset(hosts), networks=tuple(networks))


def _network(item: str) -> Network | None:
    try:
        return ipaddress.ip_network(item.strip("[]"), strict=False)
    except ValueError:
        return None


def _is_host(item: str) -> bool:
    labels = item.rstrip(".").split(".")
    if item in {"on", "off"} or labels[-1].isdigit():
        return False
    return all(label and label.isascii() and label.replace("-", "").replace("_", "").isalnum() for label in labels)
