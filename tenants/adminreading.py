"""How a page shows the columns that it only reads."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from django.contrib.admin import display
from django.contrib.admin.helpers import AdminForm
from django.db.models import DecimalField, Field, Model
from django.utils.formats import number_format

from tenants.core.decimals import trimmed


def plain_decimals(model: type[Model], shown: AdminForm) -> None:
    """Let a form show decimals that are only read without the zeros behind their last digit.

    Django shows as many places as the column has, 2.500000000000 for a price of 2.5.
    """
    columns = {column.name: column for column in model._meta.concrete_fields if isinstance(column, DecimalField)}
    readers = {name: _reader(columns[name]) for name in shown.readonly_fields if name in columns}
    read: list[Any] = [*shown.readonly_fields, *readers.values()]
    shown.readonly_fields = read
    shown.fieldsets = [
        (title, {**options, "fields": [_line(line, readers) for line in options["fields"]]})
        for title, options in shown.fieldsets
    ]


def _line(line: Any, readers: Mapping[Any, Any]) -> Any:
    if isinstance(line, list | tuple):
        return [readers.get(name, name) for name in line]
    return readers.get(line, line)


def _reader(column: "Field[Any, Any]") -> Callable[[Model], str]:
    @display(description=column.verbose_name)
    def read(row: Model) -> str:
        value: Decimal | None = getattr(row, column.attname)
        return number_format(Decimal(trimmed(value))) if value is not None else "–"

    read.__name__ = column.name
    return read
