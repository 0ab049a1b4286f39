"""`manage.py explain FILE|-`: what the gateway would do with a request."""

import sys
from pathlib import Path
from typing import Any

import orjson
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.timezone import now

from proxy.core.explain import BadDryRunError, explain, read_dry_run
from proxy.core.wire.jsontext import MalformedBody, parse_json
from routing.snapshot import read_table
from routing.standings import read_present


class Command(BaseCommand):
    """Uses the decision code that serves; changes nothing."""

    help = "Explain where a request would go and why. The file (or -) holds JSON: {line, dialect, headers, body}."

    def add_arguments(self, parser: CommandParser) -> None:
        """The request."""
        parser.add_argument("file", metavar="FILE|-", help="a JSON file, or - for standard input")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Print the explanation as JSON."""
        try:
            name = options["file"]
            raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
            dry_run = read_dry_run(parse_json(raw))
            shown = explain(dry_run, read_table(), read_present(now()))
        except OSError as problem:
            raise CommandError(f"{options['file']}: {problem.strerror}") from problem
        except MalformedBody as problem:
            raise CommandError(f"{options['file']}: not valid JSON: {problem}") from problem
        except BadDryRunError as problem:
            raise CommandError(f"{options['file']}: {problem}") from problem
        self.stdout.write(orjson.dumps(shown, option=orjson.OPT_INDENT_2).decode())
