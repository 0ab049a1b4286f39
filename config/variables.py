"""How environment variables are read: an empty one counts as unset, a bad one is named in one line."""

import ipaddress
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import environ
from cryptography.fernet import Fernet
from django.core.exceptions import ImproperlyConfigured

T = TypeVar("T")

env = environ.Env()


def text(name: str, default: str = "") -> str:
    """Return the variable without surrounding blanks; `default` when unset or blank."""
    value: str = env.str(name, default="")
    return value.strip() or default


def parsed(name: str, default: str, parse: Callable[[str], T]) -> T:
    """Return parse(text). Raises ImproperlyConfigured that names the variable when `parse` raises ValueError."""
    try:
        return parse(text(name, default))
    except ValueError as exc:
        raise ImproperlyConfigured(f"{name}: {exc}") from exc


def whole_number(smallest: int, largest: int) -> Callable[[str], int]:
    """Make a parser for an integer within both bounds."""

    def parse(value: str) -> int:
        if not value.isascii() or not value.isdigit() or not smallest <= int(value) <= largest:
            raise ValueError(f"{value!r} is not a whole number from {smallest} to {largest}")
        return int(value)

    return parse


def switch(value: str) -> bool:
    """Read on or off."""
    return one_of(("on", "off"))(value) == "on"


def networks(value: str) -> list[str]:
    """Read a comma-separated list of addresses and networks. Raises ValueError that names the bad one."""
    found = items(value)
    for item in found:
        try:
            ipaddress.ip_network(item)
        except ValueError:
            raise ValueError(f"{item!r} is no address or network such as 10.1.0.0/16") from None
    return found


def one_of(choices: Sequence[str]) -> Callable[[str], str]:
    """Make a parser that accepts the listed words only."""

    def parse(value: str) -> str:
        if value not in choices:
            raise ValueError(f"{value!r} is none of {', '.join(choices)}")
        return value

    return parse


def items(value: str) -> list[str]:
    """Split at commas. Raises ValueError for an empty item or one that stands twice (its value is not shown)."""
    found = [item.strip() for item in value.split(",")] if value.strip() else []
    for position, item in enumerate(found, start=1):
        if not item:
            raise ValueError(f"item {position} is empty")
        if item in found[: position - 1]:
            raise ValueError(f"item {position} stands twice")
    return found


def fernet_keys(value: str) -> tuple[str, ...]:
    """Read encryption keys, newest first. Raises ValueError that names a bad key by its position only."""
    keys = tuple(items(value))
    for position, key in enumerate(keys, start=1):
        try:
            Fernet(key)
        except ValueError:
            raise ValueError(f"item {position} is not a Fernet key (32 bytes in URL-safe base64)") from None
    return keys


def fernet_key_lines(path: Path, content: str) -> tuple[str, ...]:
    """Read the key file: one key a line, newest first; blank lines and those that begin with # are skipped."""
    lines = [line.strip() for line in content.splitlines()]
    try:
        keys = fernet_keys(",".join(line for line in lines if line and not line.startswith("#")))
    except ValueError as exc:
        raise ImproperlyConfigured(f"{path}: {exc}") from exc
    if not keys:
        raise ImproperlyConfigured(f"{path}: no key in it")
    return keys


def database(value: str, folder: Path) -> dict[str, Any]:
    """Read a database URL into Django's dictionary; a relative SQLite path counts from `folder`.

    Raises ValueError for anything but a SQLite file or PostgreSQL.
    """
    scheme = value.partition(":")[0]
    if scheme not in {"sqlite", "postgres", "postgresql", "psql", "pgsql"}:
        raise ValueError(f"{scheme}: only sqlite:///FILE and postgres://… are supported")
    found: dict[str, Any] = environ.Env.db_url_config(value)
    if scheme != "sqlite":
        found["OPTIONS"] = {"connect_timeout": 5} | found.get("OPTIONS", {})
        return found
    if found["NAME"] == ":memory:":
        raise ValueError("SQLite in memory cannot be shared by the processes; name a file")
    path = folder / found["NAME"]
    return found | {
        "NAME": str(path),
        # A file, so that the threads and processes of a test see one database.
        "TEST": {"NAME": str(path.with_name(f"test-{path.name}"))},
        "OPTIONS": {
            "timeout": 20,
            # Taking the write lock at BEGIN waits for `timeout`; upgrading a read lock later fails at once.
            "transaction_mode": "IMMEDIATE",
            # FULL: a committed record of money survives a power cut too; group commits share the wait.
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA busy_timeout=20000;",
        },
    }


def web_address(value: str) -> str:
    """Read an http(s) address without its last slashes; "" stays "". Raises ValueError for anything else."""
    parts = urlsplit(value)
    if value and (parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment):
        raise ValueError(f"{value!r} is not an address such as https://gateway.example.com")
    return value.rstrip("/")


def mail(value: str) -> dict[str, Any]:
    """Read a mail URL into Django's EMAIL_ settings. Raises ValueError for an unknown kind; shows no password."""
    try:
        found: dict[str, Any] = environ.Env.email_url_config(value)
    except (ImproperlyConfigured, ValueError):
        raise ValueError("not a mail URL; smtp://, smtp+tls:// and smtp+ssl:// USER:PASSWORD@HOST are usual") from None
    usual_port = 465 if found.get("EMAIL_USE_SSL") else 587 if found.get("EMAIL_USE_TLS") else 25
    return {"EMAIL_USE_TLS": False, "EMAIL_USE_SSL": False} | found | {"EMAIL_PORT": found["EMAIL_PORT"] or usual_port}
