"""The monthly CSV's text: RFC 4180, UTF-8, CRLF, neutral to spreadsheets, numbers as plain decimals."""

import unicodedata
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from decimal import Decimal
from fractions import Fraction

from billing.core.pricing import rounded

BOM = "\ufeff"
CRLF = "\r\n"
TOTAL = "TOTAL"
_MIN_PLACES = 2
# The wide forms count as the narrow ones in some spreadsheets' East Asian versions.
_DANGEROUS = frozenset("=+-@\t\r\n＝＋－＠")
_INVISIBLE = frozenset({"Zs", "Zl", "Zp", "Cc", "Cf"})


@dataclass(frozen=True, slots=True)
class CsvRow:
    """One row; the fields are the columns, in order. `cost` and `charge` sum what is priced, in `currency`."""

    date: str
    tenant: str
    line: str
    line_name: str
    gateway_key: str
    key_last4: str
    model_requested: str
    model_served: str
    calls: int
    failed_calls: int
    input_tokens: int
    cached_read_tokens: int
    cache_write_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cost: Decimal
    charge: Decimal
    currency: str
    unpriced_calls: int
    estimated_calls: int


COLUMNS = tuple(column.name for column in fields(CsvRow))
HEADER = ",".join(COLUMNS) + CRLF


def row_text(row: CsvRow) -> str:
    return csv_line(astuple(row))


def total_text(numbers: CsvRow) -> str:
    """Return the last row: TOTAL in `date`, every other text empty, the numbers of `numbers`."""
    return csv_line([TOTAL, *("" if isinstance(value, str) else value for value in astuple(numbers)[1:])])


def csv_line(values: Sequence[str | int | Decimal | None]) -> str:
    """Return one record with its CRLF. Texts are made safe, numbers plain; None is an empty field."""
    return ",".join(_quoted(_plain(value)) for value in values) + CRLF


def safe_text(text: str) -> str:
    """Put an apostrophe before text that a spreadsheet would read as a formula, also behind blanks."""
    for char in text:
        if char in _DANGEROUS:
            return "'" + text
        if unicodedata.category(char) not in _INVISIBLE:
            break
    return text


def plain_decimal(amount: Decimal) -> str:
    """Write without exponent: at least 2 places, all non-zero ones up to 12 (half-even beyond)."""
    digits = f"{rounded(Fraction(amount)):f}"
    whole, _, places = digits.partition(".")
    kept = places.rstrip("0").ljust(_MIN_PLACES, "0")
    return f"{whole}.{kept}"


def _plain(value: str | int | Decimal | None) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return safe_text(value)
    return plain_decimal(value) if isinstance(value, Decimal) else str(value)


def _quoted(text: str) -> str:
    if any(char in text for char in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text
