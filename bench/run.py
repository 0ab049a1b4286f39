"""Measure the gateway against a bare ASGI pass-through, in one run on the same machine, and write bench/report.md.

Needs Linux and two cores: each candidate alone on the first, the fake upstream and the load on the second. Both
candidates stay up and take turns (A B A B), so that a slow minute of the machine hits both; figures are medians.
The gateway is the real web process with its database, records and budgets, in a scratch data folder.
"""

import argparse
import json
import os
import shutil
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.loadgen import Load
from bench.process import PeakMemory, Program
from bench.report import Candidate, Scenario, write

ROOT = Path(__file__).resolve().parent.parent
SCENARIOS = (
    Scenario("plain_c1", "about 1 KB of JSON, one at a time", Load("", concurrency=1)),
    Scenario("plain_c64", "the same, 64 at a time", Load("", concurrency=64)),
    Scenario("stream5_c1", "10 chunks, 5 ms apart, one at a time", Load("", model="fake-c10-d5", stream=True)),
    Scenario(
        "stream0_c16", "100 chunks at once, 16 at a time", Load("", model="fake-c100", stream=True, concurrency=16)
    ),
    Scenario(
        "stream10_c20",
        "100 chunks, 10 ms apart, 20 at a time",
        Load("", model="fake-c100-d10", stream=True, concurrency=20, ramp=1),
        share=1.5,
    ),
    Scenario(
        "stream10_c200",
        "the same, 200 at a time",
        Load("", model="fake-c100-d10", stream=True, concurrency=200, ramp=1),
        share=2,
    ),
)
MEMORY_FROM = 200  # concurrency at which memory is watched
DIRECT_UP_TO = 64  # concurrency up to which the upstream's own latency is taken and subtracted


@dataclass
class Target:
    """A running candidate."""

    program: Program
    url: str
    headers: tuple[str, ...]
    result: Candidate
    runs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        port: int = trial.getsockname()[1]
        return port


def put(load: Load, cpu: int) -> dict[str, Any]:
    """Run the load generator on its core and return what it prints."""
    argv = [sys.executable, "-m", "bench.loadgen", load.url, "-m", load.model, "-c", str(load.concurrency)]
    argv += ["-t", str(load.seconds), "--ramp", str(load.ramp)]
    for header in load.headers:
        argv += ["-H", header]
    if load.stream:
        argv.append("-s")
    pinned = ["taskset", "-c", str(cpu), *argv]
    done = subprocess.run(pinned, capture_output=True, text=True, timeout=load.seconds + 120, cwd=ROOT, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measure(target: Target, scenario: Scenario, seconds: float, cpu: int) -> dict[str, Any]:
    """Put one scenario's load on a candidate: what the generator saw, and the CPU time that it cost."""
    load = scenario.at(target.url, target.headers, seconds * scenario.share)
    watched = PeakMemory(target.program) if load.concurrency >= MEMORY_FROM else None
    before = target.program.cpu_seconds()
    with watched or nullcontext():
        one = put(load, cpu)
    used = target.program.cpu_seconds() - before
    count = one["ok"] + sum(one["errors"].values())
    one["cpu_us_per_request"] = used / max(1, count) * 1e6
    one["cpu_us_per_event"] = used / one["events"] * 1e6 if one["events"] else None
    one["peak_mb"] = watched.peak_mb if watched else None
    return one


def measure_direct(url: str, scenario: Scenario, seconds: float, cpu: int) -> dict[str, Any] | None:
    """The same load on the upstream itself, for a third of the time; None where it would be meaningless."""
    if scenario.load.concurrency > DIRECT_UP_TO:
        return None
    return put(scenario.at(url, (), max(1.0, seconds * scenario.share / 3)), cpu)


def take_turns(targets: list[Target], direct: str, options: argparse.Namespace) -> None:
    cpu = options.cores[1]
    chosen = [scenario for scenario in SCENARIOS if scenario.name in options.scenarios]
    for target in targets:
        put(SCENARIOS[1].at(target.url, target.headers, 2), cpu)  # warm up
    for turn in range(options.repeats):
        for scenario in chosen:
            base = measure_direct(direct, scenario, options.seconds, cpu)
            for target in targets:
                one = measure(target, scenario, options.seconds, cpu)
                one["direct"] = base
                target.runs.setdefault(scenario.name, []).append(one)
                print(
                    f"{turn + 1}/{options.repeats} {scenario.name:14s} {target.result.name:10s} "
                    f"{one['cpu_us_per_request']:8.0f} µs a request, {one['per_second']:8.0f} a second, "
                    f"errors {one['errors']}",
                    flush=True,
                )
    for target in targets:
        for scenario in chosen:
            target.result.scenarios[scenario.name] = middle(target.runs[scenario.name], stream=scenario.load.stream)
        target.result.after_mb = target.program.rss_mb()


def middle(runs: list[dict[str, Any]], *, stream: bool) -> dict[str, float | None]:
    """Medians over the repeats. Added latency: of the first byte for streams, of the whole answer otherwise."""
    kind = "first_byte_ms" if stream else "latency_ms"

    def of(*path: str) -> list[float]:
        found = []
        for one in runs:
            value: Any = one
            for name in path:
                value = value[name] if value else None
            if value is not None:
                found.append(float(value))
        return found

    def median(*path: str) -> float | None:
        values = of(*path)
        return statistics.median(values) if values else None

    line = {name: median(name) for name in ("cpu_us_per_request", "cpu_us_per_event", "per_second", "peak_mb")}
    for part in ("p50", "p99"):
        own, base = median(kind, part), median("direct", kind, part)
        line[part] = own
        line[f"added_{part}"] = own - base if own is not None and base is not None else None
    line["ok"] = sum(of("ok"))
    line["errors"] = float(sum(sum(one["errors"].values()) for one in runs))
    return line


@contextmanager
def gateway(scratch: Path, upstream: str, cpu: int) -> Iterator[Target]:
    """The web process of a fresh installation."""
    port = free_port()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("POINTSMAN_")}
    env = {
        **{name: value for name, value in clean.items() if name not in {"DATABASE_URL", "REDIS_URL"}},
        "POINTSMAN_DATA": str(scratch),
        "POINTSMAN_PORT": str(port),
        "POINTSMAN_ALLOW_PRIVATE_UPSTREAMS": "127.0.0.1",
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "PYTHONPATH": str(ROOT),
    }
    subprocess.run([sys.executable, "manage.py", "migrate", "-v", "0"], env=env, check=True, cwd=ROOT)
    made = subprocess.run(
        [sys.executable, "-m", "bench.prepare", f"{upstream}/v1"], env=env, check=True, cwd=ROOT, capture_output=True
    )
    key = made.stdout.decode().strip()
    argv = [sys.executable, "-m", "config.serve"]
    with Program("pointsman", argv, cpu=cpu, env=env, log=scratch / "web.log") as program:
        started = program.wait_until_answers(f"http://127.0.0.1:{port}/healthz")
        url = f"http://127.0.0.1:{port}/v1/chat/completions"
        result = Candidate("pointsman", started_s=started, idle_mb=program.rss_mb())
        yield Target(program, url, (f"Authorization: Bearer {key}",), result)


@contextmanager
def bare(scratch: Path, upstream: str, cpu: int) -> Iterator[Target]:  # house: waits for a port inside a process
    """An ASGI application that only passes bytes on, on the same server with the same client."""
    port = free_port()
    argv = [sys.executable, "-m", "uvicorn", "bench.baselines.bare_asgi:app", "--port", str(port)]
    argv += ["--loop", "uvloop", "--http", "httptools", "--no-access-log"]
    env = {**os.environ, "UPSTREAM": upstream, "PYTHONPATH": str(ROOT)}
    with Program("bare ASGI", argv, cpu=cpu, env=env, log=scratch / "bare.log") as program:
        while True:
            with socket.socket() as trial:
                if trial.connect_ex(("127.0.0.1", port)) == 0:
                    break
        result = Candidate("bare ASGI", started_s=None, idle_mb=program.rss_mb())
        yield Target(program, f"http://127.0.0.1:{port}/v1/chat/completions", (), result)


def records(scratch: Path) -> int:
    """How many request records the run has left."""
    with sqlite3.connect(f"file:{scratch / 'pointsman.sqlite3'}?mode=ro", uri=True) as database:
        count: int = database.execute("SELECT count(*) FROM billing_requestrecord").fetchone()[0]
    database.close()
    return count


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4, help="length of a scenario (some take up to twice as long)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--scenarios", default=",".join(scenario.name for scenario in SCENARIOS))
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "report.md")
    parser.add_argument("--json", type=Path, help="write the medians here too")
    options = parser.parse_args()
    options.scenarios = options.scenarios.split(",")
    unknown = set(options.scenarios) - {scenario.name for scenario in SCENARIOS}
    if unknown:
        parser.error(f"unknown scenarios: {', '.join(sorted(unknown))}")
    options.cores = sorted(os.sched_getaffinity(0))[:2]
    if len(options.cores) < 2 or not shutil.which("taskset"):
        parser.error("two cores and taskset (util-linux) are needed")
    return options


def main() -> None:
    options = read_options()
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pointsman-bench-")))
        port = free_port()
        upstream = f"http://127.0.0.1:{port}"
        fake = [sys.executable, "-m", "bench.fake_upstream", "--port", str(port)]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        program = stack.enter_context(
            Program("fake upstream", fake, cpu=options.cores[1], env=env, log=scratch / "fake.log")
        )
        program.wait_until_answers(f"{upstream}/v1/models")
        targets = [
            stack.enter_context(bare(scratch, upstream, options.cores[0])),
            stack.enter_context(gateway(scratch, upstream, options.cores[0])),
        ]
        take_turns(targets, f"{upstream}/v1/chat/completions", options)
        results = [target.result for target in targets]
        results[1].records = records(scratch)
        results[1].answered = answered(targets[1])
    chosen = [scenario for scenario in SCENARIOS if scenario.name in options.scenarios]
    write(options.out, results, chosen, seconds=options.seconds, repeats=options.repeats)
    if options.json:
        options.json.write_text(json.dumps([asdict(result) for result in results], indent=1))
    print(f"Written: {options.out}")


def answered(target: Target) -> int:
    """Answers that the load generator has read whole, the warm-up's left out."""
    return sum(one["ok"] for runs in target.runs.values() for one in runs)


if __name__ == "__main__":
    main()
