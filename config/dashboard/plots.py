"""Plots as SVG, drawn on the server: no script, colours that follow the theme, every value in a native tooltip."""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from html import unescape
from typing import Any

import pygal
from django.utils.safestring import SafeString, mark_safe
from pygal.style import Style

# pygal hangs an importer of the old kind into the interpreter, for map plug-ins that are not used here: each later
# import would ask it and be warned about.
sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__module__ != "pygal"]

# Okabe and Ito's palette, told apart by most colour-blind people; the last is for "others".
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a8f98")
SERIES = 6
_WIDE, _HALF, _NARROW = (1120, 300), (440, 250), (340, 280)

_SCRIPT = re.compile(r"<script.*?</script>", re.DOTALL)
_SHEET = re.compile(r"<style[^>]*>(.*?)</style>", re.DOTALL)
_HIDDEN = re.compile(r' style="opacity: 0"')
_DESC = re.compile(r'<desc class="value">(.*?)</desc>', re.DOTALL)
_NOISE = re.compile(r'<desc class="(?:x|y|x_label|xlink)[^"]*">.*?</desc>|<title>Pygal</title>|<!--.*?-->', re.DOTALL)

_STYLE = Style(
    background="transparent",
    plot_background="transparent",
    foreground="var(--body-quiet-color)",
    foreground_strong="var(--body-fg)",
    foreground_subtle="var(--hairline-color)",
    opacity="1",
    opacity_hover="0.8",
    colors=COLOURS,
    font_family="inherit",
    label_font_size=12,
    major_label_font_size=12,
    legend_font_size=12,
    tooltip_font_size=12,
    transition="0s",
)


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot in two widths, and the same numbers as a table: `head` and rows of cells."""

    name: str
    title: str
    unit: str
    wide: SafeString
    narrow: SafeString
    head: Sequence[str]
    rows: Sequence[Sequence["Cell"]]


@dataclass(frozen=True, slots=True)
class Cell:
    """A text of a table; `url` the rows behind it."""

    text: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class Point:
    """`text` is what the tooltip says; `url` the rows behind it. None as value = no point. `amount`: for the table."""

    value: Decimal | float | None
    text: str
    url: str = ""
    amount: str = ""


def stacked(labels: Sequence[str], series: Mapping[str, Sequence[Point]]) -> tuple[SafeString, SafeString]:
    """Draw bars upon each other, over the whole width, and for a phone."""
    kind = pygal.StackedBar
    return _drawn(kind, _WIDE, labels, series, {}), _drawn(kind, _NARROW, labels, series, {})


def lines(
    labels: Sequence[str], series: Mapping[str, Sequence[Point]], **options: Any
) -> tuple[SafeString, SafeString]:
    """Draw one line per series, over half the width, which fits a phone as well: no narrow one."""
    return _drawn(pygal.Line, _HALF, labels, series, options), SafeString()


def _drawn(
    kind: Any,
    size: tuple[int, int],
    labels: Sequence[str],
    series: Mapping[str, Sequence[Point]],
    options: Mapping[str, Any],
) -> SafeString:
    shown = {_WIDE: 30, _HALF: 8, _NARROW: 5}[size]
    every = -(-len(labels) // shown)
    chart = kind(
        width=size[0], height=size[1], style=_STYLE, js=[], show_legend=len(series) > 1, legend_at_bottom=True,
        legend_at_bottom_columns=7 if size is _WIDE else 2, legend_box_size=10, margin=8, spacing=8,
        margin_bottom=24 if size is not _NARROW else 12 * (1 + len(series) // 2) + 8,
        x_labels_major_every=every, show_minor_x_labels=every == 1, truncate_legend=24,
        truncate_label=-1, x_label_rotation=0,
        show_y_guides=True,
        dots_size=3, min_scale=3, max_scale=6, **options,
    )  # fmt: skip
    chart.x_labels = labels
    for name, points in series.items():
        chart.add(name, [_value(point) for point in points])
    return _cleaned(chart.render(is_unicode=True, disable_xml_declaration=True))


def _value(point: Point) -> Any:
    if point.value is None:
        return None
    made: dict[str, Any] = {"value": float(point.value), "formatter": lambda _value: point.text}
    if point.url:
        made["xlink"] = {"href": point.url, "target": "_self"}
    return made


def sheet() -> str:
    """Return pygal's rules for these plots: static/pointsman/plots.css, as the content policy allows no style inside.

    They differ by nothing but the plot's id and by how many series they colour.
    """
    rules = []
    for kind in (pygal.StackedBar, pygal.Line):
        chart = kind(width=_WIDE[0], height=_WIDE[1], style=_STYLE, js=[])
        for name in range(len(COLOURS)):
            chart.add(str(name), [1])
        found = _SHEET.findall(chart.render(is_unicode=True, disable_xml_declaration=True))
        text = unescape("\n".join(found)).replace(f"#chart-{chart.uuid}", ".pygal-chart")
        rules += [f"{rule.strip()}}}" for rule in text.split("}") if rule.strip()]
    return "\n".join(["/* Written by config.dashboard.plots.sheet() from pygal's own. */", *dict.fromkeys(rules), ""])


def _cleaned(svg: str) -> SafeString:
    """Take scripts and styles out; turn pygal's notes for its own tooltips into titles, which browsers show."""
    text = _HIDDEN.sub(' opacity="0"', _SHEET.sub("", _NOISE.sub("", _SCRIPT.sub("", svg))))
    return mark_safe(_DESC.sub(r"<title>\1</title>", text))  # noqa: S308  # pygal escapes the labels that it is given
