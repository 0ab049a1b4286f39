"""INSERT statements for finished requests, built once per database from the models' columns."""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from operator import attrgetter
from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.types.json import Jsonb

from billing.core.record import AnswerRow, AttemptRow, Bundle, LedgerRow, RecordRow
from billing.models import Attempt, LedgerEntry, RequestRecord, StoredAnswer

# Of two answers for one key the newer stands: an older one may come late, from a spool file.
_NEWER_ANSWER = (
    "ON CONFLICT (line_id, key_digest) DO UPDATE SET body_digest = excluded.body_digest,"
    " request_id = excluded.request_id, status = excluded.status, headers = excluded.headers, body = excluded.body,"
    " created = excluded.created WHERE excluded.created >= billing_storedanswer.created"
)
TABLES: tuple[tuple[type[Any], type[models.Model], str], ...] = (
    (RecordRow, RequestRecord, "ON CONFLICT (request_id) DO NOTHING"),
    (AttemptRow, Attempt, "ON CONFLICT DO NOTHING"),
    (LedgerRow, LedgerEntry, "ON CONFLICT DO NOTHING"),
    (AnswerRow, StoredAnswer, _NEWER_ANSWER),
)
Inserts = tuple["Insert", "Insert", "Insert", "Insert"]


def _sqlite_moment(value: datetime) -> str:
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(" ")


def _sqlite_money(value: Decimal) -> str:
    return f"{value:.12f}"


def storable(text: str) -> str:
    """Return a text as both databases take it: without NUL, lone surrogates replaced (clients cut emoji in two)."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def _storable_tree(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(str(name)): _storable_tree(member) for name, member in value.items()}
    return [_storable_tree(member) for member in value] if isinstance(value, list | tuple) else value


def _postgres_json(value: Any) -> Jsonb:
    return Jsonb(_storable_tree(value))


def _sqlite_json(value: Any) -> str:
    return json.dumps(_storable_tree(value))


_SQLITE: Mapping[str, Callable[[Any], Any]] = {
    "DateTimeField": _sqlite_moment,
    "DateField": str,
    "MoneyField": _sqlite_money,
}


def _converter(column: "models.Field[Any, Any]", vendor: str) -> Callable[[Any], Any] | None:
    """Return what turns a row's value into what the driver stores, or None when it is stored as it is."""
    kind = column.get_internal_type()
    if kind == "JSONField":
        return _postgres_json if vendor == "postgresql" else _sqlite_json
    if kind in ("CharField", "TextField"):
        return storable
    return _SQLITE.get(kind) if vendor == "sqlite" else None


class Insert:
    """One table's statement and how its rows become parameters."""

    def __init__(
        self, row: type[Any], model: type[models.Model], conflict: str, connection: BaseDatabaseWrapper
    ) -> None:
        names = [field.name for field in dataclasses.fields(row)]
        columns = {column.attname: column for column in model._meta.concrete_fields}
        quote = connection.ops.quote_name
        listed = ", ".join(quote(columns[name].column or name) for name in names)
        marks = ", ".join(["%s"] * len(names))
        table = quote(model._meta.db_table)
        self.sql = f"INSERT INTO {table} ({listed}) VALUES ({marks}) {conflict}"  # noqa: S608  # names of our own columns
        self._values = attrgetter(*names)
        self._converters = [
            (index, converter)
            for index, name in enumerate(names)
            if (converter := _converter(columns[name], connection.vendor)) is not None
        ]

    def parameters(self, row: Any) -> list[Any]:
        """Return a row's values in the statement's order."""
        values = list(self._values(row))
        for index, converter in self._converters:
            if values[index] is not None:
                values[index] = converter(values[index])
        return values


def inserts(connection: BaseDatabaseWrapper) -> Inserts:
    """Return the statements for records, attempts, ledger rows and answers on this connection's database."""
    record, attempt, ledger, answer = (Insert(row, model, conflict, connection) for row, model, conflict in TABLES)
    return record, attempt, ledger, answer


def write(connection: BaseDatabaseWrapper, statements: Inserts, bundles: Sequence[Bundle]) -> None:
    """Insert all rows; the caller owns the transaction. Rows that are there already are left alone."""
    record, attempt, ledger, answer = statements
    with connection.cursor() as cursor:
        cursor.executemany(record.sql, [record.parameters(bundle.record) for bundle in bundles])
        tries = [attempt.parameters(row) for bundle in bundles for row in bundle.attempts]
        if tries:
            cursor.executemany(attempt.sql, tries)
        booked = [ledger.parameters(row) for bundle in bundles for row in bundle.ledger]
        if booked:
            cursor.executemany(ledger.sql, booked)
        kept = [answer.parameters(bundle.answer) for bundle in bundles if bundle.answer is not None]
        if kept:
            cursor.executemany(answer.sql, kept)
