"""`manage.py reprice`: bill the calls of an open month that had no price."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from billing.core.csvtext import plain_decimal
from billing.repricing import reprice
from billing.statements import StatementError
from config.month_arguments import add_month_arguments, tenant_and_month
from tenants.services import audit


class Command(BaseCommand):
    """Prices are those in force on the day of each call: add them with that day as `from` first."""

    help = "Bill a month's unpriced calls with the prices known now, before the month is closed."

    def add_arguments(self, parser: CommandParser) -> None:
        """A tenant and a month."""
        add_month_arguments(parser)

    def handle(self, *_args: Any, **options: Any) -> None:
        """Bill them and say what is left."""
        tenant, first = tenant_and_month(options)
        try:
            result = reprice(tenant=tenant, first=first)
        except StatementError as exc:
            raise CommandError(str(exc)) from exc
        if result.billed:
            fields = {"month": f"{first:%Y-%m}", "calls": result.billed, "charge": str(result.charge)}
            audit(user=None, by="reprice", action="reprice", target=tenant, tenant=tenant, fields=fields)
        self.stdout.write(f"{result.billed} calls billed, {plain_decimal(result.charge)} {tenant.currency}")
        for model, calls in sorted(result.left.items()):
            self.stdout.write(f"still without a price: {model}, {calls} calls")
