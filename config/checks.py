"""Settings that are each fine and together impossible. Every message is one line and says what to change."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error
from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from config import secret_files

SHORTEST_SECRET_KEY = 32  # characters


def impossible_settings(*, app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    """Return what is wrong with the environment as a whole; reads no database."""
    return [*_processes(), *_queue(), *_mail(), *_secrets()]


def _processes() -> list[CheckMessage]:
    if settings.POINTSMAN_WORKERS > 1 and not settings.REDIS_URL:
        return [
            Error(
                f"POINTSMAN_WORKERS is {settings.POINTSMAN_WORKERS} but REDIS_URL is not set: without Redis there can "
                "be only one web process. Set REDIS_URL, or POINTSMAN_WORKERS=1.",
                id="pointsman.E001",
            )
        ]
    return []


def _queue() -> list[CheckMessage]:
    found: list[CheckMessage] = []
    if settings.REDIS_URL and settings.REDIS_URL.partition(":")[0] not in {"redis", "rediss", "unix"}:
        found.append(Error("REDIS_URL must begin with redis://, rediss:// or unix://.", id="pointsman.E002"))
    if settings.CELERY_BROKER_URL.startswith("memory:"):
        found.append(
            Error("CELERY_BROKER_URL memory:// is not seen by the worker, another process.", id="pointsman.E003")
        )
    return found


def _mail() -> list[CheckMessage]:
    found: list[CheckMessage] = []
    for address in settings.OPS_EMAILS:
        try:
            validate_email(address)
        except ValidationError:
            found.append(Error(f"OPS_EMAILS: {address!r} is not a mail address.", id="pointsman.E004"))
    if settings.OPS_EMAILS and not settings.POINTSMAN_MAIL_CONFIGURED:
        found.append(
            checks.Warning(
                "OPS_EMAILS is set but EMAIL_URL is not: alerts are only written to the log.", id="pointsman.W001"
            )
        )
    return found


def _secrets() -> list[CheckMessage]:
    found: list[CheckMessage] = []
    if len(settings.SECRET_KEY) < SHORTEST_SECRET_KEY:
        found.append(Error(f"SECRET_KEY is shorter than {SHORTEST_SECRET_KEY} characters.", id="pointsman.E005"))
    files: list[Path] = [settings.SECRET_KEY_FILE, settings.ENCRYPTION_KEYS_FILE]
    found.extend(
        checks.Warning(f"{file} can be read by other users of this machine: chmod 600 {file}", id="pointsman.W002")
        for file in files
        if file.exists() and not secret_files.is_private(file)
    )
    return found
