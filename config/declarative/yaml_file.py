"""YAML in and out.

Read by the YAML 1.2 core rules: `on`, `yes` and `22:00` are text, dates stay text, and only true and false are
booleans (YAML 1.1 would turn the field name `on` into True). A key that stands twice is an error, not the last one
wins.
"""

import re
from decimal import Decimal
from typing import Any, Final

import yaml

from config.declarative.inspection import BAD, Inspection, Spot

REDACTED_TAG = "!redacted"
_MAX_NODES = 200_000  # aliases of aliases of aliases would otherwise fill the memory
_MAX_DIGITS = 400
_EMPTY_TAG = re.compile(rf"(?<=[:-] ){REDACTED_TAG} ''$", re.MULTILINE)  # how PyYAML writes a tag without a value
_MAP, _SEQ, _STR = (f"tag:yaml.org,2002:{name}" for name in ("map", "seq", "str"))
_NULL, _BOOL, _INT, _FLOAT, _MERGE = (f"tag:yaml.org,2002:{n}" for n in ("null", "bool", "int", "float", "merge"))


class Redacted:
    """A secret that the file does not show: leave the stored one as it is."""

    def __repr__(self) -> str:
        return REDACTED_TAG


REDACTED: Final = Redacted()


class _Loader(yaml.SafeLoader):
    """SafeLoader without the implicit types of YAML 1.1."""


_Loader.yaml_implicit_resolvers = {}
_TYPES = (
    (_NULL, r"(?:~|null|Null|NULL|)", ["~", "n", "N", ""]),
    (_BOOL, r"(?:true|True|TRUE|false|False|FALSE)", list("tTfF")),
    (_INT, r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)", list("-+0123456789")),
    (
        _FLOAT,
        r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))",
        list("-+0123456789."),
    ),
    (_MERGE, r"<<", ["<"]),
)
for _tag, _pattern, _first in _TYPES:
    _Loader.add_implicit_resolver(_tag, re.compile(f"^{_pattern}$"), _first)


def load(text: str | bytes, inspection: Inspection) -> Any:
    """Read one YAML document into plain values; problems go to the inspection, what is bad becomes BAD."""
    top = inspection.at()
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        return top.error(f"{where}{exc.problem or exc.context}")
    except (yaml.YAMLError, UnicodeDecodeError) as exc:
        return top.error("not YAML: " + " ".join(str(exc).split()))
    except RecursionError:
        return top.error("nested too deeply")
    if node is None:
        return top.error("the file is empty")
    return _Converter().value(node, top)


class _Converter:
    """Turns nodes into values. Follows aliases; refuses those that contain themselves."""

    def __init__(self) -> None:
        self._seen = 0
        self._open: set[int] = set()

    def value(self, node: Any, spot: Spot) -> Any:
        self._seen += 1
        if self._seen > _MAX_NODES:
            return spot.error("the file is too large once its aliases are followed") if self._first_over() else BAD
        if id(node) in self._open:
            return spot.error("an alias must not contain itself")
        self._open.add(id(node))
        try:
            return self._value(node, spot)
        finally:
            self._open.discard(id(node))

    def _first_over(self) -> bool:
        return self._seen == _MAX_NODES + 1

    def _value(self, node: Any, spot: Spot) -> Any:
        if isinstance(node, yaml.MappingNode) and node.tag == _MAP:
            return self._mapping(node, spot)
        if isinstance(node, yaml.SequenceNode) and node.tag == _SEQ:
            return [self.value(item, spot.item(n)) for n, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node, spot)
        return spot.error(f"unknown YAML tag {node.tag}")

    def _mapping(self, node: Any, spot: Spot) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if key_node.tag == _MERGE:
                merged = {**self._merged(value_node, spot), **merged}
            elif not isinstance(key_node, yaml.ScalarNode):
                spot.error(f"line {line}: a field's name must be text")
            elif key_node.value in lines:
                spot.key(key_node.value).error(
                    f"stands twice (line {line}; first in line {lines[key_node.value]})",
                )
            else:
                lines[key_node.value] = line
                own[key_node.value] = self.value(value_node, spot.key(key_node.value))
        return {**merged, **own}

    def _merged(self, node: Any, spot: Spot) -> dict[str, Any]:
        found = self.value(node, spot.key("<<"))
        parts = found if isinstance(found, list) else [found]
        gathered: dict[str, Any] = {}
        for part in parts:
            if isinstance(part, dict):
                gathered = {**part, **gathered}
            elif part is not BAD:
                spot.key("<<").error("must be a mapping or a list of mappings")
        return gathered


def _scalar(node: Any, spot: Spot) -> Any:
    text: str = node.value
    if node.tag in {_INT, _FLOAT}:
        return _number(node.tag, text, spot)
    known: dict[str, Any] = {REDACTED_TAG: REDACTED, _NULL: None, _STR: text, _MERGE: text}
    if text.lower() in {"true", "false"}:
        known[_BOOL] = text.lower() == "true"
    return known[node.tag] if node.tag in known else spot.error(f"unknown YAML tag {node.tag}")


def _number(tag: str, text: str, spot: Spot) -> Any:
    if len(text) > _MAX_DIGITS:
        return spot.error("too many digits")
    try:
        if tag == _FLOAT:
            return float(text.replace(".inf", "inf").replace(".nan", "nan"))
        return int(text, 0) if text[:2] in {"0x", "0o"} else int(text)
    except ValueError:
        return spot.error(f"{text!r} is not a number")


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        """Write everything out: a file with anchors is no pleasure to edit."""
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent list items below their key."""
        super().increase_indent(flow, False)


# Text is quoted when 1.1 or 1.2 would read it as something else: 08, 1e3 and 0o7 are numbers here only.
for _tag, _pattern, _first in _TYPES:
    _Dumper.add_implicit_resolver(_tag, re.compile(f"^{_pattern}$"), _first)
_Dumper.add_representer(Decimal, lambda dumper, value: dumper.represent_scalar(_STR, format(value, "f"), style='"'))
_Dumper.add_representer(Redacted, lambda dumper, _value: dumper.represent_scalar(REDACTED_TAG, ""))


def dump(document: Any) -> str:
    """Write plain values, decimals and REDACTED as YAML that `load` reads back to the same."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return _EMPTY_TAG.sub(REDACTED_TAG, text)
