"""What stands between a person and the admin: second factors, recovery codes, waits after failed logins."""

from django.conf import settings
from django.db import models
from django.utils.timezone import now
from django.utils.translation import gettext_lazy as _

from tenants.encryption import EncryptedTextField


class SecondFactor(models.Model):
    """A person's authenticator app. Asked for once it is confirmed."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, verbose_name=_("person"), on_delete=models.CASCADE, related_name="second_factor"
    )
    secret = EncryptedTextField(_("secret"))  # base 32, as the app takes it
    # The time step of the last code that was taken: none is taken twice.
    last_step = models.BigIntegerField(default=0)
    confirmed = models.DateTimeField(_("confirmed"), null=True, blank=True)
    created = models.DateTimeField(_("created"), default=now, editable=False)

    class Meta:
        verbose_name = _("second factor")
        verbose_name_plural = _("second factors")

    def __str__(self) -> str:
        return str(self.user)


class RecoveryCode(models.Model):
    """Stands in for the app once. Only its keyed hash is kept."""

    factor = models.ForeignKey(SecondFactor, on_delete=models.CASCADE, related_name="recovery_codes")
    digest = models.CharField(max_length=64)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["factor", "digest"], name="recovery_code_once_per_factor"),)

    def __str__(self) -> str:
        return f"#{self.pk}"


class LoginThrottle(models.Model):
    """Failures in a row. Names and addresses are kept as keyed hashes: people type passwords into the wrong field."""

    account = models.CharField(max_length=64, blank=True)  # empty = any
    address = models.CharField(max_length=64, blank=True)  # empty = any
    failures = models.PositiveIntegerField(default=0)
    last = models.DateTimeField(default=now)
    until = models.DateTimeField(null=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["account", "address"], name="one_throttle_per_pair"),)
        indexes = (
            # What is forgotten by and by.
            models.Index(fields=["last"], name="login_throttle_last"),
        )

    def __str__(self) -> str:
        return f"#{self.pk}"
