"""Posts to the admin's forms, and what they leave behind."""

import json

from django.contrib.admin.models import LogEntry
from django.contrib.sessions.models import Session
from django.urls import reverse

from tenants.models import AuditEntry, ConfigVersion


def add(client, what, **data):
    return client.post(reverse(f"admin:{what}_add"), data)


def change(client, what, row, **data):
    return client.post(reverse(f"admin:{what}_change", args=[row.pk]), data)


def empty_formsets(*prefixes):
    """The management forms of inline tables that hold nothing."""
    return {f"{prefix}-{name}_FORMS": "0" for prefix in prefixes for name in ("TOTAL", "INITIAL")}


def errors(answer):
    form = answer.context["adminform"].form
    return {name: [str(text) for text in texts] for name, texts in form.errors.items()}


def version():
    return ConfigVersion.objects.get(pk=1).version


def everything_written():
    """All that the admin keeps about writes, as one text."""
    rows = [*LogEntry.objects.values(), *AuditEntry.objects.values(), *Session.objects.values()]
    sessions = [session.get_decoded() for session in Session.objects.all()]
    return json.dumps([rows, sessions], default=str)
