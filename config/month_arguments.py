"""What the money commands share: a tenant and a month on the command line."""

from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser, OutputWrapper

from billing.core.periods import first_of_month
from tenants.models import BusinessLine, Tenant

EARLIEST, LATEST = 2000, 2200  # years that a month is asked for


def add_month_arguments(parser: CommandParser) -> None:
    """--tenant and --month, both required."""
    parser.add_argument("--tenant", required=True, metavar="SLUG")
    parser.add_argument("--month", required=True, metavar="YYYY-MM", help="in the tenant's time zone")


def tenant_and_month(options: dict[str, Any]) -> tuple[Tenant, date]:
    """Read them. Raises CommandError."""
    try:
        first = first_of_month(options["month"])
    except ValueError as exc:
        raise CommandError(str(exc)) from exc
    if not EARLIEST <= first.year <= LATEST:
        raise CommandError(f"{first:%Y-%m} is not between {EARLIEST}-01 and {LATEST}-12")
    return tenant_of(options["tenant"]), first


def tenant_of(slug: str) -> Tenant:
    """Return a tenant. Raises CommandError."""
    found = Tenant.objects.filter(slug=slug).first()
    if found is None:
        raise CommandError(f"There is no tenant {slug!r}.")
    return found


def line_of(tenant: Tenant, slug: str) -> BusinessLine:
    """Return a line of a tenant. Raises CommandError."""
    found = BusinessLine.objects.filter(tenant=tenant, slug=slug).first()
    if found is None:
        raise CommandError(f"There is no line {slug!r} in {tenant.slug}.")
    return found


def write_parts(parts: Iterable[str], target: str | None, stdout: OutputWrapper) -> None:
    """Write text as UTF-8, as it is. A file appears whole or not at all, and where a link to it leads."""
    if target is not None:
        path = Path(target).resolve()
        if path.exists() and not path.is_file():  # a device or a pipe: nothing to put in its place
            with path.open("wb") as handle:
                handle.writelines(part.encode() for part in parts)
            return
        unfinished = path.with_name(f".{path.name}.unfinished")
        try:
            with unfinished.open("wb") as handle:
                handle.writelines(part.encode() for part in parts)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
        return
    binary = getattr(stdout, "buffer", None)  # a terminal's own encoding must not change the bytes
    for part in parts:
        if binary is not None:
            binary.write(part.encode())
        else:
            stdout.write(part, ending="")
    if binary is not None:
        binary.flush()
