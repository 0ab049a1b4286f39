"""Form fields for what upstreams and keys are configured with."""

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from keys.core.policy import PRESETS, Policy
from keys.core.policy_check import LONGEST_SILENCE_S, policy_problems
from keys.policy_words import presets_in_words
from tenants.corewords import core_words
from tenants.formfields import LinesField, PairsField

AUTO = "auto"
TIMEOUTS = {"connect_s": 600, "silence_s": LONGEST_SILENCE_S}  # name -> longest, seconds
# What billing reads under `usage_semantics`; billing lies above and tests compare the two lists.
USAGE_SEMANTICS = ("", "auto", "inclusive", "exclusive", "openai", "anthropic")

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_HEADER_VALUE = re.compile(r"[\x20-\x7e\t]*", re.ASCII)
_OWN_HEADERS = frozenset(
    {
        "host",
        "content-length",
        "content-encoding",
        "accept-encoding",
        "transfer-encoding",
        "connection",
        "te",
        "upgrade",
    }
)


def check_header(name: str, value: Any) -> None:
    """Refuse what cannot be sent, and what the gateway writes itself."""
    if not _HEADER_NAME.fullmatch(name):
        raise ValidationError(_("%(name)s is no header name."), params={"name": name})
    if name.lower() in _OWN_HEADERS:
        raise ValidationError(_("%(name)s is set by the gateway itself."), params={"name": name})
    if not _HEADER_VALUE.fullmatch(str(value)) and str(value) != "…":
        raise ValidationError(_("%(name)s has a character that headers cannot carry."), params={"name": name})


def check_timeout(name: str, value: Any) -> None:
    """Accept connect_s and silence_s."""
    if name not in TIMEOUTS:
        raise ValidationError(
            _("%(name)s is unknown; known: %(known)s."), params={"name": name, "known": ", ".join(TIMEOUTS)}
        )
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= TIMEOUTS[name]:
        raise ValidationError(
            _("%(name)s must be a number of seconds above 0 and up to %(most)s."),
            params={"name": name, "most": TIMEOUTS[name]},
        )


def read_scalar(text: str) -> Any:
    """Read a number, true/false or a word. Raises ValueError for nothing at all."""
    if not text:
        raise ValueError("empty")
    if text.lower() in {"true", "false"}:
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def show_scalar(value: Any) -> str:
    """Write what read_scalar reads."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class ModelListField(LinesField):
    """`auto`, a list of names, or empty = unknown (None)."""

    def prepare_value(self, value: Any) -> Any:
        return super().prepare_value(value)

    def to_python(self, value: Any) -> Any:
        found = super().to_python(value)
        if not found:
            return None
        if AUTO in found:
            if len(found) > 1:
                raise ValidationError(_("auto stands alone; further models have a field of their own."))
            return AUTO
        return found

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return bool((initial or None) != self.to_python(data))
        except ValidationError:
            return True


class PolicyWidget(forms.MultiWidget):
    """A preset with what it does in words, and single numbers below it. `base`: what holds when none is chosen;
    `base_preset`: the preset that has the same effect, "" for none.

    All presets are explained; a static script leaves the chosen one to be seen.
    """

    class Media:
        js = (forms.Script("pointsman/policy.js", defer=True),)

    def __init__(self, base: Any = "", base_preset: str = "", attrs: Any = None) -> None:
        self.base, self.base_preset = base, base_preset
        presets = [("", _("none chosen"))] + [(name, name) for name in PRESETS]
        area = forms.Textarea(attrs={"rows": 4, "spellcheck": "false", "placeholder": "cool_429_s = 60"})
        super().__init__([forms.Select(choices=presets), area], attrs)

    def decompress(self, value: Any) -> list[Any]:
        if not isinstance(value, Mapping):
            return ["", ""]
        rest = {name: inner for name, inner in value.items() if name != "preset"}
        return [value.get("preset", ""), "\n".join(f"{name} = {show_scalar(inner)}" for name, inner in rest.items())]

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        """Put the words between the choice and the numbers."""
        shown = value if isinstance(value, list) else self.decompress(value)
        own = (attrs or {}).get("id", f"id_{name}")
        parts = [
            widget.render(f"{name}_{place}", part, {**(attrs or {}), "id": f"{own}_{place}"}, renderer)
            for place, (widget, part) in enumerate(zip(self.widgets, shown, strict=True))
        ]
        explained = presets_in_words()
        same = next((sentences for preset, sentences in explained if preset == self.base_preset), [])
        base = _preset("", self.base, same) if self.base else ""
        words = format_html_join("", "{}", ((_preset(preset, preset, told),) for preset, told in explained))
        return format_html(
            '<div class="policy" data-policy>{}{}{}{}{}</div>', parts[0], base, words, parts[1], _field_names()
        )


def _preset(name: str, title: Any, sentences: list[str]) -> SafeString:
    items = format_html_join("", "<li>{}</li>", ((sentence,) for sentence in sentences))
    return format_html(
        '<div class="preset-words" data-preset="{}"><strong>{}</strong><ul>{}</ul></div>', name, title, items
    )


def _field_names() -> SafeString:
    pairs = ((each.name, "–" if each.default is None else show_scalar(each.default)) for each in fields(Policy))
    items = format_html_join(" ", "<li><code>{} = {}</code></li>", pairs)
    return format_html(
        '<details class="policy-names"><summary>{}</summary><ul>{}</ul></details>',
        _("What may be written here, with the standard values"),
        items,
    )


class PolicyField(forms.MultiValueField):
    """A failover policy: a preset and any field of `keys.core.policy.Policy`. Bases as in PolicyWidget."""

    def __init__(self, *, base: Any = "", base_preset: str = "", **options: Any) -> None:
        presets = [("", "")] + [(name, name) for name in PRESETS]
        parts = (
            forms.ChoiceField(choices=presets, required=False),
            PairsField(read=read_scalar, show=show_scalar),
        )
        widget = PolicyWidget(base, base_preset)
        super().__init__(parts, **{"required": False, "require_all_fields": False, "widget": widget, **options})

    def compress(self, data_list: Any) -> dict[str, Any]:
        if not data_list:
            return {}
        preset, rest = data_list
        policy = {**({"preset": preset} if preset else {}), **(rest or {})}
        problems = policy_problems(policy)
        if problems:
            raise ValidationError([f"{name}: {core_words(problem)}" for name, problem in problems])
        return policy

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return bool((initial or {}) != self.clean(data))
        except ValidationError:
            return True
