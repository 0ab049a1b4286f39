"""Where a request goes: strategy groups, routes and their rules."""

from typing import ClassVar

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from keys.models import Upstream
from tenants.managers import TenantQuerySet
from tenants.models import BusinessLine, Tenant, slug_validator


class Strategy(models.TextChoices):
    PRIORITY = "priority", _("in the listed order")
    ROUND_ROBIN = "round_robin", _("round robin")
    WEIGHTED = "weighted", _("weighted")
    LEAST_USED = "least_used", _("least used")
    RANDOM = "random", _("random")
    FASTEST = "fastest", _("fastest first content")
    CHEAPEST = "cheapest", _("cheapest")
    HEADROOM = "headroom", _("most requests left")


class Basis(models.TextChoices):
    SHARE = "share", _("share")
    SPEED = "speed", _("speed")
    STABILITY = "stability", _("stability")
    SPEED_AND_STABILITY = "speed_and_stability", _("speed and stability")


class StreamHold(models.TextChoices):
    FIRST_CONTENT = "first_content", _("until first content")
    FULL = "full", _("the whole answer")


class StrategyGroup(models.Model):
    """Ordered members, a strategy, and a failover policy."""

    TENANT_PATH: ClassVar[str] = "tenant"

    tenant = models.ForeignKey(Tenant, verbose_name=_("team"), on_delete=models.CASCADE, related_name="groups")
    name = models.CharField(_("name"), max_length=64, validators=[slug_validator])
    strategy = models.CharField(_("strategy"), max_length=16, choices=Strategy.choices, default=Strategy.PRIORITY)
    basis = models.CharField(_("basis of weights"), max_length=24, choices=Basis.choices, default=Basis.SHARE)
    last_resort = models.ForeignKey(
        Upstream,
        verbose_name=_("last resort"),
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="last_resort_of",
    )
    stream_hold = models.CharField(
        _("hold streams"), max_length=16, choices=StreamHold.choices, default=StreamHold.FIRST_CONTENT
    )
    policy = models.JSONField(_("policy"), default=dict, blank=True)

    objects = TenantQuerySet["StrategyGroup"].as_manager()

    class Meta:
        verbose_name = _("strategy group")
        verbose_name_plural = _("strategy groups")
        ordering = ("tenant", "name")
        constraints = (
            models.UniqueConstraint(fields=["tenant", "name"], name="group_name_once_per_tenant"),
            models.CheckConstraint(condition=Q(strategy__in=Strategy.values), name="group_strategy_known"),
        )

    def __str__(self) -> str:
        return self.name


class GroupMember(models.Model):
    """An upstream's place in a strategy group."""

    TENANT_PATH: ClassVar[str] = "group__tenant"

    group = models.ForeignKey(StrategyGroup, verbose_name=_("group"), on_delete=models.CASCADE, related_name="members")
    upstream = models.ForeignKey(
        Upstream, verbose_name=_("upstream"), on_delete=models.PROTECT, related_name="memberships"
    )
    position = models.PositiveIntegerField(_("position"), default=0)
    weight = models.PositiveIntegerField(_("weight"), default=1, validators=[MinValueValidator(1)])

    objects = TenantQuerySet["GroupMember"].as_manager()

    class Meta:
        verbose_name = _("group member")
        verbose_name_plural = _("group members")
        ordering = ("group", "position", "pk")
        constraints = (
            models.UniqueConstraint(fields=["group", "upstream"], name="upstream_once_per_group"),
            models.CheckConstraint(condition=Q(weight__gte=1), name="group_member_weight_positive"),
        )

    def __str__(self) -> str:
        return f"{self.group} ← {self.upstream}"


class Route(models.Model):
    """An ordered list of rules; the first match with a target decides."""

    TENANT_PATH: ClassVar[str] = "tenant"

    tenant = models.ForeignKey(Tenant, verbose_name=_("team"), on_delete=models.CASCADE, related_name="routes")
    name = models.CharField(_("name"), max_length=64, validators=[slug_validator])
    is_default = models.BooleanField(_("default"), default=False)

    objects = TenantQuerySet["Route"].as_manager()

    class Meta:
        verbose_name = _("route")
        verbose_name_plural = _("routes")
        ordering = ("tenant", "name")
        constraints = (
            models.UniqueConstraint(fields=["tenant", "name"], name="route_name_once_per_tenant"),
            models.UniqueConstraint(
                fields=["tenant"], condition=Q(is_default=True), name="one_default_route_per_tenant"
            ),
        )

    def __str__(self) -> str:
        return self.name


class RoutingRule(models.Model):
    """Conditions and what follows from them, as in the declarative file."""

    TENANT_PATH: ClassVar[str] = "route__tenant"

    route = models.ForeignKey(Route, verbose_name=_("route"), on_delete=models.CASCADE, related_name="rules")
    position = models.PositiveIntegerField(_("position"), default=0)
    name = models.CharField(_("name"), max_length=64, validators=[slug_validator])
    when = models.JSONField(_("when"), default=dict, blank=True)
    set = models.JSONField(_("set"), default=dict, blank=True)
    group = models.ForeignKey(
        StrategyGroup,
        verbose_name=_("group"),
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="rules",
    )
    upstream = models.ForeignKey(
        Upstream, verbose_name=_("upstream"), null=True, blank=True, on_delete=models.PROTECT, related_name="rules"
    )
    deny = models.CharField(_("deny with"), max_length=300, blank=True)
    proceed = models.BooleanField(_("continue with the next rule"), default=False)
    enabled = models.BooleanField(_("enabled"), default=True)

    objects = TenantQuerySet["RoutingRule"].as_manager()

    class Meta:
        verbose_name = _("routing rule")
        verbose_name_plural = _("routing rules")
        ordering = ("route", "position", "pk")
        constraints = (
            models.UniqueConstraint(fields=["route", "name"], name="rule_name_once_per_route"),
            models.CheckConstraint(
                condition=Q(group=None, upstream=None)
                | Q(group=None, deny="", upstream__isnull=False)
                | Q(upstream=None, deny="", group__isnull=False),
                name="rule_has_at_most_one_target",
            ),
        )

    def __str__(self) -> str:
        return f"{self.route}: {self.name}"


class LineRoute(models.Model):
    """The route that a line uses instead of its tenant's default."""

    TENANT_PATH: ClassVar[str] = "line__tenant"

    line = models.OneToOneField(
        BusinessLine, verbose_name=_("business line"), on_delete=models.CASCADE, related_name="line_route"
    )
    route = models.ForeignKey(Route, verbose_name=_("route"), on_delete=models.PROTECT, related_name="line_routes")

    objects = TenantQuerySet["LineRoute"].as_manager()

    class Meta:
        verbose_name = _("line's route")
        verbose_name_plural = _("lines' routes")

    def __str__(self) -> str:
        return f"{self.line} → {self.route}"
