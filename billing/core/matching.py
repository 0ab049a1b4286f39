"""An upstream's invoice against our own books, line by line."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation

# How invoices name the columns that count.
_DAY = ("day", "date", "日期")
_AMOUNT = ("amount", "cost", "total", "金额", "费用")
_NAME = ("key", "key_name", "api_key", "model", "密钥", "模型")


@dataclass(frozen=True, slots=True)
class Billed:
    """A line of an invoice. `name` is a key or a model; "" = the whole account."""

    day: date
    name: str
    amount: Decimal


@dataclass(frozen=True, slots=True)
class Drift:
    """`theirs` is what the invoice says, `ours` what attempts cost with what was lost."""

    day: date
    name: str
    theirs: Decimal
    ours: Decimal

    @property
    def drift(self) -> Decimal:
        """Positive = the invoice is higher."""
        return self.theirs - self.ours


def read_invoice(text: str) -> list[Billed]:
    """Read a CSV with a header: a day, an amount, and perhaps a key or model. Raises ValueError naming the line."""
    reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline=""))
    named = {(name or "").strip().lower(): name for name in reader.fieldnames or ()}
    day, amount, name = (_column(named, wanted) for wanted in (_DAY, _AMOUNT, _NAME))
    if day is None or amount is None:
        raise ValueError(f"line 1: no column {' or '.join(_DAY if day is None else _AMOUNT)}")
    found = []
    for row in reader:
        try:
            when = date.fromisoformat((row[day] or "").strip()[:10])
            much = Decimal((row[amount] or "").strip().replace(",", ""))
        except (ValueError, InvalidOperation) as exc:
            raise ValueError(f"line {reader.line_num}: not a day and an amount: {row[day]!r}, {row[amount]!r}") from exc
        if not much.is_finite():
            raise ValueError(f"line {reader.line_num}: not an amount: {row[amount]!r}")
        found.append(Billed(when, (row[name] or "").strip() if name is not None else "", much))
    return found


def compare(theirs: Iterable[Billed], ours: Mapping[tuple[date, str], Decimal]) -> Iterator[Drift]:
    """Yield each day and name of either side, in order."""
    invoiced: dict[tuple[date, str], Decimal] = {}
    for line in theirs:
        key = (line.day, line.name)
        invoiced[key] = invoiced.get(key, Decimal(0)) + line.amount
    for day, name in sorted({*invoiced, *ours}):
        yield Drift(day, name, invoiced.get((day, name), Decimal(0)), ours.get((day, name), Decimal(0)))


def _column(named: Mapping[str, str], wanted: Iterable[str]) -> str | None:
    return next((named[name] for name in wanted if name in named), None)
