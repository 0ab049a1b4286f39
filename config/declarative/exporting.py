"""The database as a document that `apply` takes back: only what differs from the defaults, secrets redacted."""

from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from config.declarative import compound
from config.declarative.inspection import Inspection
from config.declarative.kinds import children_of
from config.declarative.reading import VERSION
from config.declarative.secrets import Secret
from config.declarative.shapes import Field, Kind, Path, Row, Tree
from config.declarative.stored import read_stored
from config.declarative.yaml_file import REDACTED


class UnknownTenantError(ValueError):
    """There is no tenant of this name."""


def export_document(slug: str | None = None) -> dict[str, Any]:
    """Return the document of one tenant, or of everything. Global prices and rates come along with everything only.

    Values are those of the YAML file: decimals stay Decimal, secrets are REDACTED. Raises UnknownTenantError.
    """
    tree = read_stored(None if slug is None else [slug], Inspection())
    if slug is not None and ("tenants", slug) not in tree:
        raise UnknownTenantError(slug)
    document: dict[str, Any] = {"version": VERSION}
    for kind in children_of(None):
        if slug is None or kind.section == "tenants":
            document |= _section(tree, kind, ())
    return document


def _section(tree: Tree, kind: Kind, parent: Path) -> dict[str, Any]:
    rows = tree.under(parent, kind.section).values()
    return {kind.section: [_entry(tree, row) for row in _sorted(kind, rows)]} if rows else {}


def _sorted(kind: Kind, rows: Iterable[Row]) -> list[Row]:
    """Order by name where the order says nothing, so that two exports of the same rows are the same text."""
    return list(rows) if kind.ordered else sorted(rows, key=lambda row: row.path)


def _entry(tree: Tree, row: Row) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    for field in row.kind.fields:
        value = row.get(field.name)
        if value == field.default and field.name not in row.kind.names:
            continue
        if value == field.default and field.default is not None and not field.required:
            continue  # a name that is the default, such as a price that holds from the beginning
        group, _, inner = field.name.partition(".")
        if inner:
            entry.setdefault(group, {})[inner] = _plain(field, value)
        else:
            entry[field.name] = _plain(field, value)
    for child in children_of(row.kind):
        entry |= _section(tree, child, row.path)
    return entry


def _plain(field: Field, value: Any) -> Any:
    if isinstance(value, Secret):
        return REDACTED
    if field.read is compound.headers:
        return {name: REDACTED if compound.is_secret_header(name) else content for name, content in value.items()}
    return _simple(value)


def _simple(value: Any) -> Any:
    match value:
        case datetime() | date():
            return value.isoformat()
        case Decimal():
            return Decimal(format(value.normalize(), "f"))
        case dict():
            return {name: _simple(item) for name, item in value.items()}
        case list() | tuple():
            return [_simple(item) for item in value]
    return value
