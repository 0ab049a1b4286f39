"""What a model costs, and what a currency is worth."""

from datetime import date
from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils.timezone import now
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from billing.models.fields import price
from tenants.managers import TenantQuerySet
from tenants.models import Tenant
from tenants.validators import validate_currency

ALWAYS = date(1970, 1, 1)


class Price(models.Model):
    """What a model costs from a day on. A row that a record has used is never edited; a change is a new row."""

    TENANT_PATH: ClassVar[str] = "tenant"
    AMOUNTS: ClassVar[tuple[str, ...]] = ("input", "cached_input", "cache_write", "cache_write_1h", "output", "call")

    class Unit(models.TextChoices):
        PER_MILLION_TOKENS = "per_million_tokens", _("per million tokens")
        PER_CALL = "per_call", _("per call")

    tenant = models.ForeignKey(
        Tenant, verbose_name=_("team"), null=True, blank=True, on_delete=models.PROTECT, related_name="prices"
    )
    model = models.CharField(_("model"), max_length=200, help_text=_("A name or a pattern such as claude-*."))
    unit = models.CharField(_("unit"), max_length=24, choices=Unit.choices, default=Unit.PER_MILLION_TOKENS)
    currency = models.CharField(_("currency"), max_length=3, validators=[validate_currency])
    input = price(_("input"))
    cached_input = price(_("cached input"))
    cache_write = price(_("cache write"))
    cache_write_1h = price(_("cache write, 1 h"))
    output = price(_("output"))
    call = price(_("call"))
    starts = models.DateField(_("from"), default=ALWAYS, help_text=_("Begins at 00:00 in the team's time zone."))
    imported = models.BooleanField(_("from the catalogue"), default=False, editable=False)
    created = models.DateTimeField(_("created"), default=now, editable=False)

    objects = TenantQuerySet["Price"].as_manager()

    class Meta:
        verbose_name = _("price")
        verbose_name_plural = _("prices")
        ordering = ("model", "-starts")
        constraints = (
            models.UniqueConstraint(
                fields=["model", "starts"], condition=Q(tenant=None), name="one_global_price_per_model_and_day"
            ),
            models.UniqueConstraint(
                fields=["tenant", "model", "starts"],
                condition=Q(tenant__isnull=False),
                name="one_tenant_price_per_model_and_day",
            ),
            models.CheckConstraint(
                condition=Q(unit="per_call", call__isnull=False, input=None, output=None)
                | Q(unit="per_million_tokens", call=None),
                name="price_fields_fit_the_unit",
            ),
        )

    def __str__(self) -> str:
        return f"{self.model} ({self.currency}, {self.starts})"


class ExchangeRate(models.Model):
    """One unit of `source` is worth `rate` units of `target` from a day on."""

    source = models.CharField(pgettext_lazy("exchange rate", "from"), max_length=3, validators=[validate_currency])
    target = models.CharField(pgettext_lazy("exchange rate", "to"), max_length=3, validators=[validate_currency])
    rate = models.DecimalField(_("rate"), max_digits=30, decimal_places=12)
    starts = models.DateField(pgettext_lazy("exchange rate", "on"))

    class Meta:
        verbose_name = _("exchange rate")
        verbose_name_plural = _("exchange rates")
        ordering = ("source", "target", "-starts")
        constraints = (
            models.UniqueConstraint(fields=["source", "target", "starts"], name="one_rate_per_pair_and_day"),
            models.CheckConstraint(condition=Q(rate__gt=0), name="exchange_rate_positive"),
            models.CheckConstraint(condition=~Q(source=models.F("target")), name="exchange_rate_between_two"),
        )

    def __str__(self) -> str:
        return f"{self.source} → {self.target} {self.starts}"
