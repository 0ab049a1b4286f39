"""The form of a routing rule: a field per condition, checked as the declarative file is."""

import json
import re
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from keys.models import DialectChoice
from routing.core.conditions import FLAGS, GLOBS, NUMBERS, listed
from routing.core.rule_checks import validate_rule
from routing.models import RoutingRule
from tenants.adminforms import ScopedForm
from tenants.corewords import core_words
from tenants.formfields import PairsField

_ANY, _YES, _NO = "", "yes", "no"
_FLAG_CHOICES = [(_ANY, _("either way")), (_YES, _("yes")), (_NO, _("no"))]
PREFIX = "when_"
WHEN_FIELDS = tuple(f"{PREFIX}{name}" for name in (*GLOBS, "dialect", *FLAGS, *NUMBERS, "hours"))


def read_json(text: str) -> Any:
    """Read a JSON value; what is no JSON is a plain text. Raises ValueError for nothing at all."""
    if not text:
        raise ValueError("empty")
    try:
        return json.loads(text)
    except ValueError:
        return text


def show_json(value: Any) -> str:
    """Write what read_json reads."""
    if isinstance(value, str) and read_json(value or '""') == value:
        return value
    return json.dumps(value, ensure_ascii=False)


def _flag(label: Any) -> forms.ChoiceField:
    return forms.ChoiceField(label=label, choices=_FLAG_CHOICES, required=False)


def _text(label: Any, example: str) -> forms.CharField:
    widget = forms.TextInput(attrs={"class": "vTextField", "placeholder": example, "spellcheck": "false"})
    return forms.CharField(label=label, required=False, widget=widget)


class RuleForm(ScopedForm):
    """Commas separate alternatives; several comparisons are joined by `and`."""

    constraint_words = {
        "rule_name_once_per_route": _("The route has a rule of this name already."),
        "rule_has_at_most_one_target": _("Choose one target: a group, an upstream, or a refusal."),
    }

    when_model = _text(_("model"), "gpt-*, claude-*")
    when_line = _text(_("line"), "nightly-*")
    when_key = _text(_("gateway key"), "prod")
    when_upstream = _text(_("upstream"), "official")
    when_dialect = forms.MultipleChoiceField(
        label=_("dialect"), choices=DialectChoice.choices, required=False, widget=forms.CheckboxSelectMultiple
    )
    when_stream = _flag(_("streamed"))
    when_tools = _flag(_("offers tools"))
    when_image = _flag(_("sends an image"))
    when_thinking = _flag(_("thinking"))
    when_input_tokens = _text(_("input tokens"), ">= 32k")
    when_max_tokens = _text(_("max tokens"), ">= 1k and < 64k")
    when_tool_count = _text(_("number of tools"), "> 8")
    when_hours = _text(_("hours"), "mon-fri 22:00-07:00")
    set = PairsField(
        label=_("set"),
        read=read_json,
        show=show_json,
        help_text=_("Body fields to set, one a line: temperature = 0.2"),
    )

    class Meta:
        model = RoutingRule
        fields = ("route", "position", "name", "set", "group", "upstream", "deny", "proceed")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for name, value in self.instance.when.items():
            self.initial[f"{PREFIX}{name}"] = _initial(name, value)

    def clean(self) -> dict[str, Any] | None:
        super().clean()
        data = self.cleaned_data
        if not any(name in self.fields for name in WHEN_FIELDS):
            return data
        when = {name: value for name in _names() if (value := _value(name, data.get(f"{PREFIX}{name}"))) != ""}
        group, upstream = data.get("group"), data.get("upstream")
        then: dict[str, Any] = {
            "group": group.name if group is not None else None,
            "upstream": upstream.name if upstream is not None else None,
            "deny": data.get("deny") or None,
            "set": data.get("set") or None,
            "continue": bool(data.get("proceed")),
        }
        for error in validate_rule(when, then):
            self._place(error)
        self.instance.when = when
        return data

    def _place(self, error: str) -> None:
        """Put a complaint (`when.hours: ...`) at the field that it is about."""
        path, _sep, text = error.partition(": ")
        part, _dot, name = path.partition(".")
        names = {"continue": "proceed"}
        field = f"{PREFIX}{name}" if part == "when" else names.get(name, name.partition(".")[0])
        self.add_error(field if field in self.fields else None, core_words(text if field in self.fields else error))


def _names() -> tuple[str, ...]:
    return tuple(name.removeprefix(PREFIX) for name in WHEN_FIELDS)


def _initial(name: str, value: Any) -> Any:
    if name in FLAGS:
        return _YES if value else _NO
    if name == "dialect":
        return [str(item) for item in listed(value)]
    glue = " and " if name in NUMBERS else ", "
    return glue.join(str(item) for item in listed(value))


def _value(name: str, given: Any) -> Any:
    """Return the condition as it is stored, "" for none: a single item alone, several as a list."""
    if name in FLAGS:
        return given == _YES if given else ""
    if name == "dialect":
        items = list(given or ())
    elif name in NUMBERS:
        items = [part for part in re.split(r"\s+and\s+|;", str(given or "").strip()) if part.strip()]
    else:
        items = str(given or "").split(",")
    items = [item.strip() for item in items if item.strip()]
    if name == "hours":
        items = _rejoined(items)
    return "" if not items else items[0] if len(items) == 1 else items


def _rejoined(items: list[str]) -> list[str]:
    """Put `mon,wed 09:00-18:00` together again: a part without a time belongs to the next one."""
    found: list[str] = []
    held = ""
    for item in items:
        held = f"{held},{item}" if held else item
        if ":" in item:
            found.append(held)
            held = ""
    return [*found, held] if held else found
