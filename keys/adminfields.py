"""Form fields for what upstreams and keys are configured with."""

import re
from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from keys.core.policy import PRESETS
from keys.core.policy_check import LONGEST_SILENCE_S, policy_problems
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
    """A preset, and single numbers below it."""

    def __init__(self, attrs: Any = None) -> None:
        presets = [("", _("as inherited"))] + [(name, name) for name in PRESETS]
        area = forms.Textarea(attrs={"rows": 4, "spellcheck": "false", "placeholder": "cool_429_s = 60"})
        super().__init__([forms.Select(choices=presets), area], attrs)

    def decompress(self, value: Any) -> list[Any]:
        if not isinstance(value, Mapping):
            return ["", ""]
        rest = {name: inner for name, inner in value.items() if name != "preset"}
        return [value.get("preset", ""), "\n".join(f"{name} = {show_scalar(inner)}" for name, inner in rest.items())]


class PolicyField(forms.MultiValueField):
    """A failover policy: a preset and any field of `keys.core.policy.Policy`."""

    widget = PolicyWidget

    def __init__(self, **options: Any) -> None:
        presets = [("", "")] + [(name, name) for name in PRESETS]
        fields = (
            forms.ChoiceField(choices=presets, required=False),
            PairsField(read=read_scalar, show=show_scalar),
        )
        super().__init__(fields, **{"required": False, "require_all_fields": False, **options})

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
