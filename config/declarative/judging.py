"""What single values cannot show: references, duplicates of secrets, rules that never match, groups without a spare.

Judges a whole tree, so that a file, and a database by itself, are held to the same rules.
"""

from collections.abc import Collection, Iterator
from typing import Any

from config.declarative import rule_judging
from config.declarative.inspection import Inspection, unknown_name
from config.declarative.kinds import GATEWAY_KEY, PRICE, TENANT_PRICE, UPSTREAM_KEY
from config.declarative.secrets import Secret
from config.declarative.shapes import Row, Tree

_SHORT_GATEWAY_KEY = 16  # characters; four of them are shown


def judge(tree: Tree, slugs: Collection[str], inspection: Inspection) -> None:
    """Report on global prices and rates and on the named tenants."""
    for price in tree.under((), "prices").values():
        _judge_price(price)
    for rate in tree.under((), "exchange_rates").values():
        if rate.get("from") == rate.get("to"):
            rate.spot.error("from and to are the same currency")
    for tenant in tree.under((), "tenants").values():
        if tenant.name in slugs:
            _judge_tenant(tree, tenant)
    _judge_gateway_secrets(tree)


def _judge_tenant(tree: Tree, tenant: Row) -> None:
    for row in _rows_under(tree, tenant):
        _judge_references(tree, tenant, row)
        if row.kind is TENANT_PRICE:
            _judge_price(row)
    for route in tree.under(tenant.path, "routes").values():
        rule_judging.judge_route(tree, tenant, route)
    _judge_defaults(tree, tenant)
    _judge_upstream_secrets(tree, tenant)
    _judge_groups(tree, tenant)
    _judge_currencies(tree, tenant)


def _rows_under(tree: Tree, top: Row) -> Iterator[Row]:
    """Yield the rows inside a row, at any depth."""
    depth = len(top.path)
    return (row for row in tree if len(row.path) > depth and row.path[:depth] == top.path)


def _judge_references(tree: Tree, tenant: Row, row: Row) -> None:
    for field in row.kind.fields:
        value = row.get(field.name) if field.ref else None
        if value is not None and value not in tree.under(tenant.path, field.ref):
            known = tree.under(tenant.path, field.ref)
            row.spot.key(field.name).error(unknown_name(field.ref[:-1], value, known))


def _judge_price(price: Row) -> None:
    tokens = [name for name in price.kind.model.AMOUNTS if name != "call"]  # type: ignore[attr-defined]  # Price
    stated = [name for name in tokens if price.get(name) is not None]
    has_call = price.get("call") is not None
    if price.bad:
        return
    if price.get("unit") == "per_call":
        if not has_call:
            price.spot.key("call").error("is required for a price per call")
        for name in stated:
            price.spot.key(name).error("does not belong to a price per call")
    elif has_call:
        price.spot.key("call").error("needs unit: per_call")
    elif not stated:
        price.spot.warn("states no price: calls of this model stay unpriced")
    elif price.get("input") is None or price.get("output") is None:
        missing = "input" if price.get("input") is None else "output"
        price.spot.warn(f"has no {missing} price: calls with such tokens stay unpriced")


def _judge_defaults(tree: Tree, tenant: Row) -> None:
    routes = tree.under(tenant.path, "routes").values()
    defaults = [route for route in routes if route.get("default")]
    for route in defaults[1:]:
        route.spot.key("default").error(f"{defaults[0].name} is the default already")
    lines = [line for line in tree.under(tenant.path, "lines").values() if not line.get("route")]
    if lines and not defaults:
        lines[0].spot.warn("has no route and the tenant has no default route: its calls are refused")


def _judge_upstream_secrets(tree: Tree, tenant: Row) -> None:
    seen: dict[str, Row] = {}
    for upstream in tree.under(tenant.path, "upstreams").values():
        inside: dict[str, Row] = {}
        for key in tree.under(upstream.path, UPSTREAM_KEY.section).values():
            secret = key.get("secret")
            if not isinstance(secret, Secret):
                continue
            spot = key.spot.key("secret")
            if secret.digest in inside:
                spot.error(f"is the same secret as that of key {_who(inside[secret.digest])}")
            elif secret.digest in seen:
                other = seen[secret.digest]
                spot.warn(f"is the same secret as that of {other.parent[-1]}/{other.name}: they share every limit")
            inside.setdefault(secret.digest, key)
            seen.setdefault(secret.digest, key)


def _judge_gateway_secrets(tree: Tree) -> None:
    seen: dict[str, Row] = {}
    for row in tree:
        secret = row.get("secret")
        if row.kind is not GATEWAY_KEY or not isinstance(secret, Secret):
            continue
        spot = row.spot.key("secret")
        if secret.value is not None and len(secret.value) < _SHORT_GATEWAY_KEY:
            spot.warn(f"is shorter than {_SHORT_GATEWAY_KEY} characters and can be guessed")
        if secret.digest in seen:
            other = seen[secret.digest]
            spot.error(f"is the same secret as that of {other.parent[-1]}/{_who(other)}")
        seen.setdefault(secret.digest, row)


def _who(key: Row) -> str:
    return f"{key.name} (at {key.spot.path})"


def _judge_groups(tree: Tree, tenant: Row) -> None:
    for group in tree.under(tenant.path, "groups").values():
        members = tree.under(group.path, "members")
        if not members:
            group.spot.warn("has no members: requests that come here find no upstream")
            continue
        if group.get("basis") not in {None, "share"} and group.get("strategy") != "weighted":
            group.spot.key("basis").warn("counts only with strategy: weighted")
        names = [*members, group.get("last_resort")] if group.get("last_resort") else list(members)
        _judge_accounts(tree, tenant, group, names)


def _judge_accounts(tree: Tree, tenant: Row, group: Row, names: list[Any]) -> None:
    """Warn when one empty balance takes several members, or all keys, of a group at once."""
    accounts: dict[str, set[Any]] = {}
    count = 0
    for name in dict.fromkeys(names):
        upstream = tree.under(tenant.path, "upstreams").get(name)
        if upstream is None:
            continue
        keys = tree.under(upstream.path, UPSTREAM_KEY.section).values()
        if not keys:
            group.spot.warn(f"its member {name} has no keys")
        count += len(keys)
        # A key without an account has a balance of its own.
        accounts[name] = {key.get("account") or key.path for key in keys}
    together = set().union(*accounts.values())
    if count > 1 and len(together) == 1:
        group.spot.warn(f"all its {count} keys share the account {together.pop()}: when that is empty, nothing is left")
        return
    single = [(next(iter(found)), name) for name, found in accounts.items() if len(found) == 1]
    for account in {account for account, _ in single if isinstance(account, str)}:
        sharing = [name for held, name in single if held == account]
        if len(sharing) > 1:
            group.spot.warn(
                f"{' and '.join(sharing)} share the account {account}: when that is empty, all of them fail"
            )


def _judge_currencies(tree: Tree, tenant: Row) -> None:
    """Warn when an amount cannot be turned into the tenant's currency: such calls stay unpriced."""
    home = tenant.get("currency")
    pairs = {frozenset((row.get("from"), row.get("to"))) for row in tree.under((), "exchange_rates").values()}
    sources = [*tree.under((), PRICE.section).values(), *tree.under(tenant.path, TENANT_PRICE.section).values()]
    sources += [row for row in _rows_under(tree, tenant) if row.kind.section == "budgets"]
    missing: dict[str, Row] = {}
    for row in sources:
        currency = row.get("currency")
        if isinstance(currency, str) and currency != home and frozenset((currency, home)) not in pairs:
            missing.setdefault(currency, row)
    for currency, row in missing.items():
        row.spot.key("currency").warn(
            f"there is no exchange rate between {currency} and {home}, the currency of {tenant.name}"
        )
