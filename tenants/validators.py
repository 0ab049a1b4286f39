"""Checks of single values that several models share. Each raises ValidationError in plain words."""

import re
from typing import Any
from zoneinfo import ZoneInfo

from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _


def validate_timezone(value: str) -> None:
    """Accept names of the IANA database."""
    try:
        ZoneInfo(value)
    except (KeyError, ValueError, OSError):  # ZoneInfoNotFoundError is a KeyError; odd paths raise the others
        raise ValidationError(
            _("%(value)s is not a time zone; write one like Asia/Shanghai or UTC."), params={"value": value}
        ) from None


def validate_currency(value: str) -> None:
    """Accept the form of ISO 4217 codes."""
    if not re.fullmatch(r"[A-Z]{3}", value):
        raise ValidationError(
            _("%(value)s is not a currency code; write three capital letters such as USD."), params={"value": value}
        )


def validate_globs(value: Any) -> None:
    """Accept a list of non-empty strings."""
    if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
        raise ValidationError(_("Write a list of non-empty names or patterns."))
