"""Where the embedded state store keeps its rows, and what other processes ask of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError, InterfaceError, connection, transaction
from django.utils.timezone import now

from keys.models import StateInbox, StoredState
from keys.stores.protocol import PersistenceError

_BATCH = 200


class DatabasePersistence:
    """The `Persistence` of the database. Each call is one transaction; runs in a thread."""

    def load(self) -> dict[str, dict[str, Any]]:
        """Return every stored row. Raises PersistenceError."""
        try:
            return dict(StoredState.objects.values_list("target", "data"))
        except (DatabaseError, InterfaceError) as problem:
            raise _lost(problem) from problem

    def save(self, rows: Mapping[str, dict[str, Any] | None]) -> None:
        """Insert or replace these rows; None deletes one. Raises PersistenceError."""
        moment = now()
        kept = [StoredState(target=name, data=data, updated=moment) for name, data in rows.items() if data is not None]
        gone = [name for name, data in rows.items() if data is None]
        try:
            with transaction.atomic():
                StoredState.objects.bulk_create(
                    kept,
                    batch_size=_BATCH,
                    update_conflicts=True,
                    unique_fields=["target"],
                    update_fields=["data", "updated"],
                )
                if gone:
                    StoredState.objects.filter(target__in=gone).delete()
        except (DatabaseError, InterfaceError) as problem:
            raise _lost(problem) from problem

    def close(self) -> None:
        """Close this thread's connection."""
        connection.close()


@dataclass(frozen=True, slots=True)
class Request:
    """Something that another process asks of the store."""

    command: str
    payload: Mapping[str, Any]


def take_requests(limit: int = 200) -> list[Request]:
    """Take what other processes asked, oldest first; each request goes to one taker. Raises PersistenceError.

    Taken means removed: should the taker die within the moment before it obeys, a revived key is still new by its
    epoch, and a probe comes again.
    """
    try:
        with transaction.atomic():
            waiting = StateInbox.objects.order_by("pk")
            if connection.features.has_select_for_update_skip_locked:
                waiting = waiting.select_for_update(skip_locked=True)
            rows = list(waiting[:limit])
            StateInbox.objects.filter(pk__in=[row.pk for row in rows]).delete()
        return [Request(row.command, row.payload) for row in rows]
    except (DatabaseError, InterfaceError) as problem:
        raise _lost(problem) from problem


def _lost(problem: Exception) -> PersistenceError:
    # The next call opens a new connection.
    connection.close()
    return PersistenceError(type(problem).__name__)
