"""The document into rows. Everything wrong with single values, names and duplicates is found here, all of it."""

from collections.abc import Iterator, Mapping
from typing import Any

from config.declarative.inspection import BAD, Inspection, Spot, suggestion
from config.declarative.kinds import NOT_ENFORCED, UPSTREAM, UPSTREAM_KEY, children_of
from config.declarative.readers import quoted
from config.declarative.secrets import secrets_from
from config.declarative.shapes import Field, Kind, Path, Row

VERSION = 1


def read_document(document: Any, inspection: Inspection) -> list[Row]:
    """Return the rows of a document, parents before children. Problems are in the inspection."""
    top = inspection.at()
    if not isinstance(document, Mapping):
        if document is not BAD:
            top.error("the document must be a mapping with version, prices, exchange_rates and tenants")
        return []
    sections = {kind.section: kind for kind in children_of(None)}
    _report_unknown(document, {"version": None, **sections}, top)
    version = document.get("version", VERSION)
    if version is not BAD and (isinstance(version, bool) or version != VERSION):
        top.key("version").error(f"must be {VERSION}, not {quoted(version)}")
    return [row for name, kind in sections.items() for row in _rows(kind, document.get(name), top.key(name), ())]


def _rows(kind: Kind, value: Any, spot: Spot, parent: Path) -> Iterator[Row]:
    if value is None or value is BAD:
        return
    if not isinstance(value, list | tuple):
        spot.error(f"must be a list, not {quoted(value)}")
        return
    first: dict[str, str] = {}
    for n, item in enumerate(value):
        at = spot.item(_label(kind, item, n) if spot.inspection.labelled else n)
        if isinstance(item, Mapping):
            yield from _row(kind, item, at, parent, first)
        elif item is not BAD:
            at.error("is empty" if item is None else f"must be a mapping, not {quoted(item)}")


def _label(kind: Kind, item: Any, n: int) -> str | int:
    named = isinstance(item, Mapping) and all(item.get(name) for name in kind.names[:1])
    return " ".join(str(item[name]) for name in kind.names if name in item) if named else n


def _row(kind: Kind, item: Mapping[Any, Any], spot: Spot, parent: Path, first: dict[str, str]) -> Iterator[Row]:
    row = Row(kind, (*parent, kind.section, ""), spot)
    _refuse_unknown(kind, item, spot)
    for field in kind.fields:
        _read_field(row, field, item)
    if kind.whole:
        row.fields = {**kind.defaults(), **{n: v for n, v in row.fields.items() if n not in row.bad}}
    row.path = (*parent, kind.section, _name(row, item))
    if (key := row.name.casefold()) in first:
        spot.key(kind.names[0]).error(f"{quoted(row.name)} stands twice; first at {first[key]}")
    first.setdefault(key, spot.path)
    yield row
    for child in children_of(kind):
        yield from _children(row, child, item)


def _children(row: Row, kind: Kind, item: Mapping[Any, Any]) -> Iterator[Row]:
    found = list(_rows(kind, item.get(kind.section), row.spot.key(kind.section), row.path))
    if kind is UPSTREAM_KEY and item.get("keys_from") is not None:
        found += _keys_from(row, item["keys_from"], {each.name for each in found})
    yield from found


def _keys_from(upstream: Row, value: Any, taken: set[str]) -> Iterator[Row]:
    spot = upstream.spot.key("keys_from")
    for name, secret in secrets_from(value, spot):
        if name in taken:
            spot.error(f"the name {name} stands in keys already")
            continue
        path = (*upstream.path, UPSTREAM_KEY.section, name)
        yield Row(UPSTREAM_KEY, path, spot.item(name), {"name": name, "secret": secret})


def _refuse_unknown(kind: Kind, item: Mapping[Any, Any], spot: Spot) -> None:
    known = dict.fromkeys(field.name.partition(".")[0] for field in kind.fields)
    known |= dict.fromkeys(child.section for child in children_of(kind))
    if kind is UPSTREAM:
        known |= {"keys_from": None}
    _report_unknown(item, known, spot)
    for group in {field.name.partition(".")[0] for field in kind.fields if "." in field.name}:
        inner = {field.name.partition(".")[2]: None for field in kind.fields if field.name.startswith(f"{group}.")}
        content = item.get(group)
        if isinstance(content, Mapping):
            _report_unknown(content, inner, spot.key(group))
        elif content is not None and content is not BAD:
            spot.key(group).error(f"must be a mapping, not {quoted(content)}")


def _report_unknown(item: Mapping[Any, Any], known: Mapping[str, Any], spot: Spot) -> None:
    for name in item:
        if name not in known:
            spot.key(str(name)).error(f"unknown field{suggestion(str(name), known)}")


def _read_field(row: Row, field: Field, item: Mapping[Any, Any]) -> None:
    """Put a field's value into the row; one that the file does not name stays out."""
    group, _, inner = field.name.partition(".")
    present, value = group in item, item.get(group)
    if inner and isinstance(value, Mapping):
        present, value = inner in value, value.get(inner)
    if not present:
        return
    spot = row.spot.key(field.name)
    if value is None:
        if field.required or field.name == "name":
            row.bad.add(field.name)
            spot.error("must not be empty")
        elif field.name != "secret":
            row.fields[field.name] = field.default
        return
    if inner and not isinstance(item.get(group), Mapping):
        return  # reported as a whole
    found = field.read(value, spot)
    if found is BAD:
        row.bad.add(field.name)
        return
    row.fields[field.name] = found
    if f"{row.kind.section}.{field.name}" in NOT_ENFORCED and found != field.default:
        spot.warn("is stored but has no effect yet")


def _name(row: Row, item: Mapping[Any, Any]) -> str:
    """Return the row's name; a made-up one when the file gives none that can be used."""
    missing = [name for name in row.kind.names if name not in row.fields]
    for name in missing:
        if name not in row.bad:
            row.bad.add(name)
            row.spot.key(name).error("is required")
    if not missing:
        return row.kind.identity(row.fields)
    if len(row.kind.names) == 1 and isinstance(raw := item.get(missing[0]), str):
        return raw  # badly formed, but what refers to it should not be reported as well
    return f"?{row.spot.path}"
