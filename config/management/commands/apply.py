"""`manage.py apply FILE`: make the database equal to a declarative file."""

import os
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DataError, IntegrityError

from config.declarative import ConfigError, Inspection, apply_document
from config.declarative.console import print_warnings, read_file, refused
from tenants.encryption import UndecryptableError


class Command(BaseCommand):
    help = "Make the database equal to a YAML file: all of it or nothing. docs/configuration.md has the format."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", help="the YAML file; - reads standard input")
        parser.add_argument("--dry-run", action="store_true", help="print what would change and change nothing")
        parser.add_argument(
            "--prune", action="store_true", help="inside the named tenants, remove what the file does not name"
        )

    def handle(self, *args: Any, file: str, dry_run: bool, prune: bool, **options: Any) -> None:
        inspection = Inspection(environ=os.environ)
        document = read_file(file, inspection)
        try:
            applied = apply_document(document, dry_run=dry_run, prune=prune, inspection=inspection)
        except ConfigError as exc:
            print_warnings(exc.warnings, self.stderr)
            raise refused(exc.errors, "nothing was changed") from None
        except UndecryptableError as exc:
            raise CommandError(str(exc)) from None
        except (
            IntegrityError,
            DataError,
        ) as exc:  # another writer was quicker, or a limit that only the database knows
            reason = str(exc).strip().splitlines()[0]
            raise CommandError(f"the database refused the change, nothing was changed: {reason}") from None
        print_warnings(applied.warnings, self.stderr)
        for line in applied.changes or ("No changes.",):
            self.stdout.write(line)
        for path, secret in applied.issued:
            self.stdout.write(f"Gateway key {path}: {secret}")
        if dry_run and applied.changes:
            self.stdout.write("Dry run: nothing was changed.")
