"""`./bin/run` as a person sees it: real processes, real signals."""

import os
import re
import select
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.conf import settings

from tests.environment import ROOT, variables

READY_S = 90.0


class Run:
    """A running `manage.py up`; its output is read line by line."""

    def __init__(self, folder: Path, **env: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "up"],
            cwd=ROOT, env=environment(folder, **env), stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def lines_until(self, beginning: str) -> list[str]:
        lines: list[str] = []
        while not lines or not lines[-1].startswith(beginning):
            line = self.process.stdout.readline()
            assert line, f"ended before {beginning!r}: {lines}"
            lines.append(line.rstrip("\n"))
        return lines

    def children(self, module: str) -> list[int]:
        """Return the ids of the direct children whose command line has `module`."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [pid for pid in map(int, path.read_text().split()) if module in command_line(pid)]


def command_line(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return []


def environment(folder: Path, **env: str) -> dict[str, str]:
    ours = {"POINTSMAN_DATA": str(folder), "POINTSMAN_PORT": "0", **env}
    return {**os.environ, **dict.fromkeys(variables(), ""), **ours}


@contextmanager
def running(folder: Path, **env: str) -> Iterator[Run]:
    run = Run(folder, **env)
    try:
        yield run
    finally:
        run.process.kill()
        run.process.communicate()


def up(folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", "up"],
        cwd=ROOT, env=environment(folder, **env), check=False, capture_output=True, text=True, timeout=READY_S,
    )  # fmt: skip


def health(url: str) -> int:
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as exc:
        return exc.code


def gone(pid: int) -> bool:
    """Wait until the process is gone."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    with os.fdopen(fd):
        return wait_readable(fd)


def wait_readable(fd: int) -> bool:
    return bool(select.select([fd], [], [], 40.0)[0])


@pytest.mark.embedded
def test_the_first_start_tells_the_password_and_sigterm_ends_all_with_0(tmp_path):
    with running(tmp_path) as run:
        lines = run.lines_until("Login: ")
        gateway, admin, login = lines[-3:]
        url = gateway.removeprefix("Gateway: ")
        assert re.fullmatch(r"Gateway: http://127\.0\.0\.1:\d+", gateway)
        assert admin == f"Admin: {url}/admin/"
        assert re.fullmatch(r"Login: admin \S{16}", login)
        assert health(url) == 200
        children = run.children("config.serve") + run.children("celery")
        assert len(children) == 3

        refused = up(tmp_path)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert f"Another web process uses {tmp_path}" in refused.stderr
        assert refused.stderr.count("\n") == 1

        run.process.send_signal(signal.SIGTERM)
        assert run.process.wait(60) == 0
        assert [pid for pid in children if not gone(pid)] == []

    with running(tmp_path) as again:
        lines = again.lines_until("Admin: ")
        again.process.send_signal(signal.SIGTERM)
        assert not any(line.startswith("Login: ") for line in [*lines, *again.process.stdout])
        assert again.process.wait(60) == 0


@pytest.mark.embedded
def test_a_port_in_use_is_one_line_before_anything_is_made(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = up(tmp_path, POINTSMAN_PORT=str(port))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"Port {port} on 127.0.0.1 is in use" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert not (tmp_path / "pointsman.sqlite3").exists()


@pytest.mark.embedded
def test_two_web_processes_without_redis_are_refused(tmp_path):
    refused = up(tmp_path, POINTSMAN_WORKERS="2")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "POINTSMAN_WORKERS is 2 but REDIS_URL is not set" in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.embedded
def test_an_unmigrated_database_is_one_line(tmp_path):
    found = subprocess.run(
        [sys.executable, "manage.py", "changepassword", "admin"],
        cwd=ROOT, env=environment(tmp_path), check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert found.returncode == 1
    assert found.stderr.startswith("The database is not migrated: run `./bin/manage migrate`")
    assert found.stderr.count("\n") == 1


@pytest.mark.skipif(not settings.REDIS_URL, reason="several web processes need Redis")
def test_several_web_processes_share_the_port_and_outlive_one(tmp_path):
    with running(tmp_path, POINTSMAN_WORKERS="2", REDIS_URL=settings.REDIS_URL.removesuffix("/0") + "/5") as run:
        url = run.lines_until("Gateway: ")[-1].removeprefix("Gateway: ")
        run.lines_until("Login: ")
        first, second = run.children("config.serve")
        os.kill(first, signal.SIGSTOP)  # accepts no more; what it had not accepted waits for the other
        try:
            assert [health(url) for _ in range(3)] == [200, 200, 200]
        finally:
            os.kill(first, signal.SIGCONT)
        others = run.children("celery")
        run.process.kill()
        assert [pid for pid in (first, second, *others) if not gone(pid)] == []
