"""What we call with: upstreams, their keys, the accounts behind them, and what happened to each."""

from datetime import datetime
from decimal import Decimal
from typing import ClassVar

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils.timezone import now
from django.utils.translation import gettext_lazy as _

from tenants.encryption import EncryptedTextField
from tenants.fields import WebAddressField
from tenants.managers import TenantQuerySet
from tenants.models import Tenant, slug_validator
from tenants.validators import validate_globs, validate_timezone


class DialectChoice(models.TextChoices):
    OPENAI = "openai", "OpenAI chat completions"
    RESPONSES = "openai-responses", "OpenAI Responses"
    ANTHROPIC = "anthropic", "Anthropic Messages"
    GEMINI = "gemini", "Gemini"


class Rotation(models.TextChoices):
    ROUND_ROBIN = "round_robin", _("round robin")
    WEIGHTED = "weighted", _("weighted")
    LEAST_USED = "least_used", _("least used")
    RANDOM = "random", _("random")


class AuthStyle(models.TextChoices):
    DEFAULT = "", _("the dialect's default")
    BEARER = "bearer", "Authorization: Bearer"
    X_API_KEY = "x-api-key", "x-api-key"
    BOTH = "both", _("both")


class Account(models.Model):
    """Upstream keys that share one balance or quota: the blast radius of "no balance" and "quota used up"."""

    TENANT_PATH: ClassVar[str] = "tenant"

    class Period(models.TextChoices):
        DAY = "day", _("day")
        WEEK = "week", _("week")
        MONTH = "month", _("month")
        TOTAL = "total", _("total")

    tenant = models.ForeignKey(Tenant, verbose_name=_("team"), on_delete=models.CASCADE, related_name="accounts")
    name = models.CharField(_("name"), max_length=64, validators=[slug_validator])
    quota_timezone = models.CharField(
        _("quota time zone"), max_length=64, default="UTC", validators=[validate_timezone]
    )
    credit_amount = models.DecimalField(_("credit"), max_digits=30, decimal_places=12, null=True, blank=True)
    credit_currency = models.CharField(_("credit currency"), max_length=3, blank=True)
    credit_period = models.CharField(_("credit period"), max_length=8, choices=Period.choices, blank=True)
    balance_url = WebAddressField(_("balance address"), max_length=500, blank=True)

    objects = TenantQuerySet["Account"].as_manager()

    class Meta:
        verbose_name = _("account")
        verbose_name_plural = _("accounts")
        ordering = ("tenant", "name")
        constraints = (
            models.UniqueConstraint(fields=["tenant", "name"], name="account_name_once_per_tenant"),
            models.CheckConstraint(
                condition=Q(credit_amount=None) | Q(credit_amount__gte=0), name="account_credit_not_negative"
            ),
        )

    def __str__(self) -> str:
        return self.name


class Upstream(models.Model):
    """One endpoint: dialect, base address, model list, timeouts."""

    TENANT_PATH: ClassVar[str] = "tenant"

    tenant = models.ForeignKey(Tenant, verbose_name=_("team"), on_delete=models.CASCADE, related_name="upstreams")
    name = models.CharField(_("name"), max_length=64, validators=[slug_validator])
    dialect = models.CharField(_("dialect"), max_length=20, choices=DialectChoice.choices, default=DialectChoice.OPENAI)
    base_url = models.CharField(_("base address"), max_length=500)
    model_list = models.JSONField(
        _("models"),
        null=True,
        blank=True,
        help_text=_('A list of names, "auto" to read it from the upstream daily, or empty = unknown: tried.'),
    )
    extra_models = models.JSONField(_("further models"), default=list, blank=True, validators=[validate_globs])
    read_models = models.JSONField(_("models read from the upstream"), default=list, blank=True, editable=False)
    aliases = models.JSONField(_("aliases"), default=dict, blank=True)
    max_context_tokens = models.PositiveBigIntegerField(_("context window (tokens)"), null=True, blank=True)
    cost_multiplier = models.DecimalField(
        _("cost multiplier"),
        max_digits=18,
        decimal_places=9,
        default=Decimal(1),
        validators=[MinValueValidator(Decimal(0))],
    )
    rotation = models.CharField(
        _("rotation among its keys"), max_length=16, choices=Rotation.choices, default=Rotation.ROUND_ROBIN
    )
    auth = models.CharField(_("credential"), max_length=16, choices=AuthStyle.choices, blank=True, default="")
    usage_semantics = models.CharField(_("usage semantics"), max_length=32, blank=True)
    headers = models.JSONField(_("extra headers"), default=dict, blank=True)
    timeouts = models.JSONField(_("timeouts"), default=dict, blank=True)
    enabled = models.BooleanField(_("enabled"), default=True)

    objects = TenantQuerySet["Upstream"].as_manager()

    class Meta:
        verbose_name = _("upstream")
        verbose_name_plural = _("upstreams")
        ordering = ("tenant", "name")
        constraints = (
            models.UniqueConstraint(fields=["tenant", "name"], name="upstream_name_once_per_tenant"),
            models.CheckConstraint(condition=Q(dialect__in=DialectChoice.values), name="upstream_dialect_known"),
            models.CheckConstraint(condition=Q(cost_multiplier__gte=0), name="upstream_cost_multiplier_not_negative"),
        )

    def __str__(self) -> str:
        return self.name


class UpstreamKey(models.Model):
    """One API key at an upstream. The secret is written once and shown by its last six characters.

    After a rotation the secret before is kept, unused, until `old_until`: it can take its place again.
    """

    TENANT_PATH: ClassVar[str] = "upstream__tenant"

    upstream = models.ForeignKey(Upstream, verbose_name=_("upstream"), on_delete=models.CASCADE, related_name="keys")
    account = models.ForeignKey(
        Account, verbose_name=_("account"), null=True, blank=True, on_delete=models.PROTECT, related_name="keys"
    )
    name = models.CharField(_("name"), max_length=64, validators=[slug_validator])
    secret = EncryptedTextField(_("secret"))
    digest = models.CharField(max_length=64, editable=False, help_text=_("Keyed hash of the secret: finds duplicates."))
    tail = models.CharField(_("tail"), max_length=6, editable=False)
    old_secret = EncryptedTextField(_("old secret"), blank=True, default="", editable=False)
    old_digest = models.CharField(max_length=64, blank=True, default="", editable=False)
    old_tail = models.CharField(_("tail of the old secret"), max_length=6, blank=True, default="", editable=False)
    old_until = models.DateTimeField(_("old secret is kept until"), null=True, blank=True, editable=False)
    weight = models.PositiveIntegerField(_("weight"), default=1, validators=[MinValueValidator(1)])
    concurrency = models.PositiveIntegerField(_("calls at once"), null=True, blank=True)
    rpm = models.PositiveIntegerField(_("calls per minute"), null=True, blank=True)
    tpm = models.PositiveBigIntegerField(_("tokens per minute"), null=True, blank=True)
    per_hour = models.PositiveIntegerField(_("calls per hour"), null=True, blank=True)
    per_day = models.PositiveIntegerField(_("calls per day"), null=True, blank=True)
    policy = models.JSONField(_("policy"), default=dict, blank=True)
    epoch = models.PositiveIntegerField(default=1, editable=False)
    probe_due = models.DateTimeField(null=True, editable=False)
    probed = models.DateTimeField(_("last good probe"), null=True, editable=False)
    enabled = models.BooleanField(_("enabled"), default=True)
    created = models.DateTimeField(_("created"), default=now, editable=False)

    objects = TenantQuerySet["UpstreamKey"].as_manager()

    class Meta:
        verbose_name = _("upstream key")
        verbose_name_plural = _("upstream keys")
        ordering = ("upstream", "name")
        constraints = (
            models.UniqueConstraint(fields=["upstream", "name"], name="upstream_key_name_once_per_upstream"),
            models.UniqueConstraint(fields=["upstream", "digest"], name="upstream_secret_once_per_upstream"),
            models.CheckConstraint(condition=Q(weight__gte=1), name="upstream_key_weight_positive"),
        )

    def __str__(self) -> str:
        return f"{self.name} (…{self.tail})"

    def keeps_old(self, moment: datetime) -> bool:
        """Tell whether the secret before the last rotation is still kept."""
        return bool(self.old_digest) and self.old_until is not None and self.old_until > moment


class StoredState(models.Model):
    """The persisted copy of what the state store knows: one row per key, account or resting pair."""

    target = models.CharField(max_length=300, unique=True)
    data = models.JSONField()
    updated = models.DateTimeField(default=now)

    def __str__(self) -> str:
        return self.target


class StateInbox(models.Model):
    """What other processes ask of an embedded store; the web process applies it within a second."""

    command = models.CharField(max_length=40)
    payload = models.JSONField(default=dict)
    created = models.DateTimeField(default=now)

    def __str__(self) -> str:
        return f"{self.command} #{self.pk}"


class KeyEvent(models.Model):
    """A change of an upstream key's or account's state, with its evidence."""

    TENANT_PATH: ClassVar[str] = "tenant"

    tenant = models.ForeignKey(Tenant, verbose_name=_("team"), on_delete=models.CASCADE, related_name="key_events")
    upstream_key = models.ForeignKey(
        UpstreamKey, verbose_name=_("upstream key"), null=True, on_delete=models.CASCADE, related_name="events"
    )
    account = models.ForeignKey(
        Account, verbose_name=_("account"), null=True, blank=True, on_delete=models.CASCADE, related_name="events"
    )
    at = models.DateTimeField(_("when"), default=now)
    before = models.CharField(_("before"), max_length=16)
    after = models.CharField(_("after"), max_length=16)
    reason = models.CharField(_("reason"), max_length=40, blank=True)
    message = models.CharField(_("message"), max_length=500, blank=True)
    until = models.DateTimeField(_("until"), null=True, blank=True)
    request_id = models.CharField(_("request"), max_length=40, blank=True)

    objects = TenantQuerySet["KeyEvent"].as_manager()

    class Meta:
        verbose_name = _("key event")
        verbose_name_plural = _("key events")
        ordering = ("-at", "-pk")
        indexes = (
            # The history of one key, newest first.
            models.Index(fields=["upstream_key", "-at"], name="key_event_key_at"),
            # The events of a tenant, newest first.
            models.Index(fields=["tenant", "-at"], name="key_event_tenant_at"),
        )

    def __str__(self) -> str:
        return f"{self.before} → {self.after}"


class BalanceWatch(models.Model):
    """What an account's provider last said is left, or why it could not be read; of a key that has no account, too.

    `high`: the amount after its last rise, what low water is measured against where no credit is stated. `ended`: when
    a cooling was last ended by a reading that had not risen. The error is of the last try, "" when that was good.
    """

    TENANT_PATH: ClassVar[str] = "tenant"

    tenant = models.ForeignKey(Tenant, verbose_name=_("team"), on_delete=models.CASCADE, related_name="balances")
    account = models.OneToOneField(
        Account, verbose_name=_("account"), null=True, on_delete=models.CASCADE, related_name="balance"
    )
    upstream_key = models.OneToOneField(
        UpstreamKey, verbose_name=_("upstream key"), null=True, on_delete=models.CASCADE, related_name="balance"
    )
    due = models.DateTimeField(null=True)
    amount = models.DecimalField(_("amount"), max_digits=30, decimal_places=12, null=True)
    currency = models.CharField(_("currency"), max_length=3, blank=True)
    total = models.DecimalField(_("of"), max_digits=30, decimal_places=12, null=True)
    high = models.DecimalField(max_digits=30, decimal_places=12, null=True)
    available = models.BooleanField(_("enough to call"), default=True)
    text = models.CharField(_("as read"), max_length=200, blank=True)
    read = models.DateTimeField(_("read"), null=True)
    error = models.CharField(_("error"), max_length=300, blank=True)
    tried = models.DateTimeField(_("tried"), null=True)
    ended = models.DateTimeField(null=True)

    objects = TenantQuerySet["BalanceWatch"].as_manager()

    class Meta:
        verbose_name = _("balance")
        verbose_name_plural = _("balances")
        constraints = (
            models.CheckConstraint(
                condition=Q(account=None, upstream_key__isnull=False) | Q(account__isnull=False, upstream_key=None),
                name="balance_of_account_or_key",
            ),
        )

    def __str__(self) -> str:
        return f"{self.amount} {self.currency}"


class BalanceReading(models.Model):
    """A balance that differed from the one before. Kept for a while, newest first."""

    TENANT_PATH: ClassVar[str] = "watch__tenant"

    watch = models.ForeignKey(BalanceWatch, on_delete=models.CASCADE, related_name="readings")
    at = models.DateTimeField(_("when"))
    amount = models.DecimalField(_("amount"), max_digits=30, decimal_places=12)
    currency = models.CharField(_("currency"), max_length=3, blank=True)

    objects = TenantQuerySet["BalanceReading"].as_manager()

    class Meta:
        verbose_name = _("balance reading")
        verbose_name_plural = _("balance readings")
        ordering = ("-at", "-pk")
        indexes = (
            # The readings of one balance, newest first; the old ones, to be dropped.
            models.Index(fields=["watch", "-at"], name="balance_reading_watch_at"),
        )

    def __str__(self) -> str:
        return f"{self.amount} {self.currency}"


class WordingRule(models.Model):
    """An operator's own row in the classifier's wording table; consulted before the built-in ones."""

    name = models.CharField(_("name"), max_length=100, unique=True)
    position = models.PositiveIntegerField(_("position"), default=0)
    enabled = models.BooleanField(_("enabled"), default=True)
    statuses = models.JSONField(_("HTTP statuses"), default=list, blank=True)
    field = models.CharField(_("looks at"), max_length=20, default="message")
    pattern = models.CharField(_("wording"), max_length=300)
    cause = models.CharField(_("class"), max_length=24)
    scope = models.CharField(_("scope"), max_length=12, blank=True)
    reason = models.CharField(_("reason"), max_length=40, blank=True)

    class Meta:
        verbose_name = _("wording rule")
        verbose_name_plural = _("wording rules")
        ordering = ("position", "pk")

    def __str__(self) -> str:
        return self.name
