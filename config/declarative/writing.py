"""A plan into rows. The caller holds the transaction.

Order: what gives up a unique place (leaves that go, default routes, secrets that change hands), then new and changed
rows from the top of the tree down, then the order of members and rules, then what else goes, from the bottom up.
"""

from collections.abc import Iterable
from typing import Any

from django.db.models import F, Model, ProtectedError

from config.declarative.inspection import ConfigError
from config.declarative.kinds import KINDS, LEAVES, LINE, ROUTE, RULE, TENANT, UPSTREAM_KEY
from config.declarative.planning import Action, Change, Plan
from config.declarative.secrets import Secret
from config.declarative.shapes import Field, Kind, Path, Tree, label
from routing.models import LineRoute
from tenants.models import AuditEntry
from tenants.services import touch_config

AUDIT_NAME = "apply"


class Writer:
    """Writes one plan. `pks` maps the path of every row that is in the database to its primary key."""

    def __init__(self, stored: Tree) -> None:
        self._pks: dict[Path, int] = {row.path: row.pk for row in stored if row.pk is not None}
        self._audit: list[AuditEntry] = []

    def write(self, plan: Plan) -> None:
        """Carry the plan out. Raises ConfigError for a row that is still in use."""
        if not plan.changes and not plan.orders:
            return
        rank = {kind: n for n, kind in enumerate(KINDS)}
        changes = sorted(plan.changes, key=lambda change: rank[change.row.kind])
        gone = [change for change in reversed(changes) if change.action is Action.REMOVE]
        self._remove(change for change in gone if change.row.kind in LEAVES)
        self._give_up_places(changes)
        for change in changes:
            if change.action is Action.ADD:
                self._add(change)
            elif change.action is Action.CHANGE:
                self._change(change)
        for order in plan.orders:
            for position, path in enumerate(order.paths):
                order.kind.model._default_manager.filter(pk=self._pks[path]).update(position=position)
        self._remove(change for change in gone if change.row.kind not in LEAVES)
        AuditEntry.objects.bulk_create(self._audit)
        touch_config()

    def _give_up_places(self, changes: Iterable[Change]) -> None:
        for change in changes:
            row = change.row
            if row.kind is ROUTE and change.after.get("default"):
                ROUTE.model._default_manager.filter(tenant=self._pks.get(row.parent)).update(is_default=False)
            if change.action is Action.CHANGE and isinstance(change.after.get("secret"), Secret):
                row.kind.model._default_manager.filter(pk=self._pks[row.path]).update(digest=f"moving {row.pk}")

    def _add(self, change: Change) -> None:
        kind, path = change.row.kind, change.row.path
        columns = self._columns(change)
        if kind.owner:
            columns[f"{kind.owner}_id"] = self._pks[change.row.parent]
        if kind.parent not in {None, TENANT} and hasattr(kind.model, "tenant"):
            columns["tenant_id"] = self._pks[path[:2]]
        row = kind.model._default_manager.create(**columns)
        self._pks[path] = row.pk
        if kind is LINE:
            self._set_route(path, change.after.get("route"))
        self._note("added", row, change)

    def _change(self, change: Change) -> None:
        kind, path = change.row.kind, change.row.path
        columns = self._columns(change)
        if kind is UPSTREAM_KEY and "digest" in columns:
            columns["epoch"] = F("epoch") + 1  # what was learnt about the old secret no longer counts
        rows = kind.model._default_manager.filter(pk=self._pks[path])
        if columns:
            rows.update(**columns)
        if kind is LINE and "route" in change.after:
            self._set_route(path, change.after["route"])
        self._note("changed", rows.get(), change)

    def _remove(self, changes: Iterable[Change]) -> None:
        for change in changes:
            row = change.row.kind.model._default_manager.filter(pk=change.row.pk).first()
            if row is None:
                continue  # went with its parent
            self._note("removed", row, change)
            try:
                row.delete()
            except ProtectedError as exc:
                users = ", ".join(sorted({str(user._meta.verbose_name) for user in exc.protected_objects}))
                where = label(change.row.path)
                raise ConfigError([f"{where}: cannot be removed, it is still in use ({users})"]) from None

    def _columns(self, change: Change) -> dict[str, Any]:
        kind = change.row.kind
        columns: dict[str, Any] = {}
        for field in kind.fields:
            if field.name in change.after:
                columns |= self._column(kind, field, change.after[field.name], change.row.path[:2])
        return columns

    def _column(self, kind: Kind, field: Field, value: Any, tenant: Path) -> dict[str, Any]:
        if field.name == "secret":
            tail = "tail" if kind is UPSTREAM_KEY else "last4"
            # The file's secret replaces at once: an old one that was still kept or accepted ends here.
            held = {"digest": value.digest, tail: value.tail, "old_digest": "", f"old_{tail}": "", "old_until": None}
            return {**held, "secret": value.value, "old_secret": ""} if kind is UPSTREAM_KEY else held
        if kind is LINE and field.name == "route":
            return {}
        if kind is RULE and field.name == "then":
            return {
                "group_id": self._pk(tenant, "groups", value.get("group")),
                "upstream_id": self._pk(tenant, "upstreams", value.get("upstream")),
                "deny": value.get("deny", ""),
                "set": value.get("set", {}),
                "proceed": value.get("continue", False),
            }
        if field.ref:
            return {f"{field.attribute}_id": self._pk(tenant, field.ref, value)}
        return field.pack(value) if field.pack is not None else {field.attribute: value}

    def _pk(self, tenant: Path, section: str, name: str | None) -> int | None:
        return None if name is None else self._pks[(*tenant, section, name)]

    def _set_route(self, line: Path, name: str | None) -> None:
        if name is None:
            LineRoute.objects.filter(line=self._pks[line]).delete()
        else:
            route = self._pks[(*line[:2], "routes", name)]
            LineRoute.objects.update_or_create(line_id=self._pks[line], defaults={"route_id": route})

    def _note(self, action: str, row: Model, change: Change) -> None:
        path, kind = change.row.path, change.row.kind
        self._audit.append(
            AuditEntry(
                tenant_id=self._pks.get(path[:2]) if path[0] == "tenants" else None,
                username=AUDIT_NAME,
                action=action,
                model=kind.model._meta.label,
                object_id=str(row.pk),
                object_name=label(path)[:200],
                fields={name: _noted(kind.field(name), value) for name, value in change.after.items()},
            )
        )


def _noted(field: Field, value: Any) -> str:
    return "changed" if field.name == "secret" else field.show(value)
