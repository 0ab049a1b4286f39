"""List prices of the genai-prices package (optional; works offline), as plain values in our own terms.

Names come from the package's exact and prefix matches; looser ones would be guesses. Where a price depends on the
length of the prompt its base counts, and that is said; a price that depends on the hour is left out.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from billing.core.pricediff import Listed, Rates
from billing.models import ALWAYS

try:
    from genai_prices import data as package
except ImportError:  # the optional extra is not installed
    package = None  # type: ignore[assignment]

MAKERS = (
    "anthropic", "openai", "google", "deepseek", "mistral", "x-ai", "moonshotai", "zai", "zhipuai", "minimax", "cohere",
    "voyageai", "perplexity",
)  # fmt: skip
_FIELDS = {
    "input": "input_mtok",
    "cached_input": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
    "output": "output_mtok",
}
_LITERAL = frozenset("*?")


class CatalogueMissingError(Exception):
    """The package is not installed."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """`listed`: one entry per name, the first provider's counts. `remarks` name what is not as it seems."""

    listed: list[Listed]
    remarks: list[str]


def providers() -> list[str]:
    """Return the ids of all providers. Raises CatalogueMissingError."""
    return [str(provider.id) for provider in _package().providers]


def read_catalogue(wanted: Sequence[str] = MAKERS) -> Catalogue:
    """Return the prices of these providers, in this order of precedence. Raises CatalogueMissingError."""
    known = {provider.id: provider for provider in _package().providers}
    remarks: list[str] = []
    listed: dict[str, Listed] = {}
    for model in (model for name in wanted if name in known for model in known[name].models):
        dated = _dated(model, remarks)
        for name in _names(model) if dated else ():
            listed.setdefault(name, Listed(name, dated))
    return Catalogue(list(listed.values()), remarks)


def _package() -> Any:
    if package is None:
        raise CatalogueMissingError(
            "the price catalogue is an optional extra: pip install 'genai-prices~=0.2' in Pointsman's environment"
        )
    return package


def _names(model: Any) -> Iterable[str]:
    found = dict.fromkeys([str(model.id), *_matched(model.match)])
    return [name for name in found if name.strip() == name and not _LITERAL & set(name.removesuffix("*"))]


def _matched(clause: Any) -> Iterator[str]:
    for part in getattr(clause, "or_", ()):
        yield from _matched(part)
    if exact := getattr(clause, "equals", None):
        yield exact
    if prefix := getattr(clause, "starts_with", None):
        yield f"{prefix}*"


def _dated(model: Any, remarks: list[str]) -> tuple[tuple[date, Rates], ...]:
    """Return a model's rates with the day they begin; empty when they do not fit our terms."""
    found: dict[date, Rates] = {}
    for priced in model.prices if isinstance(model.prices, list) else [model.prices]:
        constraint = getattr(priced, "constraint", None)
        starts = ALWAYS if constraint is None else getattr(constraint, "start_date", None)
        if starts is None:
            remarks.append(f"{model.id}: left out, its price depends on the hour")
            return ()
        prices = getattr(priced, "prices", priced)
        found[starts] = Rates(**{ours: _base(getattr(prices, theirs, None)) for ours, theirs in _FIELDS.items()})
        tier = getattr(getattr(prices, "input_mtok", None), "tiers", None)
    if any(rates.input is None for rates in found.values()):
        return ()
    if tier:
        remarks.append(f"{model.id}: dearer above {tier[0].start} tokens upstream; the base price is taken")
    return tuple(sorted(found.items(), key=lambda entry: entry[0]))


def _base(price: Any) -> Decimal | None:
    amount: Decimal | None = getattr(price, "base", price)
    return amount
