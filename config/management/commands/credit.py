"""`manage.py credit`: correct a closed month by a row of its own."""

from decimal import Decimal, InvalidOperation
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.timezone import now

from billing.core.csvtext import plain_decimal
from billing.statements import StatementError, credit
from config.month_arguments import add_month_arguments, line_of, tenant_and_month
from tenants.services import audit


class Command(BaseCommand):
    """The statement itself stays as it is."""

    help = "Give back (or, negative, bill in addition) an amount for a closed month."

    def add_arguments(self, parser: CommandParser) -> None:
        """A tenant, a month, an amount and the reason."""
        add_month_arguments(parser)
        parser.add_argument("--line", metavar="SLUG")
        parser.add_argument("--amount", required=True, help="in the tenant's currency; positive = given back")
        parser.add_argument("--note", required=True, help="why")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Book it."""
        tenant, first = tenant_and_month(options)
        line = line_of(tenant, options["line"]) if options["line"] else None
        try:
            amount = Decimal(options["amount"])
            if not amount.is_finite():
                raise InvalidOperation
            row = credit(tenant=tenant, first=first, amount=amount, note=options["note"], now=now(), line=line)
        except InvalidOperation as exc:
            raise CommandError(f"not an amount: {options['amount']!r}") from exc
        except StatementError as exc:
            raise CommandError(str(exc)) from exc
        audit(user=None, by="credit", action="credit", target=row, tenant=tenant, fields={"amount": options["amount"]})
        what = "credited to" if amount > 0 else "billed in addition to"
        whom = f"{tenant.slug}, line {line.slug}," if line is not None else tenant.slug
        self.stdout.write(f"{plain_decimal(abs(amount))} {tenant.currency} {what} {whom} {first:%Y-%m}")
