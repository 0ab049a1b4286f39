"""The parts of a rule that are more than one text: comparisons, hours, and the values that a rule sets."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from routing.core.conditions import DAYS, comparison_parts, listed, windows
from tenants.formrows import Row, RowsField, RowsWidget, labelled

_OPERATORS = (
    (">=", _("at least")),
    (">", _("more than")),
    ("<=", _("at most")),
    ("<", _("less than")),
    ("==", _("exactly")),
    ("!=", _("anything but")),
)
_UNITS = (("", "–"), ("k", _("thousand")), ("M", _("million")))
_DAY_WORDS = (_("Mon"), _("Tue"), _("Wed"), _("Thu"), _("Fri"), _("Sat"), _("Sun"))
KEPT = "…"  # a value that has no short form: left like this it stays


class ComparisonsField(RowsField):
    """`>= 32k` as a choice, a number and a unit; several rows must all hold. Stored as DESIGN 3 writes it."""

    def __init__(self, **options: Any) -> None:
        columns = {
            "is": labelled(forms.Select(choices=_OPERATORS), _("compared")),
            "number": labelled(forms.TextInput(), _("number"), inputmode="decimal", placeholder="32", size=8),
            "unit": labelled(forms.Select(choices=_UNITS), _("unit")),
        }
        widget = RowsWidget(columns, glue=_("and"), add=_("and …"))
        super().__init__(widget=widget, read=_read_comparison, rows=_comparison_rows, **options)


class HoursField(RowsField):
    """Windows of the day; one of them must hold."""

    def __init__(self, **options: Any) -> None:
        days = forms.CheckboxSelectMultiple(choices=tuple(zip(DAYS, _DAY_WORDS, strict=True)), attrs={"class": "days"})
        columns = {
            "from": labelled(forms.TextInput(), _("from"), placeholder="22:00", size=5, maxlength=5),
            "to": labelled(forms.TextInput(), _("to"), placeholder="07:00", size=5, maxlength=5),
            "days": days,
        }
        super().__init__(
            widget=RowsWidget(columns, glue=_("or"), add=_("or …")), read=_read_window, rows=_window_rows, **options
        )

    def is_filled(self, row: Row) -> bool:
        """Days alone are a window that lacks its times, and refused as one."""
        return any(row.get(name) for name in self.widget.columns)


class SetField(RowsField):
    """Body fields and their values. `stored` fills in what was left as KEPT."""

    def __init__(self, **options: Any) -> None:
        self.stored: Mapping[str, Any] = {}
        columns = {
            "name": labelled(forms.TextInput(), _("field"), placeholder="temperature", spellcheck="false"),
            "value": labelled(forms.TextInput(), _("value"), placeholder="0.2", spellcheck="false"),
        }
        super().__init__(widget=RowsWidget(columns, add=_("Another field")), read=dict, rows=_pair_rows, **options)

    def to_python(self, value: Any) -> Any:
        """Return the mapping. Raises ValidationError."""
        found: dict[str, Any] = {}
        for name, inner in super().to_python(value):
            if name in found:
                raise ValidationError(_("%(name)s stands twice."), params={"name": name})
            found[name] = inner
        return found

    def read_row(self, row: Row) -> tuple[str, Any]:
        """Return name and value. Raises ValidationError."""
        name, text = str(row.get("name") or "").strip(), str(row.get("value") or "").strip()
        if not name:
            raise ValidationError(_("%(value)s is the value of which field?"), params={"value": text[:40]})
        if text == KEPT and name in self.stored:
            return name, self.stored[name]
        if not text:
            raise ValidationError(_("%(name)s has no value yet: write one."), params={"name": name})
        return name, read_value(text)


def read_value(text: str) -> Any:
    """Read a number, true, false or null; text in quotes, or what is none of these, is text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def show_value(value: Any) -> str:
    """Write what read_value reads; KEPT for lists and objects."""
    if isinstance(value, list | dict):
        return KEPT
    if isinstance(value, str) and value and value != KEPT and read_value(value) == value:
        return value
    return json.dumps(value, ensure_ascii=False)


def _pair_rows(value: Any) -> Sequence[Row]:
    return [{"name": name, "value": show_value(inner)} for name, inner in (value or {}).items()]


def _read_comparison(row: Row) -> str:
    number = str(row.get("number") or "").strip()
    return f"{row.get('is') or '>='} {number}{row.get('unit') or ''}"


def _comparison_rows(value: Any) -> Sequence[Row]:
    if value in (None, "", []):
        return []
    found = []
    for item in listed(value):
        operator, number, unit = comparison_parts(item)
        found.append({"is": operator, "number": number, "unit": unit})
    return found


def _read_window(row: Row) -> str:
    start, end = (_time(row.get(name)) for name in ("from", "to"))
    if not start or not end:
        raise ValidationError(_("A window needs both times, such as 22:00 and 07:00."))
    days = _days_text([DAYS.index(day) for day in row.get("days") or () if day in DAYS])
    return f"{days} {start}-{end}".strip()


def _time(value: Any) -> str:
    """Return `7` and `7:5` as people mean them; anything else as it is, for the check to refuse."""
    text = str(value or "").strip().replace("：", ":").replace(".", ":")
    found = re.fullmatch(r"(\d{1,2})(?::(\d{1,2}))?", text, re.ASCII)
    return f"{int(found[1]):02d}:{int(found[2] or 0):02d}" if found else text


def _days_text(days: Sequence[int]) -> str:
    """Return `mon-fri,sun`; nothing for no day or all."""
    if len(set(days)) in (0, len(DAYS)):
        return ""
    runs: list[list[int]] = []
    for day in sorted(set(days)):
        if runs and day == runs[-1][1] + 1:
            runs[-1][1] = day
        else:
            runs.append([day, day])
    return ",".join(DAYS[first] if first == last else f"{DAYS[first]}-{DAYS[last]}" for first, last in runs)


def _window_rows(value: Any) -> Sequence[Row]:
    if value in (None, "", []):
        return []
    found = []
    for window in windows(value):
        start, end = (f"{minute // 60:02d}:{minute % 60:02d}" for minute in (window.start, window.end))
        days = [] if len(window.days) == len(DAYS) else [DAYS[day] for day in sorted(window.days)]
        found.append({"from": start, "to": end, "days": days})
    return found
