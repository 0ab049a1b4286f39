"""Entry of manage.py: what an operator can mend is one line on stderr, not a traceback."""

import os
import sys

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line
from django.db import DatabaseError, InterfaceError, OperationalError, connection
from django.db.migrations.executor import MigrationExecutor


def main(argv: list[str]) -> int:
    """Run one management command; return the exit code."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    try:
        execute_from_command_line(argv)
    except ImproperlyConfigured as exc:
        return _complain(f"Configuration: {exc}")
    except OSError as exc:
        if exc.filename is None:
            raise
        return _complain(f"{exc.strerror}: {exc.filename}")
    except (DatabaseError, InterfaceError) as exc:
        reason = _database_fault()
        if reason is None:
            raise
        return _complain(f"{reason} ({_first_line(exc)})")
    return 0


def _database_fault() -> str | None:
    """Say why no command can work with this database now; None when its tables are as they should be."""
    try:
        executor = MigrationExecutor(connection)
        pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except OperationalError:
        return "The database cannot be reached"
    if pending:
        return "The database is not migrated: run `./bin/manage migrate` or start once with `./bin/run`"
    return None


def _first_line(exc: Exception) -> str:
    return (str(exc).strip() or type(exc).__name__).splitlines()[0]


def _complain(message: str) -> int:
    print(message, file=sys.stderr)  # noqa: T201  # a command line's answer
    return 1
