"""`manage.py import_prices`: list prices from the genai-prices package."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.timezone import now

from billing.catalogue import MAKERS, CatalogueMissingError, providers, read_catalogue
from billing.core.csvtext import plain_decimal
from billing.core.pricediff import RATES, Change, Rates
from billing.importing import carry_out, plan
from billing.models import ALWAYS, Price
from tenants.models import AuditEntry


class Command(BaseCommand):
    """The database's rows are the truth; the package is read here and nowhere else, offline."""

    help = "Add list prices of known models; an operator's own prices always stand."

    def add_arguments(self, parser: CommandParser) -> None:
        """Everything is optional."""
        parser.add_argument("--provider", action="append", metavar="ID", help=f"default: {', '.join(MAKERS)}")
        parser.add_argument("--model", default="*", metavar="GLOB", help="only names that match")
        parser.add_argument("--dry-run", action="store_true", help="show the changes only")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Show the differences and write them."""
        wanted = options["provider"] or list(MAKERS)
        try:
            unknown = sorted(set(wanted) - set(providers())) if options["provider"] else []
            catalogue = read_catalogue(wanted)
        except CatalogueMissingError as exc:
            raise CommandError(str(exc)) from exc
        if unknown:
            raise CommandError(f"The catalogue has no provider {', '.join(unknown)}; it has {', '.join(providers())}")
        listed = [one for one in catalogue.listed if fnmatchcase(one.model, options["model"])]
        planned = plan(listed, now().date())
        for change in planned.changes:
            self.stdout.write(_line(change))
        for model in planned.theirs:
            self.stdout.write(f"= {model}: your own price stands")
        for remark in catalogue.remarks if options["verbosity"] > 1 else ():
            self.stdout.write(f"! {remark}")
        if options["dry_run"]:
            self.stdout.write(f"{len(planned.changes)} rows would be written.")
        elif not planned.changes:
            self.stdout.write("No changes.")
        else:
            written = carry_out(planned)
            _note(planned.changes, written)
            self.stdout.write(f"{written} rows written.")


def _note(changes: Sequence[Change], written: int) -> None:
    names = ", ".join(dict.fromkeys(change.model for change in changes))
    AuditEntry.objects.create(
        username="import_prices", action="changed", model=Price._meta.label, object_name=names[:200],
        fields={"rows": written},
    )  # fmt: skip


def _line(change: Change) -> str:
    since = "always" if change.starts == ALWAYS else f"{change.starts}"
    before = f"{_rates(change.before)} -> " if change.before is not None else ""
    sign = "~" if change.before is not None else "+"
    return f"{sign} {change.model} (USD per million, from {since}): {before}{_rates(change.rates)}"


def _rates(rates: Rates) -> str:
    stated = ((name, getattr(rates, name)) for name in RATES)
    return " ".join(f"{name}={plain_decimal(amount)}" for name, amount in stated if amount is not None)
