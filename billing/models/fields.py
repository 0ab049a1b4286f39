"""Columns that several tables of money share."""

from decimal import Decimal
from itertools import takewhile
from typing import Any

from django.core.validators import MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

DIGITS = 30
PLACES = 12


class MoneyField(models.DecimalField):  # type: ignore[type-arg]  # django-stubs' generics do not subscript at run time
    """An exact amount: 12 decimal places, 18 digits before the point.

    SQLite would store a decimal as a float and lose digits past the fifteenth, so there the column is text. Sum it
    with `MoneySum`.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        options["max_digits"], options["decimal_places"] = DIGITS, PLACES
        super().__init__(*args, **options)

    def deconstruct(self) -> Any:
        """Leave out what every such column has."""
        name, path, args, options = super().deconstruct()
        del options["max_digits"], options["decimal_places"]
        return name, path, args, options

    def get_internal_type(self) -> str:
        """Not DecimalField: SQLite's converters for that expect floats."""
        return "MoneyField"

    def db_type(self, connection: Any) -> str:
        """Text on SQLite, numeric elsewhere."""
        return "text" if connection.vendor == "sqlite" else f"numeric({DIGITS}, {PLACES})"

    def from_db_value(self, value: Any, _expression: Any, _connection: Any) -> Decimal | None:
        """Return the exact decimal."""
        return None if value is None else Decimal(value)


def storable(amount: Decimal) -> bool:
    """Say whether a money column keeps an amount as it is: no digit is lost, none is too many."""
    _sign, digits, exponent = amount.as_tuple()
    if not isinstance(exponent, int):
        return False  # no number
    zeros = sum(1 for _ in takewhile(lambda digit: digit == 0, reversed(digits)))  # `normalize` would round
    return not amount or (exponent + zeros >= -PLACES and amount.adjusted() < DIGITS - PLACES)


class MoneySum(models.Aggregate):
    """An exact sum of a money column; None over no rows. See `billing.sqlite` for SQLite's side of it."""

    function = "SUM"
    name = "MoneySum"
    output_field = MoneyField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """Use the aggregate that adds decimals, not floats."""
        return self.as_sql(compiler, connection, function="money_sum", **context)


def money(name: Any, **options: Any) -> MoneyField:
    """Return a column for exact amounts."""
    return MoneyField(name, **options)


def price(name: Any) -> MoneyField:
    """Return a column for an optional, non-negative price."""
    return money(name, null=True, blank=True, validators=[MinValueValidator(0)])


class UsageFields(models.Model):
    """Token counts; null = not known, never zero. Input is the total, cache included."""

    class Source(models.TextChoices):
        UPSTREAM = "upstream", _("reported")
        PARTIAL = "partial", _("partly reported")
        ESTIMATED = "estimated", _("estimated")
        NONE = "none", _("none")

    input_tokens = models.BigIntegerField(_("input tokens"), null=True)
    cached_read_tokens = models.BigIntegerField(_("cached input tokens"), null=True)
    cache_write_tokens = models.BigIntegerField(_("cache write tokens"), null=True)
    cache_write_1h_tokens = models.BigIntegerField(_("cache write tokens, 1 h"), null=True)
    output_tokens = models.BigIntegerField(_("output tokens"), null=True)
    reasoning_tokens = models.BigIntegerField(_("reasoning tokens"), null=True)
    usage_source = models.CharField(_("token figures"), max_length=12, choices=Source.choices, default=Source.NONE)

    class Meta:
        abstract = True
