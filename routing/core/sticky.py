"""When a conversation stays where it was, and what is remembered of an answer.

Two kinds of stickiness. A *hold* is a preference: inside a turn (a tool's result comes back) the conversation stays on
the rule and key that answered, whatever the time; between turns it stays while the prompt cache there is warm. A *hard
pin* is a fact: an id lives on one account, a signature is valid at one provider; such a request goes there or nowhere.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from billing.core.tokens import Usage
from keys.core.dialect import Dialect
from routing.core.facts import Facts
from routing.core.table import KeyInfo, UpstreamInfo
from routing.core.views import Owner, Pin

WARM_FOR = timedelta(minutes=5)
WARM_TOKENS = 1024
PIN_KEPT = timedelta(hours=24)
OWNER_KEPT = timedelta(days=30)


class Hold(StrEnum):
    TURN = "turn"
    CACHE = "cache"


class SessionMark(StrEnum):
    """The values of `x-pointsman-session`."""

    NONE = "none"
    NEW = "new"
    TURN = "turn"
    CACHE = "cache"
    REPINNED = "repinned"


def hold_of(pin: Pin | None, facts: Facts, now: datetime) -> Hold | None:
    """Return why the conversation wants its key back; None = it is free to go anywhere."""
    if pin is None:
        return None
    if facts.turn:
        return Hold.TURN
    return Hold.CACHE if is_warm(pin, now) else None


def is_warm(pin: Pin, now: datetime) -> bool:
    return now - pin.answered_at < WARM_FOR and pin.cached_tokens >= WARM_TOKENS


def cached_tokens(usage: Usage | None, dialect: Dialect) -> int:
    """Return how many tokens the upstream now holds in its prompt cache, as far as its answer tells.

    Only Anthropic's dialect reports writes. Elsewhere an input of 1024 tokens or more counts as written.
    """
    if usage is None:
        return 0
    known = (usage.cached_read_tokens or 0) + (usage.cache_write_tokens or 0)
    if dialect is Dialect.ANTHROPIC:
        return known
    given = usage.input_tokens or 0
    return max(known, given) if given >= WARM_TOKENS else known


def session_mark(hold: Hold | None, pinned_key_id: int | None, served_key_id: int, *, identified: bool) -> SessionMark:
    """Return what the client is told. `identified`: the request has a conversation identity.

    A conversation that was pinned but is neither inside a turn nor warm was placed anew, and is called so.
    """
    if not identified:
        return SessionMark.NONE
    if hold is None or pinned_key_id is None:
        return SessionMark.NEW
    return SessionMark(hold.value) if served_key_id == pinned_key_id else SessionMark.REPINNED


def balance_of(key: KeyInfo) -> int:
    """Name the balance a key draws on: its account's id, or minus its own id where it has none."""
    return -key.id if key.account_id is None else key.account_id


def provider_of(upstream: UpstreamInfo) -> str:
    """Name the provider behind an upstream: host and port of its address, lower-case."""
    return urlsplit(upstream.base_url).netloc.rpartition("@")[2].lower()


def owner_of(upstream: UpstreamInfo, key: KeyInfo) -> Owner:
    """Return what is stored, 30 days, for each of `identity.owned_ids` and `signatures_in` of an answer."""
    return Owner(balance_of(key), provider_of(upstream))


def pin_values(pin: Pin) -> dict[str, Any]:
    """Return the pin as JSON values."""
    return {
        "key": pin.key_id,
        "upstream": pin.upstream_id,
        "rule": pin.rule_id,
        "group": pin.group_id,
        "at": pin.answered_at.timestamp(),
        "cached": pin.cached_tokens,
    }


def pin_from(values: Mapping[str, Any]) -> Pin | None:
    """Read what `pin_values` wrote; None when it is unreadable, e.g. written by a later version."""
    try:
        return Pin(
            key_id=int(values["key"]),
            upstream_id=int(values["upstream"]),
            rule_id=int(values["rule"]),
            group_id=None if values["group"] is None else int(values["group"]),
            answered_at=datetime.fromtimestamp(float(values["at"]), UTC),
            cached_tokens=int(values["cached"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return None
