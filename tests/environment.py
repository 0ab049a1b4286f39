"""A pytest plugin, loaded before Django's settings are (addopts in pyproject.toml).

bin/test runs two suites, each in a process of its own, with the environment set by tests/run.py. Plain `pytest` gets
SQLite and the embedded store in a temporary folder, and every test. A developer's own .env is never seen: each
variable is set, if only to nothing.
"""

import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SUITE = os.environ.get("POINTSMAN_TEST_SUITE", "")  # main | embedded | "" for plain pytest


def variables() -> list[str]:
    """Return the names of all environment variables that Pointsman reads, as .env.example lists them."""
    return re.findall(r"^([A-Z_]+)=", (ROOT / ".env.example").read_text(), re.MULTILINE)


if not SUITE:
    for name in variables():
        os.environ[name] = ""
    os.environ["POINTSMAN_DATA"] = tempfile.mkdtemp(prefix="pointsman-pytest-")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not SUITE:
        return
    mine = [item for item in items if (item.get_closest_marker("embedded") is not None) == (SUITE == "embedded")]
    others = [item for item in items if item not in set(mine)]
    config.hook.pytest_deselected(items=others)
    items[:] = mine


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in terminalreporter.getreports("rerun"):
        terminalreporter.write_sep("_", f"failed at first: {report.nodeid}", yellow=True)
        report.toterminal(terminalreporter._tw)
    if os.environ.get("POINTSMAN_TEST_EMBEDDED_FAILED"):
        terminalreporter.write_line("The embedded suite, which ran before, failed as well: see above.", red=True)


def pytest_unconfigure() -> None:
    if not SUITE:
        shutil.rmtree(os.environ["POINTSMAN_DATA"], ignore_errors=True)
