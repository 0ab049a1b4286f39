"""Counters for Prometheus, moved by the recorder once per commit: no request waits for them.

Several web processes on one machine share their counters through files (PROMETHEUS_MULTIPROC_DIR, set by
`config/serve.py`), so that whichever process is asked answers for all.
"""

import os
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest, multiprocess

from billing.core.record import Bundle

REGISTRY = CollectorRegistry()

_REQUESTS = Counter(
    "pointsman_requests", "Requests that ended.", ["dialect", "status", "code", "session"], registry=REGISTRY
)
_ATTEMPTS = Counter(
    "pointsman_attempts", "Exchanges with upstream keys, and skips.", ["upstream", "outcome"], registry=REGISTRY
)
_TOKENS = Counter("pointsman_tokens", "Tokens that upstreams reported.", ["kind"], registry=REGISTRY)
_UNPRICED = Counter("pointsman_unpriced_requests", "Requests whose model had no price.", registry=REGISTRY)
_FIRST = Histogram(
    "pointsman_first_content_seconds",
    "From request in to first content out.",
    buckets=(0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120),
    registry=REGISTRY,
)
_TOTAL = Histogram(
    "pointsman_request_seconds",
    "From request in to its end.",
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600),
    registry=REGISTRY,
)


def observe(bundles: Sequence[Bundle]) -> None:
    """Count the requests of one commit."""
    for bundle in bundles:
        row = bundle.record
        _REQUESTS.labels(row.dialect, row.status, row.error_code, row.session).inc()
        _TOTAL.observe(row.duration_ms / 1000)
        if row.first_content_ms is not None:
            _FIRST.observe(row.first_content_ms / 1000)
        if not row.priced:
            _UNPRICED.inc()
        for kind, tokens in (
            ("input", row.input_tokens),
            ("cached_read", row.cached_read_tokens),
            ("cache_write", row.cache_write_tokens),
            ("output", row.output_tokens),
        ):
            if tokens:
                _TOKENS.labels(kind).inc(tokens)
        for attempt in bundle.attempts:
            outcome = attempt.outcome or f"skipped_{attempt.skipped}"
            _ATTEMPTS.labels(attempt.upstream, outcome).inc()


def exposition() -> bytes:
    """Return all figures in Prometheus' text format."""
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return generate_latest(REGISTRY)
    shared = CollectorRegistry()
    multiprocess.MultiProcessCollector(shared)  # type: ignore[no-untyped-call]  # the library's own gap
    return generate_latest(shared)
