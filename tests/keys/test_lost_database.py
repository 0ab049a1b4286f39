"""A database that is gone is told in the store's own words, and found again by the next call."""

import pytest
from django.db import connection

from keys.core.report import Change
from keys.core.state import FRESH, KeyState, Status
from keys.events import note_changes, probe_soon
from keys.models import KeyEvent, StateInbox, StoredState, UpstreamKey
from keys.persistence import DatabasePersistence, take_requests
from keys.stores.protocol import PersistenceError
from tests.factories import NOON, UpstreamKeyFactory

# Not in a transaction: the calls close their thread's connection.
pytestmark = pytest.mark.usefixtures("clean_database")


def rename(*pairs):
    with connection.cursor() as cursor:
        for old, new in pairs:
            cursor.execute(f"ALTER TABLE {old} RENAME TO {new}")


@pytest.fixture
def away():
    tables = [model._meta.db_table for model in (StoredState, StateInbox, KeyEvent)]
    rename(*((table, f"{table}_away") for table in tables))
    yield
    rename(*((f"{table}_away", table) for table in tables))
    assert DatabasePersistence().load() == {}


@pytest.mark.parametrize(
    "call",
    [
        lambda: DatabasePersistence().load(),
        lambda: DatabasePersistence().save({"key:1": {}}),
        lambda: DatabasePersistence().save({"key:1": None}),
        take_requests,
    ],
)
def test_the_stores_own_words(away, call):
    with pytest.raises(PersistenceError, match="Error"):
        call()


def test_events_are_lost_loudly_and_end_no_thread(clean_database, request, caplog):
    key = UpstreamKeyFactory()
    request.getfixturevalue("away")
    note_changes([Change(f"key:{key.pk}", FRESH, KeyState(status=Status.DEAD), NOON)])
    assert "a key event could not be written" in caplog.text


def test_probes_are_lost_loudly_and_end_no_thread(clean_database, caplog):
    rename((UpstreamKey._meta.db_table, "away"))
    try:
        probe_soon([1])
    finally:
        rename(("away", UpstreamKey._meta.db_table))
    assert "could not be marked for a probe" in caplog.text
