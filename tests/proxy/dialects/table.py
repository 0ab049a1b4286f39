"""`python -m tests.proxy.dialects.table`: run the tests over clients and dialects, write docs/compatibility.md.

A cell is yes only if at least one test with that feature's mark ran for the pair, and all of them passed. Further
arguments go to pytest.
"""

import inspect
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from keys.core.dialect import Dialect

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "compatibility.md"
HERE = Path(__file__).parent
TITLES = {  # by the speakers' names
    "openai chat": "openai-python, chat completions",
    "openai responses": "openai-python, Responses",
    "anthropic messages": "anthropic-python, Messages",
    "google gemini": "google-genai, generateContent",
}
HEAD = """# Compatibility

Which client works with which upstream. Each cell is the outcome of tests that run the official Python SDK against a
scripted upstream through the real gateway, over real sockets; `python -m tests.proxy.dialects.table` runs them and
writes this page. yes = every test of the feature passed for the pair, **no** = one failed, – = there is nothing to
test: the client's dialect or the upstream's does not know the feature.
"""

Cell = tuple[str, str, str]  # client, upstream dialect, feature


@dataclass
class Results:
    """A pytest plugin. Outcomes by cell, in the order in which features were met."""

    outcomes: dict[Cell, list[str]] = field(default_factory=dict)
    _cells: dict[str, Cell] = field(default_factory=dict)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            mark = item.get_closest_marker("feature")
            params: Mapping[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
            if mark is not None and {"speaker", "dialect"} <= set(params):
                self._cells[item.nodeid] = (params["speaker"].name, params["dialect"].value, mark.args[0])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        cell = self._cells.get(report.nodeid)
        if cell is not None and (report.when == "call" or not report.passed):
            self.outcomes.setdefault(cell, []).append(report.outcome)


def shown(outcomes: Iterable[str]) -> str:
    """What a cell says. A skipped test says nothing."""
    ran = [outcome for outcome in outcomes if outcome != "skipped"]
    if not ran:
        return "–"
    return "yes" if set(ran) == {"passed"} else "**no**"


def page(outcomes: Mapping[Cell, list[str]]) -> str:
    """The whole document."""
    features = list(dict.fromkeys(feature for _, _, feature in outcomes))
    dialects = [dialect.value for dialect in Dialect]
    parts = [HEAD]
    for client, title in TITLES.items():
        parts.append(f"\n## {title}\n\n| | {' | '.join(dialects)} |\n|---|{'---|' * len(dialects)}\n")
        for feature in features:
            cells = (shown(outcomes.get((client, dialect, feature), [])) for dialect in dialects)
            parts.append(f"| {feature} | {' | '.join(cells)} |\n")
    return "".join(parts)


def features_of(module: ModuleType) -> list[str]:
    """The features that a module's tests over all pairs are marked with."""
    found = []
    for _, test in inspect.getmembers(module, inspect.isfunction):
        marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "feature"]
        if marks and {"speaker", "dialect"} <= set(inspect.signature(test).parameters):
            found.append(marks[0].args[0])
    return found


def main(arguments: list[str]) -> int:
    results = Results()
    code = pytest.main([str(HERE), "-q", *arguments], plugins=[results])
    if results.outcomes:
        DOCUMENT.write_text(page(results.outcomes))
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
