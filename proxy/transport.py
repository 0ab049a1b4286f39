"""Bytes to and from upstreams. The only module that knows the HTTP client.

One session per process: a shared cookie jar would leak cookies between tenants, redirects would carry a credential
to another host, and the default pool limit would make streams wait for each other.
"""

import asyncio
import errno
import io
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from multidict import CIMultiDict
from yarl import URL

# A host, and an address that it resolved to (None = not yet asked) -> why it must not be called, or None.
Guard = Callable[[str, str | None], str | None]

_MAX_LINE = 65536
_AT_ONCE = 1 << 20  # bytes of a request's body


class BrokeError(Exception):
    """An answer stopped before its HTTP end. `fault` is one of the words of `keys.core.outcome.Reply`."""

    def __init__(self, fault: str, text: str) -> None:
        super().__init__(text)
        self.fault = fault


class BlockedAddressError(OSError):
    """The upstream's name leads to an address that is not allowed."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One request to an upstream. `url` is complete; `headers` hold the credential and stay out of repr."""

    method: str
    url: str
    headers: Sequence[tuple[str, str]] = field(repr=False)
    body: bytes | None = field(repr=False)
    connect_s: float


class Exchange:
    """What came back: a status with headers and a body to read, or a fault in their place."""

    __slots__ = ("_response", "fault", "fault_text", "headers", "raw_headers", "status")

    def __init__(
        self,
        *,
        response: aiohttp.ClientResponse | None = None,
        fault: str | None = None,
        fault_text: str = "",
    ) -> None:
        self._response = response
        self.fault = fault
        self.fault_text = fault_text
        self.status: int | None = response.status if response is not None else None
        self.raw_headers: list[tuple[str, str]] = list(response.headers.items()) if response is not None else []
        self.headers: dict[str, str] = {name.lower(): value for name, value in self.raw_headers}

    async def chunk(self) -> bytes:
        """Return the next bytes of the decoded body, b"" at its HTTP end. Raises BrokeError."""
        response = self._response
        if response is None:
            return b""
        try:
            return await response.content.readany()
        except (aiohttp.ClientError, OSError, TimeoutError) as problem:
            if isinstance(problem, aiohttp.ClientConnectionError) and self.fault:
                raise BrokeError(self.fault, self.fault_text) from None
            raise BrokeError(*_named(problem)) from None

    async def read(self, limit: int) -> bytes:
        """Return the decoded body, cut at `limit` bytes. Raises BrokeError."""
        parts: list[bytes] = []
        size = 0
        while size < limit:
            part = await self.chunk()
            if not part:
                break
            parts.append(part)
            size += len(part)
        return b"".join(parts)[:limit]

    def abort(self, fault: str = "", text: str = "") -> None:
        """Drop the connection; a reader that waits gets BrokeError with this fault. Safe to call twice."""
        if fault:
            self.fault, self.fault_text = fault, text
        if self._response is not None:
            # A waiting reader is woken by the lost connection.
            self._response.close()

    def release(self) -> None:
        """Give the connection back to the pool when the body was read whole, else drop it."""
        if self._response is not None:
            self._response.release()


class GuardedResolver(AbstractResolver):
    """Resolves names, then refuses addresses that are not allowed: the check at save saw older answers."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._inner = ThreadedResolver()

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[ResolveResult]:
        """Raise BlockedAddressError when any address of the name is refused."""
        found = await self._inner.resolve(host, port, family)  # type: ignore[arg-type]  # socket families are ints
        for address in found:
            if why := self._guard(host, address["host"]):
                raise BlockedAddressError(why)
        return found

    async def close(self) -> None:
        """Nothing to close."""
        await self._inner.close()


class Transport:
    """The process's one client session."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Make the session; call on the serving loop."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, resolver=GuardedResolver(self._guard), ttl_dns_cache=30, keepalive_timeout=15
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=True,
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=None),
            skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
            max_line_size=_MAX_LINE,
            max_field_size=_MAX_LINE,
            read_bufsize=2**16,
        )

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def send(self, request: Outgoing) -> Exchange:
        """Send and wait for the answer's head. Never raises for an upstream's faults."""
        if self._session is None:
            raise RuntimeError("the transport is not open")
        url = URL(request.url, encoded=True)
        if url.host and (why := self._guard(url.host, None)):
            return Exchange(fault="blocked_address", fault_text=why)
        try:
            response = await self._session.request(
                request.method,
                url,
                data=_payload(request.body),
                headers=CIMultiDict(request.headers),
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=None, connect=request.connect_s, sock_connect=request.connect_s),
            )
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as problem:
            fault, text = _named(problem)
            return Exchange(fault=fault, fault_text=text)
        return Exchange(response=response)


def _payload(body: bytes | None) -> bytes | io.BytesIO | None:
    """Return a large body as a file: the client writes bytes in one go, which holds up every other request."""
    return body if body is None or len(body) <= _AT_ONCE else io.BytesIO(body)


# Most specific first: the client's exceptions inherit from each other.
_FAULTS: tuple[tuple[tuple[type[BaseException], ...], str, str], ...] = (
    ((aiohttp.ClientConnectorDNSError,), "dns", "the upstream's name does not resolve"),
    (
        (aiohttp.ClientConnectorCertificateError, aiohttp.ClientSSLError, ssl.SSLError),
        "tls",
        "the upstream's certificate or TLS set-up was refused",
    ),
    (
        (aiohttp.ConnectionTimeoutError,),
        "connect_timeout",
        "the upstream did not accept the connection in time",
    ),
    ((aiohttp.ClientConnectorError,), "connect", "the upstream could not be reached"),
    (
        (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError),
        "closed",
        "the upstream closed the connection before the end of its answer",
    ),
    (
        (aiohttp.ClientResponseError, aiohttp.http_exceptions.HttpProcessingError, ValueError),
        "malformed",
        "the upstream's answer is not HTTP",
    ),
    ((TimeoutError,), "silence", "the upstream did not answer in time"),
)


def _named(problem: BaseException) -> tuple[str, str]:
    """Return the word for a transport fault and a text without addresses or credentials."""
    cause = _os_error(problem)
    if isinstance(cause, BlockedAddressError):
        return "blocked_address", str(cause)
    if isinstance(problem, aiohttp.ClientConnectorError) and cause is not None and cause.errno == errno.ECONNREFUSED:
        return "refused", "the upstream refused the connection"
    for kinds, fault, text in _FAULTS:
        if isinstance(problem, kinds):
            return fault, text
    return "reset", "the connection to the upstream was reset"


def _os_error(problem: BaseException) -> OSError | None:
    if isinstance(problem, aiohttp.ClientConnectorError):
        return problem.os_error
    if isinstance(problem.__cause__, OSError):
        return problem.__cause__
    return problem if isinstance(problem, OSError) else None


def deadline(seconds: float) -> "asyncio.Timeout":
    """Bound a wait; the name keeps asyncio out of the rooms."""
    return asyncio.timeout(seconds)
