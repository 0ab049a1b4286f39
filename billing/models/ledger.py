"""Amounts, the limits on them, and the months that were closed."""

from typing import ClassVar

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils.timezone import now
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from billing.models.fields import money
from billing.models.records import RequestRecord
from keys.models import Account
from tenants.managers import TenantQuerySet
from tenants.models import BusinessLine, Tenant
from tenants.validators import validate_currency


class LedgerEntry(models.Model):
    """An amount, never edited. Sums of these rows are the truth about money."""

    TENANT_PATH: ClassVar[str] = "tenant"

    class Kind(models.TextChoices):
        CHARGE = "charge", _("charge")
        COST = "cost", _("cost")
        WASTE = "waste", _("waste")
        CREDIT = "credit", pgettext_lazy("ledger", "credit")

    tenant = models.ForeignKey(
        Tenant, verbose_name=_("team"), on_delete=models.PROTECT, db_index=False, related_name="ledger"
    )
    kind = models.CharField(_("kind"), max_length=8, choices=Kind.choices)
    record = models.ForeignKey(
        RequestRecord,
        verbose_name=_("request"),
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        db_index=False,
        related_name="ledger",
    )
    line_id = models.BigIntegerField(null=True)
    account_id = models.BigIntegerField(null=True)
    upstream_key_id = models.BigIntegerField(null=True)
    attempt_n = models.PositiveSmallIntegerField(null=True)
    amount = money(_("amount"))
    currency = models.CharField(_("currency"), max_length=3)
    day = models.DateField(_("day"))
    created = models.DateTimeField(_("booked"))
    note = models.CharField(_("note"), max_length=200, blank=True)

    objects = TenantQuerySet["LedgerEntry"].as_manager()

    class Meta:
        verbose_name = _("ledger entry")
        verbose_name_plural = _("ledger")
        ordering = ("-pk",)
        constraints = (
            # What makes settling safe to run twice: the second charge is refused here.
            models.UniqueConstraint(fields=["record"], condition=Q(kind="charge"), name="one_charge_per_record"),
            models.UniqueConstraint(
                fields=["record", "attempt_n", "kind"],
                condition=Q(kind__in=["cost", "waste"]),
                name="one_cost_and_waste_per_attempt",
            ),
        )
        indexes = (
            # Spend of a line in a period.
            models.Index(fields=["line_id", "day"], condition=Q(kind__in=["charge", "credit"]), name="ledger_line_day"),
            # Spend of a tenant in a period.
            models.Index(fields=["tenant", "day"], name="ledger_tenant_day"),
            # Spend from an account in a period.
            models.Index(
                fields=["account_id", "created"], condition=Q(account_id__isnull=False), name="ledger_account_created"
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.amount} {self.currency}"


class Budget(models.Model):
    """A limit per period, of a line, an account, or (neither given) the whole tenant."""

    TENANT_PATH: ClassVar[str] = "tenant"

    class Period(models.TextChoices):
        DAY = "day", _("day")
        WEEK = "week", _("week")
        MONTH = "month", _("month")
        TOTAL = "total", _("total")

    tenant = models.ForeignKey(Tenant, verbose_name=_("team"), on_delete=models.CASCADE, related_name="budgets")
    line = models.ForeignKey(
        BusinessLine, verbose_name=_("line"), null=True, blank=True, on_delete=models.CASCADE, related_name="budgets"
    )
    account = models.ForeignKey(
        Account, verbose_name=_("account"), null=True, blank=True, on_delete=models.CASCADE, related_name="budgets"
    )
    amount = money(_("amount"), validators=[MinValueValidator(0)])
    currency = models.CharField(_("currency"), max_length=3, validators=[validate_currency])
    period = models.CharField(_("period"), max_length=8, choices=Period.choices, default=Period.MONTH)
    alert_at = models.JSONField(_("alert at (%)"), default=list, blank=True)
    hard = models.BooleanField(_("refuse calls when spent"), default=False)

    objects = TenantQuerySet["Budget"].as_manager()

    class Meta:
        verbose_name = _("budget")
        verbose_name_plural = _("budgets")
        ordering = ("tenant", "pk")
        constraints = (
            models.CheckConstraint(condition=Q(line=None) | Q(account=None), name="budget_of_line_or_account"),
            models.CheckConstraint(condition=Q(amount__gte=0), name="budget_amount_not_negative"),
            models.UniqueConstraint(
                fields=["tenant", "period"], condition=Q(line=None, account=None), name="one_tenant_budget_per_period"
            ),
            models.UniqueConstraint(
                fields=["line", "period"], condition=Q(line__isnull=False), name="one_line_budget_per_period"
            ),
            models.UniqueConstraint(
                fields=["account", "period"], condition=Q(account__isnull=False), name="one_account_budget_per_period"
            ),
        )

    def __str__(self) -> str:
        return f"{self.amount} {self.currency} / {self.period}"


class BudgetReserved(models.Model):
    """What calls in flight have reserved of a budget's period, as a gateway process last saw it. Pages read it."""

    TENANT_PATH: ClassVar[str] = "budget__tenant"

    budget = models.ForeignKey(Budget, on_delete=models.CASCADE, related_name="reservations")
    scope = models.CharField(max_length=120, unique=True)
    amount = money(_("reserved"))
    in_flight = models.PositiveIntegerField()
    updated = models.DateTimeField()

    objects = TenantQuerySet["BudgetReserved"].as_manager()

    def __str__(self) -> str:
        return f"{self.scope}: {self.amount}"


class BudgetAlert(models.Model):
    """A threshold that was crossed: claims its mail, once per budget, amount and period."""

    TENANT_PATH: ClassVar[str] = "budget__tenant"

    budget = models.ForeignKey(Budget, on_delete=models.CASCADE, related_name="crossings")
    period_start = models.DateTimeField(_("period"))
    amount = money(_("amount"))
    threshold = models.PositiveSmallIntegerField(_("threshold (%)"))
    crossed = models.DateTimeField(_("crossed"), default=now)

    objects = TenantQuerySet["BudgetAlert"].as_manager()

    class Meta:
        verbose_name = _("budget alert")
        verbose_name_plural = _("budget alerts")
        constraints = (
            models.UniqueConstraint(
                fields=["budget", "period_start", "amount", "threshold"], name="one_mail_per_crossing"
            ),
        )

    def __str__(self) -> str:
        return f"{self.threshold} %"


class Statement(models.Model):
    """A closed month: the same bytes for ever."""

    TENANT_PATH: ClassVar[str] = "tenant"

    tenant = models.ForeignKey(Tenant, verbose_name=_("team"), on_delete=models.PROTECT, related_name="statements")
    month = models.DateField(_("month"), help_text=_("The first day of the month."))
    closed = models.DateTimeField(pgettext_lazy("statement", "closed"), default=now)
    closed_by = models.CharField(_("closed by"), max_length=150, blank=True)
    csv = models.BinaryField(editable=False)
    digest = models.CharField(_("SHA-256"), max_length=64)
    total_charge = money(_("charge"))
    payable = money(_("payable"))
    currency = models.CharField(_("currency"), max_length=3)

    objects = TenantQuerySet["Statement"].as_manager()

    class Meta:
        verbose_name = _("statement")
        verbose_name_plural = _("statements")
        ordering = ("-month", "tenant")
        constraints = (models.UniqueConstraint(fields=["tenant", "month"], name="one_statement_per_month"),)

    def __str__(self) -> str:
        return f"{self.tenant} {self.month:%Y-%m}"
