"""Which headers cross the gateway, in either direction (wire reference, section 7).

Names are compared in lower case. Lists, not guesses: what is not named here passes.
"""

from collections.abc import Iterable, Mapping, Sequence

HeaderList = Sequence[tuple[str, str]]

_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authenticate",
        "te",
        "trailer",
        "trailers",
        "transfer-encoding",
        "upgrade",
    }
)
# Credentials and what belongs to the client's own account or network; never sent to an upstream.
_NOT_UPSTREAM = _HOP | frozenset(
    {
        "authorization",
        "x-api-key",
        "api-key",
        "x-goog-api-key",
        "proxy-authorization",
        "cookie",
        "host",
        "content-length",
        "content-encoding",
        "accept-encoding",
        "expect",
        "forwarded",
        "via",
        "x-real-ip",
        "true-client-ip",
        "traceparent",
        "tracestate",
        "baggage",
        "openai-organization",
        "openai-project",
        "chatgpt-account-id",
        "anthropic-workspace-id",
        "x-goog-user-project",
        "idempotency-key",
        "x-session-id",
        "origin",
        "referer",
    }
)
_NOT_UPSTREAM_PREFIXES = ("x-forwarded-", "cf-", "x-pointsman-", "sec-", "x-envoy-", "x-amzn-trace")
_NOT_CLIENT = _HOP | frozenset(
    {
        "set-cookie",
        "server",
        "date",
        "via",
        "cf-ray",
        "cf-cache-status",
        "alt-svc",
        "strict-transport-security",
        "content-length",
        "content-encoding",
        "content-security-policy",
        "nel",
        "report-to",
        "openai-organization",
        "openai-project",
        "anthropic-organization-id",
        "x-request-id",
        "request-id",
        "www-authenticate",
        "access-control-allow-origin",
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
    }
)
# The limits that these describe are those of one pooled key, not of the caller.
_NOT_CLIENT_PREFIXES = (
    "x-ratelimit-",
    "anthropic-ratelimit-",
    "x-codex-primary-",
    "x-codex-secondary-",
    "x-pointsman-",
)
# A foreign upstream gets these alone: versions, betas and SDK marks mean nothing there, or something else.
_FOREIGN = frozenset({"user-agent", "accept-language", "x-client-request-id"})
_OPENROUTER_ONLY = frozenset({"http-referer", "x-title"})


def to_upstream(headers: HeaderList, *, own: Mapping[str, str], openrouter: bool) -> list[tuple[str, str]]:
    """Return the client's headers as the upstream gets them, `own` (credential, fixed headers) replacing any namesake.

    Names listed in `connection` are hop-by-hop too (RFC 9110, 7.6.1). The upstream is asked for identity encoding.
    """
    replaced = {name.lower() for name in own}
    listed = _listed(headers)
    kept = [
        (name, value)
        for name, value in headers
        if (low := name.lower()) not in _NOT_UPSTREAM
        and low not in replaced
        and low not in listed
        and not low.startswith(_NOT_UPSTREAM_PREFIXES)
        and (openrouter or low not in _OPENROUTER_ONLY)
    ]
    kept.append(("accept-encoding", "identity"))
    kept.extend(own.items())
    return kept


def to_foreign(headers: HeaderList, *, own: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the headers for an upstream of another dialect: what does not belong to the client's own dialect."""
    kept = [(name, value) for name, value in headers if name.lower() in _FOREIGN]
    return [*kept, ("accept-encoding", "identity"), *own.items()]


def to_client(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the upstream's headers as the client may see them."""
    pairs = list(headers)
    listed = _listed(pairs)
    return [
        (name, value)
        for name, value in pairs
        if (low := name.lower()) not in _NOT_CLIENT and low not in listed and not low.startswith(_NOT_CLIENT_PREFIXES)
    ]


def presented(headers: Iterable[tuple[str, str]], query_key: str | None) -> list[str]:
    """Return every credential that a client sent, in a fixed order and without repeats.

    Real clients send two at once, in either order; the caller tries each.
    """
    found: list[str] = []
    for name, value in headers:
        low = name.lower()
        if low == "authorization":
            scheme, _, rest = value.partition(" ")
            found.append(rest.strip() if scheme.lower() == "bearer" else value.strip())
        elif low in ("x-api-key", "api-key", "x-goog-api-key"):
            found.append(value.strip())
    if query_key:
        found.append(query_key)
    return [value for value in dict.fromkeys(found) if value]


def _listed(headers: Iterable[tuple[str, str]]) -> frozenset[str]:
    return frozenset(
        part.strip().lower() for name, value in headers if name.lower() == "connection" for part in value.split(",")
    )
