"""What the gateway answers itself: model lists and the explanation of requests."""

import asyncio
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qs

from django.http import HttpResponse

from billing import selectors
from keys.core.dialect import Dialect
from proxy.core.call import Admitted, Call
from proxy.core.endpoints import REQUEST_ID, Endpoint
from proxy.core.errors import Code, Fault, Refused
from proxy.core.wire.jsontext import dumps
from proxy.runtime import Runtime
from routing.core.table import RoutingTable
from tenants.core.access import model_allowed

_LIST_MAX = 100
_SMALL_NUMBER = re.compile(r"[1-9][0-9]{0,2}")


async def answer(admitted: Admitted, endpoint: Endpoint, runtime: Runtime) -> HttpResponse:
    """Answer a local endpoint. Raises Refused."""
    match endpoint.name:
        case "models":
            value: Any = model_list(admitted)
        case "model":
            value = one_model(admitted, endpoint.model or "")
        case "request":
            value = await _one_request(admitted, endpoint.stored_id or "", runtime)
        case _:
            value = await _requests(admitted, runtime)
    body = dumps(value)
    headers = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        "x-request-id": admitted.received.request_id,
        "x-pointsman-attempts": "0",
        "x-pointsman-session": "none",
    }
    return HttpResponse(body, headers=headers)


def models_of(admitted: Admitted) -> list[str]:
    """Return the names that this caller may ask for and an upstream of its tenant is known to have."""
    names = frozenset(_known(admitted.table, admitted.tenant.id))
    return sorted(name for name in names if "*" not in name and model_allowed(admitted.line.models, name))


def model_list(admitted: Admitted) -> Mapping[str, Any]:
    """Return the list in the shape that the client's SDK reads."""
    names = models_of(admitted)
    match admitted.received.dialect:
        case Dialect.ANTHROPIC:
            data = [_anthropic_model(name) for name in names]
            return {
                "data": data,
                "has_more": False,
                "first_id": names[0] if names else None,
                "last_id": names[-1] if names else None,
            }
        case Dialect.GEMINI:
            return {"models": [_gemini_model(name) for name in names]}
        case _:
            return {"object": "list", "data": [_openai_model(name) for name in names]}


def one_model(admitted: Admitted, name: str) -> Mapping[str, Any]:
    """Return one model, or 404 without naming any other."""
    if name not in models_of(admitted):
        raise Refused(Fault(Code.MODEL_NOT_FOUND, f"The model {name[:200]!r} is not served here.", param="model"))
    match admitted.received.dialect:
        case Dialect.ANTHROPIC:
            return _anthropic_model(name)
        case Dialect.GEMINI:
            return _gemini_model(name)
        case _:
            return _openai_model(name)


def _known(table: RoutingTable, tenant_id: int) -> Iterable[str]:
    for upstream in table.upstreams.values():
        if upstream.tenant_id == tenant_id and upstream.enabled:
            yield from upstream.models or ()
            yield from upstream.aliases


def _openai_model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "pointsman"}


def _anthropic_model(name: str) -> dict[str, Any]:
    return {"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"}


def _gemini_model(name: str) -> dict[str, Any]:
    return {
        "name": f"models/{name}",
        "displayName": name,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
    }


async def _one_request(admitted: Admitted, request_id: str, runtime: Runtime) -> Mapping[str, Any]:
    running = runtime.running(request_id)
    if running is not None and running.admitted.line.id == admitted.line.id:
        return _running(running, runtime)
    found = await asyncio.get_running_loop().run_in_executor(
        runtime.threads, selectors.request_explained, admitted.line.id, request_id
    )
    if found is None:
        raise Refused(Fault(Code.NOT_FOUND, "This line has no such request."))
    return found


async def _requests(admitted: Admitted, runtime: Runtime) -> Mapping[str, Any]:
    query = parse_qs(admitted.received.query)
    limit = query.get("limit", ["20"])[0]
    if not _SMALL_NUMBER.fullmatch(limit) or int(limit) > _LIST_MAX:
        raise Refused(
            Fault(Code.INVALID_REQUEST, f"limit must be a whole number from 1 to {_LIST_MAX}.", param="limit")
        )
    before = query.get("before", [None])[0]
    if before is not None and not REQUEST_ID.fullmatch(before):
        raise Refused(Fault(Code.INVALID_REQUEST, "before must be the id of a request.", param="before"))
    data = await asyncio.get_running_loop().run_in_executor(
        runtime.threads, selectors.requests_explained, admitted.line.id, int(limit), before
    )
    return {"object": "list", "data": data}


def _running(call: Call, runtime: Runtime) -> Mapping[str, Any]:
    return {
        "id": call.received.request_id,
        "line": call.admitted.line.slug,
        "key": call.admitted.key.name,
        "model_requested": call.model,
        "model_served": None,
        "dialect": call.received.dialect.value,
        "stream": call.facts.stream if call.facts is not None else False,
        "status": "running",
        "http_status": None,
        "created": call.received.at.isoformat(),
        "duration_ms": call.elapsed_ms(runtime.clock()),
        "first_content_ms": call.ending.first_content_ms,
        "session": call.session,
        "replay_of": call.replay_of or None,
        "usage": None,
        "charge": None,
        "refusal": None,
        "attempts": [],
    }
