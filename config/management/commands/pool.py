"""`manage.py pool`: every upstream key and what state it is in."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils.timezone import now

from keys.overview import dumps, overview, text_lines


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
        for line in text_lines(rows):
            self.stdout.write(line)
