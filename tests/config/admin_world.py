"""Two teams with a row of every kind, and a person of every role: what the admin's tests walk over."""

from dataclasses import dataclass
from datetime import date
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Model

from billing.models import BudgetAlert, Statement
from keys.models import KeyEvent, WordingRule
from tenants.models import Alert, AlertDelivery, AuditEntry, BusinessLine, GatewayKey, Membership, Tenant
from tests import factories
from tests.factories import NOON

UPSTREAM_SECRET = "sk-upstream-never-shown-{}-0123456789abcdef"
WEBHOOK = "https://hooks.example.com/services/never-shown-{}"
WEBHOOK_SECRET = "webhook-never-shown-{}"
HEADER = "header-never-shown-{}"


@dataclass(frozen=True)
class Team:
    """`rows` by model label; every name in them begins with the team's mark."""

    mark: str
    tenant: Tenant
    line: BusinessLine
    gateway_key: GatewayKey
    gateway_secret: str
    rows: dict[str, Model]

    @property
    def secrets(self) -> list[str]:
        """What no page may ever show."""
        shown = (UPSTREAM_SECRET, WEBHOOK, WEBHOOK_SECRET, HEADER)
        return [text.format(self.mark) for text in shown] + [self.gateway_secret]


def team(mark: str) -> Team:
    """Make a tenant that has a row in every table that tenants own."""
    tenant = factories.TenantFactory(
        slug=mark, name=f"{mark} team", alert_webhook=WEBHOOK.format(mark), webhook_secret=WEBHOOK_SECRET.format(mark)
    )
    line = factories.LineFactory(tenant=tenant, slug=f"{mark}-line", name=f"{mark} line")
    secret = f"sk-pm-{mark}".ljust(46, "0")
    key = factories.GatewayKeyFactory(line=line, name=f"{mark}-gw", secret=secret)
    account = factories.AccountFactory(tenant=tenant, name=f"{mark}-account")
    upstream = factories.UpstreamFactory(
        tenant=tenant, name=f"{mark}-upstream", headers={"X-Team": HEADER.format(mark)}, model_list=[f"{mark}-model"]
    )
    upstream_key = factories.UpstreamKeyFactory(
        upstream=upstream, account=account, name=f"{mark}-key", secret=UPSTREAM_SECRET.format(mark)
    )
    group = factories.GroupFactory(tenant=tenant, name=f"{mark}-group", last_resort=upstream)
    route = factories.RouteFactory(tenant=tenant, name=f"{mark}-route", is_default=True)
    record = factories.RecordFactory(line=line, created=NOON, key_name=f"{mark}-gw", upstream=f"{mark}-upstream")
    budget = factories.BudgetFactory(tenant=tenant, line=line)
    alert = Alert.objects.create(tenant=tenant, kind="key_dead", subject=f"{mark}-subject", text=f"{mark} is dead")
    made: list[Any] = [
        tenant, line, key, account, upstream, upstream_key, group, route, record, budget, alert,
        factories.MemberFactory(group=group, upstream=upstream),
        factories.RuleFactory(route=route, name=f"{mark}-rule", group=group),
        factories.LineRouteFactory(line=line, route=route),
        factories.AttemptFactory(record=record, upstream=f"{mark}-upstream"),
        factories.LedgerEntryFactory(record=record, note=f"{mark} note"),
        factories.PriceFactory(tenant=tenant, model=f"{mark}-model"),
        AlertDelivery.objects.create(alert=alert, channel="mail", target=f"{mark}@example.com"),
        AuditEntry.objects.create(tenant=tenant, action="changed", model="x.Y", object_name=f"{mark}-thing"),
        BudgetAlert.objects.create(budget=budget, period_start=NOON, amount=1, threshold=80),
        KeyEvent.objects.create(tenant=tenant, upstream_key=upstream_key, before="healthy", after="dead",
                                message=f"{mark} refused"),
        Statement.objects.create(tenant=tenant, month=date(2026, 10, 1), csv=f"{mark}".encode(), digest="0" * 64,
                                 total_charge=1, payable=1, currency="USD", closed_by=f"{mark}-person"),
        Membership.objects.create(user=person(f"{mark}-member"), tenant=tenant, role="viewer"),
    ]  # fmt: skip
    return Team(mark, tenant, line, key, secret, {row._meta.label: row for row in made})


def shared_rows() -> dict[str, Model]:
    """Make a row in every table that no tenant owns."""
    made: list[Any] = [
        factories.ExchangeRateFactory(),
        WordingRule.objects.create(name="own", pattern="no more credit", cause="insufficient_balance"),
    ]
    return {row._meta.label: row for row in made}


def person(username: str, **fields: Any) -> User:
    """Make someone who may come in and sees nothing yet; without a password, whose hashing would take its time."""
    return User.objects.create(username=username, is_staff=True, password="!", **fields)


def member(tenant: Tenant, role: str) -> User:
    """Make someone with a role in a team."""
    user = person(f"{tenant.slug}-{role}")
    Membership.objects.create(user=user, tenant=tenant, role=role)
    return user
