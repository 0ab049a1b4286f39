"""An upstream's invoice, or readings of a balance, against our own books, line by line."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from decimal import Decimal
from itertools import pairwise

# How invoices name the columns that count.
_DAY = ("day", "date", "日期")
_AMOUNT = ("amount", "cost", "total", "金额", "费用")
_TIME = ("time", "at", "timestamp", "时间", *_DAY)
_BALANCE = ("balance", "remaining", "余额")
_NUMBER = re.compile(
    r"[+-]?(?:(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,40})(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,3})?"
)
_DIGITS_MAX, _PLACES_MAX = 18, 30
_YEARS = range(2000, 2201)
_NAME = ("key", "key_name", "api_key", "model", "密钥", "模型")


@dataclass(frozen=True, slots=True)
class Billed:
    """A line of an invoice. `name` is a key or a model; "" = the whole account."""

    day: date
    name: str
    amount: Decimal


@dataclass(frozen=True, slots=True)
class Reading:
    """What an account had left at a moment."""

    at: datetime
    balance: Decimal


@dataclass(frozen=True, slots=True)
class Fall:
    """What a balance lost between two readings; None = it rose: a top-up, so that what was spent is not known."""

    start: datetime
    end: datetime
    amount: Decimal | None


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
    reader, named = _opened(text)
    day, amount, name = (_column(named, wanted) for wanted in (_DAY, _AMOUNT, _NAME))
    if day is None or amount is None:
        raise _missing(_DAY if day is None else _AMOUNT, named)
    found = []
    for row in _rows(reader):
        try:
            when = date.fromisoformat((row[day] or "").strip()[:10])
            _year_checked(when.year)
            much = _number(row[amount])
        except ValueError as exc:
            raise ValueError(f"line {reader.line_num}: not a day and an amount: {row[day]!r}, {row[amount]!r}") from exc
        found.append(Billed(when, (row[name] or "").strip() if name is not None else "", much))
    return found


def holds_balances(text: str) -> bool:
    """Say whether a CSV has a column for balances and none for amounts."""
    _reader, named = _opened(text)
    return _column(named, _BALANCE) is not None and _column(named, _AMOUNT) is None


def read_balances(text: str, zone: tzinfo) -> list[Reading]:
    """Read a CSV with a header: a moment and a balance; oldest first. A moment without an offset is in `zone`.

    Raises ValueError naming the line.
    """
    reader, named = _opened(text)
    time, balance = _column(named, _TIME), _column(named, _BALANCE)
    if time is None or balance is None:
        raise _missing(_TIME if time is None else _BALANCE, named)
    found = []
    for row in _rows(reader):
        try:
            at = datetime.fromisoformat((row[time] or "").strip())
            _year_checked(at.year)
            left = _number(row[balance])
        except ValueError as exc:
            raise ValueError(
                f"line {reader.line_num}: not a time and a balance: {row[time]!r}, {row[balance]!r}"
            ) from exc
        found.append(Reading(at if at.tzinfo is not None else at.replace(tzinfo=zone), left))
    return sorted(found, key=lambda reading: reading.at)


def falls(readings: Sequence[Reading]) -> list[Fall]:
    """Return what the balance lost from each reading to the next."""
    found = []
    for before, after in pairwise(readings):
        lost = before.balance - after.balance
        found.append(Fall(before.at, after.at, lost if lost >= 0 else None))
    return found


def _opened(text: str) -> "tuple[csv.DictReader[str], dict[str, str]]":
    reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline=""))
    try:
        names = reader.fieldnames or ()
    except csv.Error as exc:
        raise ValueError(f"line 1: {exc}") from exc
    return reader, {(name or "").strip().lower(): name for name in names}


def _number(text: str | None) -> Decimal:
    """Read a number; a comma only between groups of thousands, for as a decimal mark it would change the amount."""
    written = (text or "").strip()
    if _NUMBER.fullmatch(written) is None:
        raise ValueError("not a number")
    number = Decimal(written.replace(",", ""))
    if number and not -_PLACES_MAX <= number.adjusted() < _DIGITS_MAX:
        raise ValueError("too many digits")
    return number


def _year_checked(year: int) -> None:
    if year not in _YEARS:
        raise ValueError("not a year of ours")


def _missing(wanted: Sequence[str], named: Mapping[str, str]) -> ValueError:
    if not any(named):
        return ValueError("the file is empty")
    return ValueError(f"line 1: no column {' or '.join(wanted)} among {', '.join(map(repr, named))}; a comma separates")


def _rows(reader: "csv.DictReader[str]") -> Iterator[dict[str, str | None]]:
    try:
        for row in reader:
            if any(map(str.strip, row.get(None) or ())):  # what is beyond the header
                raise ValueError(f"line {reader.line_num}: more columns than in line 1; quote an amount with a comma")
            yield row
    except csv.Error as exc:  # such as a NUL byte or a field of absurd size
        raise ValueError(f"line {reader.line_num}: {exc}") from exc


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
