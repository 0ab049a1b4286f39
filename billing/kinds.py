"""Named sets of records and attempts: what a figure on a page counts and what its link lists are the same set.

The hourly sums (billing/rollups.py) count by the same rules in Python; tests hold them together.
"""

from collections.abc import Mapping

from django.db.models import Exists, F, OuterRef, Q, Value
from django.db.models.functions import Coalesce, NullIf

from billing.models import Attempt, RequestRecord
from keys.core.outcome import Cause

# Answers about the request alone, and clients that left, are no failures of the key.
NOT_THE_KEYS = frozenset(
    cause.value
    for cause in (Cause.SERVED, Cause.ABORTED, Cause.BAD_REQUEST, Cause.CONTENT_FILTERED, Cause.CONTEXT_TOO_LONG)
)

# Replays of an answer are no calls. What a limit refused is counted apart.
COUNTED = Q(replay_of="")
ADMITTED = COUNTED & Q(refusal_limit="")
FAILED = ADMITTED & Q(status=RequestRecord.Status.FAILED)
BILLED = ADMITTED & ~Q(status=RequestRecord.Status.FAILED)
FINISHED = ADMITTED & Q(status=RequestRecord.Status.FINISHED)
LOST = FAILED & (Q(http_status=None) | Q(http_status__gte=500) | Q(http_status=429))  # no fault of the client
RECORDS: Mapping[str, Q] = {
    "admitted": ADMITTED,
    "billed": BILLED,
    "failed": FAILED,
    "lost": LOST,
    "cancelled": ADMITTED & Q(status=RequestRecord.Status.CANCELLED),
    "retried": ADMITTED & Q(attempt_count__gt=1),
    "rescued": FINISHED & Q(attempt_count__gt=1),
    "refused": COUNTED & ~Q(refusal_limit=""),
    "unpriced": BILLED & Q(priced=False),
    "estimated": BILLED & Q(estimated=True),
    "judged": FINISHED | LOST,
    "timed": BILLED & Q(first_content_ms__isnull=False),
    "talking": COUNTED & ~Q(conversation=""),
}

TRIED = Q(skipped="", upstream_key_id__isnull=False)
FAULTY = TRIED & ~Q(outcome__in=sorted(NOT_THE_KEYS))
ATTEMPTS: Mapping[str, Q] = {
    "tried": TRIED,
    "failed": FAULTY,
    "moved_on": FAULTY & Q(Exists(Attempt.objects.filter(TRIED, record=OuterRef("record"), n__gt=OuterRef("n")))),
}

# The model that a record is counted under.
MODEL = Coalesce(NullIf("model_served", Value("")), F("model_requested"))


def of_model(name: str) -> Q:
    """Return the records that are counted under a model, in terms that indexes know."""
    return Q(model_served=name) | Q(model_served="", model_requested=name)
