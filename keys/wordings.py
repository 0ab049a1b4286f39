"""The classifier's rules as this installation has them: the operator's rows before the built-in ones."""

import logging

from keys.core.outcome import Cause, Scope
from keys.core.rulebook import DEFAULT_RULES
from keys.core.wording import Rules
from keys.core.wording import WordingRule as Rule
from keys.models import WordingRule

logger = logging.getLogger(__name__)


def rule_of(row: WordingRule) -> Rule:
    """Return a row as the classifier reads it. Raises ValueError for a pattern or name that it does not know.

    `field` says where the wording stands: `message` (anywhere in the text), `code` (a whole code or type), or
    `header:NAME` (that header's whole value).
    """
    place, _, header = row.field.partition(":")
    if place not in ("message", "code", "header") or (place == "header") != bool(header):
        raise ValueError(f"{row.field!r} is not message, code or header:NAME")
    return Rule(
        name=f"operator:{row.name}"[:60],
        cause=Cause(row.cause),
        codes=(row.pattern,) if place == "code" else (),
        message=(row.pattern,) if place == "message" else (),
        headers=((header.lower(), row.pattern),) if place == "header" else (),
        statuses=tuple(int(status) for status in row.statuses),
        scope=Scope(row.scope) if row.scope else None,
        reason=row.reason,
    )


def read_rules() -> Rules:
    """Read all enabled rows; one that is not understood is left out with a warning."""
    rules = []
    for row in WordingRule.objects.filter(enabled=True).order_by("position", "pk"):
        try:
            rules.append(rule_of(row))
        except (ValueError, TypeError) as problem:
            logger.warning("the wording rule %s is left out: %s", row.name, problem)
    return DEFAULT_RULES.with_first(rules) if rules else DEFAULT_RULES
