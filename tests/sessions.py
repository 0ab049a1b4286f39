"""Sessions of the test database that stopped servers left open: PostgreSQL drops no database that is in use."""

import time

from django.db import connection


def hang_up(timeout_s: float = 10.0) -> None:
    """End every session but our own, and wait until they have ended. AssertionError when they do not in time."""
    deadline = time.monotonic() + timeout_s
    while connection.vendor == "postgresql" and not _is_alone():
        assert time.monotonic() < deadline, f"other sessions did not end within {timeout_s} s"
        time.sleep(0.05)


def _is_alone() -> bool:
    """Whether nobody else has a session; those who have are told to end theirs."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return not cursor.fetchall()
