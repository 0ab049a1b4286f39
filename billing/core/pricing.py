"""Prices, exchange rates and what a call costs.

Sums are kept as exact fractions until the end, so that a record is rounded once: half-even, to 12 places.

Which price: the names are tried in order (sent upstream, then before the alias); for each, the tenant's own rows come
before the global ones, the pattern with the most literal characters first (an exact name before an equally long
pattern), and of one pattern the newest row that has begun. Patterns know `*` and `?` and ignore case; brackets are
literal, since real model names hold them. A date without a time begins at 00:00 in the zone of the asking tenant.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias, TypeVar

from billing.core.periods import midnight
from billing.core.tokens import Usage
from tenants.core.values import valueclass

PLACES = 12
_UNIT = 10**12  # of PLACES
_SCALE = 1_000_000 * _UNIT
_MINOR_UNITS: Mapping[str, int] = {
    **dict.fromkeys(("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "VND", "VUV"), 0),
    **dict.fromkeys(("XAF", "XOF", "XPF"), 0),
    **dict.fromkeys(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"), 3),
}
_MEMO_LIMIT = 4096  # model names come from clients


class PriceUnit(StrEnum):
    PER_MILLION_TOKENS = "per_million_tokens"
    PER_CALL = "per_call"


@valueclass(frozen=True, slots=True)
class PriceRow:
    """One line of the price list. Rates are per million tokens (or per call) in `currency`; None = not stated.

    `tenant_id` None = global. `model` is a pattern. `starts` is aware; a plain date begins at 00:00 tenant's time.
    """

    id: int
    tenant_id: int | None
    model: str
    unit: str
    currency: str
    input: Decimal | None
    cached_input: Decimal | None
    cache_write: Decimal | None
    cache_write_1h: Decimal | None
    output: Decimal | None
    call: Decimal | None
    starts: datetime | date


@valueclass(frozen=True, slots=True)
class RateRow:
    """From `starts` on, 1 `source` is `rate` `target`. `tenant_id` None = global."""

    source: str
    target: str
    rate: Decimal
    starts: datetime | date
    tenant_id: int | None = None


_K = TypeVar("_K")
_V = TypeVar("_V")
_PriceChain: TypeAlias = tuple[tuple[datetime, PriceRow], ...]  # newest first
_RateChain: TypeAlias = tuple[tuple[datetime, Fraction], ...]  # newest first


@valueclass(frozen=True, slots=True)
class PriceBook:
    """All prices and rates. `zones` maps tenant id -> time zone; a tenant that is not named has UTC.

    The two memo fields only remember answers that the frozen fields determine.
    """

    prices: tuple[PriceRow, ...] = ()
    rates: tuple[RateRow, ...] = ()
    zones: Mapping[int, tzinfo] = field(default_factory=dict)
    _patterns: Mapping[int | None, tuple["_Pattern", ...]] = field(init=False, repr=False, compare=False)
    _found: dict[tuple[int | None, str], tuple[_PriceChain, ...]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    _chains: dict[tuple[int | None, str, str], tuple[_RateChain, ...]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "_patterns", _grouped(self.prices))

    def find(self, tenant_id: int | None, names: Sequence[str], at: datetime) -> PriceRow | None:
        """Return the price in force at `at` for the first of `names` that has one; None = unpriced."""
        for name in names:
            for chain in self._candidates(tenant_id, name):
                row = _in_force(chain, at)
                if row is not None:
                    return row
        return None

    def rate_of(self, source: str, target: str, at: datetime, tenant_id: int | None = None) -> Fraction | None:
        """Return the exact factor from `source` to `target` at `at`; None when no rate is known.

        Of the rows of both directions the newest counts (a row of the wrong direction as 1 ÷ rate; the right direction
        wins a tie), so that a conversion there and back is consistent. A tenant's own rates come before the global.
        """
        if source == target:
            return Fraction(1)
        memo_key = (tenant_id, source, target)
        chains = self._chains.get(memo_key)
        if chains is None:
            chains = self._rate_chains(tenant_id, source, target)
            _remember(self._chains, memo_key, chains)
        for chain in chains:
            rate = _in_force(chain, at)
            if rate is not None:
                return rate
        return None

    def convert(
        self, amount: Decimal, source: str, target: str, at: datetime, tenant_id: int | None = None
    ) -> Decimal | None:
        """Return `amount` in `target`, rounded to 12 places; unchanged within one currency; None without a rate.

        A record's cost is better taken from `amount_of(..., rate=...)`, which rounds once.
        """
        if source == target:
            return amount
        rate = self.rate_of(source, target, at, tenant_id)
        return None if rate is None else rounded(Fraction(amount) * rate)

    def _candidates(self, tenant_id: int | None, name: str) -> tuple[_PriceChain, ...]:
        memo_key = (tenant_id, name)
        found = self._found.get(memo_key)
        if found is None:
            zone = self._zone(tenant_id)
            owners = (None,) if tenant_id is None else (tenant_id, None)
            patterns = (pattern for owner in owners for pattern in self._patterns.get(owner, ()))
            found = tuple(pattern.chain(zone) for pattern in patterns if pattern.matches(name))
            _remember(self._found, memo_key, found)
        return found

    def _rate_chains(self, tenant_id: int | None, source: str, target: str) -> tuple[_RateChain, ...]:
        zone = self._zone(tenant_id)
        owners = (None,) if tenant_id is None else (tenant_id, None)
        chains = []
        for owner in owners:
            begun: list[tuple[datetime, bool, Fraction]] = []
            for row in self.rates:
                if row.tenant_id != owner:
                    continue
                if (row.source, row.target) == (source, target):
                    begun.append((begins(row.starts, zone), True, Fraction(row.rate)))
                elif (row.source, row.target) == (target, source):
                    begun.append((begins(row.starts, zone), False, 1 / Fraction(row.rate)))
            begun.sort(key=lambda entry: entry[:2], reverse=True)
            chains.append(tuple((start, rate) for start, _, rate in begun))
        return tuple(chains)

    def _zone(self, tenant_id: int | None) -> tzinfo:
        return UTC if tenant_id is None else self.zones.get(tenant_id, UTC)


def amount_of(
    usage: Usage | None, price: PriceRow, multiplier: Decimal, rate: Fraction | Decimal = Fraction(1)
) -> Decimal | None:
    """Return list price × `multiplier` × `rate`, rounded once to 12 places; None when usage or a rate is unknown.

    `rate` (see `PriceBook.rate_of`) turns the price's currency into another one within the same rounding.
    A per-call price needs no usage: the caller asks only once content was delivered.
    Cached reads and writes are parts of the input and charged once, each at its own rate. Rates that the list does not
    state: cached_input -> input; cache_write -> input; cache_write_1h -> cache_write -> input. A part whose size is
    unknown stays at the input rate. A component with tokens but without any rate makes the call unpriced; one with
    zero tokens needs none (embeddings have no output price).
    """
    if price.unit == PriceUnit.PER_CALL:
        listed = None if price.call is None else Fraction(price.call)
    else:
        listed = None if usage is None else _token_amount(usage, price)
    return None if listed is None else rounded(listed * Fraction(multiplier) * Fraction(rate))


def rounded(value: Fraction, places: int = PLACES) -> Decimal:
    """Round half-even to `places` decimal places, exactly, whatever the size of the value."""
    units = round(value * 10**places)
    return Decimal(f"{units}E-{places}")


def payable(amount: Decimal, currency: str) -> Decimal:
    """Round a statement's total, half-even, to what can be paid in `currency` (ISO 4217 minor units; unknown: 2)."""
    return rounded(Fraction(amount), _MINOR_UNITS.get(currency.upper(), 2))


def begins(starts: datetime | date, zone: tzinfo) -> datetime:
    """Return the instant, in UTC, from which a row counts."""
    return starts.astimezone(UTC) if isinstance(starts, datetime) else midnight(starts, zone)


def _token_amount(usage: Usage, price: PriceRow) -> Fraction | None:
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    cached = usage.cached_read_tokens or 0
    written = usage.cache_write_tokens or 0
    written_1h = min(usage.cache_write_1h_tokens or 0, written)
    write_rate = _first(price.cache_write, price.input)
    total: int | Fraction = 0  # in 10^-12 of a million tokens' price
    for tokens, rate in (
        (max(usage.input_tokens - cached - written, 0), price.input),
        (cached, _first(price.cached_input, price.input)),
        (written - written_1h, write_rate),
        (written_1h, _first(price.cache_write_1h, write_rate)),
        (usage.output_tokens, price.output),
    ):
        if tokens == 0:
            continue
        if rate is None:
            return None
        total += tokens * _units(rate)
    return Fraction(total, _SCALE)


@lru_cache(maxsize=4096)
def _units(rate: Decimal) -> int | Fraction:
    """Return a rate in its last stored place. A whole number for every rate that the price list can hold."""
    exact = Fraction(rate) * _UNIT
    return exact.numerator if exact.denominator == 1 else exact


def _first(rate: Decimal | None, fallback: Decimal | None) -> Decimal | None:
    return fallback if rate is None else rate


@valueclass(frozen=True, slots=True)
class _Pattern:
    """All rows of one owner under one pattern."""

    text: str  # lower case
    rows: tuple[PriceRow, ...]
    regex: re.Pattern[str] | None  # None = an exact name

    def matches(self, name: str) -> bool:
        lowered = name.lower()
        return lowered == self.text if self.regex is None else self.regex.fullmatch(lowered) is not None

    def chain(self, zone: tzinfo) -> _PriceChain:
        begun = ((begins(row.starts, zone), row) for row in self.rows)
        return tuple(sorted(begun, key=lambda entry: (entry[0], entry[1].id), reverse=True))

    def rank(self) -> tuple[int, bool, str]:
        """Sort key: most literal characters first, exact names before patterns, then a fixed order."""
        literal = sum(char not in "*?" for char in self.text)
        return (-literal, self.regex is not None, self.text)


def _grouped(prices: Sequence[PriceRow]) -> Mapping[int | None, tuple[_Pattern, ...]]:
    rows: dict[int | None, dict[str, list[PriceRow]]] = {}
    for row in prices:
        rows.setdefault(row.tenant_id, {}).setdefault(row.model.lower(), []).append(row)
    return {
        owner: tuple(
            sorted(
                (_Pattern(text, tuple(group), _compiled(text)) for text, group in by_text.items()), key=_Pattern.rank
            )
        )
        for owner, by_text in rows.items()
    }


def _compiled(text: str) -> re.Pattern[str] | None:
    if "*" not in text and "?" not in text:
        return None
    # Runs of stars are one star: "a***b" must not take time exponential in its stars.
    pieces = re.findall(r"\*+|\?|[^*?]+", text)
    return re.compile("".join({"*": ".*", "?": "."}.get(p[0], re.escape(p)) for p in pieces), re.DOTALL)


def _in_force(chain: Sequence[tuple[datetime, _V]], at: datetime) -> _V | None:
    return next((entry for start, entry in chain if start <= at), None)


def _remember(memo: dict[_K, _V], memo_key: _K, answer: _V) -> None:
    if len(memo) >= _MEMO_LIMIT:
        memo.clear()
    memo[memo_key] = answer
