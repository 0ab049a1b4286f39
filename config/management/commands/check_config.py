"""`manage.py check_config [FILE]`: find what is wrong before anything listens."""

import os
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from config.checking import check_database, check_settings
from config.declarative import Inspection, check_document
from config.declarative.console import print_warnings, read_file, refused


class Command(BaseCommand):
    help = "Check the environment and the database, or a declarative file. Errors end with code 1."
    requires_system_checks: list[str] = []  # run by check_settings, one line each

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", nargs="?", help="a YAML file; - reads standard input")

    def handle(self, *args: Any, file: str | None = None, **options: Any) -> None:
        inspection = Inspection(environ=os.environ)
        if file is not None:
            check_document(read_file(file, inspection), inspection=inspection)
        else:
            check_settings(inspection)
            check_database(inspection)
        print_warnings(tuple(dict.fromkeys(inspection.warnings)), self.stderr)
        errors = tuple(dict.fromkeys(inspection.errors))
        if errors:
            raise refused(errors, f"{file or 'the configuration'} cannot be used")
        if options["verbosity"] > 0:
            self.stdout.write("The configuration has no errors.")
