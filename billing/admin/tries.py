"""The latest exchanges on the page of an upstream key."""

from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from billing.tries import tries_of
from keys.models import UpstreamKey
from keys.panels import plug_panel


def tries_panel(key: UpstreamKey) -> SafeString:
    """Return the panel."""
    return render_to_string("admin/billing/tries.html", {"tries": tries_of(key.pk), "key": key})


plug_panel(tries_panel)
