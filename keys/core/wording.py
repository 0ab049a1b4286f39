"""Rules that read providers' wording, as data: what a rule is and how it is matched.

The tables are in `wording_codes` and `wording_texts`; an operator's rows are of the same type and come first.

A pattern is plain lower-case text in which `*` stands for up to 60 characters, `#` for a number, `(a|b)` for a
choice and a leading `^` for the beginning; ASCII patterns match at word boundaries, except at a leading or
trailing `*`. It is deliberately less than
a regular expression: no pattern can make matching slow.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from keys.core.dialect import Dialect
from keys.core.evidence import Evidence
from keys.core.outcome import Cause, Scope

MAX_PATTERN = 400
MAX_STARS = 3
MAX_DEPTH = 3

# A wrong one of these takes a key or an account out of service, so a text that may quote the client's input
# must say it at its beginning, in the upstream's own words.
POISONOUS = frozenset(
    {Cause.INSUFFICIENT_BALANCE, Cause.QUOTA_EXHAUSTED, Cause.AUTH_INVALID, Cause.PERMISSION_DENIED, Cause.RATE_LIMITED}
)
TRUSTED_STATUSES = frozenset({401, 402, 403, 429})  # they never complain about the content of a request


@dataclass(frozen=True, slots=True)
class WordingRule:
    """One row. All stated conditions must hold; within a condition one match is enough.

    `codes` are matched against whole tokens of the evidence, `message` and `unless` anywhere in its wording,
    `headers` are (name, pattern of the whole value). `statuses`: 429 is that status, 5 any 5xx, 0 "none known".
    `scope` None = as the class has it. `fixed` = a named window or a stated wait does not change the class.
    """

    name: str
    cause: Cause
    codes: tuple[str, ...] = ()
    message: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    statuses: tuple[int, ...] = ()
    dialect: Dialect | None = None
    provider: str = ""
    scope: Scope | None = None
    reason: str = ""
    fixed: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError for a row that could match everything or a pattern that is not one."""
        if not (self.codes or self.message or self.headers or self.statuses):
            raise ValueError(f"rule {self.name!r} has no condition")
        for pattern in (*self.codes, *self.message, *self.unless, *(value for _, value in self.headers)):
            checked(pattern)

    def matches(self, evidence: Evidence) -> bool:
        return (
            (not self.statuses or _status_in(evidence.status, self.statuses))
            and (self.dialect is None or self.dialect is evidence.dialect)
            and (not self.codes or any(map(whole(self.codes).fullmatch, evidence.tokens)))
            and (not self.message or self._says(evidence))
            and (not self.unless or within(self.unless).search(evidence.wording) is None)
            and (not self.headers or any(_has_header(evidence, name, value) for name, value in self.headers))
        )

    def _says(self, evidence: Evidence) -> bool:
        doubtful = self.cause in POISONOUS and evidence.status not in TRUSTED_STATUSES
        return within(self.message).search(evidence.head if doubtful else evidence.wording) is not None


@dataclass(frozen=True, slots=True)
class Rules:
    """Rows in the order in which they are tried."""

    rows: tuple[WordingRule, ...]

    def with_first(self, rows: Iterable[WordingRule]) -> "Rules":
        """Put an operator's rows before the built-in ones."""
        return Rules((*rows, *self.rows))

    def first(self, evidence: Evidence) -> WordingRule | None:
        return next((row for row in self.rows if row.matches(evidence)), None)


def checked(pattern: str) -> str:
    """Return the pattern; raise ValueError when it is empty, too long, has too many `*` or unpaired brackets."""
    depth = 0
    for char in pattern:
        depth += (char == "(") - (char == ")")
        if not 0 <= depth <= MAX_DEPTH:
            raise ValueError(f"brackets in {pattern!r} are unpaired or nested too deep")
    if depth or not pattern.strip(" *^") or len(pattern) > MAX_PATTERN or pattern.strip("*").count("*") > MAX_STARS:
        raise ValueError(f"pattern {pattern!r} is empty, too long, unpaired or has over {MAX_STARS} stars")
    return pattern


@lru_cache(maxsize=2048)
def whole(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Compile patterns that must match a whole token."""
    return re.compile("|".join(f"(?:{_expression(pattern.lower())})" for pattern in patterns), re.DOTALL)


@lru_cache(maxsize=2048)
def within(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Compile patterns that may stand anywhere in a wording."""
    return re.compile("|".join(f"(?:{_bounded(pattern.lower())})" for pattern in patterns), re.DOTALL)


def _bounded(pattern: str) -> str:
    anchored = pattern.startswith("^")
    body = pattern.removeprefix("^")
    ascii_only = body.isascii()
    before = r"\A\W{0,8}" if anchored else r"(?<![a-z0-9])" if ascii_only and not body.startswith("*") else ""
    after = r"(?![a-z0-9])" if ascii_only and not body.endswith("*") else ""
    return before + _expression(body.strip("*")) + after


def _expression(pattern: str) -> str:
    parts = {"*": ".{0,60}?", "#": r"\d{1,12}", "(": "(?:", ")": ")", "|": "|"}
    return "".join(parts.get(char) or re.escape(char) for char in pattern)


def _status_in(status: int | None, wanted: tuple[int, ...]) -> bool:
    known = status or 0
    return known in wanted or (known >= 100 and known // 100 in wanted)  # noqa: PLR2004 - 5 stands for 5xx


def _has_header(evidence: Evidence, name: str, value: str) -> bool:
    return name in evidence.headers and whole((value,)).fullmatch(evidence.headers[name][:200].lower()) is not None
