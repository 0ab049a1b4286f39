"""Undo providers' habits: from the numbers that a provider reports to tokens in one meaning (see `tokens.py`).

- OpenAI's dialects: input includes the caches, unless the report says or its own numbers prove that it does not
  (new-api and others in front of Claude). Output includes reasoning, unless total = input + output + reasoning, or
  reasoning > output (xAI, Gemini behind a relay). With no reasoning stated, what the total has over is hidden output.
- Anthropic: input excludes both caches. Compaction iterations are billed on top.
- Gemini: the tool-use prompt is extra input; thoughts are extra output, unless the total shows them inside.

An upstream's `usage_semantics` overrides the guess about the caches: a few relays cannot be told by one answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from keys.core.dialect import Dialect

# What `usage_semantics` may say: are the caches inside the reported input? The dialects' names are aliases.
USAGE_SEMANTICS = ("", "auto", "inclusive", "exclusive", "openai", "anthropic")
_INCLUSIVE = frozenset({"inclusive", "openai"})
_EXCLUSIVE = frozenset({"exclusive", "anthropic"})


@dataclass(frozen=True, slots=True)
class Report:
    """The merged numbers of one answer, under the field names of `shapes.py`, and what was seen around them."""

    counts: Mapping[str, int]
    bad: frozenset[str] = frozenset()
    exclusive: bool = False
    silent: bool = False
    spoke: bool = False

    def part(self, name: str) -> int | None:
        """Return a detail: missing is an implied zero, unreadable is unknown."""
        return self.counts.get(name, None if name in self.bad else 0)


@dataclass(frozen=True, slots=True)
class Total:
    """As the token fields of `Usage`."""

    input: int | None
    cached: int | None
    write: int | None
    write_1h: int | None
    output: int | None
    reasoning: int | None


def total_of(dialect: Dialect, report: Report, semantics: str = "") -> Total:
    if dialect is Dialect.GEMINI:
        return _gemini(report)
    if dialect is Dialect.ANTHROPIC:
        return _anthropic(report, semantics)
    return _openai(report, semantics)


def _openai(report: Report, semantics: str) -> Total:
    cached, write, write_1h = _caches(report)
    stated = _openai_input(report, cached)
    if stated is None:
        return Total(None, cached, write, write_1h, report.counts.get("output"), report.part("reasoning"))
    outside = _caches_outside(report, semantics, stated, (cached or 0, write or 0))
    output, reasoning = _openai_output(report, stated, stated + outside)
    return Total(stated + outside, cached, write, write_1h, output, reasoning)


def _openai_input(report: Report, cached: int | None) -> int | None:
    counts = report.counts
    if "input" in counts or "input" in report.bad:
        return counts.get("input")
    if "missed" in counts and cached is not None:
        return counts["missed"] + cached
    if "total" not in counts or "output" in report.bad:
        return None
    if "output" in counts:
        return max(counts["total"] - counts["output"], 0)
    return counts["total"] if report.silent else None  # Voyage, Jina: a total and nothing else


def _caches_outside(report: Report, semantics: str, stated: int, caches: tuple[int, int]) -> int:
    """Return how many cached tokens the stated input leaves out."""
    both = sum(caches)
    if both == 0 or semantics in _INCLUSIVE:
        return 0
    if semantics in _EXCLUSIVE or report.exclusive or both > stated:
        return both
    spare = report.counts.get("total", 0) - stated - report.counts.get("output", 0)
    reasoning = report.counts.get("reasoning", 0)
    if spare <= 0 or spare == reasoning:
        return 0
    return next((part for part in (both, *caches) if part and spare in (part, part + reasoning)), 0)


def _openai_output(report: Report, stated: int, whole: int) -> tuple[int | None, int | None]:
    """Return output and reasoning. `whole` is the input with all caches, `stated` as it was reported."""
    counts = report.counts
    total = counts.get("total")
    reasoning = report.part("reasoning")
    if "output" not in counts:
        return _missing_output(report, None if total is None else total - whole), reasoning
    output = counts["output"]
    if reasoning:
        inside = total in {stated + output, whole + output}
        added = total in {stated + output + reasoning, whole + output + reasoning}
        return (output + reasoning if reasoning > output or (added and not inside) else output), reasoning
    hidden = 0 if total is None else total - whole - output
    if hidden > 0 and "reasoning" not in counts and "reasoning" not in report.bad:
        return output + hidden, hidden
    return output, reasoning


def _missing_output(report: Report, spare: int | None) -> int | None:
    """Return the output that a report without an output count implies. `spare` = its total less its input."""
    if "output" in report.bad:
        return None
    implied = max(spare or 0, report.counts.get("reasoning", 0))
    if implied or report.silent:
        return implied
    # A total equal to the input says "no output", unless output stands right beside it.
    return None if spare is None or report.spoke else 0


def _anthropic(report: Report, semantics: str) -> Total:
    counts = report.counts
    cached, write, write_1h = _caches(report)
    compacted = any(name.startswith("compaction_") for name in counts)
    more_cached, more_write, more_write_1h = _caches(report, "compaction_")
    base = counts.get("input", 0 if compacted and "input" not in report.bad else None)
    output = counts.get("output", 0 if compacted and "output" not in report.bad else None)
    own = base
    if semantics not in _INCLUSIVE or (base or 0) < (cached or 0) + (write or 0):
        own = _sum(base, cached, write)
    return Total(
        _sum(own, report.part("compaction_input"), more_cached, more_write),
        _sum(cached, more_cached),
        _sum(write, more_write),
        _sum(write_1h, more_write_1h),
        _sum(output, report.part("compaction_output")),
        _sum(report.part("reasoning"), report.part("compaction_reasoning")),
    )


def _gemini(report: Report) -> Total:
    counts = report.counts
    cached, reasoning, total = report.part("cached"), report.part("reasoning"), counts.get("total")
    whole = _sum(counts.get("input"), report.part("tool"))
    if whole is None:
        return Total(None, cached, 0, 0, counts.get("output"), reasoning)
    if "output" not in counts:
        output = _missing_output(report, None if total is None else total - whole)
        return Total(whole, cached, 0, 0, output, reasoning)
    output = counts["output"]
    if "reasoning" in counts:
        inside = total == whole + output and counts["reasoning"] <= output
        return Total(whole, cached, 0, 0, output if inside else output + counts["reasoning"], reasoning)
    hidden = 0 if total is None or reasoning is None else max(total - whole - output, 0)
    return Total(whole, cached, 0, 0, output + hidden, None if reasoning is None else hidden)


def _caches(report: Report, prefix: str = "") -> tuple[int | None, int | None, int | None]:
    """Return cached reads, all cache writes, and the writes of an hour. A split alone counts as the writes."""
    cached, write = report.part(f"{prefix}cached"), report.part(f"{prefix}write")
    write_1h = report.part(f"{prefix}write_1h")
    split = (report.part(f"{prefix}write_5m") or 0) + (write_1h or 0)
    if split:
        write = max(write or 0, split)
    return cached, write, write_1h


def _sum(*parts: int | None) -> int | None:
    """Add; unknown as soon as one part is."""
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None
