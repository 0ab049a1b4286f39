"""What was found wrong, and where: every problem is collected under the path of what caused it."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final


class _Bad:
    """Stands for a value whose fault was reported already."""

    def __repr__(self) -> str:
        return "BAD"


BAD: Final = _Bad()


class ConfigError(Exception):
    """The configuration was refused and nothing was changed. Each error is one line that begins with a path."""

    def __init__(self, errors: Iterable[str], warnings: Iterable[str] = ()) -> None:
        self.errors = tuple(errors)
        self.warnings = tuple(warnings)
        super().__init__("\n".join(self.errors))


@dataclass(slots=True)
class Inspection:
    """Collects problems while a document is read and judged.

    `environ` is where `env:NAME` is looked up; None = such references are refused. `labelled`: paths name list items
    by what they are (`tenants[acme]`) instead of by position, for rows that stand in no file. `hosts` gathers the
    hosts of addresses, each with the places that name it.
    """

    environ: Mapping[str, str] | None = None
    labelled: bool = False
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    hosts: dict[str, list["Spot"]] = field(default_factory=dict)

    def at(self, path: str = "") -> "Spot":
        """Return the place with this path; "" is the document itself."""
        return Spot(path, self)

    def raise_if_refused(self) -> None:
        """Raise ConfigError when an error was found."""
        if self.errors:
            raise ConfigError(dict.fromkeys(self.errors), dict.fromkeys(self.warnings))


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in the document."""

    path: str
    inspection: Inspection = field(repr=False, compare=False)

    def key(self, name: str) -> "Spot":
        return Spot(f"{self.path}.{name}" if self.path else name, self.inspection)

    def item(self, which: int | str) -> "Spot":
        return Spot(f"{self.path}[{which}]", self.inspection)

    def error(self, text: str) -> _Bad:
        """Note an error; returns BAD, for readers to hand on."""
        self.inspection.errors.append(self._line(text))
        return BAD

    def warn(self, text: str) -> None:
        self.inspection.warnings.append(self._line(text))

    def _line(self, text: str) -> str:
        return f"{self.path}: {text}" if self.path else text


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return what follows "unknown ...": the closest known name, else the list of them."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; known: {', '.join(names)}" if names else "; none is known"


def unknown_name(what: str, name: str, known: Iterable[str]) -> str:
    """Word a dangling reference."""
    names = sorted(known)
    return f'unknown {what} "{name}"' + (f"; known: {', '.join(names)}" if names else f"; there is no {what}")
