"""The supervisor with real children and a clock of the test's own."""

import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from config.supervise import BACKOFF_S, Command, Supervisor, exit_code

SLEEPER = ["sleep", "600"]


@pytest.fixture(autouse=True)
def handlers():
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Time:
    """Seconds that pass only in pauses; a pause also lets real children die."""

    def __init__(self, tick_s: float = 1.0) -> None:
        self.now = 0.0
        self.tick_s = tick_s

    def clock(self) -> float:
        return self.now

    def pause(self) -> None:
        self.now += self.tick_s
        threading.Event().wait(0.02)


def command(argv, name="child", **more) -> Command:
    return Command(name=name, argv=argv, env=dict(os.environ), **more)


def stubborn(ready: Path) -> Command:
    """A child that ignores SIGTERM, and says so by making a file."""
    code = f"import signal, time; signal.signal(15, signal.SIG_IGN); open({str(ready)!r}, 'w'); time.sleep(600)"
    return command([sys.executable, "-c", code], grace_s=3)


def supervisor(time: Time, *groups, stop_order=None, **more) -> Supervisor:
    order = stop_order or range(len(groups))
    return Supervisor(groups, order, folder=Path("/"), clock=time.clock, pause=time.pause, **more)


def process_of(running: Supervisor, group: int = 0) -> subprocess.Popen[bytes] | None:
    return running._children[group][0].process


def test_a_signal_stops_the_groups_in_order_and_exits_0(tmp_path):
    time, told = Time(), tmp_path / "told"
    teller = "import signal, sys, time\nsignal.signal(15, lambda *_: (open({!r}, 'a').write({!r}), sys.exit(0)))\n"
    teller += "open({!r} + {!r}, 'w')\ntime.sleep(600)"
    groups = [
        [command([sys.executable, "-c", teller.format(str(told), name, str(told), name)], name)] for name in "abc"
    ]
    order: list[str] = []
    running = supervisor(time, *groups, stop_order=(1, 2, 0), before_stop=lambda: order.append("before"))
    running.start()

    def stop_when_all_listen() -> None:
        if all((tmp_path / f"told{name}").exists() for name in "abc"):
            os.kill(os.getpid(), signal.SIGTERM)

    assert running.run(on_tick=stop_when_all_listen) == 0
    assert told.read_text() == "bca"
    assert order == ["before"]


def test_a_vital_child_that_dies_at_once_ends_all_with_its_code():
    time = Time(tick_s=0.01)
    running = supervisor(time, [command(["sh", "-c", "exit 7"], vital=True)], [command(SLEEPER)])
    running.start()
    other = process_of(running, 1)
    assert running.run() == 7
    assert other.poll() == -signal.SIGTERM


def test_a_vital_child_that_dies_later_is_started_again():
    time = Time()
    running = supervisor(time, [command(SLEEPER, vital=True)])
    running.start()
    first = process_of(running)

    def steps() -> None:
        if time.now == 6:
            first.kill()
            first.wait()
        if process_of(running) not in {first, None}:
            os.kill(os.getpid(), signal.SIGTERM)

    assert running.run(on_tick=steps) == 0
    assert first.returncode == -signal.SIGKILL


def test_restarts_wait_longer_each_time_and_a_steady_run_forgets():
    time = Time()
    running = supervisor(time, [command(SLEEPER)])
    running.start()
    waits = []
    for _ in range(7):
        _die(running)
        waits.append(running._children[0][0].next_start - time.now)
        time.now += waits[-1]
        running._look()
    assert waits == [*BACKOFF_S, BACKOFF_S[-1]]
    time.now += 60
    _die(running)
    assert running._children[0][0].next_start - time.now == BACKOFF_S[0]


def _die(running: Supervisor) -> None:
    process = process_of(running)
    process.kill()
    process.wait()
    assert running._look() is None


def test_a_child_that_ignores_sigterm_is_killed_after_its_grace(tmp_path):
    time, ready = Time(), tmp_path / "ready"
    running = supervisor(time, [stubborn(ready)])
    running.start()
    process, told_at = process_of(running), []

    def stop() -> None:
        if ready.exists():
            told_at.append(time.now + time.tick_s)
            os.kill(os.getpid(), signal.SIGINT)

    assert running.run(on_tick=stop) == 0
    assert process.returncode == -signal.SIGKILL
    assert time.now - told_at[0] > 3


def test_a_second_signal_hurries(tmp_path):
    time, ready = Time(tick_s=0.0), tmp_path / "ready"  # the grace never passes
    running = supervisor(time, [stubborn(ready)])
    pauses = []

    def pause() -> None:
        time.pause()
        if ready.exists():
            pauses.append(len(pauses))
        if len(pauses) in {1, 3}:
            os.kill(os.getpid(), signal.SIGINT)

    running.pause = pause
    running.start()
    process = process_of(running)
    assert running.run() == 0
    assert process.returncode == -signal.SIGKILL


def test_children_have_sessions_of_their_own():
    running = supervisor(Time(), [command(SLEEPER)])
    running.start()
    process = process_of(running)
    assert os.getsid(process.pid) == process.pid != os.getsid(0)
    process.kill()
    process.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's")
def test_killing_the_parent_takes_the_children_along():
    code = (
        "import signal, subprocess, time; from config.supervise import die_with_parent as die\n"
        "child = subprocess.Popen(['sleep', '600'], start_new_session=True, preexec_fn=die(signal.SIGTERM))\n"
        "print(child.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        child = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    with os.fdopen(child):
        assert wait_readable(child, 10.0)  # a pidfd is readable once the process is gone


def wait_readable(fd: int, seconds: float) -> bool:
    return bool(select.select([fd], [], [], seconds)[0])


@pytest.mark.parametrize(("status", "code"), [(0, 0), (3, 3), (-9, 137), (-15, 143)])
def test_exit_code(status, code):
    assert exit_code(status) == code
