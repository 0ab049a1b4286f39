"""Readers of single values: each takes what the file says and returns the value to store, or reports and returns BAD.

None never arrives here: a field that is null takes its default.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from config.declarative.inspection import BAD, Spot, suggestion
from config.declarative.secrets import secret_from
from keys.core.addresses import base_url_problem, host_of, url_problem
from tenants.models import slug_validator
from tenants.validators import validate_currency, validate_timezone

Reader = Callable[[Any, Spot], Any]

ONE = Decimal(1)
INT_MAX = 2**31 - 1
BIGINT_MAX = 2**63 - 1
FLOAT_DIGITS = 15  # what SQLite keeps of a plain decimal column
_DECIMAL = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_SWITCH_WORDS = {"on": True, "yes": True, "off": False, "no": False}
_ENDPOINTS = re.compile(r"/(chat/completions|completions|responses|messages|embeddings|models)/?$")


def text(limit: int) -> Reader:
    """Make a reader of one line of text."""

    def read(value: Any, spot: Spot) -> Any:
        if value is BAD:
            return BAD
        if not isinstance(value, str):
            return spot.error(f"must be text; put it in quotes: {quoted(value)}")
        if not value.strip():
            return spot.error("must not be empty")
        if len(value) > limit:
            return spot.error(f"is longer than {limit} characters")
        if any(unicodedata.category(c) in {"Cc", "Cs"} for c in value):
            return spot.error("contains a control character")
        return value.strip()

    return read


def slug(value: Any, spot: Spot) -> Any:
    """Read a name that other places refer to."""
    found = text(64)(value, spot)
    return found if found is BAD else _validated(slug_validator, found, spot)


def timezone(value: Any, spot: Spot) -> Any:
    found = text(64)(value, spot)
    return found if found is BAD else _validated(validate_timezone, found, spot)


def currency(value: Any, spot: Spot) -> Any:
    found = text(64)(value, spot)
    return found if found is BAD else _validated(validate_currency, found, spot)


def email(value: Any, spot: Spot) -> Any:
    found = text(254)(value, spot)
    return found if found is BAD else _validated(validate_email, found, spot)


def choice(values: Iterable[str]) -> Reader:
    """Make a reader of one of several words; "" among them stands for the default and is not written."""
    words = [value for value in values if value]

    def read(value: Any, spot: Spot) -> Any:
        if value is BAD or (isinstance(value, str) and value in words):
            return value
        return spot.error(f"unknown value {quoted(value)}{suggestion(str(value), words)}")

    return read


def switch(value: Any, spot: Spot) -> Any:
    """Read true or false; on/off and yes/no are taken too."""
    if value is BAD or isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _SWITCH_WORDS:
        return _SWITCH_WORDS[value.lower()]
    return spot.error(f"must be true or false, not {quoted(value)}")


def whole(least: int = 1, most: int = INT_MAX) -> Reader:
    """Make a reader of a whole number within both bounds."""

    def read(value: Any, spot: Spot) -> Any:
        if value is BAD:
            return BAD
        if isinstance(value, bool) or not isinstance(value, int):
            return spot.error(f"must be a whole number, not {quoted(value)}")
        if value < least:
            return spot.error(f"must be at least {least}")
        return value if value <= most else spot.error(f"must be at most {most}")

    return read


def ceiling(most: int = INT_MAX) -> Reader:
    """Make a reader of a limit. 0 is one: it stops everything, which is rarely meant."""

    def read(value: Any, spot: Spot) -> Any:
        found = whole(0, most)(value, spot)
        if found == 0 and found is not BAD:
            spot.warn("0 refuses every call; write null for no limit")
        return found

    return read


def decimal(before: int, after: int, *, positive: bool = False, digits: int = 30) -> Reader:
    """Make a reader of a non-negative exact number, written as a string. `digits`: significant ones that are kept."""

    def read(value: Any, spot: Spot) -> Any:
        if isinstance(value, Decimal):
            value = format(value, "f")
        if value is BAD:
            return BAD
        if isinstance(value, int | float) and not isinstance(value, bool):
            return spot.error(f'must be a decimal string; put it in quotes: "{value}"')
        if not isinstance(value, str) or not _DECIMAL.fullmatch(value.strip()):
            return spot.error(f'is not a decimal number such as "12.50": {quoted(value)}')
        number = Decimal(value.strip())
        if number < 0:
            return spot.error("must not be negative")
        if positive and not number:
            return spot.error("must be more than 0")
        return _fitting(number, before, after, digits, spot)

    return read


def _fitting(number: Decimal, before: int, after: int, digits: int, spot: Spot) -> Any:
    shortened = number.normalize()
    _sign, figures, exponent = shortened.as_tuple()
    places = -exponent if isinstance(exponent, int) and exponent < 0 else 0
    if places > after:
        return spot.error(f"has more than {after} decimal places")
    if number >= Decimal(10) ** before:
        return spot.error(f"has more than {before} digits before the point")
    if len(figures) > digits:
        return spot.error(f"has more than {digits} significant digits")
    return Decimal(format(shortened, "f"))


money = decimal(18, 12)


def day(value: Any, spot: Spot) -> Any:
    """Read a calendar day."""
    if value is BAD:
        return BAD
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    if isinstance(value, str) and _DATE.fullmatch(value.strip()):
        try:
            return date.fromisoformat(value.strip())
        except ValueError:
            return spot.error(f"there is no day {value.strip()}")
    return spot.error(f"must be a day such as 2026-01-31, not {quoted(value)}")


def moment(value: Any, spot: Spot) -> Any:
    """Read a day or a time. Without an offset it is naive: meant in the tenant's zone."""
    if value is BAD:
        return BAD
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value
    if isinstance(value, date):
        value = value.isoformat()
    try:
        found = datetime.fromisoformat(value.strip())
    except (AttributeError, ValueError):
        return spot.error(f"must be a day or time such as 2026-12-31 or 2026-12-31T18:00:00+08:00, not {quoted(value)}")
    return found.astimezone(UTC) if found.tzinfo else found


def listing(item: Reader, *, unique: bool = True) -> Reader:
    """Make a reader of a list; an empty item and one that stands twice are errors."""

    def read(value: Any, spot: Spot) -> Any:
        if value is BAD:
            return BAD
        if not isinstance(value, list | tuple):
            return spot.error(f"must be a list, not {quoted(value)}")
        found: list[Any] = []
        for n, entry in enumerate(value):
            at = spot.item(n)
            result = at.error("is empty") if entry is None else item(entry, at)
            if unique and result is not BAD and result in found:
                result = at.error(f"{quoted(entry)} stands twice")
            found.append(result)
        return BAD if BAD in found else found

    return read


def names_of(value: Any, spot: Spot) -> Any:
    """Read a list of names or patterns."""
    return listing(text(200))(value, spot)


def models(value: Any, spot: Spot) -> Any:
    """Read an upstream's model list: `auto` or names."""
    if value == "auto":
        return value
    if isinstance(value, str):
        return spot.error(f"must be auto or a list of names, not {quoted(value)}")
    return names_of(value, spot)


def mapping(key: Reader, item: Reader) -> Reader:
    """Make a reader of a mapping of names to values."""

    def read(value: Any, spot: Spot) -> Any:
        if value is BAD:
            return BAD
        if not isinstance(value, Mapping):
            return spot.error(f"must be a mapping, not {quoted(value)}")
        found: dict[str, Any] = {}
        bad = False
        for name, entry in value.items():
            at = spot.key(str(name))
            result = at.error("is empty") if entry is None else item(entry, at)
            bad = bad or key(name, at) is BAD or result is BAD
            found[str(name)] = result
        return BAD if bad else found

    return read


def base_url(value: Any, spot: Spot) -> Any:
    """Read an upstream's base address."""
    found = text(500)(value, spot)
    if found is not BAD and _ENDPOINTS.search(found):
        spot.warn("ends like an endpoint; write the part before it (what the SDK calls base_url)")
    return _address(found, spot, base_url_problem)


def url(value: Any, spot: Spot) -> Any:
    """Read another address that is called: a webhook, a balance page."""
    return _address(text(500)(value, spot), spot, url_problem)


def _address(found: Any, spot: Spot, check: Callable[[str], str | None]) -> Any:
    if found is BAD:
        return BAD
    if problem := check(found):
        return spot.error(problem)
    spot.inspection.hosts.setdefault(host_of(found), []).append(spot)
    return found


def secret(value: Any, spot: Spot) -> Any:
    """Read a credential: REDACTED, or its text, looked up in the environment for `env:NAME`."""
    return secret_from(value, spot)


def quoted(value: Any) -> str:
    """Show a faulty value in an error: short, and never more than its beginning."""
    shown = value if isinstance(value, str) else repr(value)
    return f'"{shown[:40]}…"' if len(shown) > 40 else f'"{shown}"'  # noqa: PLR2004  # both are the same length


def _validated(check: Callable[[str], None], value: str, spot: Spot) -> Any:
    try:
        check(value)
    except ValidationError as exc:
        return spot.error(f"{quoted(value)}: {exc.messages[0]}")
    return value
