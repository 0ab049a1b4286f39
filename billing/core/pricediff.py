"""What an import of catalogue prices would change. An operator's price always stands; history is never rewritten.

A model that an operator has priced, also by a pattern, is left alone. A model without rows gets all of the
catalogue's, past ones included. Afterwards only what counts from today on is followed: a change becomes a row that
begins today, announced changes become rows of their own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from enum import StrEnum

RATES = ("input", "cached_input", "cache_write", "cache_write_1h", "output")


@dataclass(frozen=True, slots=True)
class Rates:
    """Per million tokens; None = not stated."""

    input: Decimal | None = None
    cached_input: Decimal | None = None
    cache_write: Decimal | None = None
    cache_write_1h: Decimal | None = None
    output: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """A model of the catalogue. `dated`: its rates and the day from which they count, in order."""

    model: str
    dated: tuple[tuple[date, Rates], ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """A row of an earlier import. `used`: a record was billed by it."""

    starts: date
    rates: Rates
    used: bool = False


class Act(StrEnum):
    ADD = "add"
    REPLACE = "replace"  # an imported row that nothing was billed by


@dataclass(frozen=True, slots=True)
class Change:
    act: Act
    model: str
    starts: date
    rates: Rates
    before: Rates | None = None


def changes(listed: Iterable[Listed], kept: Mapping[str, Sequence[Kept]], today: date) -> list[Change]:
    """Return what to write, in the catalogue's order. `kept` maps a model to its imported rows."""
    found: list[Change] = []
    for model in listed:
        rows = {row.starts: row for row in kept.get(model.model, ())}
        if not rows:
            found += [Change(Act.ADD, model.model, starts, rates) for starts, rates in model.dated]
            continue
        current = _in_force(model.dated, today)
        if current is not None:
            found += _followed(model.model, rows, current, today)
        for starts, rates in model.dated:
            if starts > today:
                found += _announced(model.model, rows.get(starts), starts, rates)
    return found


def _followed(model: str, rows: Mapping[date, Kept], current: Rates, today: date) -> list[Change]:
    """Make what counts today the catalogue's."""
    mine = _in_force(sorted((row.starts, row.rates) for row in rows.values() if row.starts <= today), today)
    if mine == current:
        return []
    row = rows.get(today)
    if row is None:
        return [Change(Act.ADD, model, today, current, mine)]
    if not row.used:
        return [Change(Act.REPLACE, model, today, current, mine)]
    return _announced(model, rows.get(today + timedelta(days=1)), today + timedelta(days=1), current)


def _announced(model: str, row: Kept | None, starts: date, rates: Rates) -> list[Change]:
    if row is None:
        return [Change(Act.ADD, model, starts, rates)]
    return [] if row.rates == rates or row.used else [Change(Act.REPLACE, model, starts, rates, row.rates)]


def _in_force(dated: Iterable[tuple[date, Rates]], day: date) -> Rates | None:
    newest: Rates | None = None
    for starts, rates in dated:
        if starts <= day:
            newest = rates
    return newest
