"""`./bin/test`: services up, both suites, services down. Arguments go to pytest; its summary is the last line."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import services
from tests.environment import ROOT, variables

NOTHING_RAN = pytest.ExitCode.NO_TESTS_COLLECTED
# Browsers, processes and sockets share a machine that may be busy: what fails has a second run, and the summary tells
# it with the first run's traceback. A plain `pytest` runs each test once.
AGAIN = ("--reruns=1", "-raR")


def main(arguments: list[str]) -> int:
    complaint = services.install_missing()
    if complaint:
        print(complaint, file=sys.stderr)  # noqa: T201  # a command line's answer
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with scratch_folder() as folder:
        embedded = run_pytest("embedded", arguments, {"POINTSMAN_DATA": str(folder / "embedded")})
        with services.postgres(folder) as database, services.redis(folder) as redis:
            ours = {
                "POINTSMAN_DATA": str(folder / "main"),
                "DATABASE_URL": database.url,
                "REDIS_URL": redis.url,
                "POINTSMAN_TEST_EMBEDDED_FAILED": "" if embedded in {0, NOTHING_RAN} else "1",
            }
            return combined(embedded, run_pytest("main", arguments, ours))


def run_pytest(suite: str, arguments: list[str], ours: Mapping[str, str]) -> int:
    blank = dict.fromkeys(variables(), "")  # neither the caller's environment nor a .env file is seen
    env = {**os.environ, **blank, "POINTSMAN_TEST_SUITE": suite, **ours}
    command = [sys.executable, "-m", "pytest", *AGAIN, *arguments]
    return subprocess.run(command, cwd=ROOT, env=env, check=False).returncode


def combined(embedded: int, main_suite: int) -> int:
    """Return the exit code for both; that a suite found nothing to run matters only when both did."""
    failures = [code for code in (main_suite, embedded) if code not in {0, NOTHING_RAN}]
    return failures[0] if failures else min(embedded, main_suite)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="pointsman-test-"))
    folder.chmod(0o711)  # PostgreSQL runs as another user and must reach its own folder inside
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
