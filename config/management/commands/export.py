"""`manage.py export`: the database as a declarative file, secrets redacted."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from config.declarative import UnknownTenantError, export_document
from config.declarative.yaml_file import dump


class Command(BaseCommand):
    help = "Print the configuration as YAML that apply takes back. Secrets come out as !redacted."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--tenant", metavar="SLUG", help="one tenant only, without global prices and rates")

    def handle(self, *args: Any, tenant: str | None, **options: Any) -> None:
        try:
            document = export_document(tenant)
        except UnknownTenantError:
            raise CommandError(f'unknown tenant "{tenant}"') from None
        self.stdout.write(dump(document), ending="")
