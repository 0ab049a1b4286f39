"""Room two: what is asked? From bytes to facts."""

import unicodedata
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from keys.core.dialect import Dialect
from proxy.core.call import Admitted
from proxy.core.endpoints import Endpoint
from proxy.core.errors import Code, Fault, Refused
from proxy.core.sending import Inbound
from proxy.core.wire.jsontext import MalformedBody, parse_json
from routing.core import facts
from routing.core.facts import Facts


def read(admitted: Admitted, endpoint: Endpoint) -> tuple[Inbound, Facts]:
    """Parse the body once and gather what decisions need. Raises Refused with the position of a syntax error."""
    received = admitted.received
    payload = _payload(received.body)
    known = facts.read_facts(
        facts.Caller(
            tenant_id=admitted.tenant.id,
            line_id=admitted.line.id,
            line=admitted.line.slug,
            key_name=admitted.key.name,
            batch=admitted.line.batch,
        ),
        facts.Inbound(
            dialect=endpoint.dialect,
            operation=endpoint.name,
            headers={name.lower(): value for name, value in received.headers},
            body_bytes=len(received.body),
            model=endpoint.model,
            stored_id=endpoint.stored_id,
            serves=endpoint.serves,
        ),
        payload,
    )
    if not known.model or not _is_name(known.model):
        raise Refused(Fault(Code.INVALID_REQUEST, "The request names no model: 'model' must be a text.", param="model"))
    inbound = Inbound(
        endpoint=endpoint,
        headers=received.headers,
        query=received.query,
        body=received.body,
        payload=payload,
        model=known.model,
        stream=known.stream and not _is_array(endpoint, received.query),
    )
    return inbound, known


def _is_name(model: str) -> bool:
    """Whether a text can be a model's name at all: nothing that neither a header nor a database takes."""
    return model.isprintable() or not any(unicodedata.category(one) in ("Cc", "Cs") for one in model)


def _is_array(endpoint: Endpoint, query: str) -> bool:
    """Whether Gemini answers a stream as one JSON array: without `alt=sse` it does."""
    return endpoint.dialect is Dialect.GEMINI and ("alt", "sse") not in parse_qsl(query)


def _payload(body: bytes) -> Mapping[str, Any]:
    if not body.strip():
        raise Refused(Fault(Code.MALFORMED_BODY, "The request has no body; send a JSON object."))
    try:
        payload = parse_json(body)
    except MalformedBody as problem:
        raise Refused(Fault(Code.MALFORMED_BODY, f"The body is not valid JSON: {problem}")) from None
    if not isinstance(payload, dict):
        raise Refused(Fault(Code.MALFORMED_BODY, "The body must be a JSON object."))
    return payload
