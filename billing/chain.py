"""The attempt chain of a request as the request page draws it: one row per try on one time axis."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from billing.models import Attempt, RequestRecord
from keys.core.outcome import Cause
from keys.standing import cause_words
from tenants.adminchips import chip

_SMALLEST_PERCENT = Decimal("0.5")
_SLOW = frozenset({Cause.TIMEOUT, Cause.RATE_LIMITED, Cause.OVERLOADED})


@dataclass(frozen=True, slots=True)
class ChainRow:
    """One try. Places on the axis are percentages of the request's whole time; None = not on the axis.

    A try waits before it starts: what it was queued for lies before `started_ms`.
    """

    attempt: Attempt
    result: SafeString
    why: str
    queued: tuple[Decimal, Decimal] | None
    bar: tuple[Decimal, Decimal] | None
    tick: Decimal | None
    tone: str


def chain_of(record: RequestRecord, attempts: Sequence[Attempt]) -> list[ChainRow]:
    """Return the rows in order; skips have no bar."""
    ends = [a.started_ms + (a.ms or 0) for a in attempts if not a.skipped]
    whole = max([record.duration_ms, *ends, 1])
    return [_row(attempt, whole) for attempt in attempts]


def _row(attempt: Attempt, whole: int) -> ChainRow:
    if attempt.skipped:
        word = _("skipped: %(why)s") % {"why": skip_words(attempt.skipped)}
        why = cause_words(attempt.reason) or attempt.message
        return ChainRow(attempt, chip("off", word), why, None, None, None, "off")
    tone = tone_of(attempt.outcome)
    began, queued = attempt.started_ms, attempt.queued_ms
    tick = None
    if attempt.first_content_ms is not None:
        tick = min(Decimal(100), _share(began + attempt.first_content_ms, whole))
    return ChainRow(
        attempt=attempt,
        result=chip(tone, cause_words(attempt.outcome)),
        why=why_words(attempt),
        queued=(_share(max(0, began - queued), whole), _share(min(began, queued), whole)) if queued else None,
        bar=(_share(began, whole), max(_share(attempt.ms or 0, whole), _SMALLEST_PERCENT)),
        tick=tick,
        tone=tone,
    )


def tone_of(outcome: str) -> str:
    """Return the tone of an outcome's chip."""
    if outcome == Cause.SERVED:
        return "good"
    if outcome == Cause.ABORTED:
        return "off"
    return "wait" if outcome in _SLOW else "bad"


def why_words(attempt: Attempt) -> str:
    """Return what the upstream said, in words: status, wording, what it was judged by."""
    parts = [f"HTTP {attempt.status}" if attempt.status else "", attempt.message, attempt.reason]
    return " · ".join(dict.fromkeys(part for part in parts if part))


def skip_words(skipped: str) -> str:
    """Return why a key was passed over."""
    words = {
        "cooling": _("cooling"),
        "dead": _("dead"),
        "busy": _("busy"),
        "model": _("not this model"),
        "context": _("window too small"),
        "quota": _("quota used up"),
    }
    return words.get(skipped, skipped)


def session_words(session: str) -> str:
    """Return how a request's conversation was treated; an unknown value as it is."""
    words = {
        "none": _("no conversation"),
        "new": _("begins a conversation"),
        "turn": _("kept on its key: the turn was not over"),
        "cache": _("kept on its key: its prompt cache is warm"),
        "repinned": _("moved to another key"),
    }
    return words.get(session, session)


def _share(ms: int, whole: int) -> Decimal:
    return (Decimal(100) * ms / whole).quantize(Decimal("0.01"))
