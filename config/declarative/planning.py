"""Wanted rows against stored rows: what to add, change, reorder and remove, and the tree that results. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from config.declarative.compound import headers
from config.declarative.inspection import Inspection
from config.declarative.kinds import GATEWAY_KEY, ROUTE, TENANT
from config.declarative.shapes import Field, Kind, Path, Row, Tree, label, shown
from config.declarative.yaml_file import REDACTED


class Action(StrEnum):
    ADD = "+"
    CHANGE = "~"
    REMOVE = "-"


@dataclass(slots=True)
class Change:
    """One row to write. `after` holds the fields to set, `before` their stored values (changes only)."""

    action: Action
    row: Row
    after: dict[str, Any] = field(default_factory=dict)
    before: dict[str, Any] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """Yield what the diff says about this row; never a secret."""
        where = label(self.row.path)
        if self.action is Action.REMOVE:
            yield f"- {where}" + (f": {self.row.kind.loss}" if self.row.kind.loss else "")
        elif self.action is Action.ADD:
            yield f"+ {where}" + _listed(self.row.kind, self.after)
        else:
            for name, value in self.after.items():
                yield f"~ {where}.{name}: {_changed(self.row.kind.field(name), self.before.get(name), value)}"


@dataclass(frozen=True, slots=True)
class Order:
    """The order that the rows of a section get. `shuffled`: rows that stay change places among themselves."""

    kind: Kind
    paths: tuple[Path, ...]
    shuffled: bool

    def line(self) -> str:
        where = f"{label(self.paths[0][:-2])}.{self.kind.section}"
        return f"~ {where}: in the order {', '.join(path[-1] for path in self.paths)}"


@dataclass(slots=True)
class Plan:
    """What to do, and `final`: the rows of the named tenants as they will be, with global prices and rates."""

    changes: list[Change] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    final: Tree = field(default_factory=Tree)

    def diff(self) -> tuple[str, ...]:
        lines = [line for change in self.changes for line in change.lines()]
        return (*lines, *(order.line() for order in self.orders if order.shuffled))


def make_plan(wanted: Sequence[Row], stored: Tree, *, prune: bool, inspection: Inspection) -> Plan:
    """Compare. `wanted` has its secrets sealed; problems that need both sides go to the inspection."""
    plan = Plan()
    named = {row.path[1] for row in wanted if row.kind is TENANT}
    wanted_paths = {row.path for row in wanted}
    for row in wanted:
        before = stored.get(row.path)
        row.pk = before.pk if before is not None else None
        change = _added(row) if before is None else _changed_row(row, before, prune=prune)
        if change is not None:
            plan.changes.append(change)
        plan.final.add(_final(row, before, change))
    for row in stored:
        inside = row.path[0] == "tenants" and row.path[1] in named
        if row.path in wanted_paths or not (inside or row.path[0] != "tenants"):
            continue
        if prune and inside and row.kind is not TENANT:
            plan.changes.append(Change(Action.REMOVE, row))
        else:
            plan.final.add(row)
    _settle_default_routes(plan, wanted, named)
    plan.orders.extend(_orders(wanted, stored, plan.final))
    _note_kept(plan, wanted_paths, inspection)
    return plan


def _added(row: Row) -> Change:
    kind = row.kind
    values = {**kind.defaults(), **row.fields}
    if "name" in {each.name for each in kind.fields} and not values.get("name"):
        values["name"] = row.name
    for each in kind.fields:
        spot = row.spot.key(each.name)
        if values.get(each.name) is REDACTED:
            spot.error("is redacted and there is no stored secret to keep; write the secret or env:NAME")
        elif each.required and each.name not in values and each.name not in row.bad:
            row.bad.add(each.name)
            spot.error("is required")
    values = {name: _unredacted(row, name, value, {}) for name, value in values.items() if value is not REDACTED}
    return Change(Action.ADD, row, values)


def _changed_row(row: Row, before: Row, *, prune: bool) -> Change | None:
    values = {name: value for name, value in row.fields.items() if value is not REDACTED}
    if prune:
        values = {**_resets(row), **values}
    values = {name: _unredacted(row, name, value, before.fields) for name, value in values.items()}
    after = {name: value for name, value in values.items() if value != before.get(name)}
    return Change(Action.CHANGE, row, after, {name: before.get(name) for name in after}) if after else None


def _resets(row: Row) -> dict[str, Any]:
    """Return the defaults of what the file leaves out."""
    return {
        each.name: each.default
        for each in row.kind.fields
        if not (each.kept or each.required or each.name in row.fields or each.name in row.bad)
    }


def _unredacted(row: Row, name: str, value: Any, before: dict[str, Any]) -> Any:
    """Put stored values in the place of redacted headers."""
    if not isinstance(value, dict) or row.kind.field(name).read is not headers:
        return value
    held = before.get(name) or {}
    for header, content in value.items():
        if content is REDACTED and header not in held:
            row.spot.key(name).key(header).error("is redacted and there is no stored value to keep")
    return {header: held.get(header, "") if content is REDACTED else content for header, content in value.items()}


def _final(row: Row, before: Row | None, change: Change | None) -> Row:
    fields = dict(before.fields) if before is not None else {}
    if change is not None:
        fields |= change.after
    return Row(row.kind, row.path, row.spot, fields, row.bad, row.pk)


def _settle_default_routes(plan: Plan, wanted: Sequence[Row], named: Iterable[str]) -> None:
    """The route that the file calls the default takes the place of one of which the file does not say so."""
    chosen = {row.path for row in wanted if row.kind is ROUTE and row.get("default")}
    for slug in named:
        routes = [row for row in plan.final.under(("tenants", slug), ROUTE.section).values() if row.get("default")]
        if not any(row.path in chosen for row in routes):
            continue
        for row in routes:
            if row.path not in chosen:
                row.fields = {**row.fields, "default": False}
                plan.changes.append(Change(Action.CHANGE, row, {"default": False}, {"default": True}))


def _orders(wanted: Sequence[Row], stored: Tree, final: Tree) -> Iterator[Order]:
    sections: dict[tuple[Path, Kind], list[Path]] = {}
    for row in wanted:
        if row.kind.ordered:
            sections.setdefault((row.parent, row.kind), []).append(row.path)
    for (parent, kind), paths in sections.items():
        before = [row.path for row in stored.under(parent, kind.section).values()]
        present = [path for path in before if path in final]
        merged = _merged(paths, present)
        kept = [path for path in merged if path in present]
        if merged != before:  # a row that goes would leave a gap
            yield Order(kind, tuple(merged), shuffled=kept != present)


def _merged(paths: Sequence[Path], present: Sequence[Path]) -> list[Path]:
    """Return the file's order; rows it does not name stay behind the row that they stood behind."""
    merged = list(paths)
    for n, path in enumerate(present):
        if path not in paths:
            merged.insert(merged.index(present[n - 1]) + 1 if n else 0, path)
    return merged


def _note_kept(plan: Plan, wanted_paths: set[Path], inspection: Inspection) -> None:
    """Name the members and rules that stay although their group or route is in the file without them."""
    for row in plan.final:
        if row.kind.ordered and row.path not in wanted_paths and row.parent in wanted_paths:
            inspection.at(label(row.path)).warn("is not in the file and stays; --prune removes it")


def _listed(kind: Kind, values: dict[str, Any]) -> str:
    """Write the fields of a new row that say more than the default."""
    parts = [
        f"{each.name} {each.show(values[each.name])}"
        for each in kind.fields
        if each.name in values and each.name not in kind.names and values[each.name] != each.default
    ]
    if kind is GATEWAY_KEY and values.get("secret") is None:
        parts.insert(0, "a new secret")
    return f" ({', '.join(parts)})" if parts else ""


def _changed(each: Field, before: Any, after: Any) -> str:
    if each.name == "secret":
        return f"changed ({each.show(after)})"
    old, new = each.show(before), each.show(after)
    return f"{old} → {new}" if old != new else f"changed ({shown(new)})"
