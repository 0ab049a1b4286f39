"""`manage.py pool`: every upstream key and what state it is in."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils.timezone import now

from keys.overview import dumps, overview


class Command(BaseCommand):
    """Reads the persisted copy of the state store."""

    help = "Show every upstream key: state, strikes, calls, last error."

    def add_arguments(self, parser: CommandParser) -> None:
        """Machine-readable output is opt-in."""
        parser.add_argument("--json", action="store_true", help="print a JSON list")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Print the pool."""
        rows = overview(now=now())
        if options["json"]:
            self.stdout.write(dumps(rows))
            return
        if not rows:
            self.stdout.write("There are no upstream keys yet.")
        for row in rows:
            left = f" {row['cooling_left_s']:.0f} s" if row["cooling_left_s"] else ""
            self.stdout.write(
                f"{row['tenant']}/{row['upstream']} {row['key']} (…{row['tail']}): {row['status']}{left}"
                f" {row['reason']}".rstrip()
                + f"; {row['calls']} calls, {row['failure_rate_1h']:.0%} failed in the last hour"
                + (f"; last error: {row['last_error']}" if row["last_error"] else "")
            )
