"""`manage.py billing_export`: a month as CSV."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from billing.core.csvtext import BOM
from billing.exports import audit_text, credits_text, requests_text
from billing.models import RequestRecord
from billing.statements import exported
from config.month_arguments import add_month_arguments, line_of, tenant_and_month, write_parts


class Command(BaseCommand):
    """Streams: a million calls need no more memory than one."""

    help = "Write a tenant's month as CSV: the bill, or its requests, credits or audit log."

    def add_arguments(self, parser: CommandParser) -> None:
        """A tenant, a month, and where to."""
        add_month_arguments(parser)
        parser.add_argument("--line", metavar="SLUG", help="this business line only")
        parser.add_argument("-o", "--output", metavar="FILE", help="a file instead of standard output")
        parser.add_argument("--bom", action="store_true", help="begin with a byte order mark, for Excel")
        parser.add_argument("--kind", choices=("bill", "requests", "credits", "audit"), default="bill")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Write it."""
        parts = _parts(options)
        if options["bom"]:
            parts = chain([BOM], parts)
        write_parts(parts, options["output"], self.stdout)


def _parts(options: dict[str, Any]) -> Iterator[str]:
    tenant, first = tenant_and_month(options)
    line = options["line"]
    if line is not None and not RequestRecord.objects.filter(tenant=tenant, line_slug=line).exists():
        line_of(tenant, line)  # one that is gone keeps its months; one that never was is a slip of the pen
    match options["kind"]:
        case "requests":
            return requests_text(tenant, first, line)
        case "credits":
            return credits_text(tenant, first, line)
        case "audit":
            if line is not None:
                raise CommandError("The audit log is the tenant's; leave --line out.")
            return audit_text(tenant, first)
        case _:
            return exported(tenant, first, line)
