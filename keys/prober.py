"""Active health checks: list the models with a key. Never paid traffic, no redirects, no private addresses."""

import time
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import orjson

from keys.core.addresses import complete_base_url
from keys.core.classify import classify
from keys.core.credential import credential
from keys.core.dialect import Dialect
from keys.core.outcome import Cause, Outcome, Reply, Scope, Verdict
from keys.core.redact import redact
from keys.models import UpstreamKey
from keys.outbound import Fetched, fetch, is_success

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
    began = time.monotonic()
    headers = credential(dialect, upstream.auth, key.secret) | dict(upstream.headers)
    if dialect is Dialect.ANTHROPIC:
        headers.setdefault("anthropic-version", "2023-06-01")
    answer = fetch("GET", url, headers, body_max=_BODY_MAX, timeout_s=TIMEOUT_S)
    if answer.status in _NO_LIST:
        return ProbeResult(None, ms=_ms(began))
    if not answer.ok:
        outcome = classify(_reply(answer, dialect), now=now)
        return ProbeResult(replace(outcome, message=redact(outcome.message, (key.secret,))), ms=_ms(began))
    names = _names(answer.body)
    served = Outcome(Cause.SERVED, Verdict.ANSWERED, Scope.NONE, status=answer.status, message=f"{len(names)} models")
    return ProbeResult(served, names, _ms(began))


def _reply(answer: Fetched, dialect: Dialect) -> Reply:
    """Return a failed answer as the classifier reads it: by its status where it has an error's, else by its fault."""
    status = answer.status
    if status is not None and not is_success(status):
        return Reply(status, answer.headers, answer.body[:_ERROR_MAX], dialect=dialect)
    fault = f"{answer.fault}: {answer.why}" if answer.fault == "blocked_address" else answer.fault
    return Reply(None, fault=fault, dialect=dialect)


def _names(body: bytes) -> tuple[str, ...]:
    """Read the three shapes of model lists; an unreadable one has no names."""
    try:
        payload: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ()
    rows = (payload.get("data") or payload.get("models")) if isinstance(payload, dict) else payload
    if not isinstance(rows, list):
        return ()
    names = (row.get("id") or row.get("name") for row in rows if isinstance(row, dict))
    return tuple(dict.fromkeys(str(name).removeprefix("models/") for name in names if name))


def _ms(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
