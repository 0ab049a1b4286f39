"""The database as a tree of rows, in the shape of the file. Secrets are known by their hash and tail only."""

from collections.abc import Collection, Iterable
from typing import Any

from django.db.models import Model, QuerySet

from config.declarative.inspection import Inspection
from config.declarative.kinds import KINDS, LINE, PRICE, RULE, TENANT, TENANT_BUDGET, UPSTREAM_KEY
from config.declarative.secrets import Secret
from config.declarative.shapes import Field, Kind, Path, Row, Tree, label

Paths = dict[type[Model], dict[int, Path]]


def read_stored(slugs: Collection[str] | None, inspection: Inspection) -> Tree:
    """Return global prices and rates, and everything of the named tenants (None = of all)."""
    tree = Tree()
    paths: Paths = {}
    for kind in KINDS:
        known = paths.setdefault(kind.model, {})
        for row in _rows(kind, slugs, paths):
            fields = {field.name: _value(kind, field, row, paths) for field in kind.fields}
            path = (*_parent(kind, row, paths), kind.section, kind.identity(fields))
            known[row.pk] = path
            tree.add(Row(kind, path, inspection.at(label(path)), fields, pk=row.pk))
    return tree


def _rows(kind: Kind, slugs: Collection[str] | None, paths: Paths) -> Iterable[Any]:
    rows: QuerySet[Any] = kind.model._default_manager.order_by(*(("position", "pk") if kind.ordered else ("pk",)))
    if kind is TENANT:
        rows = rows.defer("webhook_secret")
        return rows if slugs is None else rows.filter(slug__in=list(slugs))
    if kind is PRICE:
        return rows.filter(tenant=None)
    if kind is TENANT_BUDGET:
        rows = rows.filter(line=None, account=None)
    elif kind is UPSTREAM_KEY:
        rows = rows.defer("secret", "old_secret")
    elif kind is LINE:
        rows = rows.select_related("line_route")
    return rows if kind.parent is None else rows.filter(**{f"{kind.owner}__in": list(paths[kind.parent.model])})


def _parent(kind: Kind, row: Any, paths: Paths) -> Path:
    return () if kind.parent is None else paths[kind.parent.model][getattr(row, f"{kind.owner}_id")]


def _value(kind: Kind, field: Field, row: Any, paths: Paths) -> Any:
    if field.name == "secret":
        return Secret(row.digest, row.tail if kind is UPSTREAM_KEY else row.last4)
    if kind is RULE and field.name == "then":
        return _then(row, paths)
    if kind is LINE and field.name == "route":
        link = getattr(row, "line_route", None)
        return _named(link.route_id, "routes", paths) if link is not None else None
    if field.ref:
        return _named(getattr(row, f"{field.attribute}_id"), field.ref, paths)
    if field.unpack is not None:
        return field.unpack(row)
    return getattr(row, field.attribute)


def _named(pk: int | None, section: str, paths: Paths) -> str | None:
    if pk is None:
        return None
    model = next(kind.model for kind in KINDS if kind.section == section and kind.parent is TENANT)
    path = paths[model].get(pk)
    # A row of another tenant cannot be named: what the text says is then reported as a dangling reference.
    return path[-1] if path is not None else f"{section} #{pk}"


def _then(row: Any, paths: Paths) -> dict[str, Any]:
    parts = {
        "group": _named(row.group_id, "groups", paths),
        "upstream": _named(row.upstream_id, "upstreams", paths),
        "deny": row.deny,
        "set": row.set,
        "continue": row.proceed,
    }
    return {name: value for name, value in parts.items() if value}
