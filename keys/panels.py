"""What upper apps add to the page of an upstream key."""

from collections.abc import Callable

from django.utils.safestring import SafeString

from keys.models import UpstreamKey

Panel = Callable[[UpstreamKey], SafeString]

_PANELS: list[Panel] = []


def plug_panel(panel: Panel) -> None:
    """Show a part below the form of every upstream key. Who sees the page sees the panel."""
    _PANELS.append(panel)


def panels_of(key: UpstreamKey) -> list[SafeString]:
    """Return the parts in the order in which they were plugged."""
    return [panel(key) for panel in _PANELS]
