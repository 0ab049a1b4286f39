"""A routing rule as a sentence: "When the model is gpt-* and the line is nightly-*, use group cheap."."""

import json
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from routing.core.conditions import FLAGS, NAMES, listed
from routing.models import RoutingRule


def sentence(rule: RoutingRule) -> str:
    """Return the whole rule in words."""
    # PostgreSQL keeps no order of keys.
    ordered = sorted(rule.when.items(), key=lambda pair: NAMES.index(pair[0]) if pair[0] in NAMES else len(NAMES))
    conditions = [_condition(name, value) for name, value in ordered]
    what = _consequences(rule)
    if not conditions:
        return _("Always: %(what)s.") % {"what": what}
    return _("When %(conditions)s, %(what)s.") % {"conditions": _joined(conditions), "what": what}


def then_of(rule: RoutingRule) -> dict[str, Any]:
    """Return what follows from a rule, as the declarative file writes it."""
    then: dict[str, Any] = {}
    if rule.group_id is not None and rule.group is not None:
        then["group"] = rule.group.name
    if rule.upstream_id is not None and rule.upstream is not None:
        then["upstream"] = rule.upstream.name
    if rule.deny:
        then["deny"] = rule.deny
    if rule.set:
        then["set"] = rule.set
    if rule.proceed:
        then["continue"] = True
    return then


def _joined(parts: list[str]) -> str:
    return _(" and ").join(parts)


def _condition(name: str, value: object) -> str:
    if name in FLAGS:
        return _flag(name, wanted=bool(value))
    items = _(" or ").join(str(item) for item in listed(value))
    words: Mapping[str, str] = {
        "model": _("the model is %(items)s"),
        "line": _("the line is %(items)s"),
        "key": _("the gateway key is %(items)s"),
        "upstream": _("the upstream is %(items)s"),
        "dialect": _("the dialect is %(items)s"),
        "hours": _("the time is %(items)s"),
        "input_tokens": _("input tokens are %(items)s"),
        "max_tokens": _("max_tokens is %(items)s"),
        "tool_count": _("the number of tools is %(items)s"),
    }
    if name in {"input_tokens", "max_tokens", "tool_count"}:
        items = _joined([str(item) for item in listed(value)])
    return words.get(name, f"{name} = %(items)s") % {"items": items}


def _flag(name: str, *, wanted: bool) -> str:
    yes = {
        "stream": _("the answer is streamed"),
        "tools": _("tools are offered"),
        "image": _("an image is sent"),
        "thinking": _("thinking is on"),
    }
    no = {
        "stream": _("the answer is not streamed"),
        "tools": _("no tools are offered"),
        "image": _("no image is sent"),
        "thinking": _("thinking is off"),
    }
    return (yes if wanted else no)[name]


def _consequences(rule: RoutingRule) -> str:
    parts = [
        _("set %(name)s to %(value)s") % {"name": name, "value": _shown(value)}
        for name, value in sorted(rule.set.items())
    ]
    if rule.group is not None:
        parts.append(_("use group %(name)s") % {"name": rule.group.name})
    if rule.upstream is not None:
        parts.append(_("use upstream %(name)s") % {"name": rule.upstream.name})
    if rule.deny:
        parts.append(_("refuse with “%(text)s”") % {"text": rule.deny})
    if rule.proceed:
        parts.append(_("go on to the next rule"))
    return ", ".join(parts) or _("nothing")


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
