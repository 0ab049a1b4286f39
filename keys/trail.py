"""What happened to a key: the changes of its own state and of its account's, each in words with its evidence."""

from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.timezone import localtime
from django.utils.translation import gettext as _

from keys.core.state import Status
from keys.models import KeyEvent, UpstreamKey
from keys.standing import cause_words, status_words
from tenants.adminchips import ago, chip

SHOWN_MAX = 15
_TONES: dict[str, str] = {Status.HEALTHY: "good", Status.COOLING: "wait", Status.DEAD: "bad"}


def events_of(key: UpstreamKey) -> list[KeyEvent]:
    """Return the latest events of a key and of its account, newest first. Two queries, each by its index."""
    found = list(KeyEvent.objects.filter(upstream_key=key)[:SHOWN_MAX])
    if key.account_id is not None:
        found += list(KeyEvent.objects.filter(account_id=key.account_id)[:SHOWN_MAX])
    return sorted(found, key=lambda event: (event.at, event.pk), reverse=True)[:SHOWN_MAX]


def tone_of(status: str) -> str:
    """Return the tone of a status's chip; "note" for what is no status."""
    return _TONES.get(status, "note")


def event_words(event: KeyEvent, key: UpstreamKey) -> SafeString:
    """Say what became of the key, why, until when, and by which request it was learnt."""
    parts = [
        chip(tone_of(event.after), status_words(event.after)),
        _("account %(name)s") % {"name": key.account.name} if event.account_id and key.account else "",
        cause_words(event.reason),
        format_html("<q>{}</q>", event.message) if event.message else "",
        _("until %(time)s") % {"time": f"{localtime(event.until):%Y-%m-%d %H:%M %Z}"} if event.until else "",
        _by(event.request_id),
    ]
    said = format_html_join(" · ", "{}", ((part,) for part in parts if part))
    return format_html("{} {}", ago(event.at), said)


def _by(request_id: str) -> str:
    if not request_id:
        return ""
    address = f"{reverse('admin:billing_requestrecord_changelist')}?q={request_id}"
    return format_html('<a href="{}">{}</a>', address, request_id)
