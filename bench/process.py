"""Processes under measurement: started on a core of their own, their CPU time and memory read from /proc."""

import os
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

TICK = os.sysconf("SC_CLK_TCK")
START_S = 60.0
STOP_S = 45.0
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Program:
    """A child on one core, with all its descendants."""

    def __init__(self, name: str, argv: Sequence[str], *, cpu: int, env: Mapping[str, str], log: Path) -> None:
        self.name = name
        self.argv = argv
        self.cpu = cpu
        self.env = dict(env)
        self.log = log

    def __enter__(self) -> Self:
        self.begun = time.perf_counter()
        own = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {self.cpu})  # the child inherits it
        try:
            with self.log.open("ab") as log:
                self.child = subprocess.Popen(
                    self.argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self.env, start_new_session=True
                )
        finally:
            os.sched_setaffinity(0, own)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.child.send_signal(signal.SIGTERM)
        try:
            self.child.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.child.pid, signal.SIGKILL)
            self.child.wait()

    def wait_until_answers(self, url: str) -> float:
        """Wait for a 200 and return the seconds since the start. Raises SystemExit when it ends or takes too long."""
        while time.perf_counter() - self.begun < START_S:
            if self.child.poll() is not None:
                break
            try:
                with DIRECT.open(url, timeout=5) as answer:
                    answer.read()
                return time.perf_counter() - self.begun
            except (urllib.error.URLError, OSError):
                time.sleep(0.02)
        raise SystemExit(f"{self.name} did not start:\n{self.log.read_text()[-2000:]}")

    def cpu_seconds(self) -> float:
        """User and system time of the process and its descendants so far."""
        total = 0
        for pid in tree(self.child.pid):
            fields = stat(pid)
            total += int(fields[11]) + int(fields[12]) if fields else 0
        return total / TICK

    def rss_mb(self) -> float:
        """Resident memory, shared pages counted in each process that has them."""
        total = 0
        for pid in tree(self.child.pid):
            try:
                text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            except OSError:
                continue
            total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Rss:"))
        return total / 1024


class PeakMemory(threading.Thread):
    """Samples a program's memory twice a second until left."""

    def __init__(self, program: Program) -> None:
        super().__init__(daemon=True)
        self.program, self.peak_mb, self.over = program, 0.0, threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.5):
            self.peak_mb = max(self.peak_mb, self.program.rss_mb())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.over.set()
        self.join()


def stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return []


def tree(root: int) -> set[int]:
    """Pids of root and its descendants."""
    parent = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := stat(int(name))):
            parent[int(name)] = int(fields[1])
    found, grown = {root}, True
    while grown:
        more = {pid for pid, up in parent.items() if up in found} - found
        grown = bool(more)
        found |= more
    return found
