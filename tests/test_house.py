"""The house rules that ruff cannot measure. `# house: reason` on the line named in a failure is an exception."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("config", "proxy", "routing", "billing", "keys", "tenants")
LONGEST_FUNCTION, LONGEST_FILE, DEEPEST_NESTING = 50, 400, 3  # lines, lines, blocks
NAMELESS = {"utils", "util", "helpers", "helper", "common", "misc"}
BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)
Function = ast.FunctionDef | ast.AsyncFunctionDef

product_files = [
    path for app in PRODUCT for path in sorted((ROOT / app).rglob("*.py")) if "migrations" not in path.parts
]
all_files = product_files + sorted((ROOT / "tests").rglob("*.py")) + sorted((ROOT / "bench").rglob("*.py"))


def source(path: Path) -> tuple[list[str], ast.Module]:
    text = path.read_text(encoding="utf-8")
    return text.splitlines(), ast.parse(text)


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def is_excused(lines: list[str], number: int) -> bool:
    return "# house: " in lines[number - 1]


def faults(paths: list[Path], judge) -> list[str]:
    """Apply `judge`, which yields (line number, complaint), to every file; drop the excused lines."""
    found = []
    for path in paths:
        lines, tree = source(path)
        found += [
            f"{path.relative_to(ROOT)}:{number}: {complaint}"
            for number, complaint in judge(lines, tree)
            if not is_excused(lines, number)
        ]
    return found


def long_functions(_lines, tree):
    for function in functions(tree):
        length = function.end_lineno - function.lineno + 1
        if length > LONGEST_FUNCTION:
            yield function.lineno, f"{function.name} has {length} lines"


def long_files(lines, _tree):
    if len(lines) > LONGEST_FILE:
        yield 1, f"{len(lines)} lines"


def depth(node: ast.AST) -> int:
    """Return how many blocks stand within one another below `node`; an elif is no deeper than its if."""
    deepest = 0
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, Function | ast.ClassDef | ast.Lambda):
                continue
            is_elif = isinstance(node, ast.If) and name == "orelse" and isinstance(child, ast.If) and len(value) == 1
            deepest = max(deepest, depth(child) + (isinstance(child, BLOCKS) and not is_elif))
    return deepest


def deep_functions(_lines, tree):
    for function in functions(tree):
        nesting = depth(function)
        if nesting > DEEPEST_NESTING:
            yield function.lineno, f"{function.name} is nested {nesting} deep"


def inner_imports(_lines, tree):
    for function in functions(tree):
        for node in ast.walk(function):
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield node.lineno, f"import inside {function.name}"


def swallowing_handlers(_lines, tree):
    for node in ast.walk(tree):
        is_swallowing = isinstance(node, ast.ExceptHandler) and not any(
            isinstance(n, ast.Raise) for n in ast.walk(node)
        )
        if is_swallowing and is_broad(node.type):
            yield node.lineno, "a broad except that does not raise again"


def is_broad(kind: ast.expr | None) -> bool:
    names = [kind] if not isinstance(kind, ast.Tuple) else kind.elts
    return any(name is None or getattr(name, "id", "") in {"Exception", "BaseException"} for name in names)


def signal_users(_lines, tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and re.search(r"\.signals$|^django\.dispatch", node.module or ""):
            yield node.lineno, "signals: call the function"


@pytest.mark.parametrize("judge", [long_functions, long_files, deep_functions, inner_imports, swallowing_handlers])
def test_every_file_keeps_the_caps(judge):
    found = faults(all_files, judge)
    assert not found, "\n".join(found)


def test_no_signals():
    found = faults(product_files, signal_users)
    assert not found, "\n".join(found)


def test_modules_have_names_that_say_something():
    assert [
        str(path.relative_to(ROOT)) for path in all_files if NAMELESS & {path.stem, *path.relative_to(ROOT).parts}
    ] == []


def test_no_loose_ends_in_the_product():
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    assert [
        f"{path.relative_to(ROOT)}: {mark.group()}"
        for path in product_files
        if (mark := marks.search(path.read_text()))
    ] == []


@pytest.mark.skipif(not (ROOT / "ARCHITECTURE.md").exists(), reason="ARCHITECTURE.md is not written yet")
def test_modules_named_in_the_architecture_exist():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(rf"\b((?:{'|'.join(PRODUCT)}|tests|bench|bin)/[\w/.-]*\w)", text))
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


@pytest.mark.parametrize(
    ("judge", "text", "complaints"),
    [
        (deep_functions, "def f():\n if a:\n  for b in c:\n   with d:\n    pass", 0),
        (deep_functions, "def f():\n if a:\n  for b in c:\n   with d:\n    while e:\n     pass", 1),
        (deep_functions, "def f():\n if a:\n  pass\n elif b:\n  pass\n elif c:\n  pass\n elif d:\n  pass", 0),
        (deep_functions, "def f():\n try:\n  pass\n except E:\n  if a:\n   if b:\n    if c:\n     pass", 1),
        (inner_imports, "def f():\n import os", 1),
        (inner_imports, "import os\ndef f():\n pass", 0),
        (swallowing_handlers, "try:\n pass\nexcept Exception:\n pass", 1),
        (swallowing_handlers, "try:\n pass\nexcept (OSError, Exception):\n pass", 1),
        (swallowing_handlers, "try:\n pass\nexcept:\n pass", 1),
        (swallowing_handlers, "try:\n pass\nexcept Exception:\n raise", 0),
        (swallowing_handlers, "try:\n pass\nexcept OSError:\n pass", 0),
        (signal_users, "from django.db.models.signals import post_save", 1),
        (signal_users, "import signal", 0),
        (long_functions, "def f():\n" + " a\n" * 49, 0),
        (long_functions, "def f():\n" + " a\n" * 50, 1),
        (long_files, "a\n" * 400, 0),
        (long_files, "a\n" * 401, 1),
    ],
)
def test_the_measures_measure(judge, text, complaints):
    assert len(list(judge(text.splitlines(), ast.parse(text)))) == complaints
