"""What the failover loop asks of core: limits as the store knows them, targets, verbatim answers, the deadline."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b

from keys.core.admission import Admission, Caller, Hold
from keys.core.dialect import Dialect
from keys.core.outcome import Cause, Outcome, Phase, Reply, Scope, Verdict
from keys.core.policy import Policy
from keys.core.redact import redact
from keys.core.windows import Caps
from proxy.core.answer import Translation
from proxy.core.call import Call, Received
from proxy.core.chain import Target, Verbatim
from proxy.core.endpoints import Endpoint, Meter
from proxy.core.errors import Code, Fault
from proxy.core.sending import Inbound, Prepared
from proxy.core.translating import OPERATIONS, STREAMED_GEMINI, read_form, write_for
from proxy.core.wire.form import Untranslatable
from proxy.core.wire.jsontext import MAX_DEPTH_TEXT
from routing.core.decision import Candidate, Refusal, RefusalKind
from routing.core.identity import digest
from routing.core.table import KeyInfo, RoutingTable

_CLIENT_TIMEOUTS = ("x-stainless-timeout", "x-stainless-read-timeout", "x-server-timeout")


def softened(outcome: Outcome, endpoint: Endpoint) -> Outcome:
    """A stored object that is not there is the request's affair: no other key has it either.

    A 404 without wording means the model on the paths of generation; elsewhere the upstream may lack the endpoint
    itself, which says nothing about the model that others ask for.
    """
    if endpoint.meter is Meter.STORED and outcome.cause is Cause.MODEL_UNAVAILABLE:
        return replace(outcome, cause=Cause.BAD_REQUEST, verdict=Verdict.STOP, scope=Scope.REQUEST)
    generates = endpoint.name in OPERATIONS.values() or endpoint.name == STREAMED_GEMINI
    if outcome.cause is Cause.MODEL_UNAVAILABLE and outcome.evidence == "status:404" and not generates:
        return replace(outcome, scope=Scope.REQUEST)
    return outcome


def secrets_of(table: RoutingTable) -> tuple[str, ...]:
    """Return every upstream secret, to be kept out of what clients see."""
    return tuple(key.secret for upstream in table.upstreams.values() for key in upstream.keys)


_CODES: Mapping[RefusalKind, Code] = {
    RefusalKind.NO_ROUTE: Code.MODEL_NOT_FOUND,
    RefusalKind.NO_RULE: Code.MODEL_NOT_FOUND,
    RefusalKind.DENIED: Code.DENIED_BY_RULE,
    RefusalKind.NOT_ALLOWED: Code.MODEL_NOT_ALLOWED,
    RefusalKind.MODEL_UNKNOWN: Code.MODEL_NOT_FOUND,
    RefusalKind.PINNED: Code.PINNED_ELSEWHERE,
    RefusalKind.LIMITED: Code.UPSTREAM_RATE_LIMITED,
    RefusalKind.NO_KEY: Code.NO_KEY_AVAILABLE,
}


def refusal_fault(refusal: Refusal) -> Fault:
    """Word a decision's refusal as an error."""
    return Fault(
        _CODES[refusal.kind],
        refusal.text,
        wait_s=refusal.wait_s,
        hopeless=refusal.do_not_retry or None,
        param="model" if refusal.kind in (RefusalKind.MODEL_UNKNOWN, RefusalKind.NOT_ALLOWED) else None,
    )


_FAULT_WORDS: Mapping[str, str] = {
    "refused": "the upstream refused the connection",
    "dns": "the upstream's name does not resolve",
    "tls": "the upstream's certificate or TLS set-up was refused",
    "connect": "the upstream could not be reached",
    "connect_timeout": "the upstream did not accept the connection in time",
    "silence": "the upstream was silent for too long",
    "closed": "the upstream closed the connection before the end of its answer",
    "reset": "the connection to the upstream was reset",
    "malformed": "the upstream's answer is not HTTP",
    "blocked_address": "the upstream's address is private, which is not allowed here",
}


def message_of(reply: Reply, message: str, secret: str) -> str:
    """Return what is told of a failure: a transport fault in words, else the upstream's wording without the key."""
    return _FAULT_WORDS.get(reply.fault or "", "") or redact(message, (secret,))


def refuses_option(failed: Reply | None) -> bool:
    """Whether an upstream does not know `stream_options`."""
    return failed is not None and failed.status in (400, 422) and b"stream_options" in failed.body


def callers_of(call: Call) -> tuple[Caller, ...]:
    """Return the scopes that pay for a request, those without limits left out."""
    line, key = call.admitted.line, call.admitted.key
    found = (Caller(f"line:{line.id}", line.limits), Caller(f"gateway:{key.id}", key.limits))
    return tuple(caller for caller in found if caller.caps != Caps())


def is_key(hold: Hold) -> bool:
    """Whether a hold is an upstream key's, not a caller's."""
    return hold.scope.startswith("key:")


def limit_fault(admission: Admission) -> Fault:
    """Word the limit that refused a request."""
    block = admission.blocks[0]
    owner = "business line" if block.scope.startswith("line:") else "gateway key"
    return Fault(
        Code.LIMIT_REACHED,
        f"The {owner}'s limit {block.limit} is reached.",
        wait_s=block.left_s if block.left_s is not None else 5.0,
        refusal_limit=f"{block.scope.partition(':')[0]}:{block.limit}",
    )


def target_of(candidate: Candidate, key: KeyInfo) -> Target:
    """Return the names that a try keeps."""
    return Target(
        upstream_id=candidate.upstream_id,
        upstream=candidate.upstream,
        key_id=key.id,
        key=key.name,
        tail=key.tail,
        account_id=key.account_id,
        model=candidate.model_sent,
        dialect=candidate.dialect,
    )


def key_of(table: RoutingTable, candidate: Candidate) -> KeyInfo:
    """Return the upstream key that a candidate names, from the table that it was chosen from."""
    return next(key for key in table.upstreams[candidate.upstream_id].keys if key.id == candidate.key_id)


def stops(outcome: Outcome, policy: Policy) -> bool:
    """Whether the policy lets a refusal of credentials end the request rather than move on."""
    match outcome.cause:
        case Cause.AUTH_INVALID:
            return policy.on_auth == "stop"
        case Cause.PERMISSION_DENIED:
            return policy.on_permission == "stop"
    return False


def skipped_target(table: RoutingTable, key_id: int) -> Target | None:
    """Return the names that a skip keeps of a key; None for one that is gone."""
    for upstream in table.upstreams.values():
        for key in upstream.keys:
            if key.id == key_id:
                return Target(
                    upstream.id, upstream.name, key.id, key.name, key.tail, key.account_id, "", upstream.dialect
                )
    return None


def verbatim_of(reply: Reply, secrets: Sequence[str], client: Dialect) -> Verbatim | None:
    """Return an upstream's own error answer without secrets; None inside a stream, or in another dialect."""
    errors_differ = reply.dialect is not client and {reply.dialect, client} != {Dialect.OPENAI, Dialect.RESPONSES}
    if reply.status is None or reply.phase is not Phase.NONE or errors_differ:
        return None
    text = redact(reply.body.decode("utf-8", "replace"), secrets)
    return Verbatim(reply.status, reply.headers.get("content-type", "application/json"), text.encode())


def deadline_s(policy: Policy, inbound: Inbound) -> float:
    """No attempt starts later: the policy's figure, or the wait that the client itself states."""
    stated = {name.lower(): value for name, value in inbound.headers if name.lower() in _CLIENT_TIMEOUTS}
    found = [policy.deadline_s(stream=inbound.stream)]
    for value in stated.values():
        try:
            seconds = float(value)
        except ValueError:
            continue
        if seconds > 0:
            found.append(seconds)
    return min(found)


def poison_mark(call: Call) -> str:
    """Return what tells a request from others of its line, whoever sends it again."""
    return digest(str(call.admitted.line.id), blake2b(call.received.body, digest_size=16).hexdigest())


def untranslatable(inbound: Inbound, dialect: Dialect, model: str) -> Untranslatable | None:
    """Return what of a request another dialect cannot express; None = all of it can be carried or left out."""
    try:
        form = read_form(inbound.endpoint, inbound.payload, model=inbound.model, stream=inbound.stream)
        write_for(dialect, form, model)
    except Untranslatable as problem:
        return problem
    except RecursionError:  # within what may be parsed, but not walked
        return Untranslatable("body", f"is {MAX_DEPTH_TEXT}")
    return None


def translation_of(received: Received, inbound: Inbound, source: Dialect, prepared: Prepared) -> Translation | None:
    """Return what the way back needs; None where both sides speak the same dialect."""
    if prepared.form is None:
        return None
    return Translation(
        source=source,
        target=inbound.endpoint.dialect,
        form=prepared.form,
        model=inbound.model,
        seed=received.request_id,
        created=int(received.at.timestamp()),
    )
