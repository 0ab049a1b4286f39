"""Columns that several tables of money share."""

from typing import Any

from django.core.validators import MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _


def money(name: Any, **options: Any) -> "models.DecimalField[Any, Any]":
    """Return a column for exact amounts: 12 decimal places, 18 before the point."""
    return models.DecimalField(name, max_digits=30, decimal_places=12, **options)


def price(name: Any) -> "models.DecimalField[Any, Any]":
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
