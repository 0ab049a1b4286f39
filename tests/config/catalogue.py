"""Reads the Chinese catalogue as gettext does, and the strings that the sources mark; needs no gettext installed."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from django.utils.translation.template import templatize

from tests.environment import ROOT

FOLDER = ROOT / "locale" / "zh_Hans" / "LC_MESSAGES"
APPS = ("billing", "config", "keys", "proxy", "routing", "tenants")
CONTEXT_MARK = "\x04"  # as .mo files write it
_KEYWORD = re.compile(r"(msgctxt|msgid_plural|msgid|msgstr(?:\[(\d+)\])?) (\".*\")")
_CALL = re.compile(r"\b(n?gettext)\(u('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")")
_NAMES = {"_", "gettext", "gettext_lazy", "gettext_noop", "ngettext", "pgettext", "pgettext_lazy"}


@dataclass
class Entry:
    flags: set[str] = field(default_factory=set)
    context: str = ""
    text: str = ""
    plural: str = ""
    translations: dict[int, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The name by which the source asks for it."""
        return f"{self.context}{CONTEXT_MARK}{self.text}" if self.context else self.text


def entries(path: Path = FOLDER / "django.po") -> list[Entry]:
    """Return the catalogue's entries, its heading (the one without a text) included."""
    return [_entry(block) for block in path.read_text(encoding="utf-8").split("\n\n") if "msgid " in block]


def _entry(block: str) -> Entry:
    made, name, place = Entry(), "", 0
    for line in block.splitlines():
        if line.startswith("#,"):
            made.flags |= {flag.strip() for flag in line[2:].split(",")}
        if found := _KEYWORD.fullmatch(line):
            name, place = found[1].partition("[")[0], int(found[2] or 0)
            _add(made, name, place, ast.literal_eval(found[3]))
        elif line.startswith('"'):
            _add(made, name, place, ast.literal_eval(line))
    return made


def _add(entry: Entry, name: str, place: int, text: str) -> None:
    if name == "msgstr":
        entry.translations[place] = entry.translations.get(place, "") + text
    else:
        attribute = {"msgctxt": "context", "msgid": "text", "msgid_plural": "plural"}[name]
        setattr(entry, attribute, getattr(entry, attribute) + text)


def marked() -> dict[str, str]:
    """Return what the sources mark for translation, and one file that does."""
    found = {}
    for path in sorted((ROOT / "templates").rglob("*.html")):
        for _name, literal in _CALL.findall(templatize(path.read_text(encoding="utf-8"))):
            found[ast.literal_eval(literal)] = path.name
    for app in APPS:
        for path in sorted((ROOT / app).rglob("*.py")):
            found |= dict.fromkeys(_marked_in(ast.parse(path.read_text(encoding="utf-8"))), path.name)
    return found


def _marked_in(tree: ast.AST) -> Iterator[str]:
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id not in _NAMES:
            continue
        texts = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        if texts and call.func.id.startswith("pgettext"):
            yield CONTEXT_MARK.join(texts[:2])
        elif texts:
            yield texts[0]
