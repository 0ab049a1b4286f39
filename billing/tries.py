"""The latest exchanges with an upstream key, for its page."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.safestring import SafeString

from billing.chain import tone_of, why_words
from billing.models import Attempt
from keys.core.outcome import Cause
from keys.standing import cause_words
from tenants.adminchips import ago, chip

LOOKED_AT = 200  # bounds the look past skips of a key that nobody may use
SHOWN_MAX = 15


@dataclass(frozen=True, slots=True)
class Try:
    attempt: Attempt
    at: SafeString
    result: SafeString
    why: str


@dataclass(frozen=True, slots=True)
class Tries:
    """`served`, `failed`, `aborted` and `skipped` count the latest `looked_at` rows.

    `shown` are the newest of them without skips. `aborted` were broken off by client or person: no fault of the key.
    """

    shown: Sequence[Try]
    served: int
    failed: int
    aborted: int
    skipped: int

    @property
    def looked_at(self) -> int:
        return self.served + self.failed + self.aborted + self.skipped


def tries_of(key_id: int) -> Tries:
    """Return the latest exchanges with a key, newest first. One query by the index on the key."""
    rows = Attempt.objects.filter(upstream_key_id=key_id).select_related("record").order_by("-record_id", "-n")
    latest = list(rows[:LOOKED_AT])
    kinds = Counter(_kind(row) for row in latest)
    tried = [row for row in latest if not row.skipped]
    return Tries(
        shown=[_try(row) for row in tried[:SHOWN_MAX]],
        served=kinds["served"],
        failed=kinds["failed"],
        aborted=kinds["aborted"],
        skipped=kinds["skipped"],
    )


def _kind(row: Attempt) -> str:
    if row.skipped:
        return "skipped"
    if row.outcome == Cause.ABORTED:
        return "aborted"
    return "served" if row.outcome == Cause.SERVED else "failed"


def _try(row: Attempt) -> Try:
    return Try(row, ago(row.record.created), chip(tone_of(row.outcome), cause_words(row.outcome)), why_words(row))
