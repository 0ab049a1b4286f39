"""From a client's request and a candidate to the upstream's request: the client's bytes, deliberately edited."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

from keys.core.credential import credential
from keys.core.dialect import Dialect
from proxy.core import headers
from proxy.core.answer import Rename
from proxy.core.endpoints import Content, Endpoint
from proxy.core.idempotency import NAME, upstream_key
from proxy.core.ruled import ruled
from proxy.core.translating import STREAMED_GEMINI, operation_of, read_form, write_for
from proxy.core.wire.edits import ask_for_usage, asks_for_usage, replace_member
from proxy.core.wire.form import Request
from proxy.core.wire.gemini_names import rename_requests
from proxy.core.wire.jsontext import dumps
from proxy.core.wire.multipart import replace_field
from routing.core.table import KeyInfo, UpstreamInfo
from tenants.core.values import valueclass

_USAGE_ON_REQUEST: Final = frozenset({"chat/completions", "completions"})


@valueclass(frozen=True, slots=True)
class Inbound:
    """The client's request, parsed once for all attempts. `body` are its bytes."""

    endpoint: Endpoint
    headers: Sequence[tuple[str, str]] = field(repr=False)
    query: str
    body: bytes = field(repr=False)
    payload: Mapping[str, Any] = field(repr=False)
    model: str
    stream: bool
    boundary: bytes = b""  # of a form
    as_array: bool = False  # Gemini without alt=sse: the stream is one JSON array
    seed: str = ""  # of the attempts' idempotency keys; "" = they have none


@valueclass(frozen=True, slots=True)
class Prepared:
    """A request for one upstream key. `injected`: the usage option is ours, so its chunk is withheld.

    `form` and `dropped` are set where the upstream speaks another dialect than the client.
    """

    url: str
    operation: str
    headers: list[tuple[str, str]] = field(repr=False)
    body: bytes = field(repr=False)
    injected: bool = False
    rename: Rename | None = None
    form: Request | None = field(default=None, repr=False)
    dropped: tuple[str, ...] = ()


def prepare(
    inbound: Inbound,
    upstream: UpstreamInfo,
    key: KeyInfo,
    *,
    model: str,
    values: Mapping[str, Any],
    usage_option: bool,
) -> Prepared:
    """Return the upstream request of one attempt.

    `model` is the name to send; `values` the rules' `set` members beside it. `usage_option` is False for an upstream
    that refused `stream_options` before. Raises Untranslatable where the upstream's dialect cannot express it.
    """
    values = ruled(inbound.endpoint.dialect, inbound.payload, values)
    if upstream.dialect is not inbound.endpoint.dialect:
        return _translated(inbound, upstream, key, model, values)
    body = _edited(inbound, model, values)
    injected = usage_option and _must_ask(inbound)
    if injected:
        body = ask_for_usage(body)
    own = _keyed(inbound, key, body) | credential(upstream.dialect, upstream.auth, key.secret) | dict(upstream.headers)
    return Prepared(
        url=_url(inbound, upstream, model),
        operation=inbound.endpoint.name,
        headers=headers.to_upstream(inbound.headers, own=own, openrouter="openrouter.ai" in upstream.base_url),
        body=body,
        injected=injected,
        rename=Rename(model.encode(), inbound.model.encode()) if model != inbound.model else None,
    )


def _edited(inbound: Inbound, model: str, values: Mapping[str, Any]) -> bytes:
    """Return the body with what rules set and the name to send; every other byte as it was."""
    body, endpoint = inbound.body, inbound.endpoint
    if endpoint.content is Content.NONE:
        return body
    for name, value in values.items():
        if name != "model":
            body = _with(body, name, value, inbound)
    if model == inbound.model:
        return body
    if endpoint.model is not None:
        return rename_requests(body, inbound.model, model) if b'"model"' in body else body
    return _with(body, "model", model, inbound)


def _with(body: bytes, name: str, value: Any, inbound: Inbound) -> bytes:
    if inbound.endpoint.content is Content.FORM:
        text = value if isinstance(value, str) else dumps(value).decode()
        return replace_field(body, inbound.boundary, name, text.encode())
    return replace_member(body, name, dumps(value))


def _translated(
    inbound: Inbound, upstream: UpstreamInfo, key: KeyInfo, model: str, values: Mapping[str, Any]
) -> Prepared:
    payload = {**inbound.payload, **values} if values else inbound.payload
    form = read_form(inbound.endpoint, payload, model=inbound.model, stream=inbound.stream)
    written = write_for(upstream.dialect, form, model)
    operation = operation_of(upstream.dialect, stream=inbound.stream)
    path = f"models/{quote(model, safe='/')}:{operation}" if upstream.dialect is Dialect.GEMINI else operation
    query = "?alt=sse" if operation == STREAMED_GEMINI else ""
    own = _keyed(inbound, key, written.body) | credential(upstream.dialect, upstream.auth, key.secret)
    own["content-type"] = "application/json"
    if upstream.dialect is Dialect.ANTHROPIC:
        # The newer version refuses sampling parameters, which a translation may carry.
        own["anthropic-version"] = "2023-06-01"
    own |= dict(upstream.headers)
    return Prepared(
        url=f"{upstream.base_url}/{path}{query}",
        operation=operation,
        headers=headers.to_foreign(inbound.headers, own=own),
        body=written.body,
        form=form,
        dropped=written.dropped,
    )


def _keyed(inbound: Inbound, key: KeyInfo, body: bytes) -> dict[str, str]:
    return {NAME: upstream_key(inbound.seed, key.id, body)} if inbound.seed else {}


def _must_ask(inbound: Inbound) -> bool:
    return inbound.stream and inbound.endpoint.name in _USAGE_ON_REQUEST and not asks_for_usage(inbound.payload)


def _url(inbound: Inbound, upstream: UpstreamInfo, model: str) -> str:
    path = inbound.endpoint.path or inbound.endpoint.name
    if inbound.endpoint.dialect is Dialect.GEMINI:
        path = f"models/{quote(model, safe='/')}:{path}"
    query = without_key(inbound.query)
    return f"{upstream.base_url}/{path}" + (f"?{query}" if query else "")


def without_key(query: str) -> str:
    """Return a query string without `key`, which is a credential in Gemini's dialect."""
    if "key" not in query:
        return query
    return urlencode([(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name != "key"])
