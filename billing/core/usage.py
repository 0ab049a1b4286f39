"""Read what a call used from a provider's answer, whole or streamed.

A stream reports more than once. Reports are merged field by field: the last non-zero number wins, nothing is summed,
null or zero never overwrites. `shapes.py` knows the names, `totals.py` what the numbers mean.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from billing.core.shapes import Reading, readings
from billing.core.tokens import NO_USAGE, Usage, UsageSource
from billing.core.totals import USAGE_SEMANTICS, Report, Total, total_of
from keys.core.dialect import Dialect

__all__ = ["NO_USAGE", "USAGE_SEMANTICS", "Usage", "UsageMeter", "UsageSource", "read_usage"]


def read_usage(dialect: Dialect, payload: Mapping[str, Any] | Sequence[Any], semantics: str = "") -> Usage | None:
    """Read a whole answer (Gemini: also a JSON array of chunks); None when it reports no usage. Never raises.

    Embeddings, rerank, images and transcriptions are answers of the OpenAI dialect. `semantics` is the upstream's
    `usage_semantics`, one of USAGE_SEMANTICS.
    """
    meter = UsageMeter(dialect, semantics)
    for part in [payload] if isinstance(payload, Mapping) else payload:
        if isinstance(part, Mapping):
            meter.feed(part)
    return meter.result()


@dataclass(slots=True)
class UsageMeter:
    """Gathers the usage of one answer. Feed it every parsed event that may carry usage; ask `result()` at any time."""

    dialect: Dialect
    semantics: str = ""
    _counts: dict[str, int] = field(default_factory=dict)
    _bad: set[str] = field(default_factory=set)
    _cost_usd: Decimal | None = None
    _exclusive: bool = False
    _silent: bool = False
    _spoke: bool = False

    def feed(self, payload: Mapping[str, Any]) -> None:
        for reading in readings(self.dialect, payload):
            self._merge(reading)

    def result(self) -> Usage | None:
        """Return what is known so far; None when nothing was reported.

        PARTIAL when input or output is unknown (a stream cut early); NONE, all tokens null, when the report held no
        usable number: its flags tell why.
        """
        if self._cost_usd is None and not self._counts and not self._bad:
            return None
        report = Report(self._counts, frozenset(self._bad), self._exclusive, self._silent, self._spoke)
        total = total_of(self.dialect, report, self.semantics)
        flags = tuple(sorted(self._flags(total)))
        if total.input is None and total.output is None:
            return Usage(None, None, None, None, None, None, UsageSource.NONE, flags, self._cost_usd)
        known = total.input is not None and total.output is not None
        return Usage(
            total.input,
            total.cached,
            total.write,
            total.write_1h,
            total.output,
            total.reasoning,
            UsageSource.UPSTREAM if known else UsageSource.PARTIAL,
            flags,
            self._cost_usd,
        )

    def _merge(self, reading: Reading) -> None:
        counts, bad = dict(reading.counts), set(reading.bad)
        if reading.opening:
            for provisional in ("output", "reasoning"):
                counts.pop(provisional, None)
                bad.discard(provisional)
        self._bad |= bad
        if reading.cost_usd or self._cost_usd is None:
            self._cost_usd = reading.cost_usd
        if (reading.opening or reading.early) and not any(counts.values()):
            return
        if counts.get("input") or counts.get("output"):
            self._counts.pop("total", None)  # the sum of an earlier report explains nothing about this one
        self._counts.update({name: tokens for name, tokens in counts.items() if tokens or name not in self._counts})
        self._exclusive |= reading.exclusive
        self._silent |= reading.silent
        self._spoke |= reading.spoke

    def _flags(self, total: Total) -> set[str]:
        flags = {f"bad_number:{name}" for name in self._bad}
        if total.input is None and total.output is None:
            return flags | ({"total_only"} if self._counts.get("total") else set())
        if not any(self._counts.values()):
            flags.add("all_zero")
        if total.input is not None and (total.cached or 0) + (total.write or 0) > total.input:
            flags.add("cache_exceeds_input")
        return flags
