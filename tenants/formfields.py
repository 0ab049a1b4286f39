"""Form fields for values that are lists, mappings or secrets: written as plain lines, checked line by line."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

KEPT = "…"  # stands for a value that is not shown and stays as it is

Check = Callable[[str], None]


class LinesField(forms.CharField):
    """A list of texts, one a line; blank lines and repeats are left out."""

    widget = forms.Textarea(attrs={"rows": 4, "spellcheck": "false", "class": "vLargeTextField lines"})

    def __init__(self, *, check: Check | None = None, **options: Any) -> None:
        self.check = check
        super().__init__(**{"required": False, **options})

    def prepare_value(self, value: Any) -> Any:
        """Show a list as lines."""
        return "\n".join(str(item) for item in value) if isinstance(value, list | tuple) else value

    def to_python(self, value: Any) -> Any:
        """Return the lines. Raises ValidationError that names the line."""
        text = value if isinstance(value, str) else self.prepare_value(value or [])
        found: dict[str, None] = {}
        for number, line in enumerate(str(text).splitlines(), start=1):
            item = line.strip()
            if not item:
                continue
            if self.check is not None:
                with_line(number, self.check, item)
            found[item] = None
        return list(found)

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Compare lists, not their spelling."""
        try:
            return bool(list(initial or []) != self.to_python(data))
        except ValidationError:
            return True


class NumbersField(forms.CharField):
    """A list of whole numbers, separated by commas or blanks, lowest first."""

    def __init__(self, *, least: int, most: int, **options: Any) -> None:
        self.least, self.most = least, most
        super().__init__(**{"required": False, **options})

    def prepare_value(self, value: Any) -> Any:
        """Show a list as text."""
        return ", ".join(str(item) for item in value) if isinstance(value, list | tuple) else value

    def to_python(self, value: Any) -> Any:
        """Return the numbers. Raises ValidationError."""
        parts = [part for part in re.split(r"[\s,%]+", str(self.prepare_value(value or []))) if part]
        for part in parts:
            if not part.isascii() or not part.isdigit() or not self.least <= int(part) <= self.most:
                raise ValidationError(
                    _("%(part)s is not a whole number from %(least)s to %(most)s."),
                    params={"part": part, "least": self.least, "most": self.most},
                )
        return sorted({int(part) for part in parts})

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Compare lists, not their spelling."""
        try:
            return bool(list(initial or []) != self.to_python(data))
        except ValidationError:
            return True


class PairsField(forms.CharField):
    """A mapping, one `name = value` a line. `read` turns a value's text into the value to store."""

    widget = forms.Textarea(attrs={"rows": 4, "spellcheck": "false", "class": "vLargeTextField lines"})

    def __init__(
        self,
        *,
        separator: str = "=",
        read: Callable[[str], Any] = str,
        show: Callable[[Any], str] = str,
        check: Callable[[str, Any], None] | None = None,
        **options: Any,
    ) -> None:
        self.separator, self.read, self.show, self.check = separator, read, show, check
        super().__init__(**{"required": False, **options})

    def prepare_value(self, value: Any) -> Any:
        """Show a mapping as lines."""
        if not isinstance(value, Mapping):
            return value
        glue = f"{self.separator} " if self.separator == ":" else f" {self.separator} "
        return "\n".join(f"{name}{glue}{self.show(inner)}" for name, inner in value.items())

    def to_python(self, value: Any) -> Any:
        """Return the mapping. Raises ValidationError that names the line."""
        text = value if isinstance(value, str) else self.prepare_value(value or {})
        found: dict[str, Any] = {}
        for number, line in enumerate(str(text).splitlines(), start=1):
            if line.strip():
                name, inner = self._pair(number, line)
                if name in found:
                    raise ValidationError(_("Line %(line)s: %(name)s stands twice."), params=_at(number, name))
                found[name] = inner
        return found

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Compare mappings, not their spelling."""
        try:
            return bool((initial or {}) != self.to_python(data))
        except ValidationError:
            return True

    def _pair(self, number: int, line: str) -> tuple[str, Any]:
        name, mark, text = (part.strip() for part in line.partition(self.separator))
        if not mark or not name:
            raise ValidationError(
                _("Line %(line)s: write name %(mark)s value."), params={"line": number, "mark": self.separator}
            )
        try:
            inner = self.read(text)
        except ValueError:
            raise ValidationError(_("Line %(line)s: %(name)s has no usable value."), params=_at(number, name)) from None
        if self.check is not None:
            with_line(number, self.check, name, inner)
        return name, inner


class HiddenPairsField(PairsField):
    """A mapping whose values are never shown: the page has `name: …`, and a line left like that keeps its value."""

    def __init__(self, **options: Any) -> None:
        self.stored: Mapping[str, Any] = {}
        super().__init__(**{"separator": ":", "show": lambda _value: KEPT, **options})

    def to_python(self, value: Any) -> Any:
        """Return the mapping with kept values filled in. Raises ValidationError."""
        found = super().to_python(value)
        unknown = [name for name, inner in found.items() if inner == KEPT and name not in self.stored]
        if unknown:
            raise ValidationError(_("%(name)s has no value yet: write one."), params={"name": unknown[0]})
        return {name: self.stored[name] if inner == KEPT else inner for name, inner in found.items()}


class SecretField(forms.CharField):
    """A secret: typed once, never rendered back. Empty = leave what is stored."""

    widget = forms.PasswordInput(
        render_value=False,
        attrs={"autocomplete": "new-password", "spellcheck": "false", "class": "vTextField secret"},
    )

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"required": False, "strip": True, "max_length": 4000, **options})

    def prepare_value(self, _value: Any) -> str:
        """Show nothing."""
        return ""

    def has_changed(self, _initial: Any, data: Any) -> bool:
        """Only typing something is a change."""
        return bool(data)


def with_line(number: int, check: Callable[..., None], *values: Any) -> None:
    """Run a check; its complaint is led by the line's number."""
    try:
        check(*values)
    except ValidationError as error:
        raise ValidationError(
            [
                ValidationError(_("Line %(line)s: %(text)s"), params={"line": number, "text": text})
                for text in error.messages
            ]
        ) from None


def _at(number: int, name: str) -> dict[str, Any]:
    return {"line": number, "name": name}
