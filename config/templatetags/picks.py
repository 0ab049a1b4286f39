"""The preview on the page of a strategy group."""

from typing import Any

from django import template

from config.pages.preview import preview_of

MODEL_MAX = 200
register = template.Library()


@register.inclusion_tag("admin/routing/strategygroup/preview.html")
def next_picks(row: Any, model: str) -> dict[str, Any]:
    """Show the next picks of a stored group, for one model or any."""
    return {"preview": preview_of(row, (model or "").strip()[:MODEL_MAX])}
