"""A dry run as the page shows it: rules as sentences, candidates with their scores, skips with reasons."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from billing.chain import skip_words
from keys.models import UpstreamKey
from keys.standing import cause_words, pool_of, state_chip
from routing.core.decision import Bar
from routing.models import RoutingRule
from routing.sentences import sentence
from tenants.adminchips import duration
from tenants.corewords import core_words
from tenants.models import BusinessLine


@dataclass(frozen=True, slots=True)
class Rule:
    """`decided`: its target or refusal is the one that counts."""

    name: str
    url: str
    sentence: str
    matched: bool
    decided: bool
    why: str


@dataclass(frozen=True, slots=True)
class Key:
    """An upstream key in the order of tries, or among those passed over. `details` are lines of plain words."""

    n: int
    name: str
    url: str
    tail: str
    state: SafeString | str
    details: Sequence[str]


@dataclass(frozen=True, slots=True)
class Shown:
    facts: Sequence[tuple[str, str]]
    route: str
    rules: Sequence[Rule]
    group: str
    refusal: str
    candidates: Sequence[Key]
    skipped: Sequence[Key]
    fallback: Sequence[tuple[str, str]]
    max_attempts: int


def shown_of(told: Mapping[str, Any], line: BusinessLine, moment: datetime) -> Shown:
    """Return what the page shows. Three queries, whatever the size."""
    keys = _Keys(line.tenant_id, moment, [*told["candidates"], *told["skipped"]])
    return Shown(
        facts=[*_facts(told["facts"]), *_conversation(told["conversation"])],
        route=told["route"] or "",
        rules=_rules(told, line.tenant_id),
        group=told["group"] or "",
        refusal=_refusal(told["refusal"]),
        candidates=[keys.row(one, one["n"], _candidate(one)) for one in told["candidates"]],
        skipped=[keys.row(one, 0, _skipped(one)) for one in told["skipped"]],
        fallback=_fallback(told["fallback"], tried=bool(told["candidates"])),
        max_attempts=told["max_attempts"],
    )


class _Keys:
    """The rows behind the names, with how they stand."""

    def __init__(self, tenant_id: int, moment: datetime, told: Sequence[Mapping[str, Any]]) -> None:
        names = {one["upstream"] for one in told}
        rows = list(
            UpstreamKey.objects.for_tenants([tenant_id])
            .filter(upstream__name__in=names)
            .select_related("upstream", "account")
            .defer("secret", "upstream__headers")
        )
        self._rows = {(row.upstream.name, row.name): row for row in rows}
        self._pool, self._moment = pool_of(rows, moment), moment

    def row(self, one: Mapping[str, Any], n: int, details: Sequence[str]) -> Key:
        key = self._rows.get((one["upstream"], one["key"]))
        name = f"{one['upstream']} · {one['key']}"
        if key is None:
            return Key(n, name, "", "", "", details)
        sheet = self._pool.sheet(key.pk, key.account_id)
        url = reverse("admin:keys_upstreamkey_change", args=[key.pk])
        return Key(n, name, url, key.tail, state_chip(key, sheet, self._moment), details)


def _rules(told: Mapping[str, Any], tenant_id: int) -> list[Rule]:
    rows = RoutingRule.objects.filter(route__tenant_id=tenant_id, route__name=told["route"] or "")
    known = {row.name: row for row in rows.select_related("group", "upstream")}
    found = []
    for verdict in told["rules"]:
        row = known.get(verdict["name"])
        found.append(
            Rule(
                name=verdict["name"],
                url=reverse("admin:routing_routingrule_change", args=[row.pk]) if row is not None else "",
                sentence=sentence(row) if row is not None else "",
                matched=verdict["matched"],
                decided=verdict["matched"] and verdict["name"] == told["rule"],
                why="" if verdict["why"] == "decides" else core_words(verdict["why"]),
            )
        )
    return found


def _facts(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    yes_no = {True: _("yes"), False: _("no")}
    return [
        (_("model"), str(facts["model"] or "–")),
        (_("streamed"), yes_no[facts["stream"]]),
        (_("tools"), str(facts["tool_count"])),
        (_("image"), yes_no[facts["image"]]),
        (_("thinking"), yes_no[facts["thinking"]]),
        (_("input tokens"), f"{facts['input_tokens']:,}"),
        (_("max tokens"), "–" if facts["max_tokens"] is None else f"{facts['max_tokens']:,}"),
        (_("conversation"), _("recognised by a session or its beginning") if facts["session"] else "–"),
    ]


def _conversation(told: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Say what binds the request to a key or an account."""
    holds = {
        "turn": _("stays, a turn is under way"),
        "cache": _("stays, the prompt cache there is warm"),
        None: _("free to go elsewhere: nothing is warm there"),
    }
    found = []
    if told["pinned"]:
        found.append((_("last answered by"), f"{told['pinned']} ({holds[told['hold']]})"))
    if told["bound_by"]:
        found.append((_("bound to an account by"), ", ".join(told["bound_by"])))
    return found


def _refusal(refusal: Mapping[str, Any] | None) -> str:
    if refusal is None:
        return ""
    wait = refusal["wait_s"]
    end = " " + _("Free again in %(time)s.") % {"time": duration(wait)} if wait is not None else ""
    return f"HTTP {refusal['status']} {refusal['kind']}: {refusal['text']}{end}"


def _candidate(one: Mapping[str, Any]) -> list[str]:
    parts = []
    if one["model_sent"]:
        parts.append(_("asks for %(model)s") % {"model": one["model_sent"]})
    if one["set"]:
        parts.append(_("sets %(values)s") % {"values": _pairs(one["set"])})
    if one["rules"]:
        parts.append(_("rules for this upstream: %(names)s") % {"names": ", ".join(one["rules"])})
    if one["wait_s"]:
        parts.append(_("waits up to %(time)s for it") % {"time": duration(one["wait_s"])})
    parts.extend(_load(one))
    if one["scores"]:
        parts.append(_("ordered by %(scores)s") % {"scores": _pairs(_score_words(one["scores"]))})
    return parts


def _load(one: Mapping[str, Any]) -> list[str]:
    parts = []
    if one["half_open"]:
        parts.append(_("half open: one call goes first"))
    if one["in_flight"]:
        n = one["in_flight"]
        parts.append(ngettext("%(n)s call in flight", "%(n)s calls in flight", n) % {"n": n})
    if one["calls_left"] is not None:
        n = one["calls_left"]
        parts.append(ngettext("its caps leave %(n)s call", "its caps leave %(n)s calls", n) % {"n": n})
    late = {"low water": _("behind the others: low on credit or limits"), "slow": _("behind the others: slow")}
    return [*parts, *(late[why] for why in one["last_for"])]


def _score_words(scores: Mapping[str, Any]) -> dict[str, Any]:
    words = {
        "weight": _("weight"),
        "balance": _("turn balance"),
        "calls_24h": _("calls in 24 h"),
        "counted": _("calls counted"),
        "median_ms": _("median ms to first content"),
        "explored": _("measured anew"),
        "cost": _("cost"),
        "remaining": _("calls left"),
    }
    made = {}
    for name, value in scores.items():
        own = name.removeprefix("key_")
        word = words.get(own, own)
        made[_("key's %(score)s") % {"score": word} if own != name else word] = (
            _("not known") if value is None else value
        )
    return made


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _skipped(one: Mapping[str, Any]) -> list[str]:
    left = one["left_s"]
    end = _("for %(time)s more") % {"time": duration(left)} if left else ""
    known = one["bar"] in {one["why"], Bar.DISABLED.value}
    why = "" if known else core_words(cause_words(one["why"]))
    return [part for part in (bar_words(one["bar"]), why, end) if part]


def bar_words(bar: str) -> str:
    """Return why a key is not tried, in words."""
    words = {
        Bar.DISABLED.value: _("switched off"),
        Bar.RULE.value: _("a rule refuses this upstream"),
        Bar.FORBIDDEN.value: _("the line may not use that model"),
        Bar.DIALECT.value: _("cannot serve this kind of request"),
        Bar.ELSEWHERE.value: _("the request is bound to another account"),
    }
    return words.get(bar) or skip_words(bar)


def _fallback(fallback: Mapping[str, Any] | None, *, tried: bool) -> list[tuple[str, str]]:
    if fallback is None:
        return []
    steps = (
        ("cooling_by_strikes", _("dared although cooling by strikes")),
        ("awaited", _("awaited: back within 5 s")),
        ("last_resort", _("last resort")),
        ("waiting", _("waited for: busy or at a cap")),
    )
    found = [(words, ", ".join(fallback[name])) for name, words in steps if fallback[name]]
    refusal = fallback["else"]
    told = f"HTTP {refusal['status']}: {refusal['text']}" if refusal is not None else ""
    if tried or refusal is None:
        told = _(
            "an error by what the keys said: 429 when all were rate limited, 503 when all were out of balance or"
            " quota, 504 when the last one timed out, else 502"
        )
    return [*found, (_("otherwise the client gets"), told)]
