"""Closed months: a bill's bytes, frozen; what comes later is a credit row of its own."""

import csv
import hashlib
import io
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from billing.core.csvtext import COLUMNS, CsvRow, safe_text
from billing.core.periods import month_of
from billing.core.pricing import payable
from billing.models import LedgerEntry, Statement
from billing.models.fields import DIGITS, PLACES, MoneySum, storable
from billing.monthly import EMPTY, Total, billed, following, month_rows, month_text
from tenants.models import BusinessLine, Tenant


class StatementError(ValueError):
    """What was asked cannot be done to this month; the text says why."""


@dataclass(frozen=True, slots=True)
class Late:
    """What a closed month's ledger has besides its statement. `booked`: records that came in after the closing."""

    booked: Decimal
    credits: Decimal


def exported(tenant: Tenant, first: date, line: str | None = None) -> Iterator[str]:
    """Yield a month's CSV: of a closed month the frozen text, else what the records say now."""
    statement = Statement.objects.filter(tenant=tenant, month=first).first()
    if statement is None:
        return month_text(month_rows(tenant, first, line))
    text = bytes(statement.csv).decode()
    return iter([text]) if line is None else month_text(_frozen_rows(text, line))


def close_month(*, tenant: Tenant, first: date, by: str, now: datetime) -> Statement:
    """Freeze a month; a month that is closed already comes back as it is.

    Raises StatementError while the month is not over in the tenant's zone.
    """
    end = month_of(first, ZoneInfo(tenant.timezone)).end
    if end is None or now < end:
        raise StatementError(f"{first:%Y-%m} is not over yet in {tenant.timezone}; it ends at {end:%Y-%m-%d %H:%M} UTC")
    known = Statement.objects.filter(tenant=tenant, month=first).first()
    if known is not None:
        return known
    total = Total()
    frozen = "".join(month_text(month_rows(tenant, first), total)).encode()
    try:
        with transaction.atomic():
            return Statement.objects.create(
                tenant=tenant,
                month=first,
                closed=now,
                closed_by=by[:150],
                csv=frozen,
                digest=hashlib.sha256(frozen).hexdigest(),
                total_charge=total.row.charge,
                payable=payable(total.row.charge, tenant.currency),
                currency=tenant.currency,
            )
    except IntegrityError:  # somebody closed it in the meantime
        return Statement.objects.get(tenant=tenant, month=first)


def credit(
    *, tenant: Tenant, first: date, amount: Decimal, note: str, now: datetime, line: BusinessLine | None = None
) -> LedgerEntry:
    """Correct a closed month: a positive amount is given back, a negative one is billed in addition.

    The ledger holds it with the sign of a spend, on the month's last day. Raises StatementError.
    """
    if not Statement.objects.filter(tenant=tenant, month=first).exists():
        raise StatementError(f"{first:%Y-%m} is not closed; only a closed month is corrected by a credit")
    if not amount:
        raise StatementError("a credit of nothing")
    if not note.strip():
        raise StatementError("say why: a credit stands in the books for good")
    if not storable(amount):
        raise StatementError(f"an amount has at most {DIGITS - PLACES} digits before the point and {PLACES} after it")
    return LedgerEntry.objects.create(
        tenant=tenant,
        kind=LedgerEntry.Kind.CREDIT,
        line_id=line.pk if line is not None else None,
        amount=amount.copy_negate(),  # a minus sign would round it to the context's 28 digits
        currency=tenant.currency,
        day=following(first) - timedelta(days=1),
        created=now,
        note=note[:200],
    )


def credits_of(statement: Statement) -> list[LedgerEntry]:
    """Return the corrections of a closed month, oldest first."""
    return list(_month_ledger(statement).filter(kind=LedgerEntry.Kind.CREDIT).order_by("pk"))


def late(statement: Statement) -> Late:
    """Return what was booked for a closed month and is not in its statement."""
    tenant = copy(statement.tenant)
    tenant.currency = statement.currency
    total = Total()
    for _row in total.through(month_rows(tenant, statement.month)):
        pass
    rows = _month_ledger(statement).filter(kind=LedgerEntry.Kind.CREDIT)
    given = rows.aggregate(total=MoneySum("amount"))["total"] or Decimal(0)
    return Late(total.row.charge - statement.total_charge, -given)


def due_to_close(*, now: datetime, grace: timedelta) -> list[tuple[Tenant, date]]:
    """Return the months that ended `grace` ago, have calls, all priced, and are not closed; last month only."""
    found = []
    for tenant in Tenant.objects.all():
        this = (now - grace).astimezone(ZoneInfo(tenant.timezone)).date().replace(day=1)
        first = (this - timedelta(days=1)).replace(day=1)
        if Statement.objects.filter(tenant=tenant, month=first).exists():
            continue
        records = billed(tenant, first)
        if records.exists() and not records.filter(priced=False).exists():
            found.append((tenant, first))
    return found


def _month_ledger(statement: Statement) -> QuerySet[LedgerEntry]:
    return LedgerEntry.objects.filter(
        tenant=statement.tenant, day__gte=statement.month, day__lt=following(statement.month)
    )


def _frozen_rows(text: str, line: str) -> Iterator[CsvRow]:
    """Read one line's rows back from a frozen text."""
    reader = csv.reader(io.StringIO(text, newline=""))
    next(reader)
    for values in reader:
        row = dict(zip(COLUMNS, values, strict=True))
        if row["line"] != safe_text(line) or row["date"] == "TOTAL":
            continue
        typed = {name: type(getattr(EMPTY, name))(value) for name, value in row.items()}
        yield CsvRow(**typed)
