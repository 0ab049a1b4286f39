"""What the file is made of: kinds of rows with their fields, and the tree of rows that both sides are turned into.

The file and the database become the same tree, so that comparing, applying and exporting are one thing. A row is found
by its path, pairs of section and name: ("tenants", "acme", "upstreams", "relay-a").
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from django.db import models

from config.declarative.inspection import Spot
from config.declarative.readers import Reader
from config.declarative.secrets import Secret

Path = tuple[str, ...]

_SHOWN_MAX = 160


def shown(value: Any) -> str:
    """Write a value for the diff, in one short line."""
    match value:
        case None | "":
            text = "none"
        case bool():
            text = str(value).lower()
        case Decimal():
            text = format(value.normalize(), "f")
        case datetime() | date():
            text = value.isoformat()
        case list() | tuple():
            text = "[" + ", ".join(shown(item) for item in value) + "]"
        case Mapping():
            text = "{" + ", ".join(f"{name}: {shown(item)}" for name, item in value.items()) + "}"
        case _:
            text = str(value)
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 1] + "…"


@dataclass(frozen=True, eq=False)
class Field:
    """One field of a kind.

    `name`: in the file; "limits.rpm" stands inside the mapping `limits`. `column`: the model's attribute, "" = the
    name. `ref`: the section of the same tenant whose row the value names. `kept`: --prune never resets it. `pack` and
    `unpack` translate to and from several columns.
    """

    name: str
    read: Reader
    column: str = ""
    default: Any = None
    required: bool = False
    ref: str = ""
    kept: bool = False
    show: Callable[[Any], str] = shown
    pack: Callable[[Any], dict[str, Any]] | None = None
    unpack: Callable[[Any], Any] | None = None

    @property
    def attribute(self) -> str:
        return self.column or self.name


@dataclass(frozen=True, eq=False)
class Kind:
    """One kind of row.

    `names`: the fields that tell rows of one parent apart. `owner`: the model's link to the parent row. `whole`: an
    entry states the whole row, a field left out has its default. `ordered`: the order in the file counts. `secret`:
    (length of the shown tail) for kinds with a credential. `loss`: what removing a row means.
    """

    section: str
    model: type[models.Model]
    names: tuple[str, ...]
    fields: tuple[Field, ...]
    parent: "Kind | None" = None
    owner: str = ""
    whole: bool = False
    ordered: bool = False
    secret_tail: int = 0
    loss: str = ""

    def identity(self, fields: Mapping[str, Any]) -> str:
        """Return the name of a row within its parent."""
        return " ".join(shown(fields.get(name)) for name in self.names)

    def defaults(self) -> dict[str, Any]:
        return {each.name: each.default for each in self.fields if not each.required}

    def field(self, name: str) -> Field:
        return next(each for each in self.fields if each.name == name)


@dataclass(slots=True)
class Row:
    """A row as the file or the database has it. `fields` holds only what is known; BAD values are left out of it.

    `bad` names the fields whose fault was reported. `pk` is None for a row that is only in the file.
    """

    kind: Kind
    path: Path
    spot: Spot
    fields: dict[str, Any] = field(default_factory=dict)
    bad: set[str] = field(default_factory=set)
    pk: int | None = None

    @property
    def name(self) -> str:
        return self.path[-1]

    @property
    def parent(self) -> Path:
        return self.path[:-2]

    def get(self, name: str) -> Any:
        return self.fields.get(name)


class Tree:
    """Rows by path, in order."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._rows: dict[Path, Row] = {}
        self._children: dict[tuple[Path, str], dict[str, Row]] = {}
        for row in rows:
            self.add(row)

    def add(self, row: Row) -> None:
        self._rows[row.path] = row
        self._children.setdefault((row.parent, row.path[-2]), {})[row.name] = row

    def get(self, path: Path) -> Row | None:
        return self._rows.get(path)

    def under(self, parent: Path, section: str) -> dict[str, Row]:
        """Return the rows of a section by name, in order."""
        return self._children.get((parent, section), {})

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows.values())

    def __contains__(self, path: Path) -> bool:
        return path in self._rows


def label(path: Path) -> str:
    """Write a path for people: tenants[acme].upstreams[relay-a]."""
    return ".".join(f"{section}[{name}]" for section, name in zip(path[::2], path[1::2], strict=True))


def tail_shown(value: Any) -> str:
    """Show a secret by its tail."""
    return f"…{value.tail}" if isinstance(value, Secret) else "none"
