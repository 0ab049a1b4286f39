"""The report of a run: what was measured where, and each figure beside the baseline's."""

import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path

from bench.loadgen import Load

PACKAGES = ("uvicorn", "uvloop", "httptools", "aiohttp", "Django", "djangorestframework")


@dataclass(frozen=True)
class Scenario:
    """`share`: how much longer than others it runs."""

    name: str
    what: str
    load: Load
    share: float = 1.0

    def at(self, url: str, headers: tuple[str, ...], seconds: float) -> Load:
        return replace(self.load, url=url, headers=headers, seconds=seconds)


@dataclass
class Candidate:
    """Medians per scenario; None = not measured. Memory in MB."""

    name: str
    started_s: float | None
    idle_mb: float
    after_mb: float = 0.0
    scenarios: dict[str, dict[str, float | None]] = field(default_factory=dict)
    records: int | None = None
    answered: int | None = None


def write(
    path: Path, candidates: Sequence[Candidate], scenarios: Sequence[Scenario], *, seconds: float, repeats: int
) -> None:
    base, own = candidates
    lines = [
        "# What the gateway costs",
        "",
        f"Written by `bin/bench` on {time.strftime('%Y-%m-%d')}: {machine()}.",
        f"Medians over {repeats} turns of at least {seconds:g} s; baseline and gateway took turns on one core, the",
        "fake upstream and the load generator shared another. CPU is user + system time of the process. Absolute",
        "figures are this machine's; the ratios travel. The gateway authenticates, decides, forwards, meters, prices",
        "and makes the record durable (SQLite, synchronous=FULL) before the last byte; the baseline passes bytes on.",
        "",
        *processor(base, own, scenarios),
        *latency(base, own, scenarios),
        *rest(base, own),
        *decision(path),
    ]
    path.write_text("\n".join(lines) + "\n")


def decision(path: Path) -> list[str]:
    """Keep the section that bench/decision.py writes."""
    known = path.read_text() if path.exists() else ""
    _, mark, section = known.partition("\n## Decision and state\n")
    return ["", mark.strip(), section.rstrip()] if mark else []


def processor(base: Candidate, own: Candidate, scenarios: Sequence[Scenario]) -> list[str]:
    lines = [
        "## CPU",
        "",
        f"| scenario | unit | {base.name} | {own.name} | ratio | more |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for scenario in scenarios:
        units = [("request", "cpu_us_per_request")]
        if scenario.load.stream:
            units.append(("event", "cpu_us_per_event"))
        for unit, name in units:
            first, second = base.scenarios[scenario.name][name], own.scenarios[scenario.name][name]
            more = second - first if first is not None and second is not None else None
            label = f"{scenario.name}: {scenario.what}" if unit == "request" else ""
            cells = [figure(first, "µs"), figure(second, "µs"), ratio(first, second), figure(more, "µs")]
            lines.append(f"| {label} | {unit} | {' | '.join(cells)} |")
    return [*lines, ""]


def latency(base: Candidate, own: Candidate, scenarios: Sequence[Scenario]) -> list[str]:
    """Added latency is against the upstream alone; the closed loop saturates at high concurrency."""
    columns: list[tuple[str, Callable[[dict[str, float | None]], str]]] = [
        ("added p50", lambda line: figure(line["added_p50"], "ms")),
        ("added p99", lambda line: figure(line["added_p99"], "ms")),
        ("a second", lambda line: figure(line["per_second"], "")),
        ("errors", lambda line: figure(line["errors"], "")),
    ]
    head = " | ".join(f"{title}, {one.name}" for title, _ in columns for one in (base, own))
    lines = ["## Latency and rate", "", f"| scenario | {head} |", "|---|" + "--:|" * 2 * len(columns)]
    for scenario in scenarios:
        cells = [show(one.scenarios[scenario.name]) for _, show in columns for one in (base, own)]
        lines.append(f"| {scenario.name} | {' | '.join(cells)} |")
    note = "Added = less the upstream's own: of the first byte for streams, of the whole answer otherwise."
    return [*lines, "", note, ""]


def rest(base: Candidate, own: Candidate) -> list[str]:
    peak = [max((line["peak_mb"] or 0.0 for line in one.scenarios.values()), default=0.0) for one in (base, own)]
    lines = [
        "## Memory, start and records",
        "",
        f"| | {base.name} | {own.name} |",
        "|---|--:|--:|",
        f"| idle | {figure(base.idle_mb, 'MB')} | {figure(own.idle_mb, 'MB')} |",
        f"| peak at 200 streams | {figure(peak[0] or None, 'MB')} | {figure(peak[1] or None, 'MB')} |",
        f"| after the run | {figure(base.after_mb, 'MB')} | {figure(own.after_mb, 'MB')} |",
        f"| start to first health check | {figure(base.started_s, 's')} | {figure(own.started_s, 's')} |",
        "",
    ]
    if own.records is not None:
        lines += [f"Answers read whole: {own.answered}; request records, the warm-up's included: {own.records}."]
    return lines


def figure(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    digits = 0 if abs(value) >= 100 or value == int(value) else 1 if abs(value) >= 10 else 2
    return f"{value:.{digits}f} {unit}".strip()


def ratio(first: float | None, second: float | None) -> str:
    return f"{second / first:.2f}" if first and second is not None else "–"


def machine() -> str:
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return f"{os.cpu_count()} × {model}, Linux {platform.release()}, Python {platform.python_version()}, {packages}"
