"""Credentials in the file: written out, looked up in the command line's environment, or left as they are."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from config.declarative.inspection import BAD, Spot
from config.declarative.yaml_file import REDACTED, REDACTED_TAG
from tenants.core.credentials import digest_of, malformed, tail_of

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
# What the product itself is run with. A file that could name these could send them to an upstream.
_OWN = re.compile(
    r"POINTSMAN_.*|DJANGO_.*|CELERY_.*|SECRET_KEY|DATABASE_URL|REDIS_URL|EMAIL_URL|DEFAULT_FROM_EMAIL|OPS_EMAILS|PG.*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Secret:
    """A credential as it is stored. `value` is None when only its hash is known. Equal when the hashes are."""

    digest: str
    tail: str
    value: str | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return f"(…{self.tail})"


def sealed(value: str, hash_key: bytes, tail_length: int) -> Secret:
    """Return what is stored of a credential, with the credential."""
    return Secret(digest_of(value, hash_key), tail_of(value, tail_length), value)


def secret_from(value: Any, spot: Spot) -> Any:
    """Return REDACTED, the credential's text, or BAD. No message shows the value."""
    if value is BAD or value is REDACTED or value == REDACTED_TAG:
        return BAD if value is BAD else REDACTED
    if not isinstance(value, str):
        return spot.error("must be text; put it in quotes")
    found = _looked_up(value.removeprefix("env:"), spot) if value.startswith("env:") else value
    if found is not BAD and (problem := malformed(found)):
        return spot.error(problem)
    return found


def secrets_from(value: Any, spot: Spot) -> Iterable[tuple[str, str]]:
    """Yield (name, credential) for `keys_from: env:NAME`: k1, k2 ... in the order of the comma-separated list."""
    if not isinstance(value, str) or not value.startswith("env:"):
        if value is not BAD:
            spot.error("must be env:NAME, the variable that holds the comma-separated keys")
        return
    listed = _looked_up(value.removeprefix("env:"), spot)
    if listed is BAD:
        return
    seen: dict[str, int] = {}
    for n, item in enumerate((part.strip() for part in listed.split(",")), start=1):
        if problem := malformed(item):
            spot.error(f"item {n} {problem}")
        elif item in seen:
            spot.error(f"item {n} is the same key as item {seen[item]}")
        else:
            seen[item] = n
            yield f"k{n}", item


def _looked_up(name: str, spot: Spot) -> Any:
    environ = spot.inspection.environ
    if not _NAME.fullmatch(name):
        return spot.error("env: must be followed by the name of an environment variable")
    if _OWN.fullmatch(name):
        return spot.error(f"{name} belongs to the product itself and is never read from here")
    if environ is None:
        return spot.error("env: is resolved by the command line only (manage.py apply)")
    if name not in environ:
        return spot.error(f"the environment variable {name} is not set")
    if not environ[name].strip():
        return spot.error(f"the environment variable {name} is empty")
    return environ[name].strip()
