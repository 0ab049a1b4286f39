"""Answers kept for `Idempotency-Key`: read for a caller that asks again, dropped after a day."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import DatabaseError, InterfaceError, close_old_connections, connection

from billing.models import StoredAnswer
from tenants.encryption import UndecryptableError

KEPT_FOR = timedelta(hours=24)
_CHUNK = 500


class AnswersUnavailable(Exception):
    """The database does not say whether there is an answer."""


@dataclass(frozen=True, slots=True)
class Stored:
    """`body` as it was packed; None = the call finished, but its answer cannot be given again."""

    request_id: str
    body_digest: str
    status: int
    headers: Mapping[str, str]
    body: str | None = field(repr=False)


def find(line_id: int, key_digest: str, now: datetime) -> Stored | None:
    """Return a line's answer of the last 24 hours, from a thread. Raises AnswersUnavailable."""
    answers = StoredAnswer.objects.filter(line=line_id, key_digest=key_digest, created__gt=now - KEPT_FOR)
    try:
        try:
            row = answers.first()
            return None if row is None else _stored(row, row.body or None)
        except UndecryptableError:  # its encryption key was taken away
            row = answers.defer("body").first()
            return None if row is None else _stored(row, None)
    except (DatabaseError, InterfaceError) as problem:
        connection.close()
        raise AnswersUnavailable(type(problem).__name__) from problem
    finally:
        close_old_connections()


def _stored(row: StoredAnswer, body: str | None) -> Stored:
    return Stored(row.request_id, row.body_digest, row.status, row.headers, body)


def drop_old(*, now: datetime) -> int:
    """Delete what is older than a day; returns how many rows that were."""
    old, dropped = StoredAnswer.objects.filter(created__lte=now - KEPT_FOR), 0
    while chunk := list(old.values_list("pk", flat=True)[:_CHUNK]):
        StoredAnswer.objects.filter(pk__in=chunk).delete()
        dropped += len(chunk)
    return dropped
