"""Where in a pasted answer the wording stands that a rule matched: what the classifier's workbench marks.

Rules see a wording in lower case, without quoted parts and punctuation (`evidence.normalised`), so its place in the
text as it came has to be looked for. Not found (escaped JSON, say) is an answer: then only the wording is shown.
"""

import re
from dataclasses import dataclass

from keys.core.evidence import Evidence
from keys.core.wording import MAX_STARS, WordingRule, whole, within

LOOKED_AT = 20_000  # characters of a text
WORDS_MAX = 40
SUGGESTED = 80  # characters of a suggested pattern

_WORD = re.compile(r"[^\W_]+")
# Between two words: punctuation, and at most one quoted name that the normalised wording left out.
_GAP = r"[\W_]{0,12}(?:[\"'`“「『][^\"'`”」』]{0,80}[\"'`”」』][\W_]{0,12})?"
_PATTERN_SIGNS = re.compile(r"[*#()|^]+")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Spot:
    """`place`: message | code | header | status. `said` is what matched as rules see it; `span` its place in the body.

    Of a header, `said` is its name.
    """

    place: str
    said: str
    span: tuple[int, int] | None = None


def spots(rule: WordingRule, evidence: Evidence, text: str) -> tuple[Spot, ...]:
    """Return what a matching rule was decided by. `text` is the body as it is shown."""
    found = []
    if rule.message and (match := within(rule.message).search(evidence.wording)) is not None:
        found.append(Spot("message", match[0].strip(), place_of(match[0], text)))
    if rule.codes:
        token = next((token for token in evidence.tokens if whole(rule.codes).fullmatch(token)), None)
        found += [] if token is None else [Spot("code", token, place_of(token.rpartition(":")[2], text))]
    for name, pattern in rule.headers:
        value = evidence.headers.get(name, "")[:200].lower()
        found += [Spot("header", name)] if whole((pattern,)).fullmatch(value) else []
    return (*found, Spot("status", str(evidence.status or "–"))) if rule.statuses else tuple(found)


def place_of(said: str, text: str) -> tuple[int, int] | None:
    """Find a normalised wording in a text as it came."""
    words = _WORD.findall(said)[:WORDS_MAX]
    if not words:
        return None
    expression = _GAP.join(r"(?:not|n['’]t)" if word == "not" else re.escape(word) for word in words)
    match = re.search(expression, text[:LOOKED_AT], re.IGNORECASE)
    return match.span() if match is not None else None


def suggested(evidence: Evidence) -> str:
    """Return a pattern that would match this wording and others like it: numbers open, cut at a word; "" = none."""
    parts = _PATTERN_SIGNS.split(evidence.wording)[: MAX_STARS + 1]
    text = " ".join(_NUMBER.sub("#", "*".join(parts)).split()).strip("* ")
    return text if len(text) <= SUGGESTED else text[:SUGGESTED].rpartition(" ")[0] or text[:SUGGESTED]
