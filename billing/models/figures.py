"""What is reckoned from records and ledger to be read quickly. Everything here can be made anew."""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from billing.models.fields import money
from billing.models.ledger import Budget
from tenants.managers import TenantQuerySet
from tenants.models import Tenant


class BudgetSpent(models.Model):
    """What the ledger holds of a budget's period, up to an entry; the entries after it are added when it is read.

    `seen_id` is the newest entry at `seen_at`: a while later all that are older have been committed.
    """

    TENANT_PATH: ClassVar[str] = "budget__tenant"

    budget = models.ForeignKey(Budget, on_delete=models.CASCADE, related_name="sums")
    period_start = models.DateTimeField()
    currency = models.CharField(max_length=3)
    spent = money(_("spent"))
    ledger_id = models.BigIntegerField(default=0)
    seen_id = models.BigIntegerField(default=0)
    seen_at = models.DateTimeField()

    objects = TenantQuerySet["BudgetSpent"].as_manager()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["budget", "period_start", "currency"], name="one_sum_per_budget_period"),
        )

    def __str__(self) -> str:
        return f"{self.budget_id} {self.period_start}: {self.spent}"


class Forecast(models.Model):
    """How long the money of a line's or account's budget lasts, and what its period will come to. The newest only."""

    TENANT_PATH: ClassVar[str] = "tenant"

    tenant = models.ForeignKey(Tenant, verbose_name=_("team"), on_delete=models.CASCADE, related_name="forecasts")
    subject = models.CharField(
        _("about"), max_length=80, help_text=_("line:ID, account:ID or tenant:ID, and the period")
    )
    line_id = models.BigIntegerField(null=True)
    account_id = models.BigIntegerField(null=True)
    period = models.CharField(_("period"), max_length=8)
    made = models.DateTimeField(_("made"))
    currency = models.CharField(_("currency"), max_length=3)
    spent = money(_("spent"))
    amount = money(_("limit"), null=True)
    burn_per_day = money(_("per day"))
    days_left = models.DecimalField(_("days left"), max_digits=9, decimal_places=1, null=True)
    exhausted_at = models.DateTimeField(_("used up on"), null=True)
    expected = money(_("expected at the period's end"), null=True)
    past_error = models.DecimalField(_("past error"), max_digits=9, decimal_places=4, null=True)
    resets_at = models.DateTimeField(_("period ends"), null=True)

    objects = TenantQuerySet["Forecast"].as_manager()

    class Meta:
        verbose_name = _("forecast")
        verbose_name_plural = _("forecasts")
        constraints = (models.UniqueConstraint(fields=["tenant", "subject"], name="one_forecast_per_subject"),)

    def __str__(self) -> str:
        return self.subject


class LineSums(models.Model):
    """What a line's calls of one model came to; replays are left out.

    `calls` are finished and cancelled ones; `failed` and `refused` stand apart. Tokens, charge and cost are those of
    `calls`, waste is of all. `lost` of the failed ones were no fault of the client. `retried` needed more than one
    attempt, `rescued` of them finished.
    """

    line_id = models.BigIntegerField()
    line_slug = models.CharField(max_length=64)
    model = models.CharField(max_length=200)
    currency = models.CharField(max_length=3)
    calls = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    lost = models.PositiveIntegerField(default=0)
    refused = models.PositiveIntegerField(default=0)
    cancelled = models.PositiveIntegerField(default=0)
    unpriced = models.PositiveIntegerField(default=0)
    estimated = models.PositiveIntegerField(default=0)
    retried = models.PositiveIntegerField(default=0)
    rescued = models.PositiveIntegerField(default=0)
    input_tokens = models.BigIntegerField(default=0)
    cached_read_tokens = models.BigIntegerField(default=0)
    cache_write_tokens = models.BigIntegerField(default=0)
    output_tokens = models.BigIntegerField(default=0)
    charge = money(_("charge"))
    cost = money(_("cost"))
    waste = money(_("waste"))

    class Meta:
        abstract = True


class LineHour(LineSums):
    """The records of one hour (UTC) and tenant's day.

    Histograms map a bucket (billing/core/histogram.py) to a count: ms to first content, an answer's tokens.
    """

    TENANT_PATH: ClassVar[str] = "tenant"

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="line_hours")
    hour = models.DateTimeField()
    day = models.DateField()
    first_content = models.JSONField(default=dict)
    outputs = models.JSONField(default=dict)

    objects = TenantQuerySet["LineHour"].as_manager()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["tenant", "hour", "day", "line_id", "line_slug", "model", "currency"],
                name="one_row_per_line_hour_and_model",
            ),
        )
        indexes = (
            # The hours of a tenant's day.
            models.Index(fields=["tenant", "day"], name="line_hour_tenant_day"),
            # Rebuilding an hour.
            models.Index(fields=["hour"], name="line_hour_hour"),
        )

    def __str__(self) -> str:
        return f"{self.line_slug} {self.hour}"


class LineDay(LineSums):
    """A day in the tenant's zone: the hours of it that lie before `RollupMark.days_until`."""

    TENANT_PATH: ClassVar[str] = "tenant"

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="line_days")
    day = models.DateField()

    objects = TenantQuerySet["LineDay"].as_manager()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["tenant", "day", "line_id", "line_slug", "model", "currency"],
                name="one_row_per_line_day_and_model",
            ),
        )
        indexes = (
            # The home page of the operator.
            models.Index(fields=["day"], name="line_day_day"),
        )

    def __str__(self) -> str:
        return f"{self.line_slug} {self.day}"


class DaySpeed(models.Model):
    """The histogram of a line's times to first content on a day: the same hours as in `LineDay`, all models."""

    TENANT_PATH: ClassVar[str] = "tenant"

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="day_speeds")
    day = models.DateField()
    line_id = models.BigIntegerField()
    first_content = models.JSONField(default=dict)

    objects = TenantQuerySet["DaySpeed"].as_manager()

    class Meta:
        constraints = (models.UniqueConstraint(fields=["tenant", "day", "line_id"], name="one_speed_per_line_day"),)
        indexes = (
            # The home page of the operator.
            models.Index(fields=["day"], name="day_speed_day"),
        )

    def __str__(self) -> str:
        return f"{self.line_id} {self.day}"


class KeyHour(models.Model):
    """An upstream key's exchanges in one hour (UTC) of the requests that began in it; skips left out.

    `failed` counts what is held against a key: not what the request was at fault for, nor clients that left. After
    `moved_on` of them another key was tried.
    """

    TENANT_PATH: ClassVar[str] = "tenant"

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="key_hours")
    hour = models.DateTimeField()
    upstream_key_id = models.BigIntegerField()
    upstream = models.CharField(max_length=64)
    upstream_key = models.CharField(max_length=80)
    attempts = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    moved_on = models.PositiveIntegerField(default=0)
    cost = money(_("cost"))
    waste = money(_("waste"))
    first_content = models.JSONField(default=dict)

    objects = TenantQuerySet["KeyHour"].as_manager()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["tenant", "hour", "upstream_key_id"], name="one_row_per_key_hour"),
        )
        indexes = (
            # Rebuilding an hour.
            models.Index(fields=["hour"], name="key_hour_hour"),
        )

    def __str__(self) -> str:
        return f"{self.upstream_key} {self.hour}"


class RollupMark(models.Model):
    """One row: how far the hours are reckoned. `ledger_id` is the newest entry that was looked at for late ones.

    The hours before `days_until` are in the sums of days; who reads those adds the records from it on.
    """

    done_until = models.DateTimeField()
    days_until = models.DateTimeField(null=True)
    ledger_id = models.BigIntegerField(default=0)

    class Meta:
        constraints = (models.CheckConstraint(condition=Q(pk=1), name="rollup_mark_single_row"),)

    def __str__(self) -> str:
        return str(self.done_until)


class OutputSize(models.Model):
    """How long a line's answers of one model are: the 95th percentile of seven days, for reservations."""

    TENANT_PATH: ClassVar[str] = "tenant"

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="output_sizes")
    line_id = models.BigIntegerField()
    model = models.CharField(max_length=200)
    p95 = models.PositiveIntegerField()
    samples = models.PositiveIntegerField()

    objects = TenantQuerySet["OutputSize"].as_manager()

    class Meta:
        constraints = (models.UniqueConstraint(fields=["line_id", "model"], name="one_size_per_line_and_model"),)

    def __str__(self) -> str:
        return f"{self.model}: {self.p95}"
