"""A form field of small rows, such as name and value: rendered on the server, one row more than is filled in.

A static script (pointsman/rows.js) adds rows; without it a saved page offers the next empty one.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from django import forms
from django.core.exceptions import ValidationError
from django.utils.functional import Promise
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

Row: TypeAlias = Mapping[str, Any]
ROWS_MAX = 100


class RowsWidget(forms.Widget):
    """`columns`: a widget per part of a row, with its label as `aria-label`. `glue` stands between rows."""

    class Media:
        js = (forms.Script("pointsman/rows.js", defer=True),)

    def __init__(self, columns: Mapping[str, forms.Widget], *, glue: Any = "", add: Any = "") -> None:
        self.columns, self.glue, self.add = columns, glue, add
        super().__init__()

    def value_from_datadict(self, data: Any, files: Any, name: str) -> list[Row]:
        """Return the rows as they were typed."""
        rows: list[Row] = []
        while len(rows) < ROWS_MAX:
            at = f"{name}-{len(rows)}"
            if not any(f"{at}-{column}" in data for column in self.columns):
                break
            parts = self.columns.items()
            rows.append({column: part.value_from_datadict(data, files, f"{at}-{column}") for column, part in parts})
        return rows

    def value_omitted_from_data(self, data: Any, files: Any, name: str) -> bool:
        """Rows without a box that is ticked leave no trace in a post."""
        del data, files, name
        return False

    def id_for_label(self, id_: str) -> str:
        """The label leads to the first part of the first row."""
        return f"{id_}-0-{next(iter(self.columns))}" if id_ else id_

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        rows = [row for row in value or () if any(row.values())]
        own = (attrs or {}).get("id", f"id_{name}")
        shown = [
            self._row(f"{name}-{place}", f"{own}-{place}", row, first=place == 0, renderer=renderer)
            for place, row in enumerate([*rows, {}])
        ]
        body = format_html_join("", "{}", ((row,) for row in shown))
        return format_html(
            '<div class="rows" data-name="{}" data-add="{}" data-glue="{}">{}</div>', name, self.add, self.glue, body
        )

    def _row(self, name: str, own: str, row: Row, *, first: bool, renderer: Any) -> SafeString:
        parts = [
            part.render(f"{name}-{column}", row.get(column), {"id": f"{own}-{column}"}, renderer)
            for column, part in self.columns.items()
        ]
        glue = format_html('<span class="rows-glue">{}</span>', self.glue) if self.glue and not first else ""
        return format_html(
            '<div class="rows-row">{}{}</div>', glue, format_html_join(" ", "{}", ((part,) for part in parts))
        )


class RowsField(forms.Field):
    """`read` turns a filled-in row into an item and may raise ValidationError; `rows` turns a stored value into rows.

    The value is the list of items.
    """

    def __init__(
        self,
        *,
        widget: RowsWidget,
        read: Callable[[Row], Any],
        rows: Callable[[Any], Sequence[Row]],
        **options: Any,
    ) -> None:
        self.read, self.rows = read, rows
        super().__init__(**{"required": False, "widget": widget, **options})

    def prepare_value(self, value: Any) -> Any:
        """Show a stored value as rows; typed rows stay as they are."""
        return value if _is_rows(value) else self.rows(value)

    def to_python(self, value: Any) -> list[Any]:
        """Return the items of the rows that are filled in."""
        return [self.read_row(row) for row in value or () if self.is_filled(row)]

    def read_row(self, row: Row) -> Any:
        """Return the item of a row. Raises ValidationError."""
        return self.read(row)

    def is_filled(self, row: Row) -> bool:
        """Tell whether anything but the choices of lists was given."""
        parts = self.widget.columns.items()
        return any(row.get(name) for name, part in parts if not isinstance(part, forms.Select))

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Compare what the rows say, not how."""
        try:
            return self.to_python(self.prepare_value(initial or [])) != self.to_python(data)
        except ValidationError:
            return True


def labelled(widget: forms.Widget, label: str | Promise, **attrs: Any) -> forms.Widget:
    """Return the widget with a name for those who do not see the row."""
    widget.attrs.update({"aria-label": label, **attrs})
    return widget


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, Mapping) for row in value)
