"""For the list pages: the words of an empty one."""

from typing import Any

from django import template
from django.apps import apps
from django.contrib import admin

from config.teaching import Words, lesson_of

register = template.Library()


@register.filter
def lesson(changelist: Any) -> Words:
    """Return what an unfiltered list without rows says, "" when it has rows or was narrowed down."""
    opts = changelist.opts
    untouched = not changelist.query and not changelist.has_active_filters and not changelist.result_list
    return lesson_of(f"{opts.app_label}.{opts.object_name}") if untouched else ""


@register.simple_tag(takes_context=True)
def may_add(context: Any, label: str) -> bool:
    """Tell whether the person who looks may add a row of this model."""
    page = admin.site._registry.get(apps.get_model(label))
    return page is not None and page.has_add_permission(context["request"])
