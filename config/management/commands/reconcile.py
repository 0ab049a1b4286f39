"""`manage.py reconcile`: an upstream's invoice, or readings of a balance, against our own books."""

from argparse import ArgumentTypeError
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from billing.core.csvtext import csv_line
from billing.core.matching import Drift, holds_balances, read_balances, read_invoice
from billing.reconciliation import reconcile, reconcile_balances
from config.month_arguments import tenant_of, write_parts
from keys.models import Account
from tenants.validators import validate_currency


def _amount(text: str) -> Decimal:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        raise ArgumentTypeError(f"not an amount: {text!r}") from None
    if not amount.is_finite() or amount < 0:
        raise ArgumentTypeError(f"not an amount of zero or more: {text!r}")
    return amount


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise CommandError(f"{path}: not UTF-8 text; save it as CSV in UTF-8") from None
    except OSError as exc:
        raise CommandError(f"{path}: {exc.strerror}") from exc


class Command(BaseCommand):
    """Writes CSV: day, name, theirs, ours, drift."""

    help = (
        "Compare an invoice (CSV: day, key or model, amount) or readings of the balance (CSV: time, balance) "
        "with what attempts through an account cost."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """An account and a file."""
        parser.add_argument("file", metavar="FILE.csv")
        parser.add_argument("--tenant", required=True, metavar="SLUG")
        parser.add_argument("--account", required=True, metavar="NAME")
        parser.add_argument("--currency", help="of the invoice; default: the account's credit, else the tenant's")
        parser.add_argument("--tolerance", type=_amount, default=Decimal(0), help="list only what differs by more")
        parser.add_argument("-o", "--output", metavar="FILE", help="a file instead of standard output")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Compare and list."""
        tenant = tenant_of(options["tenant"])
        account = Account.objects.select_related("tenant").filter(tenant=tenant, name=options["account"]).first()
        if account is None:
            raise CommandError(f"There is no account {options['account']!r} in {tenant.slug}.")
        currency = options["currency"] or account.credit_currency or tenant.currency
        text = _text(options["file"])
        try:
            validate_currency(currency)
            rows = self._compared(account, text, currency)
        except ValidationError as exc:
            raise CommandError(" ".join(exc.messages)) from exc
        except ValueError as exc:
            raise CommandError(f"{options['file']}: {exc}") from exc
        shown = [row for row in rows if abs(row.drift) > options["tolerance"]]
        lines = [csv_line(["day", "name", "theirs", "ours", "drift", "currency"])]
        lines += [csv_line([row.day.isoformat(), row.name, row.theirs, row.ours, row.drift, currency]) for row in shown]
        theirs, ours = (sum((getattr(row, side) for row in rows), Decimal(0)) for side in ("theirs", "ours"))
        lines.append(csv_line(["TOTAL", "", theirs, ours, theirs - ours, currency]))
        write_parts(lines, options["output"], self.stdout)

    def _compared(self, account: Account, text: str, currency: str) -> list[Drift]:
        if not holds_balances(text):
            invoice = read_invoice(text)
            if not invoice:
                raise ValueError("no rows to compare")
            return reconcile(account=account, invoice=invoice, currency=currency)
        readings = read_balances(text, ZoneInfo(account.quota_timezone))
        if not readings[1:]:
            raise ValueError("a balance is compared from one reading to the next; two or more are needed")
        rows, rises = reconcile_balances(account=account, readings=readings, currency=currency)
        if rises:
            what = "1 time" if rises == 1 else f"{rises} times"
            self.stderr.write(f"The balance rose {what} between two readings: a top-up; these are left out.")
        return rows
