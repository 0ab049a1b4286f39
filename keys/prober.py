"""Active health checks: list the models with a key. Never paid traffic, no redirects, no private addresses."""

import socket
import time
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import httpx
from django.conf import settings

from keys.core.addresses import complete_base_url, refusal
from keys.core.classify import classify
from keys.core.credential import credential
from keys.core.dialect import Dialect
from keys.core.outcome import Cause, Outcome, Reply, Scope, Verdict
from keys.core.redact import redact
from keys.models import UpstreamKey

TIMEOUT_S = 10.0
_BODY_MAX = 4 * 1024 * 1024
_ERROR_MAX = 65536
_NO_LIST = frozenset({404, 405, 501})  # relays without the endpoint: says nothing about the key


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """`outcome` None: the upstream offers no list of models, so nothing was learnt. `models` as it names them."""

    outcome: Outcome | None
    models: tuple[str, ...] = ()
    ms: int = 0

    @property
    def alive(self) -> bool:
        """Whether the key was accepted."""
        return self.outcome is not None and self.outcome.cause is Cause.SERVED


def probe(key: UpstreamKey, now: datetime) -> ProbeResult:
    """Ask the key's upstream for its models. Never raises for the upstream's faults."""
    upstream = key.upstream
    dialect = Dialect(upstream.dialect)
    url = f"{complete_base_url(dialect, upstream.base_url)}/models"
    host = urlsplit(url).hostname or ""
    began = time.monotonic()
    if why := _blocked(host):
        return ProbeResult(classify(Reply(status=None, fault=f"blocked_address: {why}"), now=now))
    headers = credential(dialect, upstream.auth, key.secret) | dict(upstream.headers)
    if dialect is Dialect.ANTHROPIC:
        headers.setdefault("anthropic-version", "2023-06-01")
    try:
        answer = httpx.get(url, headers=headers, timeout=TIMEOUT_S, follow_redirects=False)
    except (httpx.HTTPError, httpx.InvalidURL) as problem:
        fault = f"httpx.{type(problem).__name__}"
        return ProbeResult(classify(Reply(status=None, fault=fault, dialect=dialect), now=now), ms=_ms(began))
    if answer.status_code in _NO_LIST:
        return ProbeResult(None, ms=_ms(began))
    if not answer.is_success:
        reply = Reply(answer.status_code, dict(answer.headers), answer.content[:_ERROR_MAX], dialect=dialect)
        outcome = classify(reply, now=now)
        return ProbeResult(replace(outcome, message=redact(outcome.message, (key.secret,))), ms=_ms(began))
    names = _names(answer)
    served = Outcome(
        Cause.SERVED, Verdict.ANSWERED, Scope.NONE, status=answer.status_code, message=f"{len(names)} models"
    )
    return ProbeResult(served, names, _ms(began))


def _blocked(host: str) -> str | None:
    """Judge the name and what it resolves to; a name that does not resolve fails by itself."""
    allowed = settings.POINTSMAN_ALLOW_PRIVATE_UPSTREAMS
    if why := refusal(host, allowed):
        return why
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return None
    return next((why for *_rest, address in found if (why := refusal(host, allowed, str(address[0])))), None)


def _names(answer: httpx.Response) -> tuple[str, ...]:
    """Read the three shapes of model lists; an unreadable one has no names."""
    try:
        payload: Any = answer.json() if len(answer.content) <= _BODY_MAX else None
    except ValueError:
        return ()
    rows = (payload.get("data") or payload.get("models")) if isinstance(payload, dict) else payload
    if not isinstance(rows, list):
        return ()
    names = (row.get("id") or row.get("name") for row in rows if isinstance(row, dict))
    return tuple(dict.fromkeys(str(name).removeprefix("models/") for name in names if name))


def _ms(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
