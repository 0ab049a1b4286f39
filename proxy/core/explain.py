"""A dry run: what the gateway would do with a request, by the code that decides. Sends and charges nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from keys.core.dialect import Dialect
from proxy.core.wire.jsontext import dumps
from routing.core import facts as facts_of
from routing.core.choose import choose
from routing.core.decide import decide
from routing.core.decision import Candidate, Decision, Skipped, Target
from routing.core.facts import Facts
from routing.core.memory import Memory
from routing.core.seats import LOW_WATER_TIER, SLOW_TIER
from routing.core.table import LineInfo, RoutingTable
from routing.core.views import FRESH, KeyView, Situation

OPERATIONS: Mapping[Dialect, str] = {
    Dialect.OPENAI: "chat/completions",
    Dialect.RESPONSES: "responses",
    Dialect.ANTHROPIC: "messages",
    Dialect.GEMINI: "generateContent",
}


class BadDryRunError(ValueError):
    """The dry run's own input is wrong; the text says where and what to do."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """A request to explain. `line` is `tenant/line`, or the line's slug alone where only one tenant has it."""

    line: str
    dialect: Dialect
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    key: str = ""


def read_dry_run(value: Any) -> DryRun:
    """Read the JSON object `{line, dialect, headers, body}`. Raises BadDryRunError naming the field."""
    if not isinstance(value, Mapping):
        raise BadDryRunError("the request to explain must be a JSON object with line, dialect, headers and body")
    unknown = sorted(set(value) - {"line", "dialect", "headers", "body", "key"})
    if unknown:
        raise BadDryRunError(f"{unknown[0]}: unknown field; known: line, dialect, headers, body, key")
    if not isinstance(value.get("line"), str) or not value["line"]:
        raise BadDryRunError("line: name the business line, as tenant/line")
    dialects = [dialect.value for dialect in Dialect]
    if value.get("dialect", "openai") not in dialects:
        raise BadDryRunError(f"dialect: must be one of {', '.join(dialects)}")
    headers, body = value.get("headers") or {}, value.get("body")
    if not isinstance(headers, Mapping) or not all(isinstance(text, str) for text in headers.values()):
        raise BadDryRunError("headers: must be an object of texts")
    if not isinstance(body, Mapping):
        raise BadDryRunError("body: must be the JSON object that the client would send")
    return DryRun(
        line=value["line"],
        dialect=Dialect(value.get("dialect", "openai")),
        headers={name.lower(): text for name, text in headers.items()},
        body=body,
        key=str(value.get("key") or ""),
    )


def line_of(dry_run: DryRun, table: RoutingTable) -> LineInfo:
    """Find the line. Raises BadDryRunError."""
    tenant, _, slug = dry_run.line.rpartition("/")
    found = [
        line
        for line in table.lines.values()
        if line.slug == slug and (not tenant or table.tenants[line.tenant_id].slug == tenant)
    ]
    if not found:
        raise BadDryRunError(f"line: there is no line {dry_run.line!r}")
    if len(found) > 1:
        raise BadDryRunError(f"line: several tenants have a line {slug!r}; write tenant/{slug}")
    return found[0]


def facts_for(dry_run: DryRun, line: LineInfo) -> Facts:
    """Return the facts that the gateway would read."""
    model = dry_run.body.get("model") if dry_run.dialect is Dialect.GEMINI else None
    operation = OPERATIONS[dry_run.dialect]
    if dry_run.dialect is Dialect.GEMINI and dry_run.body.get("stream") is True:
        operation = facts_of.GEMINI_STREAM
    return facts_of.read_facts(
        facts_of.Caller(line.tenant_id, line.id, line.slug, dry_run.key, line.batch),
        facts_of.Inbound(
            dialect=dry_run.dialect,
            operation=operation,
            headers=dry_run.headers,
            body_bytes=len(dumps(dict(dry_run.body))),
            model=model if isinstance(model, str) else None,
        ),
        dry_run.body,
    )


class Present(Protocol):
    """How things stand, as far as the asking process can know."""

    @property
    def now(self) -> datetime:
        """The moment."""

    def memory(self, facts: Facts, table: RoutingTable) -> Memory:
        """What is remembered of the conversation."""

    def views(self, target: Target) -> Mapping[int, KeyView]:
        """The keys' states and load, as far as a target reaches."""

    def rotation(self, scopes: Sequence[str]) -> Mapping[str, Mapping[str, int]]:
        """The integers of these rotations."""


def explain(dry_run: DryRun, table: RoutingTable, present: Present) -> dict[str, Any]:
    """Return the decision as JSON values: each rule with its verdict, the candidates in order, and why not the others.

    Raises BadDryRunError.
    """
    line = line_of(dry_run, table)
    facts = facts_for(dry_run, line)
    memory = present.memory(facts, table)
    target = choose(facts, table, present.now, memory.pin, memory.owners)
    situation = Situation(
        now=present.now,
        draw=0.5,
        keys=present.views(target),
        rotation=present.rotation(target.scopes),
        pin=memory.pin,
        owners=memory.owners,
    )
    decision = decide(facts, table, situation, target)
    return {
        "line": f"{table.tenants[line.tenant_id].slug}/{line.slug}",
        "facts": _facts(facts),
        "route": target.route.name if target.route is not None else None,
        "rules": [{"name": v.name, "matched": v.matched, "why": v.why} for v in target.verdicts],
        "rule": decision.rule_name or None,
        "group": decision.group_name or None,
        "conversation": _conversation(decision, facts, memory, target),
        "refusal": _refusal(decision),
        "candidates": [_candidate(number, one, situation) for number, one in enumerate(decision.candidates, start=1)],
        "skipped": [_skipped(one) for one in decision.skipped],
        "fallback": _fallback(decision),
        "max_attempts": decision.max_attempts,
    }


def _conversation(decision: Decision, facts: Facts, memory: Memory, target: Target) -> dict[str, Any]:
    """Tell what binds the request: `hold` turn | cache | None, the key it was pinned to, and the ids that bind it."""
    keys = {key.id: f"{hop.upstream.name}/{key.name}" for hop in target.reachable for key in hop.upstream.keys}
    bound = [pin.field for pin in facts.pins if pin.value in memory.owners]
    return {
        "hold": decision.hold.value if decision.hold is not None else None,
        "pinned": None if memory.pin is None else keys.get(memory.pin.key_id, "a key that the route no longer reaches"),
        "rule_kept": target.held,
        "bound_by": bound or (["the signed thinking in the history"] if memory.owners else []),
    }


def _facts(facts: Facts) -> dict[str, Any]:
    return {
        "model": facts.model,
        "dialect": facts.dialect.value,
        "stream": facts.stream,
        "tool_count": facts.tool_count,
        "image": facts.image,
        "thinking": facts.thinking,
        "input_tokens": facts.input_tokens,
        "max_tokens": facts.max_tokens,
        "session": bool(facts.session.id or facts.session.fingerprint),
    }


def _refusal(decision: Decision) -> dict[str, Any] | None:
    refusal = decision.refusal
    if refusal is None:
        return None
    return {"kind": refusal.kind.value, "status": refusal.status, "text": refusal.text, "wait_s": refusal.wait_s}


def _candidate(number: int, one: Candidate, situation: Situation) -> dict[str, Any]:
    view = situation.keys.get(one.key_id, FRESH)
    return {
        "n": number,
        "upstream": one.upstream,
        "key": one.key,
        "model_sent": one.model_sent,
        "set": dict(one.values),
        "rules": list(one.rules),
        "scores": dict(one.scores),
        "wait_s": one.wait_s,
        "half_open": one.half_open,
        "in_flight": view.in_flight,
        "calls_left": view.remaining,
        "last_for": _last_for(one),
    }


def _last_for(one: Candidate) -> list[str]:
    """Tell why a usable key stands behind the others."""
    low, slow = one.tier in (LOW_WATER_TIER, LOW_WATER_TIER + SLOW_TIER), one.tier >= SLOW_TIER
    return [*(["low water"] if low else []), *(["slow"] if slow else [])]


def _skipped(one: Skipped) -> dict[str, Any]:
    return {"upstream": one.upstream, "key": one.key, "bar": one.bar.value, "why": one.why, "left_s": one.left_s}


def _fallback(decision: Decision) -> dict[str, Any] | None:
    fallback = decision.fallback
    if fallback is None:
        return None
    return {
        "cooling_by_strikes": [f"{one.upstream}/{one.key}" for one in fallback.struck],
        "awaited": [f"{one.upstream}/{one.key}" for one in fallback.awaited],
        "last_resort": [f"{one.upstream}/{one.key}" for one in fallback.last_resort],
        "waiting": [f"{one.upstream}/{one.key}" for one in fallback.waiting],
        # What the client gets when nothing can be tried; once something was, the failures decide.
        "else": None if decision.candidates else {"status": fallback.refusal.status, "text": fallback.refusal.text},
    }
