"""Readers of values with an inner shape: policies, timeouts, headers, credit, rules."""

import math
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from billing.models import Budget
from config.declarative import readers
from config.declarative.inspection import BAD, Spot, suggestion
from config.declarative.yaml_file import REDACTED, REDACTED_TAG
from keys.core.policy import FIELDS
from keys.core.policy_check import LONGEST_SILENCE_S, policy_problems

SHORT_SILENCE_S = 30  # below this a thinking model looks dead
LONGEST_CONNECT_S = 600
THRESHOLD_MAX = 1000  # per cent
TARGETS = ("group", "upstream")
THEN = ("group", "upstream", "deny", "set", "continue")

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_HEADER_VALUE = re.compile(r"[\x20-\x7e\t]*", re.ASCII)
# What the transport writes itself.
_RESERVED_HEADERS = frozenset(
    {
        "host",
        "content-length",
        "content-encoding",
        "accept-encoding",
        "transfer-encoding",
        "connection",
        "te",
        "upgrade",
    }
)
_SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie|password|credential", re.IGNORECASE)


def _is_mapping(value: Any, spot: Spot) -> bool:
    if isinstance(value, Mapping):
        return True
    if value is not BAD:
        spot.error(f"must be a mapping, not {readers.quoted(value)}")
    return False


def policy(value: Any, spot: Spot) -> Any:
    """Read a failover policy: a preset's name, or a mapping of `preset` and fields."""
    if isinstance(value, str):
        value = {"preset": value}
    if not _is_mapping(value, spot):
        return BAD
    found = policy_problems(value)
    for name, problem in found:
        hint = suggestion(name, sorted(FIELDS)) if problem == "unknown policy field" else ""
        spot.key(str(name)).error(problem + hint)
    silence = value.get("silence_s")
    if not found and silence is not None and silence < SHORT_SILENCE_S:
        spot.key("silence_s").warn(f"below {SHORT_SILENCE_S} s, models that think before they answer look dead")
    return BAD if found else dict(value)


def timeouts(value: Any, spot: Spot) -> Any:
    """Read an upstream's own timeouts, in seconds."""
    most = {"connect_s": LONGEST_CONNECT_S, "silence_s": LONGEST_SILENCE_S}
    if not _is_mapping(value, spot):
        return BAD
    bad = False
    for name, seconds in value.items():
        at = spot.key(str(name))
        if name not in most:
            bad = bool(at.error(f"unknown field{suggestion(str(name), most)}"))
        elif seconds is None:
            continue
        elif isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= most[name]:
            bad = bool(at.error(f"must be a number of seconds above 0 and up to {most[name]}"))
    return BAD if bad else {name: seconds for name, seconds in value.items() if seconds is not None}


def headers(value: Any, spot: Spot) -> Any:
    """Read extra request headers. A value may be REDACTED."""
    if not _is_mapping(value, spot):
        return BAD
    problems = [(str(name), _header_problem(name, content)) for name, content in value.items()]
    for name, problem in problems:
        if problem:
            spot.key(name).error(problem)
    lowered = [name.lower() for name, _ in problems]
    for name in {name for name in lowered if lowered.count(name) > 1}:
        spot.key(name).error("stands twice (header names ignore case)")
    if any(problem for _, problem in problems) or len(set(lowered)) < len(lowered):
        return BAD
    return {name: REDACTED if content == REDACTED_TAG else content for name, content in value.items()}


def _header_problem(name: Any, content: Any) -> str:
    if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
        return "is no header name"
    if name.lower() in _RESERVED_HEADERS:
        return "is set by the gateway itself"
    if content is REDACTED:
        return ""
    if not isinstance(content, str):
        return "must be text; put it in quotes"
    return "" if _HEADER_VALUE.fullmatch(content) else "contains a character that headers cannot carry"


def is_secret_header(name: str) -> bool:
    """Tell whether a header probably carries a credential."""
    return _SECRET_HEADER.search(name) is not None


def credit(value: Any, spot: Spot) -> Any:
    """Read what an account may spend: {amount, currency, period}; without a period it is spent once."""
    if not _is_mapping(value, spot):
        return BAD
    parts = {
        "amount": readers.decimal(15, 12, digits=readers.FLOAT_DIGITS),
        "currency": readers.currency,
        "period": readers.choice(Budget.Period.values),
    }
    found: dict[str, Any] = {"period": "total"}
    for name, content in value.items():
        at = spot.key(str(name))
        if name not in parts:
            found[str(name)] = at.error(f"unknown field{suggestion(str(name), parts)}")
        elif content is not None:
            found[name] = parts[name](content, at)
    for name in ("amount", "currency"):
        if name not in found:
            found[name] = spot.key(name).error("is required")
    return BAD if BAD in found.values() else found


def thresholds(value: Any, spot: Spot) -> Any:
    """Read the percentages at which a budget mails, lowest first."""
    found = readers.listing(readers.whole(1, THRESHOLD_MAX))(value, spot)
    return found if found is BAD else sorted(found)


def when(value: Any, spot: Spot) -> Any:
    """Read a rule's conditions; what they mean is judged with `then`."""
    if not _is_mapping(value, spot):
        return BAD
    problem = _json_problem(value)
    return spot.error(problem) if problem else dict(value)


def _json_problem(value: Any) -> str:
    """Say what keeps a value from being stored as JSON; "" = nothing."""
    if isinstance(value, Mapping):
        odd = [name for name in value if not isinstance(name, str)]
        inner = "names must be text" if odd else "".join(_json_problem(name) for name in value)
        return inner or next((text for item in value.values() if (text := _json_problem(item))), "")
    if isinstance(value, list | tuple):
        return next((text for item in value if (text := _json_problem(item))), "")
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value} is not a number"
    if isinstance(value, str):
        # PostgreSQL stores neither in JSON. Line breaks are fine: a stop sequence may be one.
        unstorable = any(c == "\x00" or unicodedata.category(c) == "Cs" for c in value)
        return "contains a character that cannot be stored" if unstorable else ""
    return "" if value is None or isinstance(value, bool | int | float) else f"holds {readers.quoted(value)}"


def then(value: Any, spot: Spot) -> Any:
    """Read what follows from a rule. Canonical: only what applies is in it."""
    if not _is_mapping(value, spot):
        return BAD
    parts: dict[str, readers.Reader] = {
        "group": readers.text(64),
        "upstream": readers.text(64),
        "deny": readers.text(300),
        "set": when,
        "continue": readers.switch,
    }
    found: dict[str, Any] = {}
    for name, content in value.items():
        at = spot.key(str(name))
        if name not in parts:
            found[str(name)] = at.error(f"unknown field{suggestion(str(name), THEN)}")
        elif content is not None:
            found[name] = parts[name](content, at)
    if BAD in found.values():
        return BAD
    return {name: content for name, content in found.items() if content not in ({}, False)}
