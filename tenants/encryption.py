"""Text that is stored encrypted: Fernet tokens under a list of keys, newest first.

Why not a package: django-cryptography does not import on Django 5, its forks lose every value when SECRET_KEY
changes and unpickle the column, and django-fernet-encrypted-fields answers ciphertext as the value after a failed
form validation. This field refuses lookups and serialisation, and a wrong key raises an error
that names the column only.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NoReturn

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.core.exceptions import FieldError
from django.db import models
from django.db.models.functions import Cast


class UndecryptableError(Exception):
    """A stored secret does not open with any configured key."""


@lru_cache(maxsize=4)
def _box(keys: tuple[str, ...]) -> MultiFernet:
    return MultiFernet([Fernet(key) for key in keys])


def box() -> MultiFernet:
    """Return the cipher of the configured keys; the first key encrypts."""
    return _box(tuple(settings.POINTSMAN_ENCRYPTION_KEYS))


class EncryptedTextField(models.TextField):  # type: ignore[type-arg]  # django-stubs' generics do not subscript at run time
    """A text column of Fernet tokens. Python sees plain text; empty text stays empty."""

    def get_db_prep_save(self, value: Any, connection: Any) -> Any:
        """Encrypt. None and "" are stored as they are."""
        prepared = super().get_db_prep_save(value, connection)
        return box().encrypt(prepared.encode()).decode() if isinstance(prepared, str) and prepared else prepared

    def from_db_value(self, value: str | None, _expression: Any, _connection: Any) -> str | None:
        """Decrypt. Raises UndecryptableError naming the column, never the value."""
        if not value:
            return value
        try:
            return box().decrypt(value.encode()).decode()
        except InvalidToken:
            where = f"{self.model._meta.db_table}.{self.column}"
            raise UndecryptableError(
                f"{where} was encrypted with a key that is not in POINTSMAN_ENCRYPTION_KEYS (or encryption.keys)"
            ) from None

    def value_to_string(self, obj: models.Model) -> NoReturn:
        """Refuse: a dump of the database must not carry plain secrets."""
        raise FieldError(f"{obj._meta.label}.{self.name} is secret and is not serialised")

    def get_lookup(self, lookup_name: str) -> Any:
        """Only `isnull` makes sense on ciphertext."""
        if lookup_name == "isnull":
            return super().get_lookup(lookup_name)
        raise FieldError(f"{self.name} is encrypted and cannot be searched")


def encrypted_columns(model: type[models.Model]) -> Iterator[EncryptedTextField]:
    """Yield the encrypted fields of a model."""
    for column in model._meta.concrete_fields:
        if isinstance(column, EncryptedTextField):
            yield column


def reencrypt(model: type[models.Model], column: EncryptedTextField) -> tuple[int, int]:
    """Rewrite a column with the newest key, row by row; return (rewritten, left because changed meanwhile).

    Online: a row is written only while its token is still the one that was read.
    """
    done = raced = 0
    rows = model._default_manager.annotate(token=Cast(column.name, models.TextField())).exclude(token="")
    for pk, token in rows.values_list("pk", "token").iterator():
        if not token:
            continue
        plain = column.from_db_value(token, None, None)
        if rows.filter(pk=pk, token=token).update(**{column.name: plain}):
            done += 1
        else:
            raced += 1
    return done, raced
