"""What an outcome means, in words: for the key, for the request, and what the client would get."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _

from keys.core.dialect import Dialect
from keys.core.outcome import Cause, Outcome, Phase, Reply, Scope, Verdict
from keys.core.policy import Policy
from keys.core.state import FRESH, KeyState, Status, after, explains_nothing, left_s
from keys.core.wording import WordingRule
from proxy.core.chain import Chain, Target, Try, failure
from proxy.core.errors import Code, Fault
from proxy.core.tries import verbatim_of
from proxy.core.wire.faults import FaultContext, error_body, error_event
from tenants.adminchips import duration

SHOWN_MODEL = "MODEL"
_HARD = frozenset({Cause.OVERLOADED, Cause.SERVER_ERROR, Cause.CONNECTION, Cause.TIMEOUT})


@dataclass(frozen=True, slots=True)
class Answer:
    """What the client gets. `when` says under which circumstances."""

    when: str
    status: int
    headers: Sequence[tuple[str, str]]
    body: str


def scope_words(scope: Scope) -> str:
    """Return what an effect falls on."""
    words = {
        Scope.NONE: _("nothing"),
        Scope.REQUEST: _("this request alone"),
        Scope.KEY: _("the key"),
        Scope.KEY_MODEL: _("the key with this model"),
        Scope.ACCOUNT: _("the account (all keys that share its balance)"),
    }
    return words[scope]


def verdict_words(outcome: Outcome) -> str:
    """Return what failover does next."""
    if outcome.verdict is Verdict.ANSWERED:
        return _("The client gets this answer.")
    if outcome.verdict is Verdict.STOP and outcome.phase is Phase.MID_STREAM:
        return _("The stream ends with an error event: content has reached the client, so no other key may go on.")
    if outcome.verdict is Verdict.STOP:
        return _("The client gets this refusal; no other key is tried.")
    if outcome.cause is Cause.CONTEXT_TOO_LONG:
        return _("Only keys with a larger context window are tried.")
    if outcome.cause in _HARD:
        return _("Another key is tried; the other keys of this upstream come last.")
    return _("Another key is tried.")


def effect_words(outcome: Outcome, policy: Policy, now: datetime) -> list[str]:
    """Return what a fresh key, or its account, goes through under a policy."""
    if outcome.cause is Cause.SERVED:
        return [_("A success: strikes and trips of the key are forgotten.")]
    if explains_nothing(outcome):
        return [_("Nothing happens to the key: neither a strike nor a success.")]
    state = after(FRESH, outcome, policy, now, model=SHOWN_MODEL)
    said = [_cooled(state, outcome, now), _struck(state, policy), _rested(state, now)]
    return [text for text in said if text] or [_("Nothing happens to the key under this policy; it is only counted.")]


def _cooled(state: KeyState, outcome: Outcome, now: datetime) -> str:
    who = _("The account") if outcome.scope is Scope.ACCOUNT else _("The key")
    if state.status is Status.DEAD:
        return _("%(who)s is dead at once, until a person acts; an alert goes out.") % {"who": who}
    if state.status is not Status.COOLING:
        return ""
    text = _("%(who)s cools for %(time)s.") % {"who": who, "time": duration(left_s(state, now))}
    if state.waits:
        text += " " + _("Nobody said how long: it doubles each time.")
    return text


def _struck(state: KeyState, policy: Policy) -> str:
    if not state.strikes:
        return ""
    words = {
        "all": policy.strikes,
        "first": duration(policy.cool_strike_s),
        "longest": duration(policy.cool_strike_max_s),
    }
    return _("One strike of %(all)s; the last one cools the key %(first)s, doubling up to %(longest)s.") % words


def _rested(state: KeyState, now: datetime) -> str:
    if not state.models:
        return ""
    left = (state.models[0].until - now).total_seconds()
    return _("The key rests for this model for %(time)s; other models go on.") % {"time": duration(left)}


def evidence_words(outcome: Outcome, rule: WordingRule | None) -> str:
    """Return what decided."""
    if rule is not None:
        if rule.name.startswith("operator:"):
            return _("your own wording rule")
        return _("a built-in wording rule")
    if outcome.evidence == "answer":
        return _("the answer itself")
    if outcome.evidence == "fault":
        return _("how the connection failed")
    return _("the HTTP status alone: no rule knows this wording")


def client_gets(reply: Reply, outcome: Outcome, client: Dialect) -> Answer | None:
    """Return what a client of this dialect gets when no other key answers either; None = the upstream's answer."""
    if outcome.verdict is Verdict.ANSWERED:
        return None
    if outcome.phase is Phase.MID_STREAM:
        told = f": {outcome.message}" if outcome.message else ""
        text = f"The upstream broke off in the middle of its answer{told}"
        fault = Fault(Code.UPSTREAM_FAILED, text, source="upstream")
        event = error_event(client, fault.status, fault.code.value, fault.message)
        return Answer(_("as the last event of the stream"), 200, (), event.decode())
    target = Target(0, "", 0, "", "", None, SHOWN_MODEL, client)
    verbatim = None
    if outcome.verdict is Verdict.STOP or outcome.cause is Cause.CONTEXT_TOO_LONG:
        verbatim = verbatim_of(reply, (), client)
    made = Try(target=target, outcome=outcome, verbatim=verbatim)
    fault = failure(Chain((made,)), model=SHOWN_MODEL)
    body = fault.body
    if body is None:
        context = FaultContext(param=fault.param, retry_s=fault.wait_s)
        body = error_body(client, fault.status, fault.code.value, fault.message, context=context)
    when = _("at once") if outcome.verdict is Verdict.STOP else _("when no other key answers")
    return Answer(when, fault.status, tuple(fault.headers().items()), body.decode("utf-8", "replace"))
