"""Room two: what is asked? From bytes to facts."""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, assert_never
from urllib.parse import parse_qs

from proxy.core.call import Admitted, Received
from proxy.core.endpoints import Content, Endpoint, Meter
from proxy.core.errors import Code, Fault, Refused
from proxy.core.idempotency import is_keyed
from proxy.core.sending import Inbound
from proxy.core.wire.jsontext import MalformedBody, parse_json
from proxy.core.wire.multipart import boundary_of, fields_of, values_of
from routing.core import facts
from routing.core.facts import GEMINI_STREAM, Facts


def read(admitted: Admitted, endpoint: Endpoint) -> tuple[Inbound, Facts]:
    """Parse the body once and gather what decisions need. Raises Refused with the position of a syntax error."""
    received = admitted.received
    asked = _asked(received, endpoint)
    payload = asked.payload
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
            body_bytes=asked.text_bytes,
            model=endpoint.model if payload.get("model") else endpoint.model or endpoint.default_model or None,
            stored_id=endpoint.stored_id,
            serves=endpoint.serves,
        ),
        payload,
    )
    if (not known.model and endpoint.needs_model) or not _is_name(known.model):
        raise Refused(Fault(Code.INVALID_REQUEST, "The request names no model: 'model' must be a text.", param="model"))
    query = parse_qs(received.query)
    if endpoint.meter is Meter.STORED and query.get("stream") == ["true"]:
        known = replace(known, stream=True)
    inbound = Inbound(
        endpoint=endpoint,
        headers=received.headers,
        query=received.query,
        body=received.body,
        payload=payload,
        model=known.model,
        stream=known.stream,
        boundary=asked.boundary,
        as_array=endpoint.name == GEMINI_STREAM and query.get("alt") != ["sse"],
        seed=received.request_id if received.is_keyed and is_keyed(endpoint) else "",
    )
    return inbound, known


def _is_name(model: str) -> bool:
    """Whether a text can be a model's name at all: nothing that neither a header nor a database takes."""
    return model.isprintable() or not any(unicodedata.category(one) in ("Cc", "Cs") for one in model)


@dataclass(frozen=True, slots=True)
class _Asked:
    payload: Mapping[str, Any]
    text_bytes: int  # files left out
    boundary: bytes = b""


def _asked(received: Received, endpoint: Endpoint) -> _Asked:
    body = received.body
    match endpoint.content:
        case Content.NONE:
            return _Asked({}, 0)
        case Content.FORM:
            return _form(received)
        case Content.JSON:
            return _Asked(_payload(body), len(body))
        case _:
            assert_never(endpoint.content)


def _form(received: Received) -> _Asked:
    body = received.body
    told = next((value for name, value in received.headers if name.lower() == "content-type"), "")
    try:
        boundary = boundary_of(told)
        fields = fields_of(body, boundary)
    except MalformedBody as problem:
        raise Refused(Fault(Code.MALFORMED_BODY, f"The body is not a form: {problem}")) from None
    files = sum(field.end - field.start for field in fields if field.is_file)
    return _Asked(values_of(body, fields), len(body) - files, boundary)


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
