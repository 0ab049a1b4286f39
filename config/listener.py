"""The listening socket, opened before anything is started and shared by every web process of this machine."""

import errno
import socket

BACKLOG = 2048


class PortInUse(Exception):
    """Nothing can listen at the wanted address; the text says what to change."""


def bound(host: str, port: int) -> socket.socket:
    """Return a socket bound to the address and not yet listening. Port 0 takes a free one. Raises PortInUse."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as exc:
        raise PortInUse(f"POINTSMAN_HOST {host} is no address of this machine ({exc.strerror}).") from exc
    sock = socket.socket(family, kind, protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(address)
    except OSError as exc:
        sock.close()
        raise PortInUse(_refusal(exc, host, port)) from exc
    return sock


def listen(sock: socket.socket) -> None:
    """Begin to queue connections. Raises PortInUse when another process, bound as early, was quicker."""
    try:
        sock.listen(BACKLOG)
    except OSError as exc:
        host, port = sock.getsockname()[:2]
        raise PortInUse(_refusal(exc, host, port)) from exc


def url(sock: socket.socket) -> str:
    """Return the address under which this machine reaches the socket; a wildcard becomes loopback."""
    host, port = sock.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  # read, not bound
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"


def _refusal(exc: OSError, host: str, port: int) -> str:
    if exc.errno == errno.EADDRINUSE:
        return f"Port {port} on {host} is in use by another program: stop it, or set POINTSMAN_PORT."
    if exc.errno == errno.EACCES:
        return f"Port {port} needs rights that this user lacks: set POINTSMAN_PORT to 1024 or more."
    return f"Cannot listen on {host} port {port}: {exc.strerror}. See POINTSMAN_HOST and POINTSMAN_PORT."
