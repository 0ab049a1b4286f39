"""One row per admitted request, one per attempt."""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils.timezone import now
from django.utils.translation import gettext_lazy as _

from billing.models.fields import UsageFields, money
from tenants.encryption import EncryptedTextField
from tenants.managers import TenantQuerySet
from tenants.models import BusinessLine, Tenant


class RequestRecord(UsageFields):
    """One admitted client request. Copies the names it used, so that later edits leave history alone.

    Lines and gateway keys are referenced without a database constraint: they may be deleted, the record stays.
    """

    TENANT_PATH: ClassVar[str] = "tenant"

    class Status(models.TextChoices):
        FINISHED = "finished", _("finished")
        FAILED = "failed", _("failed")
        CANCELLED = "cancelled", _("cancelled")

    request_id = models.CharField(_("request id"), max_length=40, unique=True)
    tenant = models.ForeignKey(
        Tenant, verbose_name=_("team"), on_delete=models.PROTECT, db_index=False, related_name="records"
    )
    line = models.ForeignKey(
        BusinessLine, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="records"
    )
    line_slug = models.CharField(_("line"), max_length=64)
    line_name = models.CharField(_("line name"), max_length=200)
    gateway_key_id = models.BigIntegerField()
    key_name = models.CharField(_("gateway key"), max_length=100)
    key_last4 = models.CharField(_("last four"), max_length=4)
    created = models.DateTimeField(_("received"))
    day = models.DateField(_("day in the team's zone"))
    dialect = models.CharField(_("dialect"), max_length=20)
    endpoint = models.CharField(_("endpoint"), max_length=60)
    stream = models.BooleanField(_("streamed"), default=False)
    model_requested = models.CharField(_("model asked"), max_length=200)
    model_served = models.CharField(_("model served"), max_length=200, blank=True)
    status = models.CharField(_("status"), max_length=12, choices=Status.choices)
    http_status = models.PositiveSmallIntegerField(_("HTTP status"), null=True)
    error_code = models.CharField(_("error code"), max_length=60, blank=True)
    message = models.CharField(_("message"), max_length=500, blank=True)
    refusal_limit = models.CharField(_("refused by"), max_length=120, blank=True)
    refusal_until = models.DateTimeField(_("refused until"), null=True)
    duration_ms = models.PositiveIntegerField(_("duration (ms)"))
    first_content_ms = models.PositiveIntegerField(_("first content (ms)"), null=True)
    session = models.CharField(_("session"), max_length=12, blank=True)
    # Part of the hash under which the conversation is remembered; "" = it had no identity.
    conversation = models.CharField(_("conversation"), max_length=16, blank=True, default="")
    route = models.CharField(_("route"), max_length=64, blank=True)
    rule = models.CharField(_("rule"), max_length=64, blank=True)
    group = models.CharField(_("group"), max_length=64, blank=True)
    upstream = models.CharField(_("upstream"), max_length=64, blank=True)
    upstream_key_id = models.BigIntegerField(null=True)
    upstream_key = models.CharField(_("upstream key"), max_length=80, blank=True)
    attempt_count = models.PositiveSmallIntegerField(_("attempts"), default=0)
    skips_left_out = models.PositiveIntegerField(default=0)
    decision = models.JSONField(_("decision"), default=dict, blank=True)
    usage_flags = models.JSONField(_("odd token figures"), default=list, blank=True)
    charge = money(_("charge"), null=True)
    cost = money(_("cost"), null=True)
    waste = money(_("waste"), null=True)
    currency = models.CharField(_("currency"), max_length=3)
    priced = models.BooleanField(_("priced"), default=False)
    estimated = models.BooleanField(_("estimated"), default=False)
    price_id = models.BigIntegerField(null=True)
    price = models.JSONField(_("price used"), default=dict, blank=True)
    replay_of = models.CharField(_("replay of"), max_length=40, blank=True)

    objects = TenantQuerySet["RequestRecord"].as_manager()

    class Meta:
        verbose_name = _("request")
        verbose_name_plural = _("requests")
        ordering = ("-pk",)
        constraints = (
            models.CheckConstraint(
                condition=Q(status__in=["finished", "failed", "cancelled"]), name="record_has_one_known_ending"
            ),
            models.CheckConstraint(condition=Q(charge=None) | Q(priced=True), name="unpriced_is_never_an_amount"),
        )
        indexes = (
            # The request list of a tenant, newest first; the monthly CSV of a tenant.
            models.Index(fields=["tenant", "day", "id"], name="record_tenant_day"),
            # The request list, newest first: of all, of a line, gateway key, upstream key, model, ending.
            models.Index(fields=["day", "id"], name="record_day"),
            models.Index(fields=["line", "day", "id"], name="record_line_day"),
            models.Index(fields=["gateway_key_id", "day", "id"], name="record_gateway_key_day"),
            models.Index(
                fields=["upstream_key_id", "day", "id"],
                condition=Q(upstream_key_id__isnull=False),
                name="record_upstream_key_day",
            ),
            models.Index(fields=["model_served", "day", "id"], name="record_model_day"),
            models.Index(fields=["status", "day", "id"], condition=~Q(status="finished"), name="record_not_finished"),
            models.Index(fields=["day", "id"], condition=~Q(refusal_limit=""), name="record_refused"),
            models.Index(fields=["day", "id"], condition=Q(priced=False), name="record_not_priced"),
            # GET /v1/requests of a line, newest first.
            models.Index(fields=["line", "-id"], name="record_line_id"),
            # The hours that are rolled up; retention.
            models.Index(fields=["created"], name="record_created"),
            # "Has a record used this price?"
            models.Index(fields=["price_id"], condition=Q(price_id__isnull=False), name="record_price"),
            # Reprice and the unpriced alert.
            models.Index(
                fields=["tenant", "day"], condition=Q(priced=False, status="finished"), name="record_unpriced"
            ),
        )

    def __str__(self) -> str:
        return self.request_id


class Attempt(UsageFields):
    """One exchange with one upstream key, or a recorded skip."""

    TENANT_PATH: ClassVar[str] = "record__tenant"

    record = models.ForeignKey(
        RequestRecord, verbose_name=_("request"), on_delete=models.CASCADE, db_index=False, related_name="attempts"
    )
    n = models.PositiveSmallIntegerField(_("number"))
    upstream = models.CharField(_("upstream"), max_length=64)
    upstream_key_id = models.BigIntegerField(null=True)
    upstream_key = models.CharField(_("upstream key"), max_length=80)
    account_id = models.BigIntegerField(null=True)
    model_sent = models.CharField(_("model sent"), max_length=200, blank=True)
    outcome = models.CharField(_("outcome"), max_length=24, blank=True)
    content = models.BooleanField(_("content reached the client"), default=False)
    skipped = models.CharField(_("skipped"), max_length=12, blank=True)
    status = models.PositiveSmallIntegerField(_("HTTP status"), null=True)
    started_ms = models.PositiveIntegerField(_("started (ms)"), default=0)
    ms = models.PositiveIntegerField(_("duration (ms)"), null=True)
    queued_ms = models.PositiveIntegerField(_("queued (ms)"), default=0)
    first_content_ms = models.PositiveIntegerField(_("first content (ms)"), null=True)
    message = models.CharField(_("message"), max_length=500, blank=True)
    reason = models.CharField(_("reason"), max_length=200, blank=True)
    evidence = models.CharField(_("evidence"), max_length=120, blank=True)
    upstream_request_id = models.CharField(_("upstream's request id"), max_length=120, blank=True)
    cost = money(_("cost"), null=True)
    waste = money(_("waste"), null=True)

    objects = TenantQuerySet["Attempt"].as_manager()

    class Meta:
        verbose_name = _("attempt")
        verbose_name_plural = _("attempts")
        ordering = ("record", "n")
        constraints = (models.UniqueConstraint(fields=["record", "n"], name="attempt_number_once_per_record"),)
        indexes = (
            # The exchanges with a key, newest first.
            models.Index(
                fields=["upstream_key_id", "-record"],
                condition=Q(upstream_key_id__isnull=False, skipped=""),
                name="attempt_key",
            ),
        )

    def __str__(self) -> str:
        return f"{self.n}: {self.upstream}"


class StoredAnswer(models.Model):
    """An answer kept for `Idempotency-Key`, encrypted, for 24 hours; an empty body was too large to be kept.

    Without a database constraint on the line: it is written together with the record, which outlives its line.
    """

    TENANT_PATH: ClassVar[str] = "line__tenant"

    line = models.ForeignKey(
        BusinessLine, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="stored_answers"
    )
    key_digest = models.CharField(max_length=64)
    body_digest = models.CharField(max_length=64)
    request_id = models.CharField(max_length=40)
    status = models.PositiveSmallIntegerField()
    headers = models.JSONField(default=dict)
    body = EncryptedTextField()
    created = models.DateTimeField(default=now)

    objects = TenantQuerySet["StoredAnswer"].as_manager()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["line", "key_digest"], name="one_answer_per_line_and_idempotency_key"),
        )
        indexes = (
            # Retention.
            models.Index(fields=["created"], name="stored_answer_created"),
        )

    def __str__(self) -> str:
        return self.request_id
