"""Calls outside the hot path (probes, balance reads, webhooks): one guarded client, the only place that uses httpx.

A name is looked up once, judged, and the very addresses that were judged are connected to, so that a name server that
changes its mind leads nowhere. Redirects are not followed and proxies from the environment are not used: both would
lead past the check. Time and size are bounded as a whole, not per read.
"""

import errno
import ssl
import time
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from typing import Any

import httpcore
import httpx

from keys.core.addresses import url_problem
from keys.hosts import WAIT_S, judge_host

TIMEOUT_S = 10.0
CONNECT_S = 5.0  # per address of a name that has several
BODY_MAX = 1 << 20

# The request certainly did not arrive.
NEVER_SENT = frozenset({"blocked_address", "dns", "refused", "connect", "connect_timeout", "tls"})

_TEXTS: Mapping[str, str] = {
    "dns": "the name does not resolve",
    "refused": "the connection was refused",
    "connect": "no connection came about",
    "connect_timeout": "the connection was not accepted in time",
    "tls": "the certificate or TLS set-up was refused",
    "silence": "no whole answer came in time",
    "closed": "the connection broke before the end of the answer",
    "malformed": "the answer is not HTTP",
    "too_large": "the answer is larger than allowed",
}


@dataclass(frozen=True, slots=True)
class Fetched:
    """What came back. `status` None = no answer.

    `fault` is "" or a word of `keys.core.outcome.Reply`, or `too_large`: then `body` is its beginning. `why` says it in
    words, without anything that was sent. Header names are lower-case. `body` is decoded.
    """

    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    fault: str = ""
    why: str = ""

    @property
    def ok(self) -> bool:
        """A whole answer with a status of success."""
        return not self.fault and self.status is not None and is_success(self.status)


def is_success(status: int) -> bool:
    """Whether a status says that all went well."""
    return HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES


class _Refused(Exception):
    """The call ends here; carries a fault's word and its text."""

    def __init__(self, fault: str, why: str = "") -> None:
        super().__init__(fault)
        self.fault = fault
        self.why = why or _TEXTS[fault]


def fetch(
    method: str,
    url: str,
    headers: Mapping[str, str],
    content: bytes | None = None,
    *,
    body_max: int = BODY_MAX,
    timeout_s: float = TIMEOUT_S,
) -> Fetched:
    """Send one request and read its answer, `body_max` bytes at most. Never raises for what the other side does."""
    if problem := url_problem(url):
        return Fetched(fault="blocked_address", why=f"the address {problem}")
    deadline = _Deadline(timeout_s)
    sent = {name.encode(errors="replace"): value.encode(errors="replace") for name, value in headers.items()}
    sent.setdefault(b"accept-encoding", b"identity")
    client = httpx.Client(transport=_Transport(deadline), trust_env=False, follow_redirects=False, timeout=timeout_s)
    with client:
        try:
            return _exchange(client, client.build_request(method, url, headers=sent, content=content), body_max)
        except _Refused as refused:
            return Fetched(fault=refused.fault, why=refused.why)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol):
            return Fetched(fault="blocked_address", why="the address cannot be called")
        except _FAILURES as failure:
            fault = _named(failure)
            return Fetched(fault=fault, why=_TEXTS[fault])


def _exchange(client: httpx.Client, request: httpx.Request, body_max: int) -> Fetched:
    answer = client.send(request, stream=True)
    try:
        headers = {name.lower(): value for name, value in answer.headers.items()}
        try:
            body, fault = _body(answer.iter_raw(), headers.get("content-encoding", ""), body_max)
        except _FAILURES as problem:
            body, fault = b"", _named(problem)
        return Fetched(answer.status_code, headers, body, fault, _TEXTS.get(fault, ""))
    finally:
        answer.close()


def _body(parts: Iterable[bytes], coding: str, most: int) -> tuple[bytes, str]:
    """Gather a body up to `most` bytes; returns it with its fault, "" for none.

    It was asked for as it is; who codes it all the same is decoded no further than that.
    """
    plain = coding.strip().lower() in ("", "identity")
    if not plain and coding.strip().lower() not in ("gzip", "x-gzip", "deflate"):
        return b"", "malformed"
    unpack = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    body = b""
    for part in parts:
        try:
            body += part if plain else unpack.decompress(part, most + 1 - len(body))
        except zlib.error:
            return body, "malformed"
        if len(body) > most:
            return body[:most], "too_large"
    return body, ""


class _Deadline:
    """The end of a call's time."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds

    def left(self, most: float | None = None) -> float:
        """Seconds left, `most` at most. Raises _Refused when the time is over."""
        left = self._ends - time.monotonic()
        if left <= 0:
            raise _Refused("silence")
        return left if most is None else min(left, most)


class _Stream(httpcore.NetworkStream):
    """A connection whose every wait ends with the call's time, so that a trickle does not keep it open."""

    def __init__(self, inner: httpcore.NetworkStream, deadline: _Deadline) -> None:
        self._inner = inner
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._deadline.left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, self._deadline.left(timeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Stream(
            self._inner.start_tls(ssl_context, server_hostname, self._deadline.left(timeout)), self._deadline
        )

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Backend(httpcore.NetworkBackend):
    """Connects to what was judged, in the resolver's order."""

    def __init__(self, deadline: _Deadline) -> None:
        self._inner = httpcore.SyncBackend()
        self._deadline = deadline

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        judged = judge_host(host, self._deadline.left(WAIT_S))
        if judged.problem:
            raise _Refused("blocked_address", judged.problem)
        if not judged.addresses:
            raise _Refused("dns")
        failure: Exception = _Refused("dns")
        for address in judged.addresses:
            try:
                stream = self._inner.connect_tcp(address, port, self._deadline.left(CONNECT_S))
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as problem:
                failure = problem
            else:
                return _Stream(stream, self._deadline)
        raise failure


class _Body(httpx.SyncByteStream):
    def __init__(self, parts: Iterable[bytes]) -> None:
        self._parts = parts

    def __iter__(self) -> Any:
        return iter(self._parts)

    def close(self) -> None:
        close = getattr(self._parts, "close", None)
        if close is not None:
            close()


class _Transport(httpx.BaseTransport):
    """Lets httpx write the request and read the answer over connections of our own."""

    def __init__(self, deadline: _Deadline) -> None:
        self._pool = httpcore.ConnectionPool(ssl_context=_certificates(), network_backend=_Backend(deadline))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        answer = self._pool.handle_request(
            httpcore.Request(
                request.method,
                httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        parts: Any = answer.stream
        return httpx.Response(answer.status, headers=answer.headers, stream=_Body(parts))

    def close(self) -> None:
        self._pool.close()


@lru_cache(maxsize=1)
def _certificates() -> ssl.SSLContext:
    """Return what upstreams are trusted by, the same as for the calls that are passed on; reading it takes a while."""
    return ssl.create_default_context()


_FAILURES: tuple[type[Exception], ...] = (
    httpcore.TimeoutException,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.UnsupportedProtocol,
    _Refused,
)


_BROKEN_OFF = ("disconnected", "closed connection")  # the client's words for an answer that ended before its end


def _named(problem: Exception) -> str:
    if isinstance(problem, _Refused):
        return problem.fault
    if isinstance(problem, httpcore.ConnectTimeout):
        return "connect_timeout"
    if isinstance(problem, httpcore.ConnectError):
        cause = problem.args[0] if problem.args else None  # the chain itself is cut by the pool
        if isinstance(cause, ssl.SSLError):
            return "tls"
        return "refused" if isinstance(cause, OSError) and cause.errno == errno.ECONNREFUSED else "connect"
    if isinstance(problem, httpcore.TimeoutException):
        return "silence"
    broke = isinstance(problem, httpcore.NetworkError) or any(word in str(problem) for word in _BROKEN_OFF)
    return "closed" if broke else "malformed"
