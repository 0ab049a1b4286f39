"""One line about a request for the log: who asked, what was decided and why, how each try went. No secret, no text."""

from proxy.core.call import Call
from proxy.core.chain import Try
from proxy.core.wire.jsontext import dumps


def log_line(call: Call, clock_s: float) -> str:
    """Return a JSON object: names come from clients and must not be able to forge a line."""
    admitted, ending = call.admitted, call.ending
    line = {
        "id": admitted.received.request_id,
        "line": f"{admitted.tenant.slug}/{admitted.line.slug}",
        "key": admitted.key.name,
        "operation": call.operation,
        "model": call.model,
        "route": call.route,
        "rule": call.rule,
        "group": call.group,
        "session": call.session,
        "chain": [_told(made) for made in call.chain.tries],
        "status": ending.end.value if ending.end is not None else "",
        "http": ending.http_status,
        "error": ending.fault.code.value if ending.fault is not None else "",
        "ms": call.elapsed_ms(clock_s),
    }
    if call.chain.skips_left_out:
        line["skips_left_out"] = call.chain.skips_left_out
    return dumps(line).decode()


def _told(made: Try) -> str:
    name = f"{made.target.upstream}/{made.target.key}"
    if made.skipped:
        left = "" if made.left_s is None else f" {made.left_s:.0f} s"
        return f"{name} skipped: {made.skipped}{left}"
    outcome = made.outcome
    if outcome is None:
        return name
    reason = f" ({outcome.reason})" if outcome.reason else ""
    wait = f", {made.queued_ms} ms queued" if made.queued_ms else ""
    return f"{name} {outcome.cause.value}{reason} {made.ms} ms{wait}"
