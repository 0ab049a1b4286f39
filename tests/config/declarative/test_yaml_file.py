"""YAML comes in by the 1.2 rules, keys stand once, problems name their place."""

from decimal import Decimal
from typing import Any

import pytest

from config.declarative.inspection import BAD, Inspection
from config.declarative.yaml_file import REDACTED, dump, load


def read(text: str) -> tuple[Any, list[str]]:
    inspection = Inspection()
    return load(text, inspection), inspection.errors


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"),
        ("yes", "yes"),
        ("no", "no"),
        ("true", True),
        ("False", False),
        ("22:00-07:00", "22:00-07:00"),
        ("12:30", "12:30"),
        ("2026-01-31", "2026-01-31"),
        ("2026-13-45", "2026-13-45"),
        ("1_000", "1_000"),
        ("12", 12),
        ("-3", -3),
        ("0x10", 16),
        ("007", 7),
        ("2.50", 2.5),
        ("1e3", 1000.0),
        ("~", None),
        ("null", None),
        ('"2.50"', "2.50"),
        ("env:NAME", "env:NAME"),
        ("[a, 1]", ["a", 1]),
        ("!!str 12", "12"),
        ("!redacted", REDACTED),
        ("!redacted ''", REDACTED),
    ],
)
def test_scalars(text: str, value: Any) -> None:
    found, errors = read(f"a: {text}")
    assert errors == []
    assert found == {"a": value}
    assert type(found["a"]) is type(value)


def test_the_field_name_on_is_text() -> None:
    assert read("{from: USD, on: 2026-11-01}") == ({"from": "USD", "on": "2026-11-01"}, [])


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        ("a: 1\na: 2", ["a: stands twice (line 2; first in line 1)"]),
        ("t:\n- x: 1\n  y: 2\n  x: 3", ["t[0].x: stands twice (line 4; first in line 2)"]),
        ("a: {b: {c: 1, c: 2}}", ["a.b.c: stands twice (line 1; first in line 1)"]),
        ("a: !python/object:os.system x", ["a: unknown YAML tag !python/object:os.system"]),
        ("a: !!python/name:os.system ''", ["a: unknown YAML tag tag:yaml.org,2002:python/name:os.system"]),
        ("? [a]\n: 1", ["line 1: a field's name must be text"]),
        ("a: &x [*x]", ["a[0]: an alias must not contain itself"]),
        ("", ["the file is empty"]),
        ("# nothing", ["the file is empty"]),
        ("a: " + "9" * 500, ["a: too many digits"]),
    ],
)
def test_problems_name_their_place(text: str, errors: list[str]) -> None:
    assert read(text)[1] == errors


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("a: [1, 2", "line 1, column 9: "),
        ("a: 1\n b: 2", "line 2, column 3: "),
        ("a: b: c", "line 1, column 5: "),
        ("a: *x", "line 1, column 4: found undefined alias"),
        ("a: 1\n---\nb: 2", "line 2, column 1: but found another document"),
        ("a: \x00", "not YAML: "),
        ("a: \t- x", "line 1, column 4: "),
    ],
)
def test_a_syntax_error_has_line_and_column(text: str, start: str) -> None:
    found, errors = read(text)
    assert found is BAD
    assert len(errors) == 1
    assert errors[0].startswith(start)
    assert "\n" not in errors[0]


def test_bytes_that_are_no_text_are_refused_in_one_line() -> None:
    inspection = Inspection()
    assert load(b"a: \xff\xfe\xfa", inspection) is BAD
    assert len(inspection.errors) == 1


def test_deep_nesting_is_refused() -> None:
    assert read("[" * 500)[0] is BAD


def test_aliases_and_merges_are_followed() -> None:
    text = "base: &b {x: 1, y: 2}\nt: {<<: *b, y: 3}\nu: {<<: [*b, {z: 9}]}"
    assert read(text) == (
        {"base": {"x": 1, "y": 2}, "t": {"x": 1, "y": 3}, "u": {"x": 1, "y": 2, "z": 9}},
        [],
    )


def test_a_merge_of_something_else_is_refused() -> None:
    assert read("t: {<<: 3}")[1] == ["t.<<: must be a mapping or a list of mappings"]


def test_aliases_that_grow_without_end_are_refused_once() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * 10) + "]" for n in range(1, 7)]
    errors = read("\n".join(lines))[1]
    assert len(errors) == 1
    assert "too large once its aliases are followed" in errors[0]


def test_what_is_dumped_reads_back() -> None:
    document = {
        "on": "yes",
        "day": "2026-01-01",
        "amount": Decimal("0.000000000001"),
        "large": Decimal("1E+3"),
        "secret": REDACTED,
        "items": [
            "12",
            "08",
            "1e3",
            "0o7",
            "+1",
            ".5",
            "on",
            "null",
            "",
            "<<",
            "12:30",
            "2026-01-01",
            12,
            None,
            True,
            "中文",
            "!redacted ''",
            "a: !redacted ''",
        ],
        "empty": {},
    }
    text = dump(document)
    assert "secret: !redacted\n" in text
    found, errors = read(text)
    assert errors == []
    assert found == {**document, "amount": "0.000000000001", "large": "1000"}
