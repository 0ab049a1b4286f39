"""`manage.py close_month`: freeze a month's bill."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.timezone import now

from billing.core.csvtext import plain_decimal
from billing.models import Statement
from billing.statements import StatementError, close_month, late
from config.month_arguments import add_month_arguments, tenant_and_month
from tenants.services import audit


class Command(BaseCommand):
    """Closing twice changes nothing; the export of a closed month is the same bytes for ever."""

    help = "Close a month: its CSV is frozen, later corrections are credits."

    def add_arguments(self, parser: CommandParser) -> None:
        """A tenant and a month."""
        add_month_arguments(parser)

    def handle(self, *_args: Any, **options: Any) -> None:
        """Close it and say what is payable."""
        tenant, first = tenant_and_month(options)
        was_closed = Statement.objects.filter(tenant=tenant, month=first).exists()
        try:
            row = close_month(tenant=tenant, first=first, by="manage.py", now=now())
        except StatementError as exc:
            raise CommandError(str(exc)) from exc
        if not was_closed:
            fields = {"digest": row.digest}
            audit(user=None, by="close_month", action="close_month", target=row, tenant=tenant, fields=fields)
        self.stdout.write(
            f"{tenant.slug} {first:%Y-%m}: {'was closed' if was_closed else 'closed'} {row.closed:%Y-%m-%d %H:%M} UTC, "
            f"payable {plain_decimal(row.payable)} {row.currency}, SHA-256 {row.digest}"
        )
        after = late(row) if was_closed else None
        if after is not None and (after.booked or after.credits):
            self.stdout.write(
                f"Since then: {plain_decimal(after.booked)} {row.currency} booked and not in the statement, "
                f"{plain_decimal(after.credits)} {row.currency} given back as credits."
            )
