"""Who calls and who is told: tenants, their lines and gateway keys, people, alerts, audit."""

from datetime import datetime
from decimal import Decimal
from typing import ClassVar

from django.conf import settings
from django.core.validators import MinValueValidator, RegexValidator
from django.db import models
from django.db.models import F, Q
from django.utils.timezone import now
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

import tenants.login_models  # noqa: F401  # Django looks for an app's models here
from tenants.encryption import EncryptedTextField
from tenants.fields import WebAddressField
from tenants.managers import TenantQuerySet
from tenants.validators import validate_currency, validate_globs, validate_timezone

slug_validator = RegexValidator(
    r"^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$",
    _("Use lower-case letters, digits, dots, dashes and underscores; start and end with a letter or digit."),
)


class Role(models.TextChoices):
    ADMIN = "admin", _("team admin")
    FINANCE = "finance", _("finance")
    VIEWER = "viewer", _("viewer")


class Tenant(models.Model):
    """A team. Owns everything else and sees nothing of other tenants."""

    TENANT_PATH: ClassVar[str] = "pk"

    slug = models.CharField(_("slug"), max_length=64, unique=True, validators=[slug_validator])
    name = models.CharField(_("name"), max_length=200)
    timezone = models.CharField(_("time zone"), max_length=64, default="UTC", validators=[validate_timezone])
    currency = models.CharField(_("currency"), max_length=3, default="USD", validators=[validate_currency])
    alert_emails = models.JSONField(_("alert e-mail addresses"), default=list, blank=True)
    alert_webhook = WebAddressField(_("alert webhook"), max_length=500, blank=True)
    webhook_secret = EncryptedTextField(_("webhook signing secret"), blank=True, default="")
    enabled = models.BooleanField(_("enabled"), default=True)
    created = models.DateTimeField(_("created"), default=now, editable=False)

    objects = TenantQuerySet["Tenant"].as_manager()

    class Meta:
        verbose_name = _("team")
        verbose_name_plural = _("teams")
        ordering = ("slug",)

    def __str__(self) -> str:
        return self.slug


class Membership(models.Model):
    """A person's role in a tenant."""

    TENANT_PATH: ClassVar[str] = "tenant"

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, verbose_name=_("person"), on_delete=models.CASCADE, related_name="memberships"
    )
    tenant = models.ForeignKey(Tenant, verbose_name=_("team"), on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(_("role"), max_length=16, choices=Role.choices)

    objects = TenantQuerySet["Membership"].as_manager()

    class Meta:
        verbose_name = _("membership")
        verbose_name_plural = _("memberships")
        constraints = (
            models.UniqueConstraint(fields=["user", "tenant"], name="one_membership_per_person_and_tenant"),
            models.CheckConstraint(condition=Q(role__in=Role.values), name="membership_role_known"),
        )

    def __str__(self) -> str:
        return f"{self.user} @ {self.tenant} ({self.role})"


class LimitFields(models.Model):
    """Ceilings; empty = none. Tokens for tpm and tokens_per_day, calls for the others."""

    rpm = models.PositiveIntegerField(_("calls per minute"), null=True, blank=True)
    tpm = models.PositiveBigIntegerField(_("tokens per minute"), null=True, blank=True)
    per_day = models.PositiveIntegerField(_("calls per day"), null=True, blank=True)
    tokens_per_day = models.PositiveBigIntegerField(_("tokens per day"), null=True, blank=True)
    concurrency = models.PositiveIntegerField(_("calls at once"), null=True, blank=True)

    class Meta:
        abstract = True


class OnUnpriced(models.TextChoices):
    AUTO = "", _("refuse when a hard budget exists")
    REFUSE = "refuse", _("refuse")
    SERVE = "serve", _("serve and flag")


class LineClass(models.TextChoices):
    INTERACTIVE = "interactive", _("interactive")
    BATCH = "batch", _("batch")


class BusinessLine(LimitFields):
    """A consumer inside a tenant: the unit of budget and billing."""

    TENANT_PATH: ClassVar[str] = "tenant"

    tenant = models.ForeignKey(Tenant, verbose_name=_("team"), on_delete=models.PROTECT, related_name="lines")
    slug = models.CharField(_("slug"), max_length=64, validators=[slug_validator])
    name = models.CharField(_("name"), max_length=200)
    model_globs = models.JSONField(
        _("allowed models"),
        default=list,
        blank=True,
        validators=[validate_globs],
        help_text=_("Patterns such as gpt-*; empty = every model."),
    )
    charge_multiplier = models.DecimalField(
        _("charge multiplier"),
        max_digits=18,
        decimal_places=9,
        default=Decimal(1),
        validators=[MinValueValidator(Decimal(0))],
    )
    on_unpriced = models.CharField(
        _("models without a price"), max_length=8, choices=OnUnpriced.choices, default=OnUnpriced.AUTO, blank=True
    )
    history = models.BooleanField(_("keep conversation history"), default=False)
    line_class = models.CharField(_("class"), max_length=16, choices=LineClass.choices, default=LineClass.INTERACTIVE)
    enabled = models.BooleanField(_("enabled"), default=True)
    created = models.DateTimeField(_("created"), default=now, editable=False)

    objects = TenantQuerySet["BusinessLine"].as_manager()

    class Meta:
        verbose_name = _("business line")
        verbose_name_plural = _("business lines")
        ordering = ("tenant", "slug")
        constraints = (
            models.UniqueConstraint(fields=["tenant", "slug"], name="line_slug_once_per_tenant"),
            models.CheckConstraint(condition=Q(charge_multiplier__gte=0), name="line_charge_multiplier_not_negative"),
        )

    def __str__(self) -> str:
        return f"{self.tenant.slug}/{self.slug}"


class GatewayKey(LimitFields):
    """A credential that we issued. Only its keyed hash and last four characters are kept.

    After a rotation the secret before goes on working until `old_until`; later it is known as one that has ended.
    """

    TENANT_PATH: ClassVar[str] = "line__tenant"

    line = models.ForeignKey(
        BusinessLine, verbose_name=_("business line"), on_delete=models.CASCADE, related_name="gateway_keys"
    )
    name = models.CharField(_("name"), max_length=100)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    last4 = models.CharField(_("last four"), max_length=4, editable=False)
    old_digest = models.CharField(max_length=64, blank=True, default="", editable=False)
    old_last4 = models.CharField(_("last four of the old secret"), max_length=4, blank=True, default="", editable=False)
    old_until = models.DateTimeField(_("old secret works until"), null=True, blank=True, editable=False)
    expires = models.DateTimeField(_("expires"), null=True, blank=True)
    enabled = models.BooleanField(_("enabled"), default=True)
    revoked = models.DateTimeField(_("revoked"), null=True, blank=True, editable=False)
    created = models.DateTimeField(_("created"), default=now, editable=False)

    objects = TenantQuerySet["GatewayKey"].as_manager()

    class Meta:
        verbose_name = _("gateway key")
        verbose_name_plural = _("gateway keys")
        ordering = ("line", "name")
        constraints = (models.UniqueConstraint(fields=["line", "name"], name="gateway_key_name_once_per_line"),)

    def __str__(self) -> str:
        return f"{self.name} (…{self.last4})"

    def old_works(self, moment: datetime) -> bool:
        """Tell whether the secret before the last rotation is still accepted."""
        return bool(self.old_digest) and self.revoked is None and self.old_until is not None and self.old_until > moment


class InstallationSecret(models.Model):
    """A random key of this installation (such as the one under gateway-key hashes), itself encrypted."""

    name = models.CharField(max_length=40, unique=True)
    value = EncryptedTextField()

    def __str__(self) -> str:
        return self.name


class ConfigVersion(models.Model):
    """One row: moved in the transaction of every change that the gateway's processes must see."""

    version = models.PositiveBigIntegerField(default=1)

    class Meta:
        constraints = (models.CheckConstraint(condition=Q(pk=1), name="config_version_single_row"),)

    def __str__(self) -> str:
        return str(self.version)


class AlertKind(models.TextChoices):
    KEY_DEAD = "key_dead", _("upstream key dead")
    NEW_SECRET = "new_secret", _("new secret refused, old one in use")
    NO_BALANCE = "no_balance", _("account out of balance")
    QUOTA = "quota", _("quota used up")
    LOW_POOL = "low_pool", _("few usable keys left")
    ERROR_RATE = "error_rate", _("many failures")
    UNPRICED = "unpriced", _("model without a price")
    BUDGET = "budget", _("budget threshold")
    FORECAST = "forecast", _("money runs out inside the period")
    MAIL = "mail", _("mail cannot be sent")
    RECORDING = "recording", _("records cannot be written")


class Alert(models.Model):
    """Something that people must know: one row per entry into a state, closed when it is over."""

    TENANT_PATH: ClassVar[str] = "tenant"

    tenant = models.ForeignKey(
        Tenant, verbose_name=_("team"), null=True, blank=True, on_delete=models.CASCADE, related_name="alerts"
    )
    kind = models.CharField(_("kind"), max_length=20, choices=AlertKind.choices)
    subject = models.CharField(_("about"), max_length=200, help_text=_("What it is about; the same while it lasts."))
    text = models.TextField(_("text"))
    details = models.JSONField(_("details"), default=dict, blank=True)
    opened = models.DateTimeField(_("opened"), default=now)
    closed = models.DateTimeField(pgettext_lazy("alert", "closed"), null=True, blank=True)

    objects = TenantQuerySet["Alert"].as_manager()

    class Meta:
        verbose_name = _("alert")
        verbose_name_plural = _("alerts")
        ordering = ("-opened",)
        constraints = (
            # What makes raising an alert safe to run twice: the second open row is refused here.
            models.UniqueConstraint(
                fields=["tenant", "kind", "subject"], condition=Q(closed=None), name="one_open_alert_per_subject"
            ),
            models.UniqueConstraint(
                fields=["kind", "subject"],
                condition=Q(closed=None, tenant=None),
                name="one_open_platform_alert_per_subject",
            ),
            models.CheckConstraint(condition=Q(closed=None) | Q(closed__gte=F("opened")), name="alert_closes_later"),
        )

    def __str__(self) -> str:
        return f"{self.get_kind_display()}: {self.subject}"


class AlertWatch(models.Model):
    """What an alert waits for: since when its condition has been so, as its sweep saw it. One row while it matters."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="watches")
    kind = models.CharField(max_length=20, choices=AlertKind.choices)
    subject = models.CharField(max_length=200)
    wrong = models.BooleanField()
    since = models.DateTimeField()
    seen = models.DateTimeField()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["tenant", "kind", "subject"], name="one_watch_per_alert_subject"),
        )

    def __str__(self) -> str:
        return f"{self.kind}: {self.subject}"


class AlertDelivery(models.Model):
    """One mail or webhook call of an alert. The row is the queue: claimed before sending."""

    TENANT_PATH: ClassVar[str] = "alert__tenant"

    class Channel(models.TextChoices):
        MAIL = "mail", _("mail")
        WEBHOOK = "webhook", _("webhook")

    class Occasion(models.TextChoices):
        OPENED = "opened", _("opened")
        RESOLVED = "resolved", _("resolved")

    class Status(models.TextChoices):
        PENDING = "pending", _("pending")
        CLAIMED = "claimed", _("being sent")
        SENT = "sent", _("sent")
        FAILED = "failed", _("failed")

    alert = models.ForeignKey(Alert, verbose_name=_("alert"), on_delete=models.CASCADE, related_name="deliveries")
    channel = models.CharField(_("channel"), max_length=8, choices=Channel.choices)
    occasion = models.CharField(_("occasion"), max_length=8, choices=Occasion.choices, default=Occasion.OPENED)
    target = models.CharField(_("to"), max_length=500)
    status = models.CharField(_("status"), max_length=8, choices=Status.choices, default=Status.PENDING)
    tries = models.PositiveIntegerField(_("tries"), default=0)
    error = models.CharField(_("error"), max_length=500, blank=True)
    created = models.DateTimeField(_("created"), default=now)
    due = models.DateTimeField(_("due"), default=now)
    sent = models.DateTimeField(_("sent"), null=True, blank=True)

    objects = TenantQuerySet["AlertDelivery"].as_manager()

    class Meta:
        verbose_name = _("alert delivery")
        verbose_name_plural = _("alert deliveries")
        ordering = ("-created",)
        constraints = (
            models.UniqueConstraint(
                fields=["alert", "channel", "occasion", "target"], name="one_delivery_per_alert_and_target"
            ),
        )
        indexes = (
            # The sweep that sends what is due.
            models.Index(fields=["due"], condition=Q(status="pending"), name="alert_delivery_due"),
        )

    def __str__(self) -> str:
        return f"{self.channel} → {self.target}"


class AuditEntry(models.Model):
    """Who wrote what and when. Field names and harmless values; never a secret."""

    TENANT_PATH: ClassVar[str] = "tenant"

    tenant = models.ForeignKey(
        Tenant, verbose_name=_("team"), null=True, blank=True, on_delete=models.SET_NULL, related_name="audit"
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, verbose_name=_("person"), null=True, blank=True, on_delete=models.SET_NULL
    )
    username = models.CharField(_("person"), max_length=150, blank=True)
    at = models.DateTimeField(_("when"), default=now)
    action = models.CharField(_("action"), max_length=40)
    model = models.CharField(_("kind of object"), max_length=100)
    object_id = models.CharField(_("object id"), max_length=64, blank=True)
    object_name = models.CharField(_("object"), max_length=200, blank=True)
    fields = models.JSONField(_("fields"), default=dict, blank=True)

    objects = TenantQuerySet["AuditEntry"].as_manager()

    class Meta:
        verbose_name = _("audit entry")
        verbose_name_plural = _("audit log")
        ordering = ("-at", "-pk")
        indexes = (
            # The audit page of a tenant, newest first.
            models.Index(fields=["tenant", "-at"], name="audit_tenant_at"),
            # The audit page of the operator.
            models.Index(fields=["-at"], name="audit_at"),
        )

    def __str__(self) -> str:
        return f"{self.username} {self.action} {self.model} {self.object_name}"
