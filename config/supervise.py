"""Children of `./bin/run`: started in order, restarted when they die, stopped in order.

Each child has a session of its own, so the terminal's Ctrl-C reaches the parent alone; and on Linux the kernel sends
it SIGTERM when the parent dies, whatever killed that, so `kill -9` of the parent leaves no orphan.

States of a child: running -> (dies) -> waiting for its next start -> running. A `vital` child that dies within
VITAL_S of a start ends everything with its exit code: it could not start, and trying on would only hide why.
"""

import ctypes
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

log = logging.getLogger(__name__)

VITAL_S = 5.0
BACKOFF_S = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
STEADY_S = 60.0  # a child that ran this long starts again without the waits of earlier deaths
TICK_S = 0.1
PR_SET_PDEATHSIG = 1  # linux/prctl.h


@dataclass(frozen=True, slots=True)
class Command:
    """What to run. `grace_s`: seconds between SIGTERM and SIGKILL; `fds`: descriptors the child inherits."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    grace_s: float = 10.0
    vital: bool = False
    fds: Sequence[int] = ()


@dataclass(slots=True)
class _Child:
    command: Command
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    deaths: int = 0  # since it last ran steadily
    next_start: float = 0.0


@dataclass(slots=True)
class Supervisor:
    """`groups` are started in order; `stop_order` lists their indices, each group being gone before the next is told.

    `before_stop` runs once when stopping begins. `clock` is monotonic, in seconds; `pause` waits one tick.
    """

    groups: Sequence[Sequence[Command]]
    stop_order: Sequence[int]
    folder: Path
    before_stop: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[], None] = lambda: time.sleep(TICK_S)
    _children: list[list[_Child]] = field(default_factory=list)
    _signals: int = 0

    def start(self) -> None:
        """Start every child, and from now on take SIGTERM, SIGINT and SIGHUP as the wish to stop."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        self._children = [[_Child(command) for command in group] for group in self.groups]
        for child in self._all():
            self._spawn(child)

    def run(self, on_tick: Callable[[], None] = lambda: None) -> int:
        """Look after the children until a signal or a vital death; stop all; return the exit code."""
        code: int | None = None
        while code is None and not self._signals:
            on_tick()
            code = self._look()
            self.pause()
        self._stop_all()
        return code or 0

    def _all(self) -> list[_Child]:
        return [child for group in self._children for child in group]

    def _on_signal(self, _number: int, _frame: object) -> None:
        self._signals += 1

    def _look(self) -> int | None:
        """Note deaths and make due starts. Returns the exit code of a vital child that could not start."""
        now = self.clock()
        for child in self._all():
            if child.process is None:
                if now >= child.next_start:
                    self._spawn(child)
                continue
            status = child.process.poll()
            if status is None:
                continue
            code = exit_code(status)
            if child.command.vital and now - child.started < VITAL_S:
                log.error("%s ended with code %d within %.0f s of its start", child.command.name, code, VITAL_S)
                return code
            self._plan_restart(child, code, now)
        return None

    def _plan_restart(self, child: _Child, code: int, now: float) -> None:
        child.process = None
        child.deaths = 1 if now - child.started >= STEADY_S else child.deaths + 1
        wait_s = BACKOFF_S[min(child.deaths, len(BACKOFF_S)) - 1]
        child.next_start = now + wait_s
        log.warning("%s ended with code %d; starting it again in %.0f s", child.command.name, code, wait_s)

    def _spawn(self, child: _Child) -> None:
        child.started = self.clock()
        child.process = subprocess.Popen(  # noqa: S603  # our own commands
            child.command.argv,
            cwd=self.folder,
            env=dict(child.command.env),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=child.command.fds,
            preexec_fn=die_with_parent(signal.SIGTERM),  # noqa: PLW1509  # this process has one thread
        )

    def _stop_all(self) -> None:
        self.before_stop()
        for index in self.stop_order:
            self._stop_group(self._children[index])

    def _stop_group(self, group: Sequence[_Child]) -> None:
        """Send SIGTERM to all of a group and wait; SIGKILL after the grace, or at once after a second signal."""
        live = {child.command.name: child for child in group if child.process is not None}
        signals = self._signals
        for child in live.values():
            _send(child, signal.SIGTERM)
        begun = self.clock()
        while live:
            hurried = self._signals > max(signals, 1)
            for name, child in list(live.items()):
                if child.process is None or child.process.poll() is not None:
                    del live[name]
                elif hurried or self.clock() - begun > child.command.grace_s:
                    log.warning("%s did not stop in time and is killed", name)
                    _send(child, signal.SIGKILL)
            if live:
                self.pause()


def exit_code(status: int) -> int:
    """Return Popen's status as a shell shows it: a death by signal N is 128 + N."""
    return status if status >= 0 else 128 - status


def die_with_parent(number: signal.Signals) -> Callable[[], None]:
    """Return what a child runs before exec so that the kernel signals it when its parent dies; no-op off Linux."""
    if sys.platform != "linux":
        return lambda: None
    prctl = ctypes.CDLL(None, use_errno=True).prctl  # looked up here: a forked child should not load anything
    parent = os.getpid()

    def ask() -> None:
        prctl(PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:  # it died between fork and the call
            os._exit(1)

    return ask


def _send(child: _Child, number: signal.Signals) -> None:
    if child.process is not None:
        child.process.send_signal(number)
