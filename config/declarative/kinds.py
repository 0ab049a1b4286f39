"""Every kind of row that the file knows, with its fields: the format in one place.

The order of KINDS is the order of creation; rows are removed in the reverse.
"""

from typing import Any
from urllib.parse import urlsplit

from billing.core.usage import USAGE_SEMANTICS
from billing.models import ALWAYS, Budget, ExchangeRate, Price
from config.declarative import compound, readers
from config.declarative.shapes import Field, Kind, tail_shown
from keys.models import Account, AuthStyle, DialectChoice, Rotation, Upstream, UpstreamKey
from routing.models import Basis, GroupMember, Route, RoutingRule, Strategy, StrategyGroup, StreamHold
from tenants.models import BusinessLine, GatewayKey, LineClass, OnUnpriced, Tenant

# "section.field" of what is stored but not acted upon yet: setting one of these is answered with a warning.
NOT_ENFORCED: frozenset[str] = frozenset({"lines.history"})

_count = readers.whole()
_tokens = readers.whole(most=readers.BIGINT_MAX)
_ceiling = readers.ceiling()
_token_ceiling = readers.ceiling(readers.BIGINT_MAX)
_multiplier = readers.decimal(9, 9, digits=readers.FLOAT_DIGITS)


def _switch(name: str, **options: Any) -> Field:
    return Field(name, readers.switch, **options)


def _enabled() -> Field:
    # A key switched off in an emergency must not come back because a file does not mention the switch.
    return _switch("enabled", default=True, kept=True)


def _limits(*big: str, prefix: str = "", names: tuple[str, ...]) -> tuple[Field, ...]:
    return tuple(Field(prefix + name, _token_ceiling if name in big else _ceiling, column=name) for name in names)


def _line_limits() -> tuple[Field, ...]:
    names = ("rpm", "tpm", "per_day", "tokens_per_day", "concurrency")
    return _limits("tpm", "tokens_per_day", prefix="limits.", names=names)


def _host_only(value: Any) -> str:
    """Show where a webhook goes: its path is often the credential."""
    return f"{urlsplit(value).scheme}://{urlsplit(value).hostname}/…" if value else "none"


def _header_names(value: Any) -> str:
    return "{" + ", ".join(f"{name}: …" for name in value) + "}" if value else "none"


def _pack_credit(value: Any) -> dict[str, Any]:
    held = value or {"amount": None, "currency": "", "period": ""}
    return {f"credit_{name}": held[name] for name in ("amount", "currency", "period")}


def _unpack_credit(row: Any) -> Any:
    if row.credit_amount is None:
        return None
    return {"period": row.credit_period or "total", "amount": row.credit_amount, "currency": row.credit_currency}


def _price(parent: Kind | None) -> Kind:
    amounts = tuple(Field(name, readers.money) for name in Price.AMOUNTS)
    return Kind(
        section="prices",
        model=Price,
        names=("model", "from"),
        parent=parent,
        owner="tenant" if parent else "",
        whole=True,
        fields=(
            Field("model", readers.text(200), required=True),
            Field("unit", readers.choice(Price.Unit.values), default="per_million_tokens"),
            Field("currency", readers.currency, required=True),
            *amounts,
            Field("from", readers.day, column="starts", default=ALWAYS),
        ),
        loss="calls of this model fall back to another price or none",
    )


def _budget(parent: Kind, owner: str) -> Kind:
    return Kind(
        section="budgets",
        model=Budget,
        names=("period",),
        parent=parent,
        owner=owner,
        whole=True,
        fields=(
            Field("period", readers.choice(Budget.Period.values), default="month"),
            Field("amount", readers.money, required=True),
            Field("currency", readers.currency, required=True),
            Field("alert_at", compound.thresholds, default=[]),
            _switch("hard", default=False),
        ),
        loss="nothing limits or reports this spending any more",
    )


PRICE = _price(None)
RATE = Kind(
    section="exchange_rates",
    model=ExchangeRate,
    names=("from", "to", "on"),
    whole=True,
    fields=(
        Field("from", readers.currency, column="source", required=True),
        Field("to", readers.currency, column="target", required=True),
        Field("rate", readers.decimal(15, 12, positive=True, digits=readers.FLOAT_DIGITS), required=True),
        Field("on", readers.day, column="starts", required=True),
    ),
)
TENANT = Kind(
    section="tenants",
    model=Tenant,
    names=("slug",),
    fields=(
        Field("slug", readers.slug, required=True),
        Field("name", readers.text(200), kept=True),
        Field("timezone", readers.timezone, default="UTC"),
        Field("currency", readers.currency, default="USD"),
        _enabled(),
        Field("alerts.emails", readers.listing(readers.email), column="alert_emails", default=[]),
        Field("alerts.webhook", readers.url, column="alert_webhook", default="", show=_host_only),
    ),
)
TENANT_PRICE = _price(TENANT)
ACCOUNT = Kind(
    section="accounts",
    model=Account,
    names=("name",),
    parent=TENANT,
    owner="tenant",
    fields=(
        Field("name", readers.slug, required=True),
        Field("quota_timezone", readers.timezone, default="UTC"),
        Field("credit", compound.credit, pack=_pack_credit, unpack=_unpack_credit),
        Field("balance_url", readers.url, default=""),
    ),
    loss="its keys no longer share a balance",
)
ACCOUNT_BUDGET = _budget(ACCOUNT, "account")
UPSTREAM = Kind(
    section="upstreams",
    model=Upstream,
    names=("name",),
    parent=TENANT,
    owner="tenant",
    fields=(
        Field("name", readers.slug, required=True),
        Field("dialect", readers.choice(DialectChoice.values), default="openai"),
        Field("base_url", readers.base_url, required=True),
        Field("models", readers.models, column="model_list"),
        Field("extra_models", readers.names_of, default=[]),
        Field("aliases", readers.mapping(readers.text(200), readers.text(200)), default={}),
        Field("max_context_tokens", _tokens),
        Field("cost_multiplier", _multiplier, default=readers.ONE),
        Field("rotation", readers.choice(Rotation.values), default="round_robin"),
        Field("auth", readers.choice(AuthStyle.values), default=""),
        Field("usage_semantics", readers.choice(USAGE_SEMANTICS), default=""),
        Field("headers", compound.headers, default={}, show=_header_names),
        Field("timeouts", compound.timeouts, default={}),
        _enabled(),
    ),
    loss="requests no longer go there",
)
UPSTREAM_KEY = Kind(
    section="keys",
    model=UpstreamKey,
    names=("name",),
    parent=UPSTREAM,
    owner="upstream",
    secret_tail=6,
    fields=(
        Field("name", readers.slug, required=True),
        Field("secret", readers.secret, required=True, kept=True, show=tail_shown),
        Field("account", readers.text(64), ref="accounts"),
        Field("weight", _count, default=1),
        *_limits("tpm", names=("concurrency", "rpm", "tpm", "per_hour", "per_day")),
        Field("policy", compound.policy, default={}),
        _enabled(),
    ),
    loss="its stored secret is deleted, and its history of states with it",
)
GROUP = Kind(
    section="groups",
    model=StrategyGroup,
    names=("name",),
    parent=TENANT,
    owner="tenant",
    fields=(
        Field("name", readers.slug, required=True),
        Field("strategy", readers.choice(Strategy.values), default="priority"),
        Field("basis", readers.choice(Basis.values), default="share"),
        Field("last_resort", readers.text(64), ref="upstreams"),
        Field("stream_hold", readers.choice(StreamHold.values), default="first_content"),
        Field("policy", compound.policy, default={}),
    ),
)
MEMBER = Kind(
    section="members",
    model=GroupMember,
    names=("upstream",),
    parent=GROUP,
    owner="group",
    whole=True,
    ordered=True,
    fields=(
        Field("upstream", readers.text(64), ref="upstreams", required=True),
        Field("weight", _count, default=1),
    ),
    loss="the group no longer uses this upstream",
)
ROUTE = Kind(
    section="routes",
    model=Route,
    names=("name",),
    parent=TENANT,
    owner="tenant",
    fields=(
        Field("name", readers.slug, required=True),
        _switch("default", column="is_default", default=False),
    ),
)
RULE = Kind(
    section="rules",
    model=RoutingRule,
    names=("name",),
    parent=ROUTE,
    owner="route",
    whole=True,
    ordered=True,
    fields=(
        Field("name", readers.slug, required=True),
        Field("when", compound.when, default={}),
        Field("then", compound.then, required=True),
        _enabled(),
    ),
    loss="requests that it matched go by the rules below it",
)
LINE = Kind(
    section="lines",
    model=BusinessLine,
    names=("slug",),
    parent=TENANT,
    owner="tenant",
    fields=(
        Field("slug", readers.slug, required=True),
        Field("name", readers.text(200), kept=True),
        Field("route", readers.text(64), ref="routes"),
        Field("models", readers.names_of, column="model_globs", default=[]),
        *_line_limits(),
        Field("charge_multiplier", _multiplier, default=readers.ONE),
        Field("on_unpriced", readers.choice(OnUnpriced.values), default=""),
        _switch("history", default=False),
        Field("class", readers.choice(LineClass.values), column="line_class", default="interactive"),
        _enabled(),
    ),
    loss="its gateway keys stop working; recorded calls keep its name",
)
LINE_BUDGET = _budget(LINE, "line")
GATEWAY_KEY = Kind(
    section="keys",
    model=GatewayKey,
    names=("name",),
    parent=LINE,
    owner="line",
    secret_tail=4,
    fields=(
        Field("name", readers.text(100), required=True),
        Field("secret", readers.secret, kept=True, show=tail_shown),
        Field("expires", readers.moment),
        *_line_limits(),
        _enabled(),
    ),
    loss="clients that use it are refused",
)
TENANT_BUDGET = _budget(TENANT, "tenant")

KINDS: tuple[Kind, ...] = (
    PRICE,
    RATE,
    TENANT,
    TENANT_PRICE,
    ACCOUNT,
    ACCOUNT_BUDGET,
    UPSTREAM,
    UPSTREAM_KEY,
    GROUP,
    MEMBER,
    ROUTE,
    RULE,
    LINE,
    LINE_BUDGET,
    GATEWAY_KEY,
    TENANT_BUDGET,
)
# Rows that nothing else refers to: they go before new rows come, so that a secret or a place can change hands.
LEAVES: frozenset[Kind] = frozenset(
    {
        TENANT_PRICE,
        ACCOUNT_BUDGET,
        UPSTREAM_KEY,
        MEMBER,
        RULE,
        LINE_BUDGET,
        GATEWAY_KEY,
        TENANT_BUDGET,
    }
)


def children_of(parent: Kind | None) -> tuple[Kind, ...]:
    """Return the kinds whose rows stand inside a row of `parent`; None = at the top of the file."""
    return tuple(kind for kind in KINDS if kind.parent is parent)
