"""An upstream's answer → what it means for the request, the key, the account (DESIGN, section 5).

Pure. Evidence is read in this order: codes, types and wording of a structured error; headers; the HTTP status.
The raw text speaks only when the body is not JSON. Rules on wording are data (`rulebook`); what stands here is what
does not depend on a provider's words: transport faults, unusable answers, windows, waits, statuses.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from keys.core.body import Kind
from keys.core.evidence import Evidence, evidence_of, says_failure
from keys.core.named_window import LONG_S, Window, names_a_model, window_of
from keys.core.outcome import Cause, Outcome, Phase, Reply, Scope, Verdict
from keys.core.redact import redact
from keys.core.rulebook import DEFAULT_RULES
from keys.core.waits import clock_of, spent_codex_windows, stated_wait_s, until_midnight_pacific_s
from keys.core.wording import Rules

MAX_MESSAGE = 500
_CONTROLS = dict.fromkeys((*range(32), 127))

SCOPES: Mapping[Cause, Scope] = {
    Cause.SERVED: Scope.KEY,
    Cause.INSUFFICIENT_BALANCE: Scope.ACCOUNT,
    Cause.QUOTA_EXHAUSTED: Scope.ACCOUNT,
    Cause.RATE_LIMITED: Scope.KEY,
    Cause.AUTH_INVALID: Scope.KEY,
    Cause.PERMISSION_DENIED: Scope.KEY_MODEL,
    Cause.MODEL_UNAVAILABLE: Scope.KEY_MODEL,
    Cause.OVERLOADED: Scope.KEY,
    Cause.SERVER_ERROR: Scope.KEY,
    Cause.CONNECTION: Scope.KEY,
    Cause.TIMEOUT: Scope.KEY,
    Cause.CONTEXT_TOO_LONG: Scope.REQUEST,
    Cause.BAD_REQUEST: Scope.REQUEST,
    Cause.CONTENT_FILTERED: Scope.REQUEST,
    Cause.ABORTED: Scope.NONE,
}
STATUSES: Mapping[int, Cause] = {
    401: Cause.AUTH_INVALID,
    402: Cause.INSUFFICIENT_BALANCE,
    403: Cause.PERMISSION_DENIED,
    404: Cause.MODEL_UNAVAILABLE,
    408: Cause.TIMEOUT,
    429: Cause.RATE_LIMITED,
    498: Cause.OVERLOADED,  # Groq: flex capacity
    499: Cause.CONNECTION,
    503: Cause.OVERLOADED,
    504: Cause.TIMEOUT,
    522: Cause.TIMEOUT,
    524: Cause.TIMEOUT,
    529: Cause.OVERLOADED,
}
REQUEST_FAULTS = frozenset({Cause.BAD_REQUEST, Cause.CONTENT_FILTERED})
FILTERED = frozenset(
    {"SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "RECITATION", "IMAGE_SAFETY", "content_filter", "sensitive"}
)
TIMEOUT_WORDS = ("timeout", "timed out", "silence", "no content within")
LIMITS = frozenset({Cause.RATE_LIMITED, Cause.QUOTA_EXHAUSTED})
RELAY_FAULT = 502
CREDIBLE_S = 31 * 86400  # no quota is renewed later; a longer wait is a mistake and names no window
OWN_FAULTS = ("pooltimeout", "pool_timeout", "blocked_address")  # they say nothing about the key

_LIMIT_REQUESTED = re.compile(r"\bLimit:? (\d[\d,]{0,14})\b[^.]{0,60}?\bRequested:? (\d[\d,]{0,14})\b")
_LIMIT_ZERO = re.compile(r"\blimit: 0\b(?![.\d])")


def classify(reply: Reply, *, now: datetime, rules: Rules = DEFAULT_RULES) -> Outcome:
    """Return what the reply means. Never raises for anything an upstream can send. `now` is aware."""
    if reply.fault is not None:
        return _of_fault(reply, reply.fault)
    evidence = evidence_of(reply)
    if reply.status is None and not evidence.is_error:
        return _of_fault(reply, "no answer")
    succeeded = reply.status is not None and reply.status // 100 == 2  # noqa: PLR2004 - 2xx
    if succeeded and (cause := _of_answer(reply, evidence)) is not None:
        return _finished(Outcome(cause, Verdict.NEXT, SCOPES[cause], evidence="answer"), reply, evidence.message)
    evidence = replace(evidence, status=_true_status(evidence))
    rule = rules.first(evidence) if evidence.is_error else None
    cause = rule.cause if rule else _by_status(evidence.status)
    wait = stated_wait_s(evidence, now)
    outcome = Outcome(
        cause,
        Verdict.NEXT,
        (rule.scope if rule else None) or SCOPES[cause],
        wait_s=wait,
        reason=rule.reason if rule else "",
        evidence=rule.name if rule else f"status:{evidence.status}",
    )
    if cause in LIMITS and outcome.reason != "size":
        outcome = _by_window(outcome, evidence, fixed=rule is not None and rule.fixed)
        if outcome.cause is Cause.QUOTA_EXHAUSTED:
            outcome = _of_quota(outcome, evidence, now, scoped=rule is not None and rule.scope is not None)
    return _finished(outcome, reply, evidence.message)


def _of_fault(reply: Reply, fault: str) -> Outcome:
    name = fault.lower()
    cause = Cause.TIMEOUT if any(word in name for word in TIMEOUT_WORDS) else Cause.CONNECTION
    own = any(word in name for word in OWN_FAULTS)
    scope, reason = (Scope.NONE, "local") if own else (SCOPES[cause], "")
    return _finished(Outcome(cause, Verdict.NEXT, scope, reason=reason, evidence="fault"), reply, fault)


def _of_answer(reply: Reply, evidence: Evidence) -> Cause | None:
    """Judge a 2xx without an error object; None when it has one, or when it is unusable and does not say why."""
    documents = evidence.documents
    if evidence.is_error and any(map(says_failure, documents)):
        return None
    whole = reply.usable and reply.phase is Phase.NONE
    if any(_is_filtered(document, whole=whole) for document in documents):
        return Cause.CONTENT_FILTERED
    if not whole:
        return None
    hollow = evidence.kind is Kind.JSON and _is_hollow(documents[0])
    return Cause.SERVER_ERROR if hollow else Cause.SERVED


def _is_filtered(document: Any, *, whole: bool) -> bool:
    """Tell a blocked prompt, or an answer stopped by a filter, from an answer.

    A whole answer that a filter cut short still has its content and is served as it is.
    """
    if not isinstance(document, Mapping):
        return False
    feedback = document.get("promptFeedback")
    if isinstance(feedback, Mapping) and feedback.get("blockReason") and not document.get("candidates"):
        return True
    candidate = _first(document.get("candidates"))
    if candidate.get("finishReason") in FILTERED and (not whole or not _parts(candidate)):
        return True
    response = document.get("response")
    details = response.get("incomplete_details") if isinstance(response, Mapping) else None
    stopped = _first(document.get("choices")).get("finish_reason") in FILTERED
    cut = isinstance(details, Mapping) and details.get("reason") in FILTERED
    return not whole and (stopped or cut)


def _is_hollow(document: Any) -> bool:
    """Tell a well-formed answer that contains nothing: `choices` empty, Gemini candidates without any part."""
    if isinstance(document, list):
        return not document
    if not isinstance(document, Mapping):
        return False
    if "choices" in document:
        return not document["choices"]
    candidates = document.get("candidates")
    if not isinstance(candidates, list):
        return "usageMetadata" in document and "totalTokens" not in document
    reasons = {item.get("finishReason") for item in candidates if isinstance(item, Mapping)}
    return "MAX_TOKENS" not in reasons and not any(_parts(item) for item in candidates)


def _parts(candidate: Any) -> bool:
    content = candidate.get("content") if isinstance(candidate, Mapping) else None
    return isinstance(content, Mapping) and bool(content.get("parts"))


def _first(value: Any) -> Mapping[str, Any]:
    found = value[0] if isinstance(value, list) and value else None
    return found if isinstance(found, Mapping) else {}


def _true_status(evidence: Evidence) -> int | None:
    """Undo a relay's mapping of statuses: new-api keeps the upstream's own in `param`.

    401, 402 and 403 there are about the relay's credential and not about ours.
    """
    if "bad_response_status_code" not in evidence.tokens:
        return evidence.status
    stated = next((str(item["param"]) for item in evidence.objects if item.get("param")), "")
    status = int(stated) if stated.isdigit() and len(stated) == len("429") else evidence.status
    return RELAY_FAULT if status in (401, 402, 403) else status


def _by_status(status: int | None) -> Cause:
    if (cause := STATUSES.get(status or 0)) is not None:
        return cause
    return Cause.BAD_REQUEST if status is not None and 400 <= status < 500 else Cause.SERVER_ERROR  # noqa: PLR2004


def _by_window(outcome: Outcome, evidence: Evidence, *, fixed: bool) -> Outcome:
    """Tell a rate from a quota by the window that is named, else by headers, else by the stated wait."""
    sized = _LIMIT_REQUESTED.search(evidence.message)
    if sized and int(sized[2].replace(",", "")) > int(sized[1].replace(",", "")):
        return replace(outcome, cause=Cause.RATE_LIMITED, scope=Scope.REQUEST, reason="size")
    if fixed:
        return outcome
    window = window_of(evidence)
    if _is_limit_zero(evidence) or (window is Window.NONE and _has_spent_window(evidence)):
        window = Window.LONG
    elif window is Window.NONE and outcome.wait_s is not None:
        long = LONG_S < outcome.wait_s <= CREDIBLE_S
        window = Window.LONG if long else Window.SHORT
    if window is Window.NONE:
        return outcome
    cause = Cause.QUOTA_EXHAUSTED if window is Window.LONG else Cause.RATE_LIMITED
    return outcome if cause is outcome.cause else replace(outcome, cause=cause, scope=SCOPES[cause])


def _of_quota(outcome: Outcome, evidence: Evidence, now: datetime, *, scoped: bool) -> Outcome:
    """Set the scope by what the wording names; replace the waits of Google's that are not to be believed."""
    if not scoped and names_a_model(evidence):
        outcome = replace(outcome, scope=Scope.KEY_MODEL)
    if any("per_day" in token for token in evidence.tokens) and any("quotaId" in item for item in evidence.objects):
        midnight = until_midnight_pacific_s(clock_of(evidence.headers, now))
        return replace(outcome, wait_s=midnight, reason="per_day")
    if _is_limit_zero(evidence):  # the model is not in this key's tier: the stated half minute brings nothing
        return replace(outcome, wait_s=None, reason="limit_zero")
    return outcome


def _is_limit_zero(evidence: Evidence) -> bool:
    return _LIMIT_ZERO.search(evidence.message) is not None or any(
        str(item.get("quotaValue")) == "0" for item in evidence.objects if "quotaId" in item
    )


def _has_spent_window(evidence: Evidence) -> bool:
    """Tell whether headers say that a subscription's window of hours or days is full."""
    headers = evidence.headers
    prefix = "anthropic-ratelimit-unified-"
    if headers.get(prefix + "status") == "rejected" and headers.get(prefix + "representative-claim"):
        return True
    if any(headers.get(f"{prefix}{window}-status") == "rejected" for window in ("5h", "7d")):
        return True
    return next(spent_codex_windows(headers), None) is not None


def _printable(message: str) -> str:
    """One line that logs, databases and mails take: no control characters, no half of an emoji."""
    text = " ".join(message.split()).translate(_CONTROLS)
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _finished(outcome: Outcome, reply: Reply, message: str) -> Outcome:
    if outcome.cause is Cause.SERVED:
        verdict = Verdict.ANSWERED
    elif outcome.cause in REQUEST_FAULTS or reply.phase is Phase.MID_STREAM:
        verdict = Verdict.STOP
    else:
        verdict = Verdict.NEXT
    shown = redact(_printable(message))[:MAX_MESSAGE]
    return replace(outcome, verdict=verdict, message=shown, status=reply.status, phase=reply.phase)
