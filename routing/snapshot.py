"""The routing table of a process: read whole from the database, replaced whole when the version counter moves."""

import logging
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from django.db import DatabaseError, InterfaceError, connection, connections, transaction

from billing.models import Budget
from billing.pricebook import read_prices
from billing.spent import read_budgets
from keys.core.addresses import complete_base_url
from keys.core.dialect import Dialect
from keys.core.policy import Policy, overridden
from keys.core.windows import Caps
from keys.models import Account, Upstream, UpstreamKey
from keys.wordings import read_rules
from routing.core.table import (
    AccountInfo,
    GatewayKeyInfo,
    GroupInfo,
    KeyInfo,
    LineInfo,
    MemberInfo,
    RouteInfo,
    RoutingTable,
    RuleInfo,
    TenantInfo,
    Timeouts,
    UpstreamInfo,
)
from routing.models import GroupMember, LineRoute, Route, RoutingRule, StrategyGroup
from tenants.models import BusinessLine, ConfigVersion, GatewayKey, Tenant
from tenants.services import GATEWAY_HASH, installation_secret

logger = logging.getLogger(__name__)

POLL_S = 0.5


def read_table() -> RoutingTable:
    """Read everything that requests are decided by, in one consistent look at the database.

    Raises DatabaseError when it is down and UndecryptableError when the encryption keys do not fit.
    """
    outermost = not connection.in_atomic_block
    with transaction.atomic():
        if outermost and connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        tenants = {row.pk: row for row in Tenant.objects.all()}
        return RoutingTable(
            version=current_version(),
            tenants={pk: _tenant(row) for pk, row in tenants.items()},
            lines=_lines(),
            gateway_keys=_gateway_keys(),
            upstreams=_upstreams(),
            accounts={row.pk: _account(row) for row in Account.objects.all()},
            groups=_groups(),
            routes=_routes(),
            default_routes=dict(Route.objects.filter(is_default=True).values_list("tenant_id", "pk")),
            prices=read_prices({pk: row.timezone for pk, row in tenants.items()}),
            budgets=read_budgets(),
            wordings=read_rules(),
        )


def current_version() -> int:
    """Return the configuration's version; 0 before the first migration's row."""
    return ConfigVersion.objects.filter(pk=1).values_list("version", flat=True).first() or 0


def _tenant(row: Tenant) -> TenantInfo:
    return TenantInfo(row.pk, row.slug, row.name, row.timezone, row.currency, row.enabled)


def caps_of(row: Any) -> Caps:
    """Return the limits of a line, a gateway key or an upstream key; what its table lacks is unlimited."""
    return Caps(
        rpm=row.rpm,
        tpm=row.tpm,
        per_hour=getattr(row, "per_hour", None),
        per_day=row.per_day,
        tokens_per_day=getattr(row, "tokens_per_day", None),
        concurrency=row.concurrency,
    )


def _lines() -> dict[int, LineInfo]:
    routes = dict(LineRoute.objects.values_list("line_id", "route_id"))
    hard = Budget.objects.filter(hard=True, account=None).values_list("tenant_id", "line_id")
    hard_tenants = {tenant for tenant, line in hard if line is None}
    hard_lines = {line for _tenant, line in hard if line is not None}
    found = {}
    for row in BusinessLine.objects.all():
        bound = row.pk in hard_lines or row.tenant_id in hard_tenants
        found[row.pk] = LineInfo(
            id=row.pk,
            tenant_id=row.tenant_id,
            slug=row.slug,
            name=row.name,
            route_id=routes.get(row.pk),
            models=tuple(row.model_globs),
            limits=caps_of(row),
            charge_multiplier=row.charge_multiplier,
            on_unpriced=row.on_unpriced or ("refuse" if bound else "serve"),
            history=row.history,
            batch=row.line_class == "batch",
            enabled=row.enabled,
        )
    return found


def _gateway_keys() -> dict[str, GatewayKeyInfo]:
    """Return the keys by the hashes of their secrets. An old secret is the same key with an end; a present one wins."""
    rows = list(GatewayKey.objects.all())
    old = {row.old_digest: _gateway_key(row, old=True) for row in rows if row.old_digest}
    return old | {row.digest: _gateway_key(row) for row in rows}


def _gateway_key(row: GatewayKey, *, old: bool = False) -> GatewayKeyInfo:
    ends = (row.expires, row.old_until if old else None)
    return GatewayKeyInfo(
        id=row.pk,
        line_id=row.line_id,
        name=row.name,
        last4=row.old_last4 if old else row.last4,
        limits=caps_of(row),
        expires=min((end for end in ends if end is not None), default=None),
        enabled=row.enabled and row.revoked is None,
    )


def _account(row: Account) -> AccountInfo:
    return AccountInfo(
        id=row.pk,
        name=row.name,
        quota_timezone=row.quota_timezone,
        credit_amount=row.credit_amount,
        credit_currency=row.credit_currency,
        credit_period=row.credit_period,
    )


def _key(row: UpstreamKey) -> KeyInfo:
    return KeyInfo(
        id=row.pk,
        upstream_id=row.upstream_id,
        name=row.name,
        tail=row.tail,
        epoch=row.epoch,
        account_id=row.account_id,
        secret=row.secret,
        weight=row.weight,
        limits=caps_of(row),
        policy=row.policy,
        enabled=row.enabled,
    )


def _upstreams() -> dict[int, UpstreamInfo]:
    keys: defaultdict[int, list[KeyInfo]] = defaultdict(list)
    for key in UpstreamKey.objects.defer("old_secret").order_by("pk"):
        keys[key.upstream_id].append(_key(key))
    return {row.pk: _upstream(row, tuple(keys[row.pk])) for row in Upstream.objects.all()}


def _models_of(row: Upstream) -> tuple[str, ...] | None:
    """Return the models that an upstream serves; None = unknown. "auto" is unknown until it was first read."""
    if row.model_list == "auto":
        return tuple(dict.fromkeys([*row.read_models, *row.extra_models])) if row.read_models else None
    return None if row.model_list is None else tuple(dict.fromkeys([*row.model_list, *row.extra_models]))


def _upstream(row: Upstream, keys: tuple[KeyInfo, ...]) -> UpstreamInfo:
    dialect = Dialect(row.dialect)
    return UpstreamInfo(
        id=row.pk,
        tenant_id=row.tenant_id,
        name=row.name,
        dialect=dialect,
        base_url=complete_base_url(dialect, row.base_url),
        models=_models_of(row),
        aliases=row.aliases,
        max_context_tokens=row.max_context_tokens,
        cost_multiplier=row.cost_multiplier,
        rotation=row.rotation,
        auth=row.auth,
        usage_semantics=row.usage_semantics,
        headers=row.headers,
        timeouts=Timeouts(row.timeouts.get("connect_s"), row.timeouts.get("silence_s")),
        keys=keys,
        enabled=row.enabled,
    )


def _groups() -> dict[int, GroupInfo]:
    members: defaultdict[int, list[MemberInfo]] = defaultdict(list)
    for member in GroupMember.objects.order_by("position", "pk"):
        members[member.group_id].append(MemberInfo(member.upstream_id, member.weight))
    return {
        row.pk: GroupInfo(
            id=row.pk,
            tenant_id=row.tenant_id,
            name=row.name,
            strategy=row.strategy,
            basis=row.basis,
            members=tuple(members[row.pk]),
            last_resort_id=row.last_resort_id,
            stream_hold=row.stream_hold,
            policy=overridden(Policy(), row.policy),
        )
        for row in StrategyGroup.objects.all()
    }


def _routes() -> dict[int, RouteInfo]:
    rules: defaultdict[int, list[RuleInfo]] = defaultdict(list)
    for rule in RoutingRule.objects.filter(enabled=True).order_by("position", "pk"):
        rules[rule.route_id].append(
            RuleInfo(
                id=rule.pk,
                name=rule.name,
                when=rule.when,
                set=rule.set,
                group_id=rule.group_id,
                upstream_id=rule.upstream_id,
                deny=rule.deny or None,
                proceed=rule.proceed,
            )
        )
    return {row.pk: RouteInfo(row.pk, row.tenant_id, row.name, tuple(rules[row.pk])) for row in Route.objects.all()}


class Keeper:
    """Holds a process's routing table and renews it from a thread of its own.

    While the database is down the last table stays in use. `table` is None until the first one could be read.
    """

    def __init__(self, on_change: Callable[[RoutingTable], None] | None = None) -> None:
        self.table: RoutingTable | None = None
        self.hash_key: bytes = b""
        self.healthy = False  # whether the last look at the database succeeded
        self._on_change = on_change
        self._stop = threading.Event()
        self._looking = threading.Lock()
        self._looked = threading.Event()
        self._thread = threading.Thread(target=self._work, name="snapshot", daemon=True)

    def start(self) -> None:
        """Start looking; return once the first look is over, whether the database answered or not."""
        self._thread.start()
        self._looked.wait()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(5)

    def refresh(self) -> None:
        """Look now; for tests and for the process that made the change."""
        self._look()

    def _work(self) -> None:
        try:
            self._look()
            self._looked.set()
            while not self._stop.wait(POLL_S):
                self._look()
        finally:
            self._looked.set()
            connections.close_all()

    def _look(self) -> None:
        with self._looking:  # or a slow look would put an older table back
            self._look_now()

    def _look_now(self) -> None:
        try:
            if not self.hash_key:
                self.hash_key = installation_secret(GATEWAY_HASH)
            if self.table is None or current_version() != self.table.version:
                self.table = read_table()
                if self._on_change is not None:
                    self._on_change(self.table)
        except (DatabaseError, InterfaceError) as problem:
            if self.healthy:
                logger.error("the configuration cannot be read, the last one stays in use: %s", type(problem).__name__)
            self.healthy = False
            connections.close_all()
        else:
            self.healthy = True
